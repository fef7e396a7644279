package plugin

// Scenario: the golden vectors of the plugin contract are read and written by this host.

// The golden vectors of the plugin contract, as this host reads and writes them.
// The test is inside the package because the envelopes are written there.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// golden is a case of the contract; the README beside the vectors describes it.
type golden struct {
	Name   string
	Kind   string
	JSON   json.RawMessage
	Text   *string
	Base64 []byte
	Valid  bool
	Error  host.Code
}

func (v *golden) document() []byte {
	switch {
	case v.Text != nil:
		return []byte(*v.Text)
	case v.Base64 != nil:
		return v.Base64
	}
	return v.JSON
}

// eachVector runs check for every vector of a kind, and fails if there is none.
func eachVector(t *testing.T, file, kind string, check func(t *testing.T, v *golden)) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "pdk", "testdata", "vectors", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []*golden
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, v := range all {
		if v.Kind == kind {
			n++
			t.Run(kind+"/"+v.Name, func(t *testing.T) { check(t, v) })
		}
	}
	if n == 0 {
		t.Fatalf("%s has no vector of kind %s", file, kind)
	}
}

// sameError checks that a reader refused an invalid vector as it should, and
// took a valid one. It reports whether there is something to go on with.
func sameError(t *testing.T, v *golden, err error) bool {
	t.Helper()
	if got := host.CodeOf(err); got != v.Error {
		t.Errorf("read: %v; code %q, want %q", err, got, v.Error)
	}
	return v.Valid && err == nil
}

