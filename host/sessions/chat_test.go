package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// clients runs a test for every way to speak to a service.
func clients(t *testing.T, target func() host.Target, test func(t *testing.T, c sessions.Client)) {
	for _, managed := range []sessions.Managed{sessions.ByServer, sessions.ByClient, "sealed"} {
		for _, wire := range []string{"here", "http"} {
			t.Run(fmt.Sprint(managed, " ", wire), func(t *testing.T) {
				opts := &sessions.Options{}
				switch managed {
				case sessions.ByServer:
					opts.Store = threads.New(testdriver.New(t), nil)
				case "sealed":
					opts.Keys = newKeys(t, "a", map[string][]byte{"a": key(1)})
				}
				s := newService(t, target(), opts)
				client := s.For("ada")
				if wire == "http" {
					client, _ = serveHTTP(t, s)
				}
				test(t, client)
			})
		}
	}
}

func newChat(t testing.TB, c sessions.Client, start *sessions.Start) *sessions.Chat {
	t.Helper()
	chat, err := sessions.NewChat(c, start)
	if err != nil {
		t.Fatal(err)
	}
	return chat
}

func TestAChatGoesOn(t *testing.T) {
	target := agentOf(t, hosttest.Call("count", "{}"), hosttest.Say("1"), hosttest.Call("count", "{}"), hosttest.Say("2"), hosttest.Say("3"))
	clients(t, target, func(t *testing.T, client sessions.Client) {
		chat := newChat(t, client, nil)
		var seen []string
		for chunk, err := range chat.Stream(t.Context(), &sessions.Say{Text: "a"}) {
			if err != nil {
				t.Fatal(err)
			}
			if chunk.Custom != nil {
				seen = append(seen, string(chunk.Custom.JSON()))
				if got := string(chat.State().Custom); got != "" && got != seen[len(seen)-1] {
					t.Errorf("the chat has %s, the chunk %s", got, seen[len(seen)-1])
				}
			}
		}
		if diff := cmp.Diff([]string{"{}", `{"N":1}`}, seen); diff != "" {
			t.Errorf("custom states: %s", diff)
		}
		session := chat.Session()
		if _, err := chat.Send(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		state := chat.State()
		want := []string{"user: a", "assistant: ", "tool: ", "assistant: 1", "user: b", "assistant: ", "tool: ", "assistant: 2"}
		if diff := cmp.Diff(want, texts(state.Messages)); diff != "" || string(state.Custom) != `{"N":2}` || chat.Session() != session || session == "" {
			t.Errorf("custom state is %s; %s", state.Custom, diff)
		}
		// Another chat goes on from what this one has kept.
		start := &sessions.Start{Sealed: chat.Sealed()}
		if chat.Snapshot() != "" {
			start = &sessions.Start{Session: session}
		} else if start.Sealed == nil {
			start.State = state
		}
		other := newChat(t, client, start)
		if err := other.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Send(t.Context(), "c"); err != nil || len(other.State().Messages) != 10 || other.Session() != session {
			t.Errorf("the other chat has %q, %v", texts(other.State().Messages), err)
		}
	})
}

// A chat whose turn failed has what it had before, and says the next thing in
// the same session.
func TestAChatAfterAFailure(t *testing.T) {
	target := agentOf(t, hosttest.Call("count", "{}"), hosttest.Fail(errModel), hosttest.Say("1"), hosttest.Call("count", "{}"), hosttest.Fail(errModel), hosttest.Say("2"))
	clients(t, target, func(t *testing.T, client sessions.Client) {
		chat := newChat(t, client, nil)
		out, err := chat.Send(t.Context(), "a")
		if out == nil || host.CodeOf(err) != host.Unavailable || len(chat.State().Messages) != 0 || chat.State().Custom != nil {
			t.Fatalf("the first turn: %+v, %v; the chat has %+v", out, err, chat.State())
		}
		session := chat.Session()
		if _, err := chat.Send(t.Context(), "b"); err != nil || chat.Session() != session {
			t.Fatalf("the second turn: %v, in session %s, not %s", err, chat.Session(), session)
		}
		want := []string{"user: b", "assistant: 1"}
		if out, err := chat.Send(t.Context(), "c"); out == nil || err == nil {
			t.Fatalf("the third turn: %+v, %v", out, err)
		}
		if diff := cmp.Diff(want, texts(chat.State().Messages)); diff != "" {
			t.Errorf("after a failure the chat has %s", diff)
		}
		if _, err := chat.Send(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(want, "user: d", "assistant: 2"), texts(chat.State().Messages)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAChatTriesAgain(t *testing.T) {
	s := stored(t, agentOf(t, hosttest.Say("1"), hosttest.Call("count", "{}"), hosttest.Fail(errModel), hosttest.Say("2"), hosttest.Call("count", "{}"), hosttest.Fail(errModel), hosttest.Say("3"))())
	follower := newChat(t, s.For(""), nil)
	if _, err := follower.Send(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, chat := range []*sessions.Chat{follower, newChat(t, s.For(""), &sessions.Start{Snapshot: follower.Snapshot()})} {
		if _, err := chat.Send(t.Context(), "b"); err == nil {
			t.Fatal("the turn does not fail")
		}
		out, err := chat.Do(t.Context(), nil)
		if err != nil || len(out.Messages) != 1 {
			t.Fatalf("again: %+v, %v", out, err)
		}
		if err := chat.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := texts(chat.State().Messages); len(got) != 6 || got[2] != "user: b" || got[4] != "tool: " || string(chat.State().Custom) != `{"N":1}` {
			t.Errorf("the chat has %q and %s", got, chat.State().Custom)
		}
	}
}

func TestChatsOfOneSession(t *testing.T) {
	m := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		return hosttest.Say("re: " + req.Messages[len(req.Messages)-1].Text())
	})
	s := stored(t, newAgent(t, "clerk", m))
	a := newChat(t, s.For(""), nil)
	send := func(c *sessions.Chat, text string) {
		t.Helper()
		if _, err := c.Send(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	send(a, "1")
	b, branch := newChat(t, s.For(""), &sessions.Start{Session: a.Session()}), newChat(t, s.For(""), &sessions.Start{Snapshot: a.Snapshot()})
	send(b, "2")
	send(a, "3") // follows, and learns of 2
	send(branch, "x")
	send(branch, "y")
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := texts(branch.State().Messages); !slices.Equal(got, []string{"user: 1", "assistant: re: 1", "user: x", "assistant: re: x", "user: y", "assistant: re: y"}) {
		t.Errorf("the branch has %q", got)
	}
	fork := newChat(t, s.For(""), &sessions.Start{Session: a.Session(), Snapshot: a.Snapshot()})
	if err := fork.Load(t.Context()); err != nil || !slices.Equal(texts(fork.State().Messages), texts(branch.State().Messages)) {
		t.Errorf("the session is now the branch, and the chat has %q, %v", texts(fork.State().Messages), err)
	}
}

func TestAChatWithAQuestion(t *testing.T) {
	ask := func(t *testing.T) *host.Tool {
		tool, err := host.NewRawTool(llm.ToolSpec{Name: "ask", Description: "asks"}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
			if len(call.Resumed) == 0 {
				return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "sure?"}}, nil
			}
			return &host.ToolOutput{Content: call.Resumed[0].Answer}, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	// Of two calls of one answer one has its result, which is nothing much: it is
	// kept, and the other one's comes in the order of the calls.
	for _, content := range []string{`0`, `""`, `false`, `null`} {
		managed(t, func() host.Target {
			plain, err := host.NewRawTool(llm.ToolSpec{Name: "plain", Description: "plain"}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
				return &host.ToolOutput{Content: json.RawMessage(content)}, nil
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return newAgent(t, "clerk", model(hosttest.Call("ask", "{}").Call("plain", "{}"), hosttest.Say("done"), hosttest.Say("on")), ask(t), plain)
		}, func(t *testing.T, s *service, _ nextFn) {
			c := newChat(t, s.For(""), nil)
			out, err := c.Send(t.Context(), "a")
			if err != nil || out.FinishReason != chat.FinishInterrupted || len(out.Questions) != 1 {
				t.Fatalf("the turn: %+v, %v", out, err)
			}
			if out.Snapshot != "" {
				if snap := snapshot(t, s, out.Snapshot); snap.Status != sessions.Completed || len(snap.Questions) != 1 {
					t.Errorf("the snapshot is %+v", snap)
				}
			}
			for name, answers := range map[string][]host.Answer{
				"unknown": {{Question: "nobody asked", Decision: host.Reply, Value: json.RawMessage(`1`)}},
				"twice":   {{Question: out.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`1`)}, {Question: out.Questions[0].ID, Decision: host.Deny}},
			} {
				if out, err := c.Do(t.Context(), &sessions.Say{Answers: answers}); out != nil || err == nil {
					t.Errorf("%s: %+v, %v", name, out, err)
				}
			}
			answers := []host.Answer{{Question: out.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"yes"`)}}
			out, err = c.Do(t.Context(), &sessions.Say{Answers: answers})
			if err != nil || out.Text() != "done" {
				t.Fatalf("the answer: %+v, %v", out, err)
			}
			var results []string
			for _, m := range c.State().Messages {
				for _, r := range m.ToolResults() {
					results = append(results, string(r.Content))
				}
			}
			slices.Sort(results)
			want := []string{`"yes"`, content}
			slices.Sort(want)
			if diff := cmp.Diff(want, results); diff != "" {
				t.Error(diff)
			}
			if _, err := c.Do(t.Context(), &sessions.Say{Answers: answers}); err == nil {
				t.Error("a question is answered twice")
			}
			if _, err := c.Send(t.Context(), "b"); err != nil {
				t.Errorf("the next turn: %v", err)
			}
		})
	}
}

// Two questions are answered together, and one answer is not enough.
func TestTwoQuestions(t *testing.T) {
	asks := rawTool(t, "asks", func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		if len(call.Resumed) == 0 {
			return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "sure?"}}, nil
		}
		return &host.ToolOutput{Content: call.Resumed[0].Answer}, nil
	})
	managed(t, func() host.Target {
		return newAgent(t, "clerk", model(hosttest.Call("asks", "{}").Call("asks", "{}"), hosttest.Say("done")), asks)
	}, func(t *testing.T, s *service, _ nextFn) {
		chat := newChat(t, s.For(""), nil)
		out, err := chat.Send(t.Context(), "a")
		if err != nil || len(out.Questions) != 2 {
			t.Fatalf("the turn: %+v, %v", out, err)
		}
		var answers []host.Answer
		for i, q := range out.Questions {
			answers = append(answers, host.Answer{Question: q.ID, Decision: host.Reply, Value: json.RawMessage(fmt.Sprint(i))})
		}
		if one, err := chat.Do(t.Context(), &sessions.Say{Answers: answers[:1]}); one != nil || host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), out.Questions[1].ID) {
			t.Errorf("one answer: %+v, %v; want the other question named", one, err)
		}
		if _, err := s.For("").Snapshot(t.Context(), &sessions.SnapshotRequest{Session: out.Session}); s.Managed() == sessions.ByServer && err != nil {
			t.Error(err)
		}
		last, err := chat.Do(t.Context(), &sessions.Say{Answers: answers})
		if err != nil || last.Text() != "done" || last.Session != out.Session {
			t.Errorf("both answers: %+v, %v", last, err)
		}
	})
}

// Whatever a run does to the state, however it ends and whatever becomes of the
// connection: a chat has what the host has, and what clients may see of it.
func TestAChatHasWhatTheHostHas(t *testing.T) {
	paths := []string{"/a", "/a/b", "/list", "/list/0", "/list/-", "/sec", "/sec/x", "/9", "/é~0~1"}
	values := []string{"1", "9007199254740993", `"` + strings.Repeat("x", 200) + `"`, `{"b":{"sec":1}}`, `[1,[2],{"sec":3}]`, "null", "1.0"}
	patch, err := host.NewRawTool(llm.ToolSpec{Name: "patch", Description: "patches", Parameters: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
			var in struct{ Ops []host.PatchOp }
			if err := json.Unmarshal(call.Arguments, &in); err != nil {
				return nil, err
			}
			return &host.ToolOutput{State: in.Ops, Artifacts: []host.Artifact{{Name: "last", Parts: []host.Part{&host.Text{Text: string(call.Arguments)}}}}}, nil
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	view := newView(t)
	rapid.Check(t, func(r *rapid.T) {
		m := &script{}
		a, err := host.NewAgent("clerk", &host.AgentOptions{Model: hosttest.ModelFunc(m.next), Tools: []*host.Tool{patch}})
		if err != nil {
			r.Fatal(err)
		}
		opts := &sessions.Options{View: view, Host: host.Options{SingleTenant: true}}
		server := rapid.Bool().Draw(r, "server")
		if server {
			opts.Store = threads.New(testdriver.New(t), nil)
		}
		s, err := sessions.New(a, opts)
		if err != nil {
			r.Fatal(err)
		}
		remote, wire := serveHTTP(t, s)
		var client sessions.Client = remote
		if rapid.Bool().Draw(r, "here") {
			client = s.For("ada")
		}
		chat, err := sessions.NewChat(client, nil)
		if err != nil {
			r.Fatal(err)
		}
		for range rapid.IntRange(1, 5).Draw(r, "turns") {
			m.replies = nil
			for range rapid.IntRange(0, 3).Draw(r, "calls") {
				op := host.PatchOp{Op: rapid.SampledFrom([]string{"add", "replace", "remove", "move"}).Draw(r, "op"), Path: rapid.SampledFrom(paths).Draw(r, "path"),
					From: rapid.SampledFrom(paths).Draw(r, "from"), Value: json.RawMessage(rapid.SampledFrom(values).Draw(r, "value"))}
				args, _ := json.Marshal(map[string]any{"ops": []host.PatchOp{op}})
				m.replies = append(m.replies, hosttest.Call("patch", string(args)))
			}
			if rapid.IntRange(0, 3).Draw(r, "fails") == 0 {
				m.replies = append(m.replies, hosttest.Fail(errModel))
			} else {
				m.replies = append(m.replies, hosttest.Say("ok"))
			}
			if rapid.IntRange(0, 3).Draw(r, "lost") == 0 {
				wire.cutAfter(rapid.IntRange(1, 4000).Draw(r, "bytes"))
			}
			before := seenBy(chat)
			out, err := chat.Send(t.Context(), "go")
			if out == nil && host.CodeOf(err) != host.Unavailable && host.CodeOf(err) != host.DataLoss {
				r.Fatalf("the turn: %v", err)
			}
			if err != nil && seenBy(chat) != before {
				r.Fatalf("after %v the chat has\n%s\nbefore\n%s", err, seenBy(chat), before)
			}
			wire.cutAfter(0)
			wire.serving.Wait() // what was begun has ended
			if !server {
				continue // what it has is all there is
			}
			if out == nil { // what became of the turn is the host's to tell
				if chat.Session() == "" {
					continue
				}
				if err := chat.Load(t.Context()); err != nil && host.CodeOf(err) != host.NotFound {
					r.Fatal(err)
				}
			}
			fresh, err := sessions.NewChat(s.For("ada"), &sessions.Start{Session: chat.Session()})
			if err != nil {
				r.Fatal(err)
			}
			if err := fresh.Load(t.Context()); err != nil {
				if host.CodeOf(err) == host.NotFound && len(chat.State().Messages) == 0 {
					continue
				}
				r.Fatal(err)
			}
			if got, want := seenBy(chat), seenBy(fresh); got != want {
				r.Fatalf("the chat has\n%s\nthe host\n%s", got, want)
			}
			if strings.Contains(string(chat.State().Custom), `"sec":{`) {
				r.Fatalf("the chat has %s", chat.State().Custom)
			}
		}
		s.Close()
	})
}

// script is the replies of one turn.
type script struct{ replies []hosttest.Reply }

func (s *script) next(context.Context, *llm.Request) hosttest.Reply {
	if len(s.replies) == 0 {
		return hosttest.Say("ok")
	}
	r := s.replies[0]
	s.replies = s.replies[1:]
	return r
}

func newView(t testing.TB) *stream.View {
	t.Helper()
	v, err := stream.NewView(&stream.ViewOptions{Hide: []string{"/custom/sec"}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// seenBy is what a chat has: texts, state and the names of artifacts.
func seenBy(c *sessions.Chat) string {
	state := c.State()
	var names []string
	for _, a := range c.Artifacts() {
		names = append(names, a.Name)
	}
	var ids []string
	for _, m := range state.Messages {
		ids = append(ids, m.ID)
	}
	return fmt.Sprint(ids, texts(state.Messages), " ", string(state.Custom), names)
}

// A chat waits for its turn in the background, and has what it left; it aborts one.
func TestAChatWaitsAndAborts(t *testing.T) {
	tool, begun, open := gate(t)
	s := stored(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("done"), hosttest.Call("gate", "{}")), tool))
	remote, _ := serveHTTP(t, s)
	chat := newChat(t, remote, nil)
	if _, err := chat.Wait(t.Context()); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Wait for nothing: %v", err)
	}
	if _, err := chat.Abort(t.Context()); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Abort of nothing: %v", err)
	}
	out, err := chat.Do(t.Context(), &sessions.Say{Text: "a", Detach: true})
	if err != nil || out.FinishReason != sessions.FinishDetached {
		t.Fatalf("Do = %+v, %v", out, err)
	}
	<-begun
	open <- struct{}{}
	snap, err := chat.Wait(t.Context())
	if err != nil || snap.ID != out.Snapshot || snap.Status != sessions.Completed {
		t.Fatalf("Wait = %+v, %v", snap, err)
	}
	got := texts(chat.State().Messages)
	if len(got) == 0 || got[len(got)-1] != "assistant: done" || chat.Snapshot() != out.Snapshot {
		t.Errorf("the chat has %q, at %s", got, chat.Snapshot())
	}
	if _, err = chat.Do(t.Context(), &sessions.Say{Text: "b", Detach: true}); err != nil {
		t.Fatal(err)
	}
	<-begun
	if status, err := chat.Abort(t.Context()); err != nil || status != sessions.Aborting {
		t.Errorf("Abort = %s, %v", status, err)
	}
	if snap, err := chat.Wait(t.Context()); err != nil || snap.Status != sessions.Aborted {
		t.Errorf("Wait = %+v, %v", snap, err)
	}
	if got := texts(chat.State().Messages); got[len(got)-1] != "assistant: done" {
		t.Errorf("after an abort the chat has %q", got)
	}
	plain := newChat(t, struct{ sessions.Client }{s.For("")}, nil)
	if _, err := plain.Wait(t.Context()); host.CodeOf(err) != host.Unimplemented {
		t.Errorf("Wait of a client without: %v", err)
	}
}
