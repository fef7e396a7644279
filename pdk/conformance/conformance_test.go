// Package conformance feeds the golden vectors of the plugin contract to a guest of every
// kit, and compares what comes back: a kit that loses a number, drops a field it does not
// know, or accepts what the contract refuses, fails.
//
// The guest of a kit has these parts, each of which answers with the members of its request
// that the contract names, as the kit has read them:
//
//	tool "vector"        content is the call
//	tool "integer"       content is {"argument": n}, its argument "argument" as an integer of 64 bits
//	tool "host"          asks the host for what host_test.go lists, and says what it has read;
//	                     with the argument "fails", it fails with the last error
//	tool "bytes"         asks the host for what bytes_test.go lists, without base64, and says what it
//	                     has read; with the argument "fails", it fails with the last error
//	tool "carry"         writes an artifact of "size" bytes, reads it, and says how many came back
//	                     and how many of them are right; with "bytes", without base64
//	tool "log"           writes the line that log_test.go lists to the log
//	tool "answer"        its arguments are a result, which it returns
//	tool "fail"          its arguments are an error object, which it fails with
//	processor "vector"   report is the request, with messages
//	processor "outline"  report is the request, with an outline
//	processor "again"    messages, or edits that replace each, are those that it was given
//	router "vector"      reason is the request as JSON
//	provider "vector"    instructions are the request as JSON; observe answers {}
package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	kits "github.com/agenthost/agenthost/pdk"
	"github.com/agenthost/agenthost/pdk/js"
)

// guests are those of the kits, by their language. Those that other compilers than Go's have
// built are in the repository; guests_test.go builds them again.
var guests = map[string]func(t testing.TB) []byte{
	"javascript": func(t testing.TB) []byte {
		wasm, err := js.Pack(file(t, "js", "conformance.js"))
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	},
	// Packed for any host, and packed by a version whose engine had no host_call_bytes.
	"javascript-standalone": func(t testing.TB) []byte {
		wasm, err := js.PackStandalone(file(t, "js", "conformance.js"))
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	},
	"javascript-1":   func(t testing.TB) []byte { return olderScript(t, js.Engines()[1], file(t, "js", "conformance-1.js")) },
	"c":              func(t testing.TB) []byte { return file(t, "c", "conformance.wasm") },
	"assemblyscript": func(t testing.TB) []byte { return file(t, "assemblyscript", "conformance.wasm") },
	"rust":           func(t testing.TB) []byte { return file(t, "rust", "conformance.wasm") },
	"zig":            func(t testing.TB) []byte { return file(t, "zig", "conformance.wasm") },
	"go":             func(t testing.TB) []byte { return testcode.Build(t, "../go/pdk/testdata/conformance") },
}