// decoded is JSON as a value in which numbers are their text.
func decoded(t testing.TB, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

func sameJSON(t testing.TB, got, want []byte) {
	t.Helper()
	if !reflect.DeepEqual(decoded(t, want), decoded(t, got)) { // cmp takes for ever on deep nesting
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestVectorsOfMessages(t *testing.T) {
	eachVector(t, "messages.json", "message", func(t *testing.T, v *golden) {
		m := &host.Message{}
		err := m.UnmarshalJSON(v.document())
		if sameError(t, v, err) {
			sameJSON(t, m.AppendJSON(nil), v.document())
		}
	})
}

func TestVectorsOfManifests(t *testing.T) {
	rt := startRuntime(t, nil)
	eachVector(t, "manifest.json", "manifest", func(t *testing.T, v *golden) {
		_, err := abi.ReadManifest(v.document())
		var p *Plugin
		if err == nil {
			p, err = rt.Load(t.Context(), "x", constantGuest(t, string(v.document()), nil), nil)
		}
		if !sameError(t, v, err) {
			return
		}
		sameJSON(t, p.Manifest().JSON(), v.document())
	})
}

func TestVectorsOfAnswers(t *testing.T) {
	rt := startRuntime(t, nil)
	manifest := strings.Replace(everyKind, `{"name":"t"`, `{"name":"forecast","description":""},{"name":"clock","description":""},{"name":"t"`, 1)
	for _, c := range []struct {
		file, kind string
		export     abi.Export
	}{
		{"tool.json", "tool_result", abi.Tool}, {"process.json", "process_out", abi.Process},
		{"route.json", "route_out", abi.Route}, {"provide.json", "provide_out", abi.Provide},
	} {
		eachVector(t, c.file, c.kind, func(t *testing.T, v *golden) {
			p := loadConstant(t, rt, manifest, map[abi.Export]answer{c.export: {string(v.document()), 0}})
			got, err := ask(t, p, c.export, nil)
			if sameError(t, v, err) {
				sameJSON(t, rewritten(t, got, v.document()), v.document())
			}
		})
	}
}

// rewritten writes what an adapter has read, with the members that the document
// has: an absent member and an empty one are read alike.
func rewritten(t *testing.T, got any, document []byte) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		var value any
		switch got := got.(type) {
		case *host.ToolOutput:
			value = map[string]any{"content": got.Content, "state": got.State, "media": got.Media, "artifacts": pointers(got.Artifacts), "schedule": got.Schedule, "interrupt": got.Interrupt}[name]
		case *llm.Processed:
			value = map[string]any{"messages": got.Messages, "edits": chat.EncodeEdits(got.Edits), "report": got.Report}[name]
		case *host.Route:
			value = map[string]any{"next": got.Next, "delegate": got.Delegate, "reason": got.Reason}[name]
		case *host.Provided:
			value = map[string]any{"instructions": got.Instructions, "messages": got.Messages, "store": got.Store, "tools": names(got.Tools, func(t *host.Tool) string { return t.Name })}[name]
		}
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		members[name] = raw
	}
	for _, name := range []string{"messages"} { // an inserted message gets its id and time later
		if raw, ok := members[name]; ok {
			members[name] = withoutEmpty(t, raw)
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func pointers(list []host.Artifact) (out []*host.Artifact) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// withoutEmpty drops members of messages that are empty strings.
func withoutEmpty(t *testing.T, raw []byte) json.RawMessage {
	t.Helper()
	list, _ := decoded(t, raw).([]any)
	for _, m := range list {
		for name, v := range m.(map[string]any) {
			if v == "" {
				delete(m.(map[string]any), name)
			}
		}
	}
	out, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestVectorsOfErrors(t *testing.T) {
	rt := startRuntime(t, nil)
	eachVector(t, "error.json", "error", func(t *testing.T, v *golden) {
		p := loadConstant(t, rt, everyKind, map[abi.Export]answer{abi.Tool: {string(v.document()), 1}})
		_, err := ask(t, p, abi.Tool, nil)
		var guest *GuestError
		if errors.As(err, &guest) != v.Valid {
			t.Fatalf("%v is the guest's: %t, want %t", err, !v.Valid, v.Valid)
		}
		if !v.Valid {
			sameError(t, v, err)
			return
		}
		want := decoded(t, v.document()).(map[string]any)
		delete(want, "details") // unknown, and passed over
		if got := abi.ErrorObject(fault.Disclose(err)); !reflect.DeepEqual(any(want), decoded(t, got)) {
			t.Errorf("got %s, want %v", got, want)
		}
	})
}

func TestVectorsOfEdits(t *testing.T) {
	eachVector(t, "apply.json", "apply", func(t *testing.T, v *golden) {
		var in struct {
			Messages []string
			Edits    json.RawMessage
			Want     []string
		}
		if err := json.Unmarshal(v.JSON, &in); err != nil {
			t.Fatal(err)
		}
		var view []*host.Message
		for _, text := range in.Messages {
			view = append(view, shorthand(text))
		}
		edits, err := chat.DecodeEdits(longhand(t, in.Edits))
		if err == nil {
			view, err = chat.ApplyEdits(view, edits)
		}
		if !sameError(t, v, err) {
			return
		}
		got := []string{}
		for _, m := range view {
			var parts []string
			for _, p := range m.Parts {
				parts = append(parts, p.(*host.Text).Text)
			}
			got = append(got, strings.Join(parts, "|"))
		}
		if !slices.Equal(got, in.Want) {
			t.Errorf("got %q, want %q", got, in.Want)
		}
	})
}

// shorthand is the message that a string stands for in vectors of edits.
func shorthand(text string) *host.Message {
	m := host.NewMessage(host.User)
	for part := range strings.SplitSeq(text, "|") {
		m.Parts = append(m.Parts, &host.Text{Text: part})
	}
	m.ID = text
	return m
}

// longhand writes out the messages that strings stand for in edits.
func longhand(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var edits []map[string]any
	if err := json.Unmarshal(raw, &edits); err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		for _, v := range e {
			if put, ok := v.(map[string]any); ok {
				if text, ok := put["message"].(string); ok {
					put["message"] = shorthand(text)
				}
			}
		}
	}
	out, err := json.Marshal(edits)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestVectorsOfOutlines(t *testing.T) {
	eachVector(t, "outline.json", "outline", func(t *testing.T, v *golden) {
		var in struct {
			Messages []*host.Message
			Outline  json.RawMessage
		}
		if err := json.Unmarshal(v.JSON, &in); err != nil {
			t.Fatal(err)
		}
		o := abi.NewObject(0)
		if err := o.Outline(context.Background(), llm.NewView(in.Messages, "m", nil), ""); err != nil {
			t.Fatal(err)
		}
		sameJSON(t, member(t, o.End(), "outline"), in.Outline)
	})
}

func member(t *testing.T, raw []byte, name string) json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return members[name]
}

// request is what the host knows of any request to a guest.
type request struct {
	Tool, Provider, Processor, Router string
	CallID                            string `json:"call_id"`
	IdempotencyKey                    string `json:"idempotency_key"`
	Attempt                           int
	Arguments, Config, State, Outline json.RawMessage
	Revision                          int `json:"state_revision"`
	Scope                             host.Scope
	Model                             string
	Messages, Responses               []*host.Message
	OwnFrom                           *int `json:"own_from"`
	Input                             *host.Message
	CallCount                         int `json:"call_count"`
	Stack                             []string
	Agents                            []host.AgentInfo
	Last                              *host.Result
	Error                             *host.Error
}

// TestVectorsOfRequests writes the requests of which this host writes every
// member; of the others, some leave out what it always writes, and some have
// what only a later host writes.
func TestVectorsOfRequests(t *testing.T) {
	written := map[string]int{}
	for kind, file := range map[string]string{
		"tool_call": "tool.json", "process_in": "process.json", "route_in": "route.json", "provide_in": "provide.json", "observe_in": "provide.json",
	} {
		eachVector(t, file, kind, func(t *testing.T, v *golden) {
			if !v.Valid || laterMembers[v.Name] {
				return
			}
			in := &request{}
			if err := json.Unmarshal(v.JSON, in); err != nil {
				t.Fatal(err)
			}
			document := decoded(t, v.JSON).(map[string]any)
			delete(document, "resumed") // this host resumes nothing yet
			if kind == "tool_call" && document["call_id"] == nil || kind == "process_in" && in.Outline != nil {
				return
			}
			written[kind]++
			want, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, in.write(t, kind), want)
		})
	}
	for _, kind := range []string{"tool_call", "process_in", "route_in", "provide_in", "observe_in"} {
		if written[kind] < 2 {
			t.Errorf("%d vectors of kind %s are written, want at least 2", written[kind], kind)
		}
	}
}

// bound returns a plugin that was not loaded, and a tenant's place at it.
func bound(t testing.TB, granted Permissions) (*Plugin, *binding) {
	t.Helper()
	ts, err := newTenants(&Options{})
	if err != nil {
		t.Fatal(err)
	}
	rt := &Runtime{tenants: ts}
	if err := rt.ledger.begin(nil); err != nil {
		t.Fatal(err)
	}
	p := newPlugin(rt, "", nil)
	p.manifest = &Manifest{Permissions: granted}
	if err := p.Grant(granted); err != nil {
		t.Fatal(err)
	}
	return p, p.bindings.of("")
}

// laterMembers are vectors with members that no version yet writes.
var laterMembers = map[string]bool{"unknown fields": true, "observe a failure of unknown code": true}

// write has the host write the request, from the values that it would have in
// a run.
func (in *request) write(t *testing.T, kind string) []byte {
	t.Helper()
	granted := Permissions{}
	state, err := host.NewState(in.State, 0)
	if err != nil {
		t.Fatal(err)
	}
	if in.State != nil {
		granted.State = Read
		for range in.Revision {
			if err := state.Set("", in.State); err != nil {
				t.Fatal(err)
			}
		}
	}
	granted.Messages = in.Outline != nil
	_, s := bound(t, granted)
	provided := &host.ProvideRequest{Scope: in.Scope, Messages: in.Messages, State: state}
	var raw []byte
	switch kind {
	case "tool_call":
		call := host.NewCall(in.Tool, in.Arguments, state)
		call.ID, call.IdempotencyKey, call.Attempt, call.Scope = in.CallID, in.IdempotencyKey, in.Attempt, in.Scope
		raw = abi.ToolInput(call.Tool, call, in.Provider, in.Config, s.rights().granted.State.Allows(Read))
	case "process_in":
		view := llm.NewView(in.Messages, in.Model, nil)
		view.Scope = in.Scope
		if in.OwnFrom != nil {
			view.Own = len(in.Messages) - *in.OwnFrom
		}
		raw, err = abi.ProcessInput(context.Background(), &ProcessorInfo{Name: in.Processor}, in.Config, view)
	case "route_in":
		req := &host.RouteRequest{Scope: in.Scope, Input: in.Input, CallCount: in.CallCount, Stack: in.Stack, Agents: in.Agents, State: state, Last: in.Last}
		if in.Input != nil {
			req.Messages = []*host.Message{in.Input}
		}
		raw, err = abi.RouteInput(context.Background(), in.Router, in.Config, req, s.rights().granted.State.Allows(Read), s.rights().granted.Messages)
	case "provide_in":
		raw = abi.ProvideInput(in.Provider, in.Config, provided)
	case "observe_in":
		req := &host.ObserveRequest{ProvideRequest: *provided, Responses: in.Responses}
		if in.Error != nil {
			req.Err = in.Error
		}
		raw = abi.ObserveInput(in.Provider, in.Config, req)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
