package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// Decision 46: a host without a journal can be answered, by who keeps the checkpoint.

// asker is an agent whose tool asks a person and whose other tool needs an approval.
type asker struct {
	agent  *host.Agent
	model  *hosttest.Model
	booked []string // answers and idempotency keys
	paid   int
}

func newAsker(t *testing.T, replies ...hosttest.Reply) *asker {
	t.Helper()
	a := &asker{model: hosttest.NewModel(replies...)}
	book, err := host.NewRawTool(llm.ToolSpec{Name: "book", Description: "Books."}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		if len(call.Resumed) == 0 {
			return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "Window or aisle?"}}, nil
		}
		a.booked = append(a.booked, string(call.Resumed[0].Answer)+" "+call.IdempotencyKey)
		return &host.ToolOutput{Content: json.RawMessage(`"booked"`)}, call.State.Set("/booked", true)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pay := worker("pay", func(context.Context, *host.Call) error { a.paid++; return nil }, &host.ToolOptions{Approve: host.ApproveAlways("Pay?")})
	a.agent = newAgent(t, &host.AgentOptions{Description: "Books.", Model: a.model, Tools: []*host.Tool{book, pay}})
	return a
}

func TestAHostWithoutAJournalIsAnsweredWithTheCheckpoint(t *testing.T) {
	a := newAsker(t, hosttest.Say("").Call("book", "{}").Call("pay", "{}"), hosttest.Say("Done."))
	asked, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{Text: "book it", State: map[string]any{"n": 1}})
	if err != nil || len(asked.Questions) != 2 || asked.Checkpoint == nil {
		t.Fatalf("Run: %v, %d questions, the checkpoint %v", err, len(asked.Questions), asked.Checkpoint)
	}
	raw, err := json.Marshal(asked.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	kept := &runevent.Checkpoint{}
	if err := json.Unmarshal(raw, kept); err != nil {
		t.Fatal(err)
	}
	answers := []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"window"`)}, {Question: asked.Questions[1].ID, Decision: host.Approve}}
	for name, req := range map[string]*host.Request{
		"without answers":      {Checkpoint: kept},
		"with something new":   {Checkpoint: kept, Answers: answers, Text: "and more"},
		"of another run":       {Checkpoint: kept, Answers: answers, Resume: "another"},
		"an empty one":         {Checkpoint: &runevent.Checkpoint{}, Answers: answers},
		"without conversation": {Checkpoint: kept.WithoutConversation(), Answers: answers},
		"by its run alone":     {Resume: kept.Run(), Answers: answers},
	} {
		if _, err := newHost(t, nil).Run(t.Context(), a.agent, req); err == nil || len(a.booked)+a.paid > 0 {
			t.Errorf("%s: Run = %v, booked %q, paid %d times", name, err, a.booked, a.paid)
		}
	}
	r, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{Checkpoint: kept, Answers: answers})
	if err != nil || r.Text() != "Done." || string(r.State) != `{"booked":true,"n":1}` {
		t.Fatalf("Run = %q, %s: %v", r.Text(), r.State, err)
	}
	if len(a.booked) != 1 || a.paid != 1 || !strings.HasPrefix(a.booked[0], `"window" `+asked.Run+"/") {
		t.Errorf("booked %q, paid %d times; want one key of the first run", a.booked, a.paid)
	}
}

// A thread keeps its own questions, in the process and, if anybody may answer them,
// when it is serialized.
func TestAgentThreadsAreAnsweredWithoutAJournal(t *testing.T) {
	begin := func(t *testing.T, replies ...hosttest.Reply) (*asker, *host.AgentThread, *host.RunResult) {
		a := newAsker(t, replies...)
		thread, err := a.agent.NewThread(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{AgentThread: thread, Text: "go", State: map[string]any{"n": 1}})
		if err != nil || len(r.Questions) != 1 || len(thread.Questions()) != 1 {
			t.Fatalf("Run: %v, it asks %d questions and the thread %d", err, len(r.Questions), len(thread.Questions()))
		}
		return a, thread, r
	}
	restored := func(t *testing.T, a *asker, thread *host.AgentThread) *host.AgentThread {
		raw, err := thread.Serialize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.agent.RestoreThread(t.Context(), raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	said := func(t *testing.T, thread *host.AgentThread) []string {
		var out []string
		messages, err := thread.Messages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			for _, p := range m.Parts {
				switch p := p.(type) {
				case *host.Text:
					out = append(out, p.Text)
				case *host.ToolCall:
					out = append(out, "call "+p.Name)
				case *host.ToolResult:
					out = append(out, "result "+p.Name)
				}
			}
		}
		return out
	}
	t.Run("a tool's question", func(t *testing.T) {
		for name, serialized := range map[string]bool{"in the process": false, "serialized": true} {
			t.Run(name, func(t *testing.T) {
				a, thread, asked := begin(t, hosttest.Call("book", "{}"), hosttest.Say("Booked."))
				if serialized {
					thread = restored(t, a, thread)
				}
				answers := []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"window"`)}}
				r, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{AgentThread: thread, Answers: answers})
				if err != nil || r.Text() != "Booked." || string(r.State) != `{"booked":true,"n":1}` {
					t.Fatalf("Run = %q, %s: %v", r.Text(), r.State, err)
				}
				if diff := cmp.Diff([]string{"go", "call book", "result book", "Booked."}, said(t, thread)); diff != "" {
					t.Errorf("the thread has (-want +got):\n%s", diff)
				}
				if len(thread.Questions()) != 0 || len(a.booked) != 1 {
					t.Errorf("the thread asks %d questions, booked %q", len(thread.Questions()), a.booked)
				}
				if _, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{AgentThread: thread, Answers: answers}); err == nil {
					t.Error("an answer is taken twice")
				}
			})
		}
	})
	t.Run("an approval", func(t *testing.T) {
		a, thread, asked := begin(t, hosttest.Call("pay", "{}"), hosttest.Say("Paid."))
		if n := len(restored(t, a, thread).Questions()); n != 0 {
			t.Errorf("a serialized thread has %d questions about approvals", n)
		}
		r, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{AgentThread: thread, Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Approve}}})
		if err != nil || r.Text() != "Paid." || a.paid != 1 {
			t.Errorf("Run = %q: %v, paid %d times", r.Text(), err, a.paid)
		}
	})
	t.Run("something else is said", func(t *testing.T) {
		a, thread, _ := begin(t, hosttest.Call("book", "{}"), hosttest.Say("Fine."))
		if _, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{AgentThread: thread, Text: "never mind"}); err != nil {
			t.Fatal(err)
		}
		if n := len(thread.Questions()); n != 0 {
			t.Errorf("the thread asks %d questions after another turn", n)
		}
	})
}

