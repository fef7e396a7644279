package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// withID returns a message with an id of its client's.
func withID(id, text string) *host.Message {
	m := host.UserText(text)
	m.ID = id
	return m
}

// A message that a client sends again, since the answer was lost, is answered with
// the stored turn; in memory and on Badger.
func TestAMessageSentAgainIsAnsweredFromItsTurn(t *testing.T) {
	badger, err := badgerkv.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = badger.Close() })
	for name, driver := range map[string]kv.Driver{"memory": testdriver.New(t), "badger": badger} {
		t.Run(name, func(t *testing.T) {
			model := hosttest.NewModel(hosttest.Say("one"), hosttest.Say("two"), hosttest.Fail(errors.New("away")), hosttest.Say("three"))
			store := threads.New(driver, nil)
			s := newService(t, newAgent(t, "clerk", model), &sessions.Options{Store: store})
			ask := func(req *request) *sessions.Output {
				t.Helper()
				req.Tenant = "acme"
				out, err := s.Run(t.Context(), req)
				if err != nil {
					t.Fatalf("Run: %v", err)
				}
				return out
			}
			head := func() string {
				thread, err := store.For("acme").Thread(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(thread.Head, thread.Messages, thread.Turns)
			}
			first := ask(&request{Session: "s", Input: withID("m1", "1?")})
			second := ask(&request{Session: "s", Input: withID("m2", "2?")})
			before := head()
			for _, again := range []struct {
				req  *request
				want *sessions.Output
			}{
				{&request{Session: "s", Input: withID("m1", "1?")}, first},
				{&request{Session: "s", Input: withID("m2", "2?")}, second},
				{&request{Snapshot: first.Snapshot, Input: withID("m2", "2?")}, second},
			} {
				out := ask(again.req)
				if !out.Replayed || out.Snapshot != again.want.Snapshot || out.Turn != again.want.Turn || out.Parent != again.want.Parent || out.Text() != again.want.Text() ||
					len(out.Messages) != 2 || out.Usage != (host.Usage{}) || out.FinishReason != chat.FinishStop {
					t.Errorf("sent again: %+v, want %+v", out, again.want)
				}
			}
			if got := head(); got != before || len(model.Requests()) != 2 {
				t.Errorf("sent again: the thread is %s after %s, and the model was asked %d times", got, before, len(model.Requests()))
			}
			if _, err := s.Run(t.Context(), &request{Tenant: "acme", Session: "s", Input: withID("m1", "One?")}); host.CodeOf(err) != host.Conflict {
				t.Errorf("other content under the id: %v, want code conflict", err)
			}
			if _, err := s.Run(t.Context(), &request{Tenant: "acme", Session: "s", Input: withID("m3", "3?")}); err == nil {
				t.Error("the third turn did not fail")
			}
			for i := range 2 {
				out := ask(&request{Session: "s", Input: withID("m3", "3?")})
				if out.Text() != "three" || out.Replayed != (i > 0) || out.Parent != second.Snapshot {
					t.Errorf("after a failure, time %d: %+v; want the answer, from storage: %v", i, out, i > 0)
				}
			}
			if n := len(model.Requests()); n != 4 {
				t.Errorf("the model was asked %d times, want 4", n)
			}
		})
	}
}

// Both ways of the handler answer with the stored turn.
func TestAMessageSentAgainOverHTTP(t *testing.T) {
	model := hosttest.NewModel(hosttest.Say("one"))
	h := handlerOf(stored(t, newAgent(t, "clerk", model)))
	const body = `{"session":"s","input":{"id":"m1","role":"user","parts":[{"type":"text","text":"1?"}]}}`
	var turn string
	for i := range 3 {
		status, _, answer := post(h, "/turn", body)
		var out struct{ Result sessions.Output }
		if err := json.Unmarshal([]byte(answer), &out); err != nil || status != http.StatusOK || out.Result.Replayed != (i > 0) || out.Result.Text() != "one" {
			t.Fatalf("time %d: %d %s", i, status, answer)
		}
		if turn != "" && out.Result.Turn != turn {
			t.Errorf("time %d: turn %q, want %q", i, out.Result.Turn, turn)
		}
		turn = out.Result.Turn
	}
	_, _, events := post(h, "/turn?stream=true", body)
	last := -1
	for _, part := range []string{`"run.started"`, `"replayed":true`, `"state.patch"`, `"agent.started"`, `"text.delta"`, `"type":"message"`, `"run.finished"`, `"turn.ended"`} {
		at := strings.Index(events, part)
		if at <= last {
			t.Errorf("%s does not come where it should: %s", part, events)
		}
		last = at
	}
	if n := len(model.Requests()); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
}

