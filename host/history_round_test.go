package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

func eachRound(t *testing.T, adapter any) *host.History {
	t.Helper()
	h, err := host.NewHistory(adapter, &host.HistoryOptions{EachRound: true})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestEachRoundIsStoredBeforeTheNextModelCall(t *testing.T) {
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	down := hosttest.Fail(host.Errorf(host.Unavailable, "down"))
	opened := []string{`CreateThread "T"`, `AppendUserMessage "hi"`}
	for name, c := range map[string]struct {
		model []hosttest.Reply
		order []string
		fails bool
		calls []string
		roles string
	}{
		"one answer": {[]hosttest.Reply{hosttest.Say("done")}, []string{"clerk"}, false,
			[]string{"AppendResults: 1 results, stop"}, "user assistant"},
		"two rounds": {[]hosttest.Reply{hosttest.Call("look", "{}"), hosttest.Call("look", "{}").Call("look", `{ }`), hosttest.Say("done")}, []string{"clerk"}, false,
			[]string{"AppendRound: 2 messages", "AppendRound: 3 messages", "AppendResults: 1 results, stop"},
			"user assistant tool assistant tool tool assistant"},
		"two agents": {[]hosttest.Reply{hosttest.Say("one"), hosttest.Say("two")}, []string{"clerk", "clerk"}, false,
			[]string{"AppendRound: 1 messages", "AppendResults: 2 results, stop"}, "user assistant assistant"},
		"a failure in the second round": {[]hosttest.Reply{hosttest.Call("look", "{}"), down}, []string{"clerk"}, true,
			[]string{"AppendRound: 2 messages", "AppendResults: 1 results, failed"}, "user assistant tool"},
	} {
		t.Run(name, func(t *testing.T) {
			history := hosttest.NewHistory()
			agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(c.model...), Tools: []*host.Tool{look}})
			network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order(c.order...), History: eachRound(t, history)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Thread: "T", Text: "hi"}); (err != nil) != c.fails {
				t.Errorf("Run: %v", err)
			}
			if diff := cmp.Diff(append(slices.Clone(opened), c.calls...), history.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			var roles []string
			for _, m := range history.Messages("", "T") {
				roles = append(roles, string(m.Role))
			}
			if got := strings.Join(roles, " "); got != c.roles {
				t.Errorf("the thread holds %s, want %s", got, c.roles)
			}
		})
	}
}

// A process that dies while the model is asked has lost nothing that was there
// before.
func TestWhatWasSaidIsInTheThreadWhileTheModelIsAsked(t *testing.T) {
	history := hosttest.NewHistory()
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	var stored []int
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		stored = append(stored, len(history.Messages("", "T")))
		if len(stored) < 3 {
			return hosttest.Call("look", "{}")
		}
		return hosttest.Say("done")
	})
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{look}, History: eachRound(t, history)})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 3, 5}; !slices.Equal(stored, want) {
		t.Errorf("at each model call the thread holds %v messages, want %v", stored, want)
	}
}

// An agent that is another's tool has no conversation of its own.
func TestRoundsOfAnAgentThatIsAToolAreNotStored(t *testing.T) {
	history := hosttest.NewHistory()
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	helper, err := host.NewAgent("helper", &host.AgentOptions{Description: "helps", Tools: []*host.Tool{look},
		Model: hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("helped"))})
	if err != nil {
		t.Fatal(err)
	}
	asTool, err := host.NewAgentTool(helper, nil)
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{asTool}, History: eachRound(t, history),
		Model: hosttest.NewModel(hosttest.Call("helper", `{"request":"help"}`), hosttest.Say("done"))})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	want := []string{`CreateThread "T"`, `AppendUserMessage "hi"`, "AppendRound: 2 messages", "AppendResults: 1 results, stop"}
	if diff := cmp.Diff(want, history.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A durable run has its rounds in the journal, and finds the thread as it left
// it when it is resumed.
func TestADurableRunStoresNoRounds(t *testing.T) {
	history := hosttest.NewHistory()
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{look}, History: eachRound(t, history),
		Model: hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("done"))})
	h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
	if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi", Durable: true}); err != nil {
		t.Fatal(err)
	}
	want := []string{`CreateThread "T"`, `AppendUserMessage "hi"`, "AppendResults: 1 results, stop"}
	if diff := cmp.Diff(want, history.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// badRounds fails to store rounds.
type badRounds struct{ *hosttest.History }

func (badRounds) AppendRound(context.Context, *host.HistoryRequest, *host.Round) (string, error) {
	return "", host.Errorf(host.Unavailable, "the disk is full")
}

func TestARoundThatCannotBeStoredEndsTheRun(t *testing.T) {
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "seen", nil })
	model := hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("done"))
	history := hosttest.NewHistory()
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{look}, History: eachRound(t, badRounds{history})})
	_, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
	if host.CodeOf(err) != host.Unavailable || !strings.Contains(err.Error(), "store a round") {
		t.Errorf("Run: %v, want code %s", err, host.Unavailable)
	}
	if model.Left() != 1 {
		t.Errorf("%d replies are left; the model was asked after the failure", model.Left())
	}
	if got := history.Calls(); got[len(got)-1] != "AppendResults: 1 results, failed" {
		t.Errorf("the history was called %q; what was finished is stored with the turn", got)
	}
}

func TestEachRoundRefused(t *testing.T) {
	_, err := host.NewHistory(onlyGet{}, &host.HistoryOptions{EachRound: true})
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "each round") {
		t.Errorf("NewHistory of an adapter without AppendRound: %v, want code %s", err, host.InvalidArgument)
	}
	agent := newAgent(t, &host.AgentOptions{Model: says("done")})
	history := eachRound(t, hosttest.NewHistory())
	_, err = host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk"), History: history, DiscardOnFailure: true})
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "discards") {
		t.Errorf("NewNetwork that discards: %v, want code %s", err, host.InvalidArgument)
	}
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk"), DiscardOnFailure: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := newHost(t, &host.Options{History: history}).Check(network); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Check of a network that discards: %v, want code %s", err, host.InvalidArgument)
	}
	if _, err := newHost(t, &host.Options{History: history}).Run(t.Context(), network, &host.Request{Text: "hi"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Run of a network that discards: %v, want code %s", err, host.InvalidArgument)
	}
}
