package host_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
)

// resend returns a request with a message that has an id.
func resend(id, text string) *host.Request {
	in := host.UserText(text)
	in.ID = id
	return &host.Request{Thread: "t", Input: in}
}

// metered counts what a run is charged for.
type metered struct{ events int }

func (m *metered) Measure(host.Scope, host.Event) { m.events++ }

func TestAMessageThatWasAnsweredIsAnsweredFromStorage(t *testing.T) {
	store := hosttest.NewHistory()
	tool := host.NewTool("look", "Looks.", func(_ context.Context, c *host.Call, _ struct{}) (string, error) {
		if err := c.State.Set("/looked", true); err != nil {
			return "", err
		}
		return "a map", c.AddArtifact(host.Artifact{Name: "map", Parts: []host.Part{&host.Text{Text: "here"}}})
	}, nil)
	model := hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("There it is."), hosttest.Say("Later."))
	meter := &metered{}
	h := newHost(t, &host.Options{Model: model, History: newHistory(t, store), Meter: meter})
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{tool}})
	first, err := h.Run(t.Context(), agent, resend("m1", "Where is it?"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), agent, resend("m2", "And then?")); err != nil {
		t.Fatal(err)
	}
	asked, charged, kept := len(model.Requests()), meter.events, len(store.Messages("", "t"))
	var events []string
	for ev, err := range h.Stream(t.Context(), agent, resend("m1", "Where is it?")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Run != first.Run || ev.Seq != int64(len(events)) {
			t.Errorf("event %d is number %d of run %q, want the stored run %q", len(events), ev.Seq, ev.Run, first.Run)
		}
		events = append(events, ev.Data.Type())
		switch d := ev.Data.(type) {
		case *runevent.RunStarted:
			if !d.Replayed || d.Thread != "t" || d.Message != "m1" {
				t.Errorf("run.started is %+v", d)
			}
		case *runevent.RunFinished:
			r := d.Result
			if !r.Replayed || r.Run != first.Run || r.Text() != "There it is." || r.Usage != (host.Usage{}) || d.Usage != (host.Usage{}) || r.FinishReason != chat.FinishStop {
				t.Errorf("the result is %+v, want that of the first run without its usage", r)
			}
			if string(r.State) != `{"looked":true}` || len(r.Artifacts) != 1 || r.Artifacts[0].Name != "map" {
				t.Errorf("state %s, artifacts %+v; want those of the first run", r.State, r.Artifacts)
			}
			if got, want := messageIDs(r), messageIDs(first); !slices.Equal(got, want) {
				t.Errorf("messages %q, want %q", got, want)
			}
		}
	}
	want := []string{"run.started", "state.patch", "agent.started", "message", "tool.finished", "message", "text.delta", "message", "agent.finished", "artifact", "run.finished"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(model.Requests()) != asked || meter.events != charged || len(store.Messages("", "t")) != kept {
		t.Errorf("sent again: %d model calls, %d metered events, %d messages more; want none",
			len(model.Requests())-asked, meter.events-charged, len(store.Messages("", "t"))-kept)
	}
	if _, err := h.Run(t.Context(), agent, resend("m1", "Where am I?")); host.CodeOf(err) != host.Conflict || len(model.Requests()) != asked {
		t.Errorf("other content under the id: %v, want code conflict", err)
	}
}

