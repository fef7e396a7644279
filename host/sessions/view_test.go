package sessions_test

// Scenario: a view hides parts of the state, changes, snapshots and messages of
// sessions.

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// writer is a tool that writes what clients may not see, and an artifact.
// Each change is a patch of its own, also several of one call.
func TestOnePatchPerMutation(t *testing.T) {
	view, err := stream.NewView(&stream.ViewOptions{OnlyChanges: true})
	if err != nil {
		t.Fatal(err)
	}
	steps := tool(t, "steps", func(_ context.Context, call *host.Call) (string, error) {
		for _, step := range []string{"searching", "writing", "done"} {
			if err := call.State.Set("/step", step); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	s := newService(t, newAgent(t, "clerk", model(hosttest.Call("steps", "{}"), hosttest.Say("ok")), steps),
		&sessions.Options{Store: threads.New(testdriver.New(t), nil), View: view})
	var got []string
	for ev, err := range s.Turn(t.Context(), &request{Text: "x"}) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.Data.(*runevent.StatePatched); ok {
			raw, err := json.Marshal(d.Ops)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(raw))
		}
	}
	want := []string{`[{"op":"replace","path":"","value":{"step":"searching"}}]`, `[{"op":"add","path":"/step","value":"writing"}]`, `[{"op":"add","path":"/step","value":"done"}]`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A view of changes alone sends the state with the first of them, and a chat follows.
func TestAViewOfChangesAlone(t *testing.T) {
	view, err := stream.NewView(&stream.ViewOptions{OnlyChanges: true})
	if err != nil {
		t.Fatal(err)
	}
	m := model(hosttest.Say("0"), hosttest.Call("count", "{}"), hosttest.Say("1"), hosttest.Say("2"), hosttest.Call("count", "{}"), hosttest.Say("3"))
	s := newService(t, newAgent(t, "clerk", m, count(t)), &sessions.Options{Store: threads.New(testdriver.New(t), nil), View: view})
	chat := newChat(t, s.For("ada"), nil)
	for i, want := range []struct {
		patches int
		state   string
	}{{0, ""}, {1, `{"N":1}`}, {0, `{"N":1}`}, {1, `{"N":2}`}} {
		patches := 0
		for chunk, err := range chat.Stream(t.Context(), &sessions.Say{Text: "x"}) {
			if err != nil {
				t.Fatal(err)
			}
			if d, ok := chunk.Data.(*runevent.StatePatched); ok {
				if patches++; patches == 1 && (d.Ops[0].Op != "replace" || d.Ops[0].Path != "") {
					t.Errorf("turn %d begins with %+v", i, d.Ops)
				}
			}
		}
		if patches != want.patches || string(chat.State().Custom) != want.state {
			t.Errorf("turn %d has %d patches, and the chat has %s; want %d and %s", i, patches, chat.State().Custom, want.patches, want.state)
		}
	}
}

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
	store := threads.New(testdriver.New(t), nil)
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
			case *runevent.RunFinished:
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
		kept, err := store.For("").Show(t.Context(), out.Session, 0)
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
	for _, opts := range []*sessions.Options{{Store: threads.New(testdriver.New(t), nil), View: view}, {View: view}} {
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

// A view of messages is that of events, outputs, sessions and snapshots alike, and
// a chat's copy follows it. The model is shown all.
func TestAViewOfMessages(t *testing.T) {
	view, err := stream.NewView(&stream.ViewOptions{
		Message: func(_ context.Context, m *host.Message) (*host.Message, error) {
			if m.Role == host.ToolRole || len(m.ToolCalls()) > 0 {
				return nil, nil
			}
			return m, nil
		},
		Event: func(_ context.Context, ev host.Event) (host.Event, bool, error) {
			_, finished := ev.Data.(*runevent.ToolFinished)
			return ev, !finished, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	hush := tool(t, "hush", func(context.Context, *host.Call) (string, error) { return "hushed", nil })
	for _, opts := range []*sessions.Options{
		{Store: threads.New(testdriver.New(t), nil), View: view},
		{Keys: newKeys(t, "a", map[string][]byte{"a": key(1)}), View: view},
	} {
		told := 0
		m := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			if last := req.Messages[len(req.Messages)-1]; last.Role == host.User {
				return hosttest.Call("hush", "{}")
			}
			for _, m := range req.Messages {
				told += len(m.ToolResults())
			}
			return hosttest.Say("ok")
		})
		s := newService(t, newAgent(t, "clerk", m, hush), opts)
		chat := newChat(t, s.For(""), nil)
		for range 2 {
			for chunk, err := range chat.Stream(t.Context(), &sessions.Say{Text: "go"}) {
				if err != nil {
					t.Fatal(err)
				}
				if raw, err := json.Marshal(chunk.Event); err != nil || strings.Contains(string(raw), "hushed") {
					t.Errorf("an event says %s, %v", raw, err)
				}
			}
		}
		if told != 3 {
			t.Errorf("the model was told %d results, want 1 and then 2", told)
		}
		if got := texts(chat.State().Messages); len(got) != 4 {
			t.Errorf("the chat has %q", got)
		}
		if s.Managed() == sessions.ByServer {
			if snap := snapshot(t, s, chat.Snapshot()); len(snap.State.Messages) != 4 {
				t.Errorf("the snapshot has %q", texts(snap.State.Messages))
			}
		}
	}
}

// A view of messages that fails shows none of a turn, and what was stored stays.
func TestAViewOfMessagesThatFails(t *testing.T) {
	view, err := stream.NewView(&stream.ViewOptions{Message: func(_ context.Context, m *host.Message) (*host.Message, error) {
		if m.Text() == "hush" { // the user's, which is in no event
			return nil, errors.New("hush")
		}
		return m, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, newAgent(t, "clerk", model(hosttest.Say("1"))), &sessions.Options{Store: threads.New(testdriver.New(t), nil), View: view})
	out, err := s.Run(t.Context(), &request{Text: "hush"})
	if out == nil || host.CodeOf(err) != host.Internal || strings.Contains(err.Error(), "hush") || len(out.Messages) != 0 || out.Snapshot == "" {
		t.Errorf("the turn: %+v, %v", out, err)
	}
	if _, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: out.Snapshot}); host.CodeOf(err) != host.Internal {
		t.Errorf("the snapshot: %v", err)
	}
	if _, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: out.Snapshot, WithoutState: true}); err != nil {
		t.Errorf("the snapshot without state: %v", err)
	}
}
