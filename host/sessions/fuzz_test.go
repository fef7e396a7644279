package sessions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
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
		state := sessions.State{Session: "before"}
		if err := json.Unmarshal([]byte(raw), &state); err != nil {
			if state.Session != "before" || len(state.Messages) > 0 {
				t.Fatalf("%q is refused and half read: %+v", raw, state)
			}
			return
		}
		written, err := json.Marshal(&state)
		if err != nil {
			t.Fatalf("%q is read and cannot be written: %v", raw, err)
		}
		var again sessions.State
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
	m := hosttest.ModelFunc(func(context.Context, *host.ModelRequest) hosttest.Reply { return hosttest.Say("ok") })
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: m})
	if err != nil {
		f.Fatal(err)
	}
	var handlers []http.Handler
	for _, opts := range []*sessions.Options{nil, {Keys: newKeys(f, "a", map[string][]byte{"a": key(1)})}, {Store: threads.New(kv.NewMemory(), nil)}} {
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
