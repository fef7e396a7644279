package host_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

var errLeft = errors.New("the customer closed the tab")

// A cause without a code is a cancellation, or a deadline, wherever it meets a run.
func TestCustomCausesOfCancellationAreCancellations(t *testing.T) {
	ways := []struct {
		name   string
		code   host.Code
		reason host.FinishReason
		ctx    func(context.Context) (context.Context, func())
	}{
		{"canceled", host.Canceled, chat.FinishCanceled, func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errLeft) }
		}},
		{"a deadline", host.DeadlineExceeded, chat.FinishFailed, func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errLeft)
			return ctx, func() { defer cancel(); <-ctx.Done() }
		}},
		{"a cause with a code", host.Conflict, chat.FinishFailed, func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(host.Errorf(host.Conflict, "taken over")) }
		}},
	}
	for _, way := range ways {
		for _, where := range []string{"before", "in the model", "in a tool", "in the instructions"} {
			t.Run(way.name+", "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, end := way.ctx(t.Context())
					at := func(place string) error {
						if place == where {
							end()
							return context.Cause(ctx)
						}
						return nil
					}
					model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
						if err := at("in the model"); err != nil {
							return hosttest.Fail(err)
						}
						return hosttest.Call("look", "{}")
					})
					look := host.NewTool("look", "", func(context.Context, *host.Call, struct{}) (string, error) { return "", at("in a tool") }, nil)
					a, err := host.NewAgent("a", &host.AgentOptions{Model: model, Tools: []*host.Tool{look}, MaxRounds: 2,
						InstructionsFunc: func(context.Context, *host.InstructionsRequest) (string, error) {
							return "", at("in the instructions")
						}})
					if err != nil {
						t.Fatal(err)
					}
					h, err := host.New(&host.Options{SingleTenant: true})
					if err != nil {
						t.Fatal(err)
					}
					_ = at("before")
					result, err := h.Run(ctx, a, &host.Request{Text: "hi"})
					if host.CodeOf(err) != way.code || result == nil || result.FinishReason != way.reason {
						t.Errorf("code %s, %+v; want %s and %s", host.CodeOf(err), result, way.code, way.reason)
					}
					end()
				})
			})
		}
	}
}
