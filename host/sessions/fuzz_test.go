package sessions_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

// seeds are sessions, whole and not.
func seeds(f *testing.F) {
	const whole = `{"version":1,"kind":"session","session":"s","agent":"clerk","custom":{"n":9007199254740993},"messages":[{"id":"a","role":"user","parts":[{"type":"text","text":"hi"}]}],"artifacts":[{"name":"x","parts":[{"type":"text","text":"y"}]}],"waiting":"r"}`
	f.Add(whole)
	for i := 0; i < len(whole); i += 23 {
		f.Add(whole[:i])
		f.Add(whole[:i] + string(whole[i]^4) + whole[i+1:])
	}
	for _, raw := range []string{
		`{}`, `[]`, `null`, `{"version":2}`, `{"version":"1"}`, `{"kind":"thread"}`, `{"kind":7}`, `{"custom":[]}`, `{"custom":null}`, `{"session":" "}`, `{"session":"\u0000"}`,
		`{"messages":[null]}`, `{"messages":{}}`, `{"messages":[{"role":"system","parts":[]}]}`, `{"artifacts":[null]}`, `{"artifacts":[{}]}`, `{"first":-1}`,
		`{"custom":` + strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 601), `{"version":1,"kind":"sealed","key":"a","data":"AAAA"}`,
	} {
		f.Add(raw)
	}
}

// A session is read whole or not at all, and what was read is written as it was.
func FuzzState(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw string) {
		state := sessions.Session{ID: "before"}
		if err := json.Unmarshal([]byte(raw), &state); err != nil {
			if state.ID != "before" || len(state.Messages) > 0 {
				t.Fatalf("%q is refused and half read: %+v", raw, state)
			}
			return
		}
		written, err := json.Marshal(&state)
		if err != nil {
			t.Fatalf("%q is read and cannot be written: %v", raw, err)
		}
		var again sessions.Session
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%q is written as %s: %v", raw, written, err)
		}
		if twice, err := json.Marshal(&again); err != nil || string(twice) != string(written) {
			t.Fatalf("%s comes back as %s, %v", written, twice, err)
		}
	})
}

// Whatever is sent is answered: with a turn, or with an error that is the
// sender's.
func FuzzTurn(f *testing.F) {
	seeds(f)
	f.Add(`{"text":"hi"}`)
	f.Add(`{"text":"hi","session":"s","snapshot":"a:s"}`)
	f.Add(`{"input":{"role":"user","parts":[{"type":"text","text":"x"}]},"answers":[{}]}`)
	m := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("ok") })
	agent := testhost.NewAgent(f, "clerk", &host.AgentOptions{Model: m})
	var handlers []http.Handler
	for _, opts := range []*sessions.Options{nil, {Keys: newKeys(f, "a", map[string][]byte{"a": key(1)})}, {Store: threads.New(testdriver.New(f), nil)}} {
		handlers = append(handlers, handlerOf(newService(f, agent, opts)))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, h := range handlers {
			for _, body := range []string{raw, `{"text":"hi","state":` + raw + `}`, `{"text":"hi","sealed":` + raw + `}`} {
				code, _, answer := post(h, "/turn", body)
				if !json.Valid([]byte(answer)) || code >= 500 {
					t.Fatalf("%q is answered with %d %s", body, code, answer)
				}
			}
		}
	})
}

// Whatever a host sends, a chat takes it or says that it cannot, and then has what
// it had before.
func FuzzChat(f *testing.F) {
	const begin = `{"seq":0,"time":"2026-11-21T20:00:00Z","type":"run.started","run":"r","data":{"thread":"s"}}`
	for _, next := range []string{
		`{"seq":1,"type":"turn.ended","data":{"session":"s","finish_reason":"stop","messages":[{"role":"user","parts":[]}]}}`,
		`{"seq":1,"type":"turn.ended","data":{"session":"s","state":{"version":2}}}`, `{"seq":1,"type":"turn.ended","data":{"state":{"custom":{"a":1}}}}`,
		`{"seq":1,"type":"turn.ended","data":{"messages":[null]}}`, `{"seq":1,"type":"turn.ended","data":{"sealed":{}}}`,
		`{"seq":1,"type":"state.patch","data":{"ops":[{"op":"replace","path":"","value":{}}]}}`, `{"seq":1,"type":"state.patch","data":{"ops":[{"op":"remove","path":"/x"}]}}`,
		`{"seq":1,"type":"message","data":{"message":null}}`, `{"seq":1,"type":"artifact","data":{"artifact":null}}`, `{"seq":2,"type":"text.delta","data":{"text":"x"}}`, `{"error":{}}`,
	} {
		f.Add(begin, next)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		chat := newChat(t, hostile{first, second}, nil)
		before := seenBy(chat)
		out, err := chat.Send(context.Background(), "hi")
		if err != nil && seenBy(chat) != before {
			t.Fatalf("after %v the chat has %s", err, seenBy(chat))
		}
		if err == nil && out == nil {
			t.Fatal("there is neither an output nor an error")
		}
	})
}

// hostile is a host that sends what it likes.
type hostile []string

func (h hostile) Turn(context.Context, *request) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		read := sessions.ReadEvents()
		for _, raw := range h {
			if ev, err := read(json.RawMessage(raw)); !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

func (hostile) Snapshot(context.Context, *sessions.SnapshotRequest) (*sessions.Snapshot, error) {
	return nil, host.Errorf(host.NotFound, "there is none")
}