func messageIDs(r *host.RunResult) (ids []string) {
	for _, res := range r.Results {
		for _, m := range res.Messages {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// A turn that failed is tried again, and what then completes is the answer, whoever
// asks: the message sent again, or a retry without one.
func TestAMessageWhoseTurnFailedIsTriedAgain(t *testing.T) {
	for name, retry := range map[string]*host.Request{"the message": resend("m1", "Hi"), "a retry": {Thread: "t"}} {
		model := hosttest.NewModel(hosttest.Fail(errors.New("away")), hosttest.Say("Hello."), hosttest.Say("never"))
		h := newHost(t, &host.Options{Model: model, History: newHistory(t, hosttest.NewHistory())})
		agent := newAgent(t, nil)
		if _, err := h.Run(t.Context(), agent, resend("m1", "Hi")); err == nil {
			t.Fatalf("%s: the first run did not fail", name)
		}
		for i, req := range []*host.Request{retry, resend("m1", "Hi")} {
			r, err := h.Run(t.Context(), agent, req)
			if err != nil || r.Text() != "Hello." || r.Replayed != (i > 0) || len(model.Requests()) != 2 {
				t.Errorf("%s, run %d: %+v, %v after %d model calls; want the answer, from storage: %v", name, i, r, err, len(model.Requests()), i > 0)
			}
		}
	}
}

// A tenant that has nothing left still gets what is stored.
func TestAStoredAnswerNeedsNoBudget(t *testing.T) {
	history := newHistory(t, hosttest.NewHistory())
	agent := newAgent(t, nil)
	rich := newHost(t, &host.Options{Model: hosttest.NewModel(hosttest.Say("Hello.")), History: history})
	if _, err := rich.Run(t.Context(), agent, resend("m1", "Hi")); err != nil {
		t.Fatal(err)
	}
	model := hosttest.NewModel()
	poor := newHost(t, &host.Options{Model: model, History: history, Ledger: refusing{}})
	if r, err := poor.Run(t.Context(), agent, resend("m1", "Hi")); err != nil || !r.Replayed || r.Text() != "Hello." {
		t.Errorf("sent again: %+v, %v; want the stored answer", r, err)
	}
	if _, err := poor.Run(t.Context(), agent, resend("m2", "Hi")); host.CodeOf(err) != host.ResourceExhausted || len(model.Requests()) != 0 {
		t.Errorf("a new message: %v, want code resource_exhausted", err)
	}
}

// refusing is a ledger of a tenant that has nothing left.
type refusing struct{ host.Ledger }

func (refusing) AdmitRun(context.Context, string, string) error {
	return host.Errorf(host.ResourceExhausted, "nothing is left")
}

// An agent thread answers a message that is sent again with its turn, also when it
// was serialized in between.
func TestAnAgentThreadAnswersAMessageOnce(t *testing.T) {
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Fail(errors.New("away")), hosttest.Say("two"), hosttest.Say("three"))
	agent := newAgent(t, &host.AgentOptions{Model: model})
	h := newHost(t, nil)
	thread, err := agent.NewThread(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(id, text string) (*host.RunResult, error) {
		req := resend(id, text)
		req.Thread, req.AgentThread = "", thread
		return h.Run(t.Context(), agent, req)
	}
	restore := func() {
		t.Helper()
		raw, err := thread.Serialize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if thread, err = agent.RestoreThread(t.Context(), raw, nil); err != nil {
			t.Fatal(err)
		}
	}
	first, err := ask("m1", "1?")
	if err != nil {
		t.Fatal(err)
	}
	restore()
	if again, err := ask("m1", "1?"); err != nil || !again.Replayed || again.Run != first.Run || again.Text() != "one" || again.Thread != thread.ID() {
		t.Errorf("sent again: %+v, %v; want the first run's answer", again, err)
	}
	if _, err := ask("m1", "One?"); host.CodeOf(err) != host.Conflict {
		t.Errorf("other content under the id: %v, want code conflict", err)
	}
	if _, err := ask("m2", "2?"); err == nil {
		t.Error("the second turn did not fail")
	}
	restore()
	if r, err := h.Run(t.Context(), agent, &host.Request{AgentThread: thread}); err != nil || r.Text() != "two" { // the retry of a failed turn
		t.Fatalf("tried again: %+v, %v", r, err)
	}
	for id, want := range map[string]string{"m1": "one", "m2": "two"} {
		if r, err := ask(id, map[string]string{"m1": "1?", "m2": "2?"}[id]); err != nil || !r.Replayed || r.Text() != want {
			t.Errorf("%s sent again: %+v, %v; want %q", id, r, err, want)
		}
	}
	list, err := thread.Messages(t.Context())
	if err != nil || len(list) != 4 || len(model.Requests()) != 3 {
		t.Errorf("the thread has %d messages, %v, after %d model calls; want 4 after 3", len(list), err, len(model.Requests()))
	}
}

// turnOf is a history whose answer to any message is one turn.
type turnOf struct {
	*hosttest.History
	turn *host.StoredTurn
}

func (h turnOf) ReadTurn(context.Context, *host.HistoryRequest) (*host.StoredTurn, error) {
	return h.turn, nil
}

// A history that returns a turn that is none ends the run and not the process, and one
// that returns the same turn each time keeps it as it is.
func TestStoredTurnsAreChecked(t *testing.T) {
	for name, turn := range map[string]*host.StoredTurn{
		"a result that is nil":  {Run: "r", Results: []*host.Result{nil}},
		"a message that is nil": {Run: "r", Results: []*host.Result{{Messages: []*host.Message{nil}}}},
		"of no run":             {Results: []*host.Result{{Agent: "clerk"}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, &host.Options{Model: says("hi"), History: newHistory(t, turnOf{hosttest.NewHistory(), turn})})
			if _, err := h.Run(t.Context(), newAgent(t, nil), resend("m1", "hi")); host.CodeOf(err) != host.DataLoss {
				t.Errorf("Run: %v, want code data_loss", err)
			}
		})
	}
	schema, err := host.SchemaOf[struct {
		N int `json:"n"`
	}]()
	if err != nil {
		t.Fatal(err)
	}
	kept := &host.StoredTurn{Run: "r", Status: chat.FinishStop, Results: []*host.Result{{Agent: "clerk", Messages: []*host.Message{host.AssistantText(`{"n":1}`)}}}}
	h := newHost(t, &host.Options{Model: says("hi"), History: newHistory(t, turnOf{hosttest.NewHistory(), kept})})
	r, err := h.Run(t.Context(), newAgent(t, &host.AgentOptions{Output: schema}), resend("m1", "hi"))
	if err != nil || string(r.Results[0].Output) != `{"n":1}` || kept.Results[0].Output != nil {
		t.Errorf("Run: %v; the output is %s, and what the history keeps has %s", err, r.Results[0].Output, kept.Results[0].Output)
	}
}
