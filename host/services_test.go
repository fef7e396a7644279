package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

func TestModelOfIsTheModelOfTheAgentAtWork(t *testing.T) {
	if got := host.ModelOf(t.Context()); got != nil {
		t.Errorf("outside a run ModelOf = %v, want nil", got)
	}
	var seen host.Model
	ask := tool("ask", func(ctx context.Context, _ *host.Call) (string, error) {
		seen = host.ModelOf(ctx)
		return "asked", nil
	})
	own := hosttest.NewModel(hosttest.Say("").Call("ask", "{}"))
	agent := newAgent(t, &host.AgentOptions{Model: own, Tools: []*host.Tool{ask}, MaxRounds: 1})
	if _, err := newHost(t, &host.Options{Model: hosttest.NewModel()}).Run(t.Context(), agent, &host.Request{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	if seen != host.Model(own) {
		t.Errorf("in a tool ModelOf = %v, want the agent's", seen)
	}
}

// unstored is a history whose commits fail.
type unstored struct{}

func (unstored) AppendResults(context.Context, *host.HistoryRequest, *host.Turn) error {
	return errors.New("no room")
}

func TestAfterCommitSaysWhetherTheTurnIsStored(t *testing.T) {
	broken, err := host.NewHistory(unstored{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		history *host.History
		fails   bool
		discard bool
		want    []bool
	}{
		{"a run without a history", nil, false, false, []bool{true}},
		{"a failed run keeps what its tools did", nil, true, false, []bool{true}},
		{"a failed run that is discarded", nil, true, true, []bool{false}},
		{"a commit that fails", broken, false, false, []bool{false}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []bool
			var kept context.Context
			later := tool("later", func(ctx context.Context, _ *host.Call) (string, error) {
				kept = ctx
				if !host.AfterCommit(ctx, func(stored bool) { got = append(got, stored) }) {
					t.Error("in a run AfterCommit takes nothing")
				}
				if got != nil {
					t.Error("called before the commit")
				}
				return "", nil
			})
			model := hosttest.NewModel(hosttest.Say("").Call("later", "{}"))
			if !row.fails {
				model.Queue(hosttest.Say("done"))
			}
			agent := newAgent(t, &host.AgentOptions{Model: model, Description: "Does it.", Tools: []*host.Tool{later}})
			network, err := host.NewNetwork("net", []*host.Agent{agent}, &host.NetworkOptions{
				DiscardOnFailure: row.discard, History: row.history, MaxIterations: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			once := host.RouterFunc("once", func(context.Context, *host.RouteRequest) (*host.Route, error) {
				return &host.Route{Next: []string{agent.Name()}}, nil
			})
			_, _ = newHost(t, nil).Run(t.Context(), network, &host.Request{Text: "go", Router: once})
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("called with (-want +got):\n%s", diff)
			}
			if host.AfterCommit(kept, func(bool) { t.Error("called after the end") }) {
				t.Error("after the run AfterCommit takes something")
			}
		})
	}
	if host.AfterCommit(t.Context(), func(bool) {}) {
		t.Error("outside a run AfterCommit takes something")
	}
}

func TestACallSeesTheRunsArtifacts(t *testing.T) {
	var seen []string
	text := func(name, text string) host.Artifact {
		return host.Artifact{Name: name, Parts: []host.Part{&host.Text{Text: text}}}
	}
	draw := tool("draw", func(_ context.Context, call *host.Call) (string, error) {
		if err := call.AddArtifact(text("a", "one")); err != nil {
			return "", err
		}
		return "", call.AddArtifact(text("b", "two"))
	})
	look := tool("look", func(_ context.Context, call *host.Call) (string, error) {
		if err := call.AddArtifact(text("a", "three")); err != nil {
			return "", err
		}
		for _, a := range call.Artifacts() {
			seen = append(seen, a.Name+" "+a.Parts[0].(*host.Text).Text)
		}
		return "", nil
	})
	model := hosttest.NewModel(hosttest.Say("").Call("draw", "{}"), hosttest.Say("").Call("look", "{}"), hosttest.Say("done"))
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{draw, look}})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a three", "b two"}, seen); diff != "" {
		t.Errorf("the second call sees (-want +got):\n%s", diff)
	}
}