// file returns a file of a kit's testdata.
func file(t testing.TB, kit, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", kit, "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

type vector struct {
	Name, Kind string
	Base64     []byte
	Valid      bool
	Error      host.Code
	HostOnly   bool `json:"host_only"`
}

// readVectors returns the vectors of documents that nest no deeper than every kit must read.
func readVectors(t *testing.T) (list []vector) {
	t.Helper()
	raw, err := fs.ReadFile(kits.Vectors, "testdata/vectors/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(raw)); d.More(); {
		var v vector
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// A reading is how a kind of vector is put to a guest, and where its answer has what the
// kit has read.
type reading struct {
	export string
	part   string   // the member of the document that names the part; "" if the document is wrapped
	names  []string // the members of the document that the contract names
	wrap   func(document string) string
	answer func(t *testing.T, output object) any
}

type object = map[string]any

var readings = map[string]reading{
	"tool_call": {export: "tool", part: "tool",
		names:  []string{"arguments", "call_id", "idempotency_key", "attempt", "provider", "scope", "state", "state_revision", "config", "resumed"},
		answer: func(_ *testing.T, o object) any { return o["content"] }},
	"process_in": {export: "process", part: "processor",
		names:  []string{"config", "scope", "model", "messages", "own_from", "outline"},
		answer: func(_ *testing.T, o object) any { return o["report"] }},
	"route_in": {export: "route", part: "router",
		names:  []string{"config", "scope", "input", "call_count", "stack", "agents", "state", "last", "outline"},
		answer: func(t *testing.T, o object) any { return decoded(t, text(o["reason"])) }},
	"provide_in": {export: "provide", part: "provider",
		names:  []string{"config", "scope", "messages"},
		answer: func(t *testing.T, o object) any { return decoded(t, text(o["instructions"])) }},
	"observe_in": {export: "observe", part: "provider"},
	"message": {export: "process",
		wrap: func(m string) string { return `{"processor":"again","model":"m","messages":[` + m + `]}` },
		answer: func(_ *testing.T, o object) any {
			if edits, has := o["edits"].([]any); has {
				edit, _ := first(edits).(object)
				replace, _ := edit["replace"].(object)
				return replace["message"]
			}
			list, _ := o["messages"].([]any)
			return first(list)
		}},
	"tool_result": {export: "tool",
		wrap:   func(r string) string { return `{"tool":"answer","arguments":` + r + `}` },
		answer: func(_ *testing.T, o object) any { return o }},
	"error": {export: "tool",
		wrap:   func(e string) string { return `{"tool":"fail","arguments":` + e + `}` },
		answer: func(_ *testing.T, o object) any { return o }},
	"integer": {export: "tool",
		wrap: func(n string) string { return `{"tool":"integer","arguments":` + n + `}` },
		answer: func(_ *testing.T, o object) any {
			c, _ := o["content"].(object)
			return c["argument"]
		}},
}

// olderScript returns a plugin as an earlier version has packed it: it names the engine of that.
func olderScript(t testing.TB, engine, script []byte) []byte {
	t.Helper()
	wasm, err := js.Pack(script)
	if err != nil {
		t.Fatal(err)
	}
	digest := func(engine []byte) []byte { return fmt.Appendf(nil, "sha256:%x", sha256.Sum256(engine)) }
	return bytes.Replace(wasm, digest(js.Engine()), digest(engine), 1)
}

// written are the kinds that a guest only writes: only valid ones are put to it.
var written = map[string]bool{"tool_result": true, "error": true}

func TestEveryKitReadsAndWritesTheVectors(t *testing.T) {
	for language, build := range guests {
		t.Run(language, func(t *testing.T) { putVectors(t, language, load(t, build(t))) })
	}
}

// putVectors puts all vectors to the guest of a language.
func putVectors(t *testing.T, language string, p *plugin.Plugin) {
	seen := map[string]int{}
	for _, v := range readVectors(t) {
		r, known := readings[v.Kind]
		switch {
		case v.Kind == "unknown_part":
			t.Run(v.Kind+"/"+v.Name, func(t *testing.T) { checkUnknownPart(t, p, &v) })
		case !known || written[v.Kind] && !v.Valid:
		case v.Kind == "integer" && !v.Valid && strings.HasPrefix(language, "javascript"): // whose numbers are no integers
		default:
			seen[v.Kind]++
			t.Run(v.Kind+"/"+v.Name, func(t *testing.T) {
				if problem := r.problem(t, p, &v); problem != "" {
					t.Error(problem)
				}
			})
		}
	}
	for kind := range readings {
		if seen[kind] == 0 {
			t.Errorf("no vectors of kind %s were put to the guest", kind)
		}
	}
}

func load(t testing.TB, wasm []byte) *plugin.Plugin {
	t.Helper()
	runtime, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir(), Interpreters: js.Engines(),
		Limits: plugin.Limits{Timeout: time.Minute, StartTimeout: time.Minute}}) // a busy machine does not run a call for seconds
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runtime.Close(t.Context()) })
	p, err := runtime.Load(t.Context(), "conformance", wasm, &plugin.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// problem sends a vector to a guest, and returns the fault of its answer; "" if the answer is right.
func (r *reading) problem(t *testing.T, p *plugin.Plugin, v *vector) string {
	t.Helper()
	document := string(v.Base64)
	input := document
	if r.wrap != nil {
		input = r.wrap(document)
	} else {
		input = r.addressed(t, document)
	}
	result, err := p.Call(t.Context(), "acme", r.export, []byte(input), nil)
	if err != nil {
		return fmt.Sprintf("%s with %s: %v", r.export, input, err)
	}
	output := decoded(t, string(result.Output))
	if !v.Valid {
		switch {
		case !result.GuestError && !v.HostOnly:
			return "the kit accepts " + input
		case result.GuestError && text(output.(object)["code"]) != string(v.Error):
			return fmt.Sprintf("the kit refuses %s with %s, want code %s", input, result.Output, v.Error)
		}
		return ""
	}
	if result.GuestError != (v.Kind == "error") {
		return fmt.Sprintf("%s is answered with %s", input, result.Output)
	}
	if r.answer == nil {
		return ""
	}
	got, want := r.answer(t, output.(object)), decoded(t, document)
	switch v.Kind {
	case "integer":
		want = want.(object)["want"]
	case "error":
		want = members(want, []string{"code", "message", "hint", "retryable"})
	case "message", "tool_result":
	default:
		want = named(want, r.names)
		if o, is := got.(object); is {
			delete(o, r.part)
			if answers, has := o["resumed"]; has { // a kit may hand them over unread
				o["resumed"] = pruned(answers, inner["resumed"])
			}
		}
	}
	asValues := v.Kind == "tool_call" || v.Kind == "tool_result" // a language computes with them
	if got, want := normal(got, asValues), normal(want, asValues); !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%s is read as\n%s\nwant\n%s", input, asJSON(t, got), asJSON(t, want))
	}
	return ""
}

