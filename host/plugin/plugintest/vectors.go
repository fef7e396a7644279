package plugintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"

	kits "github.com/agenthost/agenthost/pdk"
)

// vector is a golden vector of the contract; the README beside them describes it.
type vector struct {
	Name     string
	Kind     string
	Base64   []byte // the document
	Valid    bool
	HostOnly bool `json:"host_only"`
	deep     bool // nested deeper than a guest must read
}

func (v *vector) document() string { return string(v.Base64) }

// requestKinds are the kinds of vectors that a guest reads, by the export that
// reads them, and the member that names the part.
var requestKinds = map[string]struct{ export, part string }{
	"tool_call":  {"tool", "tool"},
	"process_in": {"process", "processor"},
	"message":    {"process", "processor"},
	"route_in":   {"route", "router"},
	"provide_in": {"provide", "provider"},
	"observe_in": {"observe", "provider"},
}

// deepVectors is the file of the vectors that nest more than 100 deep.
const deepVectors = "deep.jsonl"

// allVectors reads the vectors that a guest reads.
var allVectors = sync.OnceValues(func() (list []*vector, err error) {
	for _, name := range []string{"vectors.jsonl", deepVectors} {
		raw, err := fs.ReadFile(kits.Vectors, "testdata/vectors/"+name)
		if err != nil {
			return nil, err
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		for d.More() {
			v := &vector{deep: name == deepVectors}
			if err := d.Decode(v); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if _, read := requestKinds[v.Kind]; read {
				list = append(list, v)
			}
		}
	}
	return list, nil
})

// vectors calls the plugin with the golden vectors that it reads, with the names,
// arguments and configurations of its own calls filled in.
func vectors(g *guest) (broken []error) {
	all, err := allVectors()
	if err != nil {
		return []error{err}
	}
	for _, v := range all {
		for _, c := range g.callsLike(v) {
			if err := g.readsVector(v, c); err != nil {
				broken = append(broken, fmt.Errorf("%s vector %q, %w", v.Kind, v.Name, err))
			}
		}
	}
	for _, v := range []*vector{
		{Name: "messages for a processor of outlines", Kind: "process_in", Base64: asked(messages)},
		{Name: "an outline for a processor of messages", Kind: "process_in", Base64: asked(outline)},
	} {
		for _, c := range g.callsOf("process") {
			if err := g.refusesOther(v, c); err != nil {
				broken = append(broken, err)
			}
		}
	}
	return broken
}

// asked is a process request with a conversation, in either form.
func asked(history string) []byte {
	return []byte(`{"processor":"",` + scope + `,"model":"m",` + history + `}`)
}

// refusesOther returns an error if a processor accepts the form of a conversation that its
// manifest does not ask for. The processor may be a redaction, which must not fail open.
func (g *guest) refusesOther(v *vector, c Call) error {
	if m, err := members(c.Input); err != nil || m[historyOf(v.document())] != nil {
		return nil
	}
	if err := g.readsVector(v, c); err != nil {
		return fmt.Errorf("%s: %w", v.Name, err)
	}
	return nil
}

// callsLike returns a call for each part of the plugin that reads a vector: the part's
// first call that is answered with a result.
func (g *guest) callsLike(v *vector) (list []Call) {
	kind := requestKinds[v.Kind]
	history := historyOf(v.document())
	if v.Kind == "message" {
		history = "messages"
	}
	done := map[string]bool{}
	for _, c := range g.callsOf(kind.export) {
		m, err := members(c.Input)
		part := string(m[kind.part])
		if err != nil || done[part] || kind.export == "process" && history != "" && m[history] == nil {
			continue
		}
		if r, err := g.sandbox.callFresh(c); err != nil || r.GuestError {
			continue
		}
		done[part] = true
		list = append(list, c)
	}
	return list
}

// historyOf returns the member of a request with its conversation; "" without one.
func historyOf(document string) string {
	m, _ := members(document) // of an object alone
	for _, name := range []string{"messages", "outline"} {
		if m[name] != nil {
			return name
		}
	}
	return ""
}

// readsVector returns how a plugin misreads a vector that is sent in place of call c.
func (g *guest) readsVector(v *vector, c Call) error {
	input, named := v.request(c)
	r, err := g.sandbox.callFresh(Call{c.Export, input})
	switch {
	case g.sandbox.ctx.Err() != nil:
		return g.sandbox.ctx.Err()
	case v.deep && err == nil && r.GuestError:
		return nil // a guest may refuse such nesting, but not trap on it
	case v.Valid && (err != nil || r.GuestError):
		return Call{c.Export, input}.problem("which is right, is answered with %s", shown(r, err))
	case v.Valid || v.HostOnly || err != nil || r.GuestError:
		return nil // a trap counts as a refusal
	case named && v.Kind != "process_in" && v.Kind != "message":
		return nil // the fault is in a member that this part need not read
	}
	return Call{c.Export, input}.problem("which must be refused, is answered as if it were right: %.200s", r.Output)
}

// request returns the vector as a request to the part that c calls. named reports whether
// the vector names that part.
func (v *vector) request(c Call) (input string, named bool) {
	own, _ := members(c.Input) // callsLike has decoded it
	document := v.document()
	if v.Kind == "message" {
		// Written by hand: a vector may not be JSON.
		delete(own, "messages")
		rest := mustJSON(own)
		return string(rest[:len(rest)-1]) + `,"messages":[` + document + `]}`, true
	}
	part := requestKinds[v.Kind].part
	m, err := members(document)
	if err != nil || m[part] == nil {
		return document, false
	}
	m[part] = own[part]
	for _, name := range []string{"config", "arguments"} {
		if delete(m, name); own[name] != nil {
			m[name] = own[name]
		}
	}
	return string(mustJSON(m)), true
}
