package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

func TestToolRetries(t *testing.T) {
	down := host.Errorf(host.Unavailable, "the warehouse is down")
	busy := &host.Error{Code: host.ResourceExhausted, Message: "busy", Retryable: true}
	hang := errors.New("hang")
	for _, test := range []struct {
		name     string
		opts     host.ToolOptions
		fail     []error // of the attempts; then it answers
		attempts int
		waited   time.Duration
		isError  bool
	}{
		{"never without being told", host.ToolOptions{}, []error{down}, 1, 0, true},
		{"what is unavailable", host.ToolOptions{Retries: 3}, []error{down, down}, 3, 600 * time.Millisecond, false},
		{"what says it is retryable", host.ToolOptions{Retries: 1}, []error{busy}, 2, 200 * time.Millisecond, false},
		{"no more than told", host.ToolOptions{Retries: 2}, []error{down, down, down, down}, 3, 600 * time.Millisecond, true},
		{"not what will be no better", host.ToolOptions{Retries: 3}, []error{host.Errorf(host.NotFound, "no such order")}, 1, 0, true},
		{"the waits have an end", host.ToolOptions{Retries: 7}, slices.Repeat([]error{down}, 7), 8, (200 + 400 + 800 + 1600 + 3200 + 5000 + 5000) * time.Millisecond, false},
		{"a timeout may still be at work", host.ToolOptions{Retries: 3, Timeout: time.Second}, []error{hang}, 1, time.Second, true},
		{"a timeout of what is idempotent", host.ToolOptions{Retries: 3, Timeout: time.Second, Idempotent: true}, []error{hang}, 2, 1200 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var keys []string
				tool := host.NewTool("stock", "", func(ctx context.Context, c *host.Call, _ struct{}) (string, error) {
					keys = append(keys, fmt.Sprintf("%s#%d", c.IdempotencyKey, c.Attempt))
					if n := len(keys); n <= len(test.fail) {
						if test.fail[n-1] == hang {
							<-ctx.Done()
							return "", ctx.Err()
						}
						return "", test.fail[n-1]
					}
					return "there", nil
				}, &test.opts)
				began := time.Now()
				agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("stock", `{}`)), Tools: []*host.Tool{tool}, MaxRounds: 1})
				retried := 0
				var result *host.RunResult
				for ev, err := range newHost(t, nil).Stream(t.Context(), agent, &host.Request{Text: "go"}) {
					if err != nil {
						t.Fatal(err)
					}
					switch d := ev.Data.(type) {
					case *runevent.ToolRetried:
						if retried++; d.Attempt != retried || d.Name != "stock" || d.ID != "call_1" {
							t.Errorf("retry %d is told as %+v", retried, d)
						}
					case *runevent.RunFinished:
						result = d.Result
					}
				}
				if len(keys) != test.attempts || retried != test.attempts-1 || time.Since(began) != test.waited {
					t.Errorf("%d attempts, %d told, after %s; want %d after %s", len(keys), retried, time.Since(began), test.attempts, test.waited)
				}
				for i, key := range keys {
					if prefix, _, _ := strings.Cut(keys[0], "#"); key != fmt.Sprintf("%s#%d", prefix, i+1) {
						t.Errorf("attempt %d has the key %s", i+1, key)
					}
				}
				if got := result.Results[0].ToolResults()[0].IsError; got != test.isError {
					t.Errorf("the result is an error: %v, want %v", got, test.isError)
				}
			})
		})
	}
}

func TestARetryEndsWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		tool := host.NewTool("stock", "", func(context.Context, *host.Call, struct{}) (string, error) {
			attempts++
			time.AfterFunc(100*time.Millisecond, cancel)
			return "", host.Errorf(host.Unavailable, "down")
		}, &host.ToolOptions{Retries: 5})
		agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("stock", `{}`)), Tools: []*host.Tool{tool}})
		began := time.Now()
		_, err := newHost(t, nil).Run(ctx, agent, &host.Request{Text: "go"})
		if host.CodeOf(err) != host.Canceled || attempts != 1 || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%v after %d attempts and %s", err, attempts, time.Since(began))
		}
	})
}

func TestToolRetriesAreBounded(t *testing.T) {
	for _, n := range []int{-1, host.MaxToolRetries + 1} {
		_, err := host.NewRawTool(llm.ToolSpec{Name: "x"}, func(context.Context, *host.Call) (*host.ToolOutput, error) { return nil, nil },
			&host.ToolOptions{Retries: n})
		if host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%d retries: %v", n, err)
		}
	}
}

// A tool that looks at the clock may be faster than the timer of its context.
func TestAToolMayKnowItsDeadlineFirst(t *testing.T) {
	first := 0
	tool := host.NewTool("slow", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		deadline, _ := ctx.Deadline()
		for time.Now().Before(deadline) {
			time.Sleep(time.Until(deadline) / 2)
		}
		if ctx.Err() == nil {
			first++
		}
		return "", host.Errorf(host.DeadlineExceeded, "out of time")
	}, &host.ToolOptions{Timeout: time.Millisecond})
	for range 500 {
		if got, want := call(t, tool, `{}`).ContentText(), "The tool slow took longer than 1ms."; got != want {
			t.Fatalf("the model is told %q, want %q", got, want)
		}
	}
	t.Logf("it was first %d times", first)
}
