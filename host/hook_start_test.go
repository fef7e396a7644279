package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

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
