package host_test

// Scenario: a tool that calls others starts again, after a question, after a kill and for another
// attempt. The time at which its call began stays what it was.

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// began has a tool call others, an hour after each start of it, and notes when its call began and
// when it started.
func began(s *shop, calls []string, opts host.ToolOptions) (agent *host.Agent, times *[]time.Time, starts *[]time.Time) {
	times, starts = new([]time.Time), new([]time.Time)
	agent = s.agent(func(ctx context.Context, call *host.Call) (string, error) {
		*times, *starts = append(*times, call.Began), append(*starts, time.Now())
		time.Sleep(time.Second)
		answers, err := call.CallTools(ctx, listOf(calls...))
		if err == nil && call.Attempt <= opts.Retries {
			err = host.Errorf(host.Unavailable, "again")
		}
		return told(answers), err
	}, opts)
	return agent, times, starts
}

// check fails unless a tool has started so often, the first time when its call began.
func checkBegan(t *testing.T, times, starts []time.Time, want int) {
	t.Helper()
	if len(times) != want || !times[0].Equal(starts[0].Truncate(time.Millisecond)) || len(slices.Compact(times)) != 1 {
		t.Errorf("a tool that started at %v finds that its call began at %v", starts, times)
	}
}

func TestCallsOfATimeStayOfItAfterAQuestion(t *testing.T) {
	for _, durable := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t)
			agent, times, starts := began(s, []string{`pay {"order":1}`, `refund {"order":2}`}, host.ToolOptions{})
			r, err := s.run(agent, &host.Request{Thread: "T1", Text: "go", Durable: durable})
			if err != nil || len(r.Questions) != 1 {
				t.Fatalf("Run = %+v, %v", r, err)
			}
			time.Sleep(24 * time.Hour)
			if _, err := s.run(agent, &host.Request{Resume: r.Run, Durable: durable, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}}); err != nil {
				t.Fatal(err)
			}
			checkBegan(t, *times, *starts, 2)
		})
	}
}

func TestCallsOfATimeStayOfItForAnotherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		agent, times, starts := began(s, []string{`look {"order":1}`}, host.ToolOptions{Retries: 2})
		if _, err := s.run(agent, &host.Request{}); err != nil {
			t.Fatal(err)
		}
		checkBegan(t, *times, *starts, 3)
	})
}

// A process is killed behind each commit of a durable run. The tool that begins again in another
// process, a day later, finds the time of the first if any call of it is written down.
func TestCallsOfATimeStayOfItAfterAKill(t *testing.T) {
	for lives := 1; lives < 8; lives++ {
		t.Run(fmt.Sprint("killed behind commit ", lives), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t)
				s.opts.Limits.ParallelTools = 1
				agent, times, starts := began(s, []string{`look {"order":1}`, `look {"order":2}`}, host.ToolOptions{OnlyCalls: true})
				s.opts.Journal = &mortal{s.journal, lives}
				if _, err := s.run(agent, &host.Request{Run: "r1", Thread: "T1", Text: "go", Durable: true}); err == nil {
					return
				}
				time.Sleep(24 * time.Hour)
				s.opts.Journal = s.journal
				if _, err := s.resumeAfterKill(agent); err != nil {
					t.Fatal(err)
				}
				switch {
				case lives < 3: // no call was written down, so that it is the call of another day
					checkBegan(t, (*times)[len(*times)-1:], (*starts)[len(*starts)-1:], 1)
				default:
					checkBegan(t, *times, *starts, len(*times))
				}
			})
		})
	}
}

// An attempt may end while the budgets are asked for its list: the list is not made, and the next
// attempt makes its own.
func TestAListIsNotMadeForAnAttemptThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.opts.Ledger = slowLedger{&hosttest.Ledger{}}
		agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
			if call.Attempt > 1 {
				answers, err := call.CallTools(ctx, listOf(`look {"order":2}`))
				return told(answers), err
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second/10)
			defer cancel()
			_, err := call.CallTools(ctx, listOf(`pay {"order":1}`))
			return "", host.Errorf(host.Unavailable, "again: %v", err)
		}, host.ToolOptions{Retries: 2})
		r, err := s.run(agent, &host.Request{Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Results[0].ToolResults()[0].ContentText(); got != `result "order 2"` || len(s.effects) > 0 {
			t.Errorf("the script answers %s, after the effects %q", got, s.effects)
		}
	})
}

// slowLedger is a ledger that takes a second for each reservation of calls.
type slowLedger struct{ host.Ledger }

func (l slowLedger) OpenRun(scope host.Scope, key string) host.UsageRecord {
	return slowRecord{l.Ledger.OpenRun(scope, key)}
}

type slowRecord struct{ host.UsageRecord }

func (slowRecord) ReserveTools(context.Context, int) error { time.Sleep(time.Second); return nil }

// A run that was interrupted in a version that kept no times has callers without one: they start
// again with the clock that they had.
func TestCallsThatAnOlderVersionBeganHaveNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.opts.Journal = timeless{s.journal}
		agent, times, _ := began(s, []string{`refund {"order":2}`}, host.ToolOptions{})
		r, err := s.run(agent, &host.Request{Thread: "T1", Text: "go", Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.run(agent, &host.Request{Resume: r.Run, Durable: true, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}}); err != nil {
			t.Fatal(err)
		}
		if len(*times) != 2 || (*times)[0].IsZero() || !(*times)[1].IsZero() {
			t.Errorf("it starts with the times %v, want one and none", *times)
		}
	})
}

// timeless is a journal of a version that kept no times.
type timeless struct{ *hosttest.Journal }

var beganMember = regexp.MustCompile(`,"began":"[^"]*"`)

func (j timeless) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	for i := range steps {
		steps[i] = beganMember.ReplaceAll(steps[i], nil)
	}
	return j.Journal.AppendSteps(ctx, ref, at, steps)
}

func (j timeless) LeaveRun(ctx context.Context, ref host.RunRef, rest json.RawMessage, asks []host.AskedQuestion) error {
	return j.Journal.LeaveRun(ctx, ref, beganMember.ReplaceAll(rest, nil), asks)
}
