package host_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
)

// A provider works for an answer that nobody hears to its end. If that cost
// nothing, a tenant could use up others' load by leaving each time.
func TestAnswersThatBreakOffArePaidFor(t *testing.T) {
	down := host.Errorf(host.Unavailable, "broke off")
	long := "word " + strings.Repeat("x", 4000)
	counted := host.Usage{InputTokens: 700, OutputTokens: 300}
	for name, c := range map[string]struct {
		reply    hosttest.Reply
		leave    bool // after the first word
		hook     error
		atLeast  int
		atMost   int
		measured bool
	}{
		"a whole one, at its own count":             {reply: hosttest.Reply{Text: "hi", Usage: counted}, atLeast: 1000, atMost: 1000, measured: true},
		"one that is refused costs nothing":         {reply: hosttest.Fail(down)},
		"one that breaks off, by what has come":     {reply: hosttest.Reply{Text: long, Err: down}, atLeast: 1000, atMost: 1100},
		"one that the reader leaves":                {reply: hosttest.Reply{Text: long}, leave: true, atLeast: 1, atMost: 100},
		"one that is not taken, at its own count":   {reply: hosttest.Reply{Parts: []host.Part{nil}, Usage: counted}, atLeast: 1000, atMost: 1000, measured: true},
		"one that is counted below nothing":         {reply: hosttest.Reply{Text: "hi", Usage: host.Usage{InputTokens: -1 << 30, OutputTokens: 5}}, atLeast: 5, atMost: 5, measured: true},
		"one that a hook then makes an error of":    {reply: hosttest.Reply{Text: "hi", Usage: counted}, hook: errors.New("no"), atLeast: 1000, atMost: 1000, measured: true},
		"one that is counted past what sums can do": {reply: hosttest.Reply{Text: "hi", Usage: host.Usage{InputTokens: 1<<31 - 1}}, atLeast: 1 << 30, atMost: 1 << 30, measured: true},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := &hosttest.Ledger{}
			h := newHost(t, &host.Options{Model: hosttest.NewModel(c.reply), Ledger: ledger})
			agent := newAgent(t, &host.AgentOptions{Hooks: host.Hooks{Response: func(context.Context, *host.ResponseHook) error { return c.hook }}})
			usage := usageOf(t, h.Stream(t.Context(), agent, &host.Request{Text: "go"}), c.leave)
			if ledger.Tokens() < c.atLeast || ledger.Tokens() > c.atMost {
				t.Errorf("the tenant is charged %d tokens, want %d to %d", ledger.Tokens(), c.atLeast, c.atMost)
			}
			if !c.leave && (usage.Total() != ledger.Tokens() || usage.Estimated == c.measured && ledger.Tokens() > 0) {
				t.Errorf("the run says %+v and the tenant is charged %d", usage, ledger.Tokens())
			}
		})
	}
}

func usageOf(t *testing.T, events iter.Seq2[host.Event, error], leave bool) (usage host.Usage) {
	for ev := range events {
		switch d := ev.Data.(type) {
		case *runevent.TextDelta:
			if leave {
				return usage
			}
		case *runevent.RunFinished:
			usage = d.Usage
		}
	}
	return usage
}

// An agent used as a tool is charged for what breaks off in it, once.
func TestAgentsAsToolsArePaidForWhenTheyFail(t *testing.T) {
	inner := hosttest.NewModel(hosttest.Reply{Text: strings.Repeat("x", 4000), Err: host.Errorf(host.Unavailable, "broke off")})
	agent, err := host.NewAgent("helper", &host.AgentOptions{Description: "Helps.", Model: inner})
	if err != nil {
		t.Fatal(err)
	}
	helper, err := host.NewAgentTool(agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	outer := hosttest.NewModel(hosttest.Call("helper", `{"request":"do it"}`), hosttest.Say("done"))
	ledger := &hosttest.Ledger{}
	r, err := newHost(t, &host.Options{Ledger: ledger}).Run(t.Context(), newAgent(t, &host.AgentOptions{Model: outer, Tools: []*host.Tool{helper}}), &host.Request{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Usage.Total() != ledger.Tokens() || ledger.Tokens() < 1000 || ledger.Tokens() > 1100 {
		t.Errorf("the run says %+v and the tenant is charged %d, want about 1,004", r.Usage, ledger.Tokens())
	}
}

// What a run may use is not filled up again by asking a person in between.
func TestInstructionsCountOnAfterAnAnswer(t *testing.T) {
	model := hosttest.NewModel(hosttest.Call("costly", "{}").Call("refund", "{}"), hosttest.Call("costly", "{}"), hosttest.Say("done"))
	refund := host.NewTool("refund", "refunds", func(context.Context, *host.Call, struct{}) (string, error) { return "refunded", nil },
		&host.ToolOptions{Approve: host.ApproveAlways("Refund?")})
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{costly(t), refund}})
	h := newHost(t, &host.Options{Journal: hosttest.NewJournal(), Limits: host.Limits{RunInstructions: 2_000_000}})
	asked, err := h.Run(t.Context(), agent, &host.Request{Text: "go"})
	if err != nil || len(asked.Questions) != 1 {
		t.Fatalf("Run = %+v, %v", asked, err)
	}
	_, err = h.Run(t.Context(), agent, &host.Request{Resume: asked.Run, Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Approve}}})
	if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "used 2000000 instructions") {
		t.Errorf("the run that has the answer: %v, want its instructions used up", err)
	}
}