// checkUnknownPart puts a call of a part that the guest does not have.
func checkUnknownPart(t *testing.T, p *plugin.Plugin, v *vector) {
	var call struct {
		Export string
		Input  json.RawMessage
	}
	if err := json.Unmarshal(v.Base64, &call); err != nil {
		t.Fatal(err)
	}
	result, err := p.Call(t.Context(), "acme", call.Export, call.Input, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := decoded(t, string(result.Output)).(object)
	if !result.GuestError || text(answer["code"]) != string(v.Error) {
		t.Errorf("%s with %s is answered with %s, want code %s", call.Export, call.Input, result.Output, v.Error)
	}
}

// addressed returns the document with the name of the guest's part in it, if it has one.
func (r *reading) addressed(t *testing.T, document string) string {
	var members object
	d := json.NewDecoder(strings.NewReader(document))
	d.UseNumber()
	if d.Decode(&members) != nil {
		return document // no JSON: the guest says so
	}
	name, has := members[r.part].(string)
	if !has || name == "" {
		return document
	}
	part := "vector"
	if members["outline"] != nil && r.export == "process" {
		part = "outline"
	}
	quoted := asJSON(t, name)
	return strings.Replace(document, `"`+r.part+`": `+quoted, `"`+r.part+`": "`+part+`"`, 1)
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	return v
}

// members returns what the contract names of a request, and of what stands in it.
func members(v any, names []string) object {
	out := object{}
	from, _ := v.(object)
	for _, name := range names {
		if m, has := from[name]; has {
			out[name] = m
		}
	}
	return out
}

// named is members for a request, with what stands in it: a reader passes over all other
// members, so a guest that writes one has copied it.
func named(v any, names []string) object {
	out := members(v, names)
	for name, m := range out {
		if names, has := inner[name]; has {
			out[name] = pruned(m, names)
		}
	}
	return out
}

// inner are the members of what stands in a request that the contract names.
var inner = map[string][]string{
	"scope":   {"tenant", "thread", "run", "network", "agent"},
	"agents":  {"name", "description"},
	"resumed": {"interrupt_id", "answer"},
	"last":    {"agent", "messages", "tool_results", "finish_reason"},
	"outline": {"count", "roles", "bytes", "chars", "tokens", "encoding", "parts", "keep", "own_from", "tools"},
}

// normal returns a value without an empty scope and without own rounds that have not begun, so
// that values which the contract calls the same are equal. Numbers are compared by their text,
// or as values.
func normal(v any, asValues bool) any {
	switch v := v.(type) {
	case json.Number:
		if n, ok := new(big.Rat).SetString(v.String()); ok && asValues {
			return n.RatString()
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i], asValues)
		}
	case object:
		for name, m := range v {
			v[name] = normal(m, asValues)
		}
		maps.DeleteFunc(v, func(name string, m any) bool {
			o, is := m.(object)
			return name == "scope" && is && len(o) == 0 || name == "own_from" && fmt.Sprint(m) == countOf(v)
		})
	}
	return v
}

// countOf returns how many messages the conversation of a request, or an outline, has.
func countOf(v object) string {
	if list, has := v["messages"].([]any); has {
		return strconv.Itoa(len(list))
	}
	return fmt.Sprint(v["count"])
}

func pruned(v any, names []string) any {
	switch v := v.(type) {
	case object:
		v = members(v, names)
		if rows, has := v["tools"].([]any); has {
			for i, row := range rows {
				if row, is := row.([]any); is {
					rows[i] = row[:min(5, len(row))] // later entries of a row
				}
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = pruned(v[i], names)
		}
	}
	return v
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
