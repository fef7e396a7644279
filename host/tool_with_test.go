package host_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A tool that somebody else made runs under the options of who has it, whatever
// it has become since.
func TestToolUnderOtherOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := func(said string, opts *host.ToolOptions) (*host.Tool, *int) {
			tries := new(int)
			return host.NewTool("pay", "Pays.", func(context.Context, *host.Call, struct{}) (string, error) {
				if *tries++; *tries < 3 {
					return "", host.Errorf(host.Unavailable, "the bank is closed")
				}
				return said, nil
			}, opts), tries
		}
		old, oldTries := failing("old", nil)
		now, nowTries := failing("now", nil)
		with := func(tool *host.Tool) *host.Tool {
			t.Helper()
			own, err := tool.With(&host.ToolOptions{Retries: 2})
			if err != nil {
				t.Fatal(err)
			}
			return own
		}
		if got := call(t, with(old), `{}`); got.IsError || got.ContentText() != "old" || *oldTries != 3 {
			t.Errorf("with retries the tool answers %s after %d tries", got.Content, *oldTries)
		}
		live := host.NewLiveTool(old, func(context.Context) *host.Tool { return now })
		if got := call(t, with(live), `{}`); got.IsError || got.ContentText() != "now" || *nowTries != 3 {
			t.Errorf("what the tool has become answers %s after %d tries", got.Content, *nowTries)
		}
		gone := host.NewLiveTool(old, func(context.Context) *host.Tool { return nil })
		if got := call(t, with(gone), `{}`); got.IsError || got.ContentText() != "old" {
			t.Errorf("a tool that is gone answers %s, want what there was", got.Content)
		}
		again, tries := failing("mine", nil)
		if got := call(t, again, `{}`); !got.IsError || *tries != 1 {
			t.Errorf("the tool itself answers %s after %d tries, want none of the options", got.Content, *tries)
		}
	})
}

func TestToolUnderAShorterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := host.NewTool("slow", "Waits.", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, &host.ToolOptions{Timeout: time.Hour})
		own, err := slow.With(&host.ToolOptions{Timeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := call(t, own, `{}`); got.ContentText() != "The tool slow took longer than 3s." || time.Since(began) != 3*time.Second {
			t.Errorf("after %s the model is told %s", time.Since(began), got.Content)
		}
	})
}

// The rule of the maker and that of the owner are both asked.
func TestToolUnderTwoApprovals(t *testing.T) {
	for _, row := range []struct {
		name         string
		maker, owner host.ApprovalRule
		asks         string
	}{
		{"the maker's first", host.ApproveAlways("maker"), host.ApproveAlways("owner"), "maker"},
		{"the owner's too", host.ApproveAlways(""), host.ApproveAlways("owner"), "owner"},
		{"the owner's alone", nil, host.ApproveAlways("owner"), "owner"},
		{"the maker's alone", host.ApproveAlways("maker"), nil, "maker"},
	} {
		tool := host.NewTool("pay", "Pays.", func(context.Context, *host.Call, struct{}) (string, error) { return "paid", nil }, &host.ToolOptions{Approve: row.maker})
		own, err := tool.With(&host.ToolOptions{Approve: row.owner})
		if err != nil {
			t.Fatal(err)
		}
		agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("pay", `{}`)), Tools: []*host.Tool{own}})
		h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
		result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "pay"})
		if err != nil || len(result.Questions) != 1 || result.Questions[0].Reason != row.asks {
			t.Errorf("%s: Run = %+v, %v; want one question for %q", row.name, result, err, row.asks)
		}
	}
}

func TestToolOptionsRefused(t *testing.T) {
	tool := host.NewTool("pay", "Pays.", func(context.Context, *host.Call, struct{}) (string, error) { return "paid", nil }, nil)
	for name, opts := range map[string]*host.ToolOptions{
		"retries below none": {Retries: -1}, "too many retries": {Retries: host.MaxToolRetries + 1}, "a time before now": {Timeout: -1},
	} {
		if _, err := tool.With(opts); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("With %s: %v, want invalid_argument", name, err)
		}
		if _, err := host.NewRawTool(tool.ToolSpec, func(context.Context, *host.Call) (*host.ToolOutput, error) { return nil, nil }, opts); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("NewRawTool with %s: %v, want invalid_argument", name, err)
		}
	}
	if same, err := tool.With(nil); same != tool || err != nil {
		t.Errorf("With nothing: %v, %v", same, err)
	}
}
