package runs_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/internal/testhost"
)

var (
	newHost  = testhost.NewSingle
	newAgent = testhost.NewAgent
)

// newRegistry returns a registry that ends with the test.
func newRegistry(t testing.TB, h *host.Host, opts *runs.Options) *runs.Registry {
	t.Helper()
	r, err := runs.New(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// live is a run with its registry.
type live struct {
	registry *runs.Registry
	id       string
}

func (l *live) Events(ctx context.Context, from int64) iter.Seq2[host.Event, error] {
	return l.registry.Events(ctx, "acme", l.id, from)
}

func (l *live) Wait(ctx context.Context) (*host.RunResult, error) {
	run, err := l.registry.Wait(ctx, "acme", l.id)
	if run == nil {
		return nil, err
	}
	return run.Result, err
}

func (l *live) Cancel() { _, _ = l.registry.Cancel(context.Background(), "acme", l.id) }

func start(t testing.TB, h *host.Host, target host.Target, kept int) *live {
	t.Helper()
	r := newRegistry(t, h, &runs.Options{Kept: kept})
	run, err := r.Start(t.Context(), target, &host.Request{Tenant: "acme", Thread: "t1", Text: "go"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &live{r, run.ID}
}

// sequence returns the numbers of the events that a reader got.
func sequence(ctx context.Context, l *live, from int64) (numbers []int64, err error) {
	for ev, failure := range l.Events(ctx, from) {
		if failure != nil {
			return numbers, failure
		}
		numbers = append(numbers, ev.Seq)
	}
	return numbers, nil
}

func words(n int) *hosttest.Model { return hosttest.NewModel(hosttest.Say(strings.Repeat("word ", n))) }

func TestEveryReaderGetsEveryEvent(t *testing.T) {
	l := start(t, newHost(t, nil), newAgent(t, "clerk", &host.AgentOptions{Model: words(200)}), 0)
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			numbers, err := sequence(t.Context(), l, int64(i))
			if err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
			for n, seq := range numbers {
				if seq != int64(n+i) {
					t.Errorf("reader %d got event %d as number %d", i, seq, n)
					return
				}
			}
			if len(numbers) < 200 {
				t.Errorf("reader %d got %d events", i, len(numbers))
			}
		})
	}
	readers.Wait()
	if r, err := l.Wait(t.Context()); err != nil || r.FinishReason != chat.FinishStop {
		t.Errorf("Wait: %+v, %v", r, err)
	}
}

// A reader that takes one event and then nothing stops nobody, and is told when
// it comes back.
func TestASlowReaderIsCutOffAlone(t *testing.T) {
	release := make(chan struct{})
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		<-release
		return hosttest.Say(strings.Repeat("word ", 200))
	})
	l := start(t, newHost(t, nil), newAgent(t, "clerk", &host.AgentOptions{Model: model}), 50)
	slow, stop := iter.Pull2(l.Events(t.Context(), 0))
	defer stop()
	if ev, err, _ := slow(); err != nil || ev.Seq != 0 {
		t.Fatalf("the first event is %+v, %v", ev, err)
	}
	close(release)
	r, err := l.Wait(t.Context()) // the run needs no reader
	if err != nil {
		t.Fatal(err)
	}
	got := int64(1)
	for {
		ev, err, ok := slow()
		if !ok {
			t.Fatal("the slow reader got everything")
		}
		if err != nil {
			if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "the limit Kept is 50") {
				t.Errorf("the slow reader is told %v", err)
			}
			break
		}
		if ev.Seq != got {
			t.Fatalf("the slow reader got event %d after %d", ev.Seq, got-1)
		}
		got++
	}
	numbers, err := sequence(t.Context(), l, 1<<40)
	if err != nil || len(numbers) > 0 {
		t.Errorf("a reader from beyond the end got %v, %v", numbers, err)
	}
	if last, err := sequence(t.Context(), l, got+160); err != nil || len(last) == 0 || len(last) > 50 || !strings.HasPrefix(r.Text(), "word") {
		t.Errorf("a reader of what is kept got %d events, %v", len(last), err)
	}
}

// TestCancelIsImmediate cancels a run in a bubble whose clock stands still while
// anything can go on: what takes no time there waits for nothing.
func TestCancelIsImmediate(t *testing.T) {
	for _, where := range []string{"model", "tool", "both tools"} {
		t.Run("in the "+where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reached := make(chan struct{}, 2)
				block := func(ctx context.Context) error {
					reached <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}
				tools := []*host.Tool{}
				for _, name := range []string{"a", "b"} {
					tools = append(tools, host.NewTool(name, "Waits.", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) { return "", block(ctx) }, nil))
				}
				model := hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
					switch where {
					case "model":
						return hosttest.Fail(block(ctx))
					case "tool":
						return hosttest.Call("a", "{}")
					}
					return hosttest.Call("a", "{}").Call("b", "{}")
				})
				adapter := hosttest.NewHistory()
				history := testhost.NewHistory(t, adapter)
				l := start(t, newHost(t, nil), newAgent(t, "clerk", &host.AgentOptions{Model: model, Tools: tools, History: history}), 0)
				<-reached
				if where == "both tools" {
					<-reached
				}
				began := time.Now()
				l.Cancel()
				r, err := l.Wait(t.Context())
				if took := time.Since(began); took != 0 {
					t.Errorf("the run went on for %s", took)
				}
				if host.CodeOf(err) != host.Canceled || r == nil || r.FinishReason != chat.FinishCanceled {
					t.Errorf("Wait: %+v, %v", r, err)
				}
				if turns := adapter.Turns(); len(turns) != 1 || turns[0].Status != chat.FinishCanceled {
					t.Errorf("the thread's turns are %+v, want one that is marked", turns)
				}
				last, ended := host.Event{}, false
				for ev, err := range l.Events(t.Context(), 0) {
					if ended = err != nil; !ended {
						last = ev
					}
				}
				if d, ok := last.Data.(*runevent.RunFinished); !ok || d.FinishReason != chat.FinishCanceled || !ended {
					t.Errorf("the last event is %+v", last.Data)
				}
			})
		})
	}
}

func TestReadersLeaveWithTheirContext(t *testing.T) {
	release := make(chan struct{})
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		<-release
		return hosttest.Say("done")
	})
	l := start(t, newHost(t, nil), newAgent(t, "clerk", &host.AgentOptions{Model: model}), 0)
	ctx, cancel := context.WithCancel(t.Context())
	for ev, err := range l.Events(ctx, 0) {
		if err != nil {
			if host.CodeOf(err) != host.Canceled {
				t.Errorf("the reader is told %v", err)
			}
			break
		}
		if _, ok := ev.Data.(*runevent.ModelCalled); ok {
			cancel()
		}
	}
	cancel()
	if _, err := l.Wait(ctx); host.CodeOf(err) != host.Canceled {
		t.Errorf("Wait: %v", err)
	}
	close(release)
	if r, err := l.Wait(t.Context()); err != nil || r.Text() != "done" {
		t.Errorf("the run, after its reader left: %+v, %v", r, err)
	}
}
