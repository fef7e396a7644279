package pdk_test

// Scenario: the kit reads and writes the contract's golden vectors.

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// A vector is a case of the contract; testdata/vectors/README.md describes the
// fields.
type vector struct {
	Name, Why, Kind string
	JSON            json.RawMessage
	Text            *string
	Base64          []byte
	Valid           bool
	Error           pdk.Code
	HostOnly        bool `json:"host_only"`
}

func (v *vector) document() pdk.Raw {
	switch {
	case v.JSON != nil:
		return pdk.Raw(v.JSON)
	case v.Text != nil:
		return pdk.Raw(*v.Text)
	}
	return pdk.Raw(v.Base64)
}

// vectors calls f for all vectors of a kind in the file, and fails if there are
// none.
func vectors(t *testing.T, file, kind string, f func(t *testing.T, v *vector, document pdk.Raw)) {
	t.Helper()
	vectorsThat(t, file, kind, func(*vector) bool { return true }, f)
}

// validVectors is vectors for a kind that the kit only writes.
func validVectors(t *testing.T, file, kind string, f func(t *testing.T, document pdk.Raw)) {
	t.Helper()
	vectorsThat(t, file, kind, func(v *vector) bool { return v.Valid },
		func(t *testing.T, _ *vector, document pdk.Raw) { f(t, document) })
}

func vectorsThat(t *testing.T, file, kind string, choose func(v *vector) bool, f func(t *testing.T, v *vector, document pdk.Raw)) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", file+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []vector
	if err := json.Unmarshal(content, &list); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	seen := 0
	for _, v := range list {
		if v.Kind != kind || !choose(&v) {
			continue
		}
		seen++
		t.Run(v.Name, func(t *testing.T) { f(t, &v, v.document()) })
	}
	if seen == 0 {
		t.Fatalf("%s.json has no vectors of kind %s", file, kind)
	}
}

// value decodes JSON so that reflect.DeepEqual compares as the vectors do.
func value(t testing.TB, document []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, document)
	}
	return v
}

