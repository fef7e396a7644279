package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// inTool runs fn in a tool of a run and returns what it returned.
func inTool(t *testing.T, opts *host.ToolOptions, fn func(ctx context.Context) error) (got error) {
	t.Helper()
	try := host.NewTool("try", "tries", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		got = fn(ctx)
		return "tried", nil
	}, opts)
	model := hosttest.NewModel(hosttest.Call("try", "{}"), hosttest.Say("done"))
	if _, err := newHost(t, &host.Options{Model: model}).Run(t.Context(), newAgent(t, &host.AgentOptions{Tools: []*host.Tool{try}}), &host.Request{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	return got
}

func nothing(context.Context) (int, error) { return 0, nil }

func TestAStepWithinItselfIsRefused(t *testing.T) {
	err := inTool(t, nil, func(ctx context.Context) error {
		_, err := host.Step(ctx, "a", func(ctx context.Context) (int, error) {
			return host.Step(ctx, "b", func(ctx context.Context) (int, error) { return host.Step(ctx, "a", nothing, nil) }, nil)
		}, nil)
		return err
	})
	if host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("the step within itself: %v, want failed_precondition", err)
	}
}

func TestAStepWaitsForItsTwinAsLongAsItsContext(t *testing.T) {
	err := inTool(t, nil, func(ctx context.Context) error {
		entered, leave := make(chan struct{}), make(chan struct{})
		first := make(chan error)
		go func() {
			_, err := host.Step(ctx, "a", func(context.Context) (int, error) {
				close(entered)
				<-leave
				return 0, nil
			}, nil)
			first <- err
		}()
		<-entered
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_, err := host.Step(short, "a", nothing, nil)
		close(leave)
		return errors.Join(err, <-first)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second of two steps: %v, want its deadline", err)
	}
}

func TestStepsThatACallBeginsAndEnds(t *testing.T) {
	const pay = "pay"
	err := inTool(t, nil, func(ctx context.Context) error {
		call := host.NewCall("t", nil, nil)
		if err := call.EndStep(ctx, pay, json.RawMessage(`1`)); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("ending what has not begun: %v", err)
		}
		for range 2 { // the first one has failed, then
			if _, done, err := call.BeginStep(ctx, pay, nil); done || err != nil {
				t.Errorf("BeginStep = %v, %v", done, err)
			}
		}
		if err := call.EndStep(ctx, pay, json.RawMessage(`{`)); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("a result that is not JSON: %v", err)
		}
		if err := call.EndStep(ctx, pay, json.RawMessage(`{"n":1}`)); err != nil {
			t.Error(err)
		}
		if result, done, err := call.BeginStep(ctx, pay, nil); !done || err != nil || string(result) != `{"n":1}` {
			t.Errorf("BeginStep of what is done = %s, %v, %v", result, done, err)
		}
		for _, name := range []string{"", strings.Repeat("n", 257), "\xff"} {
			if _, _, err := call.BeginStep(ctx, name, nil); host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("a step named %.10q: %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A call that is over leaves its steps to the next.
func TestAStepThatDoesNotEndFails(t *testing.T) {
	calls := 0
	leaves := host.NewTool("leaves", "leaves a step", func(ctx context.Context, call *host.Call, _ struct{}) (bool, error) {
		calls++
		_, done, err := call.BeginStep(ctx, "pay", nil)
		if calls == 3 && err == nil {
			err = call.EndStep(ctx, "pay", json.RawMessage(`true`))
		}
		return done, err
	}, nil)
	model := hosttest.NewModel(hosttest.Call("leaves", "{}").Call("leaves", "{}").Call("leaves", "{}").Call("leaves", "{}"), hosttest.Say("done"))
	r, err := newHost(t, &host.Options{Model: model, Limits: host.Limits{ParallelTools: 1}}).
		Run(t.Context(), newAgent(t, &host.AgentOptions{Tools: []*host.Tool{leaves}}), &host.Request{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, result := range r.Results[0].ToolResults() {
		got = append(got, result.ContentText())
	}
	if diff := cmp.Diff([]string{"false", "false", "false", "true"}, got); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

// Nobody knows what became of a step that a process took with it.
func TestAStepOfAProcessThatEnded(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		journal, history := hosttest.NewJournal(), hosttest.NewHistory()
		var got error
		pays := host.NewTool("pays", "pays", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
			_, _, err := call.BeginStep(ctx, "pay", &host.StepOptions{Idempotent: idempotent})
			if got = err; err == nil {
				err = call.EndStep(ctx, "pay", json.RawMessage(`true`))
			}
			return "", err
		}, &host.ToolOptions{Idempotent: true})
		agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{pays}})
		process := func(lives int, req *host.Request) {
			model := hosttest.NewModel(hosttest.Call("pays", "{}"), hosttest.Say("done"))
			if req.Resume != "" {
				model = hosttest.NewModel(hosttest.Say("done"))
			}
			req.Tenant = "acme"
			_, _ = newHost(t, &host.Options{Model: model, History: newHistory(t, history), Journal: &mortal{journal, lives}}).Run(t.Context(), agent, req)
		}
		lives := 3 // the run's, the answer's and the step's beginning
		if idempotent {
			lives = 2
		}
		process(lives, &host.Request{Run: "r1", Thread: "T1", Text: "go", Durable: true})
		process(100, &host.Request{Resume: "r1"})
		if unknown := errors.Is(got, host.ErrOutcomeUnknown); unknown == idempotent {
			t.Errorf("idempotent %v: after the crash the step is told %v", idempotent, got)
		}
	}
}

func TestStepsAreBounded(t *testing.T) {
	err := inTool(t, nil, func(ctx context.Context) error {
		for i := range 10_000 {
			if _, err := host.Step(ctx, strconv.Itoa(i), nothing, nil); err != nil {
				return err
			}
		}
		if _, err := host.Step(ctx, "7", nothing, nil); err != nil {
			t.Errorf("a step that is done: %v", err)
		}
		_, err := host.Step(ctx, "one more", nothing, nil)
		return err
	})
	if host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("step 10,001: %v", err)
	}
	err = inTool(t, nil, func(ctx context.Context) error {
		large := strings.Repeat("x", 1<<20)
		for i := range 31 {
			if _, err := host.Step(ctx, strconv.Itoa(i), func(context.Context) (string, error) { return large, nil }, nil); err != nil {
				return err
			}
		}
		_, err := host.Step(ctx, "31", func(context.Context) (string, error) { return large, nil }, nil)
		return err
	})
	if host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("32 MiB and a little: %v", err)
	}
}
