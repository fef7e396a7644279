package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A message that a Start hook replaces or drops stays so in the requests of later rounds.
func TestStartHookEditsHoldInLaterRounds(t *testing.T) {
	const round = ` | a:look{"what":"it"} | t:"found it"`
	for name, c := range map[string]struct {
		hook func(at *host.StartHook)
		want []string // that the model is sent in each round
	}{
		"redacted in the first": {func(at *host.StartHook) {
			if at.Round == 1 {
				m := at.Messages[0].Clone()
				m.Parts = []host.Part{&host.Text{Text: "[hi]"}}
				at.Messages[0] = m
			}
		}, []string{"s:Help. | u:[hi]", "s:Help. | u:[hi]" + round, "s:Help. | u:[hi]" + round + round}},
		"tools are dropped in the second": {func(at *host.StartHook) {
			if at.Round == 2 {
				at.Messages = at.Messages[:1]
			}
		}, []string{"s:Help. | u:hi", "s:Help. | u:hi", "s:Help. | u:hi" + round}},
	} {
		t.Run(name, func(t *testing.T) {
			hooks := host.Hooks{Start: func(_ context.Context, at *host.StartHook) error { c.hook(at); return nil }}
			_, model, err := runWith(t, &host.AgentOptions{Instructions: "Help.", Hooks: hooks, Tools: []*host.Tool{lookUp()}}, nil,
				hosttest.Call("look", `{"what":"it"}`), hosttest.Call("look", `{"what":"it"}`), hosttest.Say("done"))
			if err != nil {
				t.Fatal(err)
			}
			for i, req := range model.Requests() {
				if got := said(req.Messages); got != c.want[i] {
					t.Errorf("round %d: the model is sent\n%s, want\n%s", i+1, got, c.want[i])
				}
			}
		})
	}
}

// The host's own words for the last answer stand behind what the hook makes of the
// instructions.
func TestStartHookAtTheHostsLimit(t *testing.T) {
	hooks := host.Hooks{Start: func(_ context.Context, at *host.StartHook) error { at.Instructions = "Serve."; return nil }}
	_, model, err := runWith(t, &host.AgentOptions{Instructions: "Help.", Hooks: hooks, Tools: []*host.Tool{lookUp()}, MaxRounds: 1, OnMaxRounds: host.AnswerAtMaxRounds}, nil,
		hosttest.Call("look", `{"what":"it"}`), hosttest.Say("done"))
	if err != nil {
		t.Fatal(err)
	}
	if got := model.Requests()[1].Messages[0].Text(); !strings.HasPrefix(got, "Serve.\n\nYou have used your tools") {
		t.Errorf("the model is told %q", got)
	}
}
