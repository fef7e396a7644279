package host_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