// A message that is sent into the background again is the turn that it was.
func TestAMessageSentAgainIntoTheBackground(t *testing.T) {
	tool, begun, open := gate(t)
	model := hosttest.NewModel(hosttest.Call("gate", "{}"), hosttest.Say("one"))
	s := stored(t, newAgent(t, "clerk", model, tool))
	ask := func(text string) (*sessions.Output, error) {
		return s.Run(t.Context(), &request{Session: "s", Input: withID("m1", text), Detach: true})
	}
	first, err := ask("1?")
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	for i := range 2 {
		again, err := ask("1?")
		if err != nil || again.Snapshot != first.Snapshot || !again.Replayed || again.FinishReason != sessions.FinishDetached {
			t.Errorf("time %d: %+v, %v; want snapshot %q", i, again, err, first.Snapshot)
		}
		if _, err := ask("One?"); host.CodeOf(err) != host.Conflict {
			t.Errorf("time %d, other content under the id: %v, want code conflict", i, err)
		}
		if i > 0 {
			break
		}
		close(open)
		if _, err := s.Wait(t.Context(), &sessions.SnapshotRequest{Snapshot: first.Snapshot}); err != nil {
			t.Fatal(err)
		}
	}
	if out := run(t, s, &request{Session: "s", Input: withID("m1", "1?")}); out.Snapshot != first.Snapshot || out.Text() != "one" {
		t.Errorf("sent again to wait for: %+v, want the turn of the background", out)
	}
	if n := len(model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want twice", n)
	}
}

// A session that its client keeps has the answers that its client has got: a message
// that is sent again with it is answered from there, plain or sealed.
func TestAMessageSentAgainWithItsSession(t *testing.T) {
	keys := newKeys(t, "a", map[string][]byte{"a": key(1)})
	for name, opts := range map[string]*sessions.Options{"plain": {}, "sealed": {Keys: keys}} {
		model := hosttest.NewModel(hosttest.Call("count", "{}"), hosttest.Say("one"), hosttest.Say("two"))
		s := newService(t, newAgent(t, "clerk", model, count(t)), opts)
		var kept *sessions.Output
		ask := func(id, text string) (*sessions.Output, error) {
			req := &request{Input: withID(id, text)}
			if kept != nil && opts.Keys != nil {
				req.Sealed = kept.Sealed
			} else if kept != nil {
				req.State = kept.State
			}
			return s.Run(t.Context(), req)
		}
		for i, m := range []string{"m1", "m2"} {
			out, err := ask(m, m)
			if err != nil || out.Replayed {
				t.Fatalf("%s: %+v, %v", name, out, err)
			}
			kept = out
			for id, want := range map[string]string{"m1": "one", "m2": "two"} {
				if id > m {
					continue
				}
				again, err := ask(id, id)
				if err != nil || !again.Replayed || again.Text() != want || again.Usage != (host.Usage{}) {
					t.Errorf("%s: %s sent again: %+v, %v; want %q", name, id, again, err, want)
					continue
				}
				if diff := cmp.Diff(jsonOf(t, kept.State), jsonOf(t, again.State)); diff != "" {
					t.Errorf("%s: the session after %s was sent again (-before +after):\n%s", name, id, diff)
				}
			}
			if n := len(model.Requests()); n != i+2 {
				t.Errorf("%s: the model was asked %d times, want %d", name, n, i+2)
			}
		}
		if out, err := ask("m1", "something else"); host.CodeOf(err) != host.Conflict {
			t.Errorf("%s: other content under the id: %+v, %v; want code conflict", name, out, err)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// meeting is a driver whose first two readers of the order of a session wait for each
// other, so that each sees it without the other's turn.
type meeting struct {
	kv.Driver
	readers chan struct{}
	met     chan struct{}
}

func (m *meeting) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	e, err := m.Driver.Get(ctx, partition, key)
	if key == kv.NewKey("sessions", "order", "s") {
		select {
		case m.readers <- struct{}{}:
			if len(m.readers) == cap(m.readers) {
				close(m.met)
			}
			<-m.met
		default:
		}
	}
	return e, err
}

// A message that is sent into the background twice at the same time is one turn.
func TestAMessageSentTwiceAtOnceIntoTheBackground(t *testing.T) {
	for name, second := range map[string]*request{"both": {Detach: true}, "one": {Detachable: true}} {
		tool, begun, open := gate(t)
		model := hosttest.NewModel(hosttest.Call("gate", "{}"), hosttest.Say("one"), hosttest.Say("two"))
		driver := &meeting{testdriver.New(t), make(chan struct{}, 2), make(chan struct{})}
		s := newService(t, newAgent(t, "clerk", model, tool), &sessions.Options{Store: threads.New(driver, nil)})
		var outs [2]*sessions.Output
		var errs [2]error
		var both sync.WaitGroup
		for i, req := range []*request{{Detach: true}, second} {
			req.Session, req.Input = "s", withID("m1", "1?")
			both.Go(func() { outs[i], errs[i] = s.Run(t.Context(), req) })
		}
		<-begun
		close(open)
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if outs[0].Turn != outs[1].Turn {
			t.Errorf("%s: the turns are %q and %q, want one", name, outs[0].Turn, outs[1].Turn)
		}
		wait(t, s, outs[0].Turn)
		if n := len(model.Requests()); n != 2 {
			t.Errorf("%s: the model was asked %d times, want twice", name, n)
		}
	}
}