// An agent used as a tool cannot ask where a client keeps the checkpoint.
func TestAgentsUsedAsToolsDoNotAskClients(t *testing.T) {
	a := newAsker(t, hosttest.Call("book", "{}"), hosttest.Say("I cannot ask."))
	inner, err := host.NewAgentTool(a.agent, &host.AgentToolOptions{Name: "booker"})
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("booker", `{"request":"x"}`), hosttest.Say("Sorry.")), Tools: []*host.Tool{inner}})
	r, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "go", ClientCheckpoint: true})
	if err != nil || r.FinishReason != chat.FinishStop || r.Text() != "Sorry." {
		t.Fatalf("Run = %s %q: %v", r.FinishReason, r.Text(), err)
	}
	last := a.model.Requests()[1].Messages
	if result := last[len(last)-1].ToolResults()[0]; !result.IsError || !strings.Contains(string(result.Content), "cannot ask a person here") {
		t.Errorf("the agent was told %s", result.Content)
	}
}

// A client that writes another count into its checkpoint has no more agents run than
// the network lets a run have.
func TestCountsOfAClientsCheckpointStayWithinLimits(t *testing.T) {
	a := newAsker(t, hosttest.Call("book", "{}"), hosttest.Say("1"), hosttest.Say("2"), hosttest.Say("3"))
	again := host.RouterFunc("again", func(context.Context, *host.RouteRequest) (*host.Route, error) { return host.Next(a.agent.Name()), nil })
	net, err := host.NewNetwork("net", []*host.Agent{a.agent}, &host.NetworkOptions{Router: again, MaxIterations: 2})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := newHost(t, nil).Run(t.Context(), net, &host.Request{Messages: []*host.Message{host.UserText("go")}, ClientCheckpoint: true})
	if err != nil || asked.Checkpoint == nil {
		t.Fatalf("Run: %v, the checkpoint %v", err, asked.Checkpoint)
	}
	raw, err := json.Marshal(asked.Checkpoint.ForClient())
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.NewReplacer(`"iterations":0`, `"iterations":9223372036854775807`, `"rounds":1`, `"rounds":9223372036854775807`).Replace(string(raw))
	back := &runevent.Checkpoint{}
	if err := json.Unmarshal([]byte(forged), back); err != nil || forged == string(raw) {
		t.Fatal(err)
	}
	messages := append([]*host.Message{host.UserText("go")}, asked.Results[0].Messages...)
	r, err := newHost(t, nil).Run(t.Context(), net, &host.Request{Checkpoint: back.ForClient(), ClientCheckpoint: true, Messages: messages,
		Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"window"`)}}})
	if err != nil || r.FinishReason != chat.FinishMaxIterations || len(r.Results) != 1 || r.Results[0].Rounds < 0 {
		t.Errorf("Run ended %s with %d results: %v; want one, at the limit", r.FinishReason, len(r.Results), err)
	}
}

// A host that has a journal since takes what a client had, and leaves no run there that
// nobody can resume: the client answers again if the process ends.
func TestAClientsCheckpointLeavesNoRunInAJournal(t *testing.T) {
	a := newAsker(t, hosttest.Call("book", "{}"), hosttest.Say("Booked."))
	asked, err := newHost(t, nil).Run(t.Context(), a.agent, &host.Request{Messages: []*host.Message{host.UserText("go")}, ClientCheckpoint: true})
	if err != nil || asked.Checkpoint == nil {
		t.Fatalf("Run: %v, the checkpoint %v", err, asked.Checkpoint)
	}
	j := &endless{Journal: hosttest.NewJournal(), dead: true}
	r, err := newHost(t, &host.Options{Journal: j}).Run(t.Context(), a.agent, &host.Request{Checkpoint: asked.Checkpoint.ForClient(),
		Messages: append([]*host.Message{host.UserText("go")}, asked.Results[0].Messages...),
		Answers:  []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"window"`)}}})
	if err != nil || r.Text() != "Booked." || len(j.Runs()) != 0 {
		t.Errorf("Run = %q: %v, the journal has %d runs; want none", r.Text(), err, len(j.Runs()))
	}
}
