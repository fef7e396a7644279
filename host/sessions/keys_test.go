package sessions_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, sessions.KeyBytes) }

func newKeys(t testing.TB, current string, keys map[string][]byte) *sessions.Keys {
	t.Helper()
	k, err := sessions.NewKeys(current, keys)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealedSessionsGoOn(t *testing.T) {
	view, err := stream.NewView(&stream.ViewOptions{Hide: []string{"/custom/N"}})
	if err != nil {
		t.Fatal(err)
	}
	m := model(hosttest.Call("count", "{}"), hosttest.Say("1"), hosttest.Call("count", "{}"), hosttest.Say("2"))
	target := newAgent(t, "clerk", m, count(t))
	old := newService(t, target, &sessions.Options{View: view, Keys: newKeys(t, "a", map[string][]byte{"a": key(1)})})
	one := run(t, old, &request{Tenant: "x", Text: "hi there"})
	if bytes.Contains(one.Sealed, []byte("hi there")) || one.State == nil || string(one.State.Custom) != "{}" {
		t.Errorf("sealed: %s, seen: %+v", one.Sealed, one.State)
	}
	// The key has changed since, and what is hidden is still counted.
	s := newService(t, target, &sessions.Options{Keys: newKeys(t, "b", map[string][]byte{"a": key(1), "b": key(2)})})
	two := run(t, s, &request{Tenant: "x", Text: "again", Sealed: one.Sealed})
	if two.Session != one.Session || string(two.State.Custom) != `{"N":2}` || len(two.State.Messages) != 8 {
		t.Errorf("the second turn: %+v, custom state %s", two.State, two.State.Custom)
	}
	for name, c := range map[string]struct {
		req  *request
		code host.Code
	}{
		"another tenant's":  {&request{Tenant: "y", Sealed: two.Sealed}, host.PermissionDenied},
		"a key that's gone": {&request{Tenant: "x", Sealed: bytes.Replace(two.Sealed, []byte(`"key":"b"`), []byte(`"key":"c"`), 1)}, host.PermissionDenied},
		"the other key":     {&request{Tenant: "x", Sealed: bytes.Replace(two.Sealed, []byte(`"key":"b"`), []byte(`"key":"a"`), 1)}, host.PermissionDenied},
		"in clear":          {&request{Tenant: "x", State: two.State}, host.PermissionDenied},
		"a later version":   {&request{Tenant: "x", Sealed: bytes.Replace(two.Sealed, []byte(`"version":1`), []byte(`"version":2`), 1)}, host.FailedPrecondition},
		"no object":         {&request{Tenant: "x", Sealed: json.RawMessage(`[]`)}, host.InvalidArgument},
		"both":              {&request{Tenant: "x", State: two.State, Sealed: two.Sealed}, host.InvalidArgument},
		"too large":         {&request{Tenant: "x", Sealed: json.RawMessage(`"` + strings.Repeat("x", 20<<20) + `"`)}, host.ResourceExhausted},
	} {
		c.req.Text = "hi"
		if out, err := s.Run(t.Context(), c.req); out != nil || host.CodeOf(err) != c.code {
			t.Errorf("%s: %+v, %v; want %s", name, out, err, c.code)
		}
	}
}

// No bit of a sealed session can be changed.
func TestASealIsBroken(t *testing.T) {
	s := newService(t, newAgent(t, "clerk", model(hosttest.Say("1"))), &sessions.Options{Keys: newKeys(t, "a", map[string][]byte{"a": key(1)})})
	out := run(t, s, &request{Text: "hi"})
	var sealed struct {
		Version int    `json:"version"`
		Kind    string `json:"kind"`
		Key     string `json:"key"`
		Data    []byte `json:"data"`
	}
	if err := json.Unmarshal(out.Sealed, &sealed); err != nil {
		t.Fatal(err)
	}
	for i := range len(sealed.Data) * 8 {
		sealed.Data[i/8] ^= 1 << (i % 8)
		raw, _ := json.Marshal(sealed)
		if _, err := s.Run(t.Context(), &request{Text: "hi", Sealed: raw}); host.CodeOf(err) != host.PermissionDenied {
			t.Fatalf("bit %d is changed: %v", i, err)
		}
		sealed.Data[i/8] ^= 1 << (i % 8)
	}
	for n := range len(sealed.Data) {
		short := sealed
		short.Data = sealed.Data[:n]
		raw, _ := json.Marshal(short)
		if _, err := s.Run(t.Context(), &request{Text: "hi", Sealed: raw}); host.CodeOf(err) != host.PermissionDenied {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	for name, keys := range map[string]map[string][]byte{"none": {}, "short": {"a": key(1)[1:]}, "another": {"b": key(1)}} {
		if _, err := sessions.NewKeys("a", keys); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The members of what clients keep are read by their names to the letter.
func TestMembersAreReadToTheLetter(t *testing.T) {
	s := newService(t, newAgent(t, "clerk", model(hosttest.Say("1"), hosttest.Say("2"))), &sessions.Options{Keys: newKeys(t, "a", map[string][]byte{"a": key(1)})})
	out := run(t, s, &request{Text: "hi"})
	for _, name := range []string{"version", "kind", "key", "data"} {
		other := bytes.Replace(out.Sealed, []byte(`"`+name+`"`), []byte(`"`+strings.ToUpper(name)+`"`), 1)
		if _, err := s.Run(t.Context(), &request{Text: "x", Sealed: other}); err == nil {
			t.Errorf("a sealed session with %q is taken", strings.ToUpper(name))
		}
	}
	state := &sessions.Session{}
	if err := state.UnmarshalJSON([]byte(`{"session":"s","SESSION":"t","Messages":[{"role":"nonsense"}],"WAITING":"r","agent":"a","Agent":"b"}`)); err != nil {
		t.Fatal(err)
	}
	if state.ID != "s" || state.Waiting != "" || state.Agent != "a" || len(state.Messages) != 0 {
		t.Errorf("read is %+v", state)
	}
	if err := state.UnmarshalJSON([]byte(`null`)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("null is read as a session: %v", err)
	}
}
