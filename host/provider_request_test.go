package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// tally is a provider that counts the runs it has seen.
type tally struct{}

func (tally) Name() string { return "tally" }

func (tally) Provide(_ context.Context, req *host.ProvideRequest) (*host.Provided, error) {
	n := 0
	if _, err := req.Own.Get(&n); err != nil {
		return nil, err
	}
	return &host.Provided{}, req.Own.Set(n + 1)
}

// Whoever keeps a conversation keeps what context providers know of it, too: it
// comes with the request, goes with the result, and is there when a durable run
// goes on after a crash.
func TestProvidersOfAConversationThatTheClientKeeps(t *testing.T) {
	noop := host.NewTool("noop", "", func(context.Context, *host.Call, struct{}) (struct{}, error) { return struct{}{}, nil }, &host.ToolOptions{Idempotent: true})
	agent := newAgent(t, &host.AgentOptions{Model: callsOnce{"noop"}, Tools: []*host.Tool{noop}, Providers: []host.Provider{tally{}}})
	key := agent.Name() + "/tally"
	begin := func() *host.Request {
		return &host.Request{Run: "R", Text: "go", Durable: true, Providers: map[string]json.RawMessage{key: json.RawMessage("7")}}
	}
	crashes := 0
	for lives := 1; ; lives++ {
		journal := hosttest.NewJournal()
		req := begin()
		result, err := newHost(t, &host.Options{Journal: &mortal{journal, lives}}).Run(t.Context(), agent, req)
		if err == nil {
			if got := string(result.Providers[key]); got != "8" || string(req.Providers[key]) != "7" {
				t.Errorf("the result has %s, the request %s", got, req.Providers[key])
			}
			break
		}
		if len(journal.Runs()) == 0 {
			continue // it has not begun
		}
		crashes++
		result, err = newHost(t, &host.Options{Journal: journal}).Run(t.Context(), agent, &host.Request{Resume: "R"})
		if err != nil || string(result.Providers[key]) != "8" {
			t.Errorf("killed after %d: %v; the result has %s", lives, err, result.Providers[key])
		}
	}
	if crashes == 0 {
		t.Error("no run was resumed")
	}
	for name, raw := range map[string]string{"no JSON": "{", "too large": `"` + strings.Repeat("x", host.MaxProviderStateBytes) + `"`} {
		req := &host.Request{Text: "go", Providers: map[string]json.RawMessage{key: json.RawMessage(raw)}}
		if _, err := newHost(t, nil).Run(t.Context(), agent, req); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	req := &host.Request{Resume: "R", Providers: map[string]json.RawMessage{key: json.RawMessage("1")}}
	if _, err := newHost(t, &host.Options{Journal: hosttest.NewJournal()}).Run(t.Context(), agent, req); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a resume that brings states: %v", err)
	}
}
