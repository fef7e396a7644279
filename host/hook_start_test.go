package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// What a Start hook changes holds for the rounds behind, once, whenever and how often
// the hook makes the change.
func TestStartHookEditsHoldAndAreMadeOnce(t *testing.T) {
	const round = ` | a:look{"what":"it"} | t:"found it"`
	redacted := func(m *host.Message) *host.Message {
		m = m.Clone()
		m.Parts = []host.Part{&host.Text{Text: "[" + m.Text() + "]"}}
		return m
	}
	for _, c := range []struct {
		name string
		hook func(at *host.StartHook)
		want []string // what the model is sent in each round
	}{
		{"in each round the same", func(at *host.StartHook) {
			at.Instructions += " Be brief."
			at.Messages = append(at.Messages, host.UserText("and hurry"))
		}, []string{"s:Help. Be brief. | u:hi | u:and hurry", "s:Help. Be brief. | u:hi | u:and hurry" + round, "s:Help. Be brief. | u:hi | u:and hurry" + round + round}},
		{"in the first alone", func(at *host.StartHook) {
			if at.Round == 1 {
				at.Instructions = "Now: " + at.Instructions
				at.Messages = slices.Insert(at.Messages, 0, host.UserText("before"))
			}
		}, []string{"s:Now: Help. | u:before | u:hi", "s:Now: Help. | u:before | u:hi" + round, "s:Now: Help. | u:before | u:hi" + round + round}},
		{"in the second alone", func(at *host.StartHook) {
			if at.Round == 2 {
				at.Instructions += " Two."
				at.Messages = append(at.Messages, host.UserText("two"))
			}
		}, []string{"s:Help. | u:hi", "s:Help. Two. | u:hi" + round + " | u:two", "s:Help. Two. | u:hi" + round + " | u:two" + round}},
		{"another in each", func(at *host.StartHook) {
			at.Instructions += strings.Repeat("!", at.Round)
			at.Messages = append(at.Messages, host.UserText(strings.Repeat("?", at.Round)))
		}, []string{"s:Help.! | u:hi | u:?", "s:Help.!!! | u:hi | u:?" + round + " | u:??", "s:Help.!!!!!! | u:hi | u:?" + round + " | u:??" + round + " | u:???"}},
		{"rewritten, then added to", func(at *host.StartHook) {
			if at.Instructions = "Serve."; at.Round == 2 {
				at.Instructions = "Help. Thanks."
			}
		}, []string{"s:Serve. | u:hi", "s:Serve. Thanks. | u:hi" + round, "s:Serve. | u:hi" + round + round}},
		{"redacted in each", func(at *host.StartHook) {
			at.Messages[0] = redacted(at.Messages[0])
		}, []string{"s:Help. | u:[hi]", "s:Help. | u:[hi]" + round, "s:Help. | u:[hi]" + round + round}},
		{"tools are dropped in the second", func(at *host.StartHook) {
			if at.Round == 2 {
				at.Messages = at.Messages[:1]
			}
		}, []string{"s:Help. | u:hi", "s:Help. | u:hi", "s:Help. | u:hi" + round}},
		{"two of a text", func(at *host.StartHook) {
			at.Messages = append(at.Messages, host.UserText("x"), host.UserText("x"))
		}, []string{"s:Help. | u:hi | u:x | u:x", "s:Help. | u:hi | u:x | u:x" + round, "s:Help. | u:hi | u:x | u:x" + round + round}},
		{"the input is moved to the end", func(at *host.StartHook) {
			at.Messages = append(at.Messages[1:], at.Messages[0])
		}, []string{"s:Help. | u:hi", "s:Help." + round + " | u:hi", "s:Help." + round + " | u:hi" + round}},
		{"all of it is new", func(at *host.StartHook) {
			at.Instructions, at.Messages = "", []*host.Message{host.UserText("start")}
		}, []string{"u:start", "u:start", "u:start"}},
	} {
		t.Run(c.name, func(t *testing.T) {
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