func requireSame(t *testing.T, got, want pdk.Raw) {
	t.Helper()
	if !reflect.DeepEqual(value(t, []byte(got)), value(t, []byte(want))) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMessageVectors(t *testing.T) {
	vectors(t, "messages", "message", func(t *testing.T, v *vector, document pdk.Raw) {
		list, err := pdk.ParseMessages("[" + document + "]")
		if !v.Valid {
			if err == nil && !v.HostOnly {
				t.Errorf("ParseMessages accepts %s", document)
			}
			if err != nil && pdk.CodeOf(err) != v.Error {
				t.Errorf("ParseMessages: code %s, want %s", pdk.CodeOf(err), v.Error)
			}
			return
		}
		if err != nil {
			t.Fatalf("ParseMessages(%s): %v", document, err)
		}
		requireSame(t, list[0].Raw(), document)
	})
}

// replayed runs a request vector through a plugin and compares what the handler
// was given, written again by encode, with what the vector says of the fields
// that the kit knows.
func replayed(t *testing.T, file, kind, export string, known []string, register func(p *pdk.Plugin, name string, seen *pdk.Raw)) {
	vectors(t, file, kind, func(t *testing.T, v *vector, document pdk.Raw) {
		part := strings.TrimSuffix(strings.TrimSuffix(kind, "_in"), "_call")
		names := map[string]string{"process": "processor", "route": "router", "provide": "provider", "observe": "provider", "tool": "tool"}
		name, _ := document.Get(names[part]).Str()
		var p pdk.Plugin
		var seen pdk.Raw
		register(&p, name, &seen)
		host := pdktest.Host{Plugin: &p}
		_, failure := host.Call(export, document)
		if !v.Valid {
			if failure == nil {
				t.Fatalf("the kit accepts %s", document)
			}
			if failure.Code != v.Error {
				t.Errorf("code %s, want %s: %v", failure.Code, v.Error, failure)
			}
			return
		}
		if failure != nil {
			t.Fatalf("the kit refuses %s: %v", document, failure)
		}
		requireSame(t, pruned(t, seen, known), pruned(t, document, known))
	})
}

// pruned returns the document without the members that are not known: names, or
// paths of names such as "scope.tenant" for members of members.
func pruned(t *testing.T, document pdk.Raw, known []string) pdk.Raw {
	t.Helper()
	v := value(t, []byte(document))
	prune(v, "", known)
	if object, ok := v.(map[string]any); ok {
		if scope, ok := object["scope"].(map[string]any); ok && len(scope) == 0 {
			delete(object, "scope") // the kit does not tell an empty one from none
		}
		if outline, ok := object["outline"].(map[string]any); ok {
			for i, row := range outline["tools"].([]any) {
				outline["tools"].([]any)[i] = row.([]any)[:5] // later entries are passed over
			}
			if outline["own_from"] == outline["count"] {
				delete(outline, "own_from") // none is the same as nothing said
			}
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return pdk.Raw(out)
}

func prune(v any, path string, known []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			switch {
			case has(known, at+".*"): // carried whole
			case has(known, at):
				prune(member, at, known)
			default:
				delete(v, name)
			}
		}
	case []any:
		for _, element := range v {
			prune(element, path, known)
		}
	}
}

func has(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

var scopeFields = []string{"scope", "scope.tenant", "scope.thread", "scope.run", "scope.network", "scope.agent"}

// writeScope writes a scope the way hosts do, without empty entries.
func writeScope(w *pdk.Writer, s pdk.Scope) {
	w.Key("scope").BeginObject()
	for _, f := range [][2]string{{"tenant", s.Tenant}, {"thread", s.Thread}, {"run", s.Run}, {"network", s.Network}, {"agent", s.Agent}} {
		if f[1] != "" {
			w.Key(f[0]).Str(f[1])
		}
	}
	w.EndObject()
}

// optional writes members whose absence the kit shows as "".
func optional(w *pdk.Writer, members ...string) {
	for i := 0; i < len(members); i += 2 {
		if members[i+1] != "" {
			w.Key(members[i]).Raw(pdk.Raw(members[i+1]))
		}
	}
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return string(pdk.Quote(s))
}

func writeMessages(w *pdk.Writer, name string, list []pdk.Message) {
	w.Key(name).BeginArray()
	for i := range list {
		w.Raw(list[i].Raw())
	}
	w.EndArray()
}

func TestToolCallVectors(t *testing.T) {
	known := append([]string{"tool.*", "provider.*", "call_id.*", "idempotency_key.*", "attempt.*", "arguments.*", "state.*",
		"state_revision.*", "config.*", "resumed", "resumed.interrupt_id", "resumed.answer.*"}, scopeFields...)
	replayed(t, "tool", "tool_call", "tool", known, func(p *pdk.Plugin, name string, seen *pdk.Raw) {
		p.Tool(name, "", "", func(c *pdk.Call) error {
			var w pdk.Writer
			w.BeginObject().Key("tool").Str(c.Tool)
			optional(&w, "arguments", string(c.Arguments), "provider", quoted(c.Provider), "call_id", quoted(c.ID), "idempotency_key", quoted(c.IdempotencyKey),
				"state", string(c.State), "config", string(c.Config))
			if c.Attempt != 0 {
				w.Key("attempt").Int(int64(c.Attempt))
			}
			if c.StateRevision != 0 {
				w.Key("state_revision").Int(c.StateRevision)
			}
			if len(c.Resumed) > 0 {
				w.Key("resumed").BeginArray()
				for _, a := range c.Resumed {
					w.BeginObject().Key("interrupt_id").Str(a.InterruptID).Key("answer").Raw(a.Answer).EndObject()
				}
				w.EndArray()
			}
			writeScope(&w, c.Scope)
			*seen = w.EndObject().Value()
			return nil
		})
	})
}

func TestProcessInVectors(t *testing.T) {
	known := append([]string{"processor.*", "config.*", "model.*", "messages.*", "outline", "outline.count.*", "outline.roles.*",
		"outline.bytes.*", "outline.chars.*", "outline.tokens.*", "outline.encoding.*", "outline.parts.*", "outline.own_from.*", "outline.tools.*", "own_from.*"}, scopeFields...)
	replayed(t, "process", "process_in", "process", known, func(p *pdk.Plugin, name string, seen *pdk.Raw) {
		handler := func(c *pdk.Process) error {
			var w pdk.Writer
			w.BeginObject().Key("processor").Str(c.Name).Key("model").Str(c.Model)
			optional(&w, "config", string(c.Config))
			writeScope(&w, c.Scope)
			if c.Name != "shorten" {
				writeMessages(&w, "messages", c.Messages())
				if c.Own() > 0 {
					w.Key("own_from").Int(int64(len(c.Messages()) - c.Own()))
				}
			} else {
				w.Key("outline").Raw(pdktest.EncodeOutline(c.Outline()))
			}
			*seen = w.EndObject().Value()
			return nil
		}
		if name == "shorten" {
			p.OutlineProcessor(name, handler)
		} else {
			p.Processor(name, handler)
		}
	})
}

func TestRouteInVectors(t *testing.T) {
	known := append([]string{"router.*", "config.*", "input.*", "call_count.*", "stack.*", "agents", "agents.name", "agents.description",
		"state.*", "last", "last.agent", "last.messages.*", "last.tool_results.*", "last.finish_reason", "outline.*"}, scopeFields...)
	replayed(t, "route", "route_in", "route", known, func(p *pdk.Plugin, name string, seen *pdk.Raw) {
		p.Router(name, func(r *pdk.Route) error {
			var w pdk.Writer
			w.BeginObject().Key("router").Str(r.Name).Key("call_count").Int(int64(r.CallCount))
			optional(&w, "config", string(r.Config), "state", string(r.State))
			writeScope(&w, r.Scope)
			if r.Input != nil {
				w.Key("input").Raw(r.Input.Raw())
			}
			w.Key("stack").BeginArray()
			for _, name := range r.Stack {
				w.Str(name)
			}
			w.EndArray().Key("agents").BeginArray()
			for _, a := range r.Agents {
				w.BeginObject().Key("name").Str(a.Name).Key("description").Str(a.Description).EndObject()
			}
			w.EndArray()
			if l := r.Last; l != nil {
				w.Key("last").BeginObject().Key("agent").Str(l.Agent).Key("finish_reason").Str(l.FinishReason)
				writeMessages(&w, "messages", l.Messages)
				w.Key("tool_results").BeginArray()
				for i := range l.ToolResults {
					w.Raw(l.ToolResults[i].Raw())
				}
				w.EndArray().EndObject()
			}
			if o := r.Outline(); o != nil {
				w.Key("outline").Raw(pdktest.EncodeOutline(o))
			}
			*seen = w.EndObject().Value()
			return nil
		})
	})
}

func TestProvideInVectors(t *testing.T) {
	known := append([]string{"provider.*", "config.*", "messages.*"}, scopeFields...)
	replayed(t, "provide", "provide_in", "provide", known, func(p *pdk.Plugin, name string, seen *pdk.Raw) {
		p.Provider(name, func(c *pdk.Provide) error {
			var w pdk.Writer
			w.BeginObject().Key("provider").Str(c.Name)
			optional(&w, "config", string(c.Config))
			writeScope(&w, c.Scope)
			writeMessages(&w, "messages", c.Messages)
			*seen = w.EndObject().Value()
			return nil
		})
	})
}

func TestObserveInVectors(t *testing.T) {
	known := append([]string{"provider.*", "config.*", "messages.*", "responses.*", "error", "error.code", "error.message", "error.hint", "error.retryable"}, scopeFields...)
	replayed(t, "provide", "observe_in", "observe", known, func(p *pdk.Plugin, name string, seen *pdk.Raw) {
		p.Observer(name, func(o *pdk.Observe) error {
			var w pdk.Writer
			w.BeginObject().Key("provider").Str(o.Name)
			optional(&w, "config", string(o.Config))
			writeScope(&w, o.Scope)
			writeMessages(&w, "messages", o.Messages)
			if o.Responses != nil {
				writeMessages(&w, "responses", o.Responses)
			}
			if e := o.Err; e != nil {
				w.Key("error").BeginObject().Key("code").Str(string(e.Code)).Key("message").Str(e.Message)
				optional(&w, "hint", quoted(e.Hint))
				if e.Retryable {
					w.Key("retryable").Bool(true)
				}
				w.EndObject()
			}
			*seen = w.EndObject().Value()
			return nil
		})
	})
}
