package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
)

// writer is a tool that writes what clients may not see, and an artifact.
func writer(t testing.TB) *host.Tool {
	return rawTool(t, "write", func(context.Context, *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{State: []host.PatchOp{{Op: "add", Path: "/sec", Value: json.RawMessage(`"hush"`)}, {Op: "add", Path: "/pub", Value: json.RawMessage("1")}},
			Artifacts: []host.Artifact{{Name: "hushed", Parts: []host.Part{&host.Text{Text: "x"}}}}}, nil
	})
}

// What is hidden is in no event, session or snapshot; the store has it.
func TestAViewOfSessions(t *testing.T) {
	view, err := stream.NewView(&stream.ViewOptions{Hide: []string{"/custom/sec", "/artifacts"}})
	if err != nil {
		t.Fatal(err)
	}
	store := threads.New(kv.NewMemory(), nil)
	for _, opts := range []*sessions.Options{{Store: store, View: view}, {View: view}} {
		s := newService(t, newAgent(t, "clerk", model(hosttest.Call("write", "{}"), hosttest.Say("ok")), writer(t)), opts)
		var out *output
		for ev, err := range s.Turn(t.Context(), &request{Text: "go"}) {
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(ev)
			if err != nil || strings.Contains(string(raw), "hush") {
				t.Errorf("an event says %s, %v", raw, err)
			}
			switch d := ev.Data.(type) {
			case *host.RunFinished:
				if d.Result != nil {
					t.Error("an event has the whole result")
				}
			case *sessions.TurnEnded:
				out = &d.Output
			}
		}
		if s.Managed() == sessions.ByClient {
			continue
		}
		snap := snapshot(t, s, out.Snapshot)
		if raw, _ := json.Marshal(snap); strings.Contains(string(raw), "hush") || string(snap.State.Custom) != `{"pub":1}` {
			t.Errorf("the snapshot is %s", raw)
		}
		kept, err := store.Show(t.Context(), "", out.Session, 0)
		if err != nil || string(kept.State) != `{"pub":1,"sec":"hush"}` || len(kept.Artifacts) != 1 {
			t.Fatalf("the store has %+v, %v", kept, err)
		}
		if _, err := s.Artifact(t.Context(), "", out.Session, kept.Artifacts[0].Digest); host.CodeOf(err) != host.NotFound {
			t.Errorf("an artifact that is hidden: %v", err)
		}
	}
}

// A view that fails shows nothing, and the session stays as it was.
func TestAViewThatFails(t *testing.T) {
	fails := false
	view, err := stream.NewView(&stream.ViewOptions{State: func(_ context.Context, d *host.Document) (*host.Document, error) {
		if fails && strings.Contains(string(d.JSON()), "sec") {
			return nil, errors.New("hush")
		}
		return d.Without("/sec"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*sessions.Options{{Store: threads.New(kv.NewMemory(), nil), View: view}, {View: view}} {
		s := newService(t, newAgent(t, "clerk", model(hosttest.Say("1"), hosttest.Call("write", "{}"), hosttest.Say("2"), hosttest.Say("3")), writer(t)), opts)
		chat := newChat(t, s.For(""), nil)
		if _, err := chat.Send(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		before := seenBy(chat)
		fails = true
		out, err := chat.Send(t.Context(), "b")
		fails = false
		if out == nil || host.CodeOf(err) != host.Internal || strings.Contains(err.Error(), "hush") || seenBy(chat) != before {
			t.Errorf("the turn: %+v, %v; the chat has %s", out, err, seenBy(chat))
		}
		if _, err := chat.Send(t.Context(), "c"); err != nil || len(chat.State().Messages) != 4 {
			t.Errorf("the next turn: %v; the chat has %s", err, seenBy(chat))
		}
	}
}
