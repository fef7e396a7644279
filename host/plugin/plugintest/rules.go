package plugintest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// maxDepth is how deep a plugin's reader must be able to look, and to give up.
const maxDepth = 20_000

var badInputs = []struct{ name, input string }{
	{"nothing", ""},
	{"half an object", `{"scope":{`},
	{"text", "hello"},
	{"null", "null"},
	{"an array", "[]"},
	{"an object of nothing", "{}"},
	{"names that are no text", `{"tool":1,"processor":1,"router":1,"provider":1}`},
	{"bytes that are no text", "{\"tool\":\"\xff\",\"processor\":\"\xff\",\"router\":\"\xff\",\"provider\":\"\xff\"}"},
	{"deep nesting", strings.Repeat("[", maxDepth)},
	{"two values", `{} {}`},
	{"a byte order mark", "\ufeff{}"},
}

func badInput(g *guest) (broken []error) {
	for _, export := range g.exports() {
		for _, bad := range badInputs {
			r, err := g.call(g.plugin, Call{export, bad.input})
			switch {
			case err != nil:
				if code := host.CodeOf(err); code != host.Internal && code != host.ResourceExhausted {
					broken = append(broken, fmt.Errorf("%s of %s ends with %w", export, bad.name, err))
				}
			case !r.GuestError:
				broken = append(broken, fmt.Errorf("%s of %s is answered as if it were right: %.200s", export, bad.name, r.Output))
			default:
				if err := errorObject(r.Output); err != nil {
					broken = append(broken, fmt.Errorf("%s of %s: %w", export, bad.name, err))
				}
			}
		}
	}
	return broken
}

// errorObject says why raw is not an error object.
func errorObject(raw []byte) error {
	var e struct {
		Code    host.Code `json:"code"`
		Message string    `json:"message"`
	}
	if err := json.Unmarshal(raw, &e); err != nil || !e.Code.Valid() || e.Message == "" {
		return fmt.Errorf("the error object is %.200s; it needs a known code and a message", raw)
	}
	return nil
}

// afterErrors has each call made by an instance that has answered bad input.
func afterErrors(g *guest) []error {
	return g.compare(func(c Call) (*plugin.CallResult, error) {
		p, err := g.runtime.Load(g.ctx, "after", g.wasm, &g.options)
		if err != nil {
			return &plugin.CallResult{}, err
		}
		defer p.Close()
		for _, bad := range badInputs {
			_, _ = g.call(p, Call{c.Export, bad.input}) // how it is answered is another rule
		}
		return g.call(p, c)
	}, "after bad input it answers")
}

// later is a value that no version of the contract has given a meaning.
const later = `{"a":[1,null,9007199254740993]}`

func unknownFields(g *guest) []error {
	return g.compare(func(c Call) (*plugin.CallResult, error) {
		return g.callFresh(c.with("x-later", json.RawMessage(later)))
	}, "with an unknown field it answers")
}

// keptCalls is how many calls an instance has had when it is compared.
const keptCalls = 3

func keptInstances(g *guest) []error {
	return g.compare(func(c Call) (*plugin.CallResult, error) {
		for range keptCalls {
			if r, err := g.call(g.plugin, c); err != nil {
				return r, err
			}
		}
		return g.call(g.plugin, c)
	}, "after calls like it it answers")
}

// sameCalls is how often a call is made that must be answered alike.
const sameCalls = 50

// reproducible are the calls of what must be so: routers and processors.
func (g *guest) reproducible() (list []Call) {
	for _, c := range g.calls {
		if c.Export == "process" || c.Export == "route" {
			list = append(list, c)
		}
	}
	return list
}

func nothingReproducible(g *guest) string {
	granted := g.plugin.Granted()
	switch {
	case len(g.reproducible()) == 0:
		return "the plugin has no processor and no router"
	case granted.Clock || granted.Random:
		return "the plugin is granted the real time or randomness"
	}
	return ""
}

// sameAnswer holds routers and processors to one answer, and to one bill where
// they start afresh.
func sameAnswer(g *guest) (broken []error) {
	for _, c := range g.reproducible() {
		var first *plugin.CallResult
		for i := range sameCalls {
			r, err := g.call(g.plugin, c)
			if i == 0 {
				first = r
			}
			if err != nil || !sameResult(r, first) {
				broken = append(broken, c.problem("call %d is answered %s, the first %s", i+1, shown(r, err), shown(first, nil)))
				break
			}
		}
		a, errA := g.callFresh(c)
		b, errB := g.callFresh(c)
		if errA == nil && errB == nil && a.Cost.Instructions != b.Cost.Instructions {
			broken = append(broken, c.problem("costs a fresh instance %d instructions, and another %d", a.Cost.Instructions, b.Cost.Instructions))
		}
	}
	return broken
}

// bulk is how much longer an input is made where memory is scarce.
const bulk = 4 << 20

// tightLimits has the calls made with half of what they need. A plugin that
// does not look at whether memory could grow would answer something else.
func tightLimits(g *guest) (broken []error) {
	for _, c := range g.calls {
		small, err := g.callFresh(c)
		if err != nil {
			broken = append(broken, c.problem("%w", err))
			continue
		}
		for _, l := range tighter(g.options.Limits, small.Cost) {
			if err := g.squeeze(c, l.limits, l.bulky); err != nil {
				broken = append(broken, c.problem("with too little %s %w", l.what, err))
			}
		}
	}
	return broken
}

// tight are limits under which a call has too little of something.
type tight struct {
	what   string
	limits plugin.Limits
	bulky  bool // the call is made with a long input
}

func tighter(l plugin.Limits, needed *host.Cost) []tight {
	memory, instructions, timeout := l, l, l
	memory.MemoryBytes = max(needed.PeakMemory, 1<<16)
	instructions.Instructions = max(needed.Instructions/2, 1)
	timeout.Timeout = time.Nanosecond
	return []tight{{"memory", memory, true}, {"instructions", instructions, false}, {"time", timeout, false}}
}

// squeeze says how a call under tight limits is answered otherwise than with
// room, and other than by an error.
func (g *guest) squeeze(c Call, l plugin.Limits, bulky bool) error {
	if bulky {
		c = c.with("x-later", json.RawMessage(strconv.Quote(strings.Repeat("x", bulk))))
	}
	want, err := g.callFresh(c)
	if err != nil {
		return nil // it ends with an error even with room
	}
	got, err := g.callUnder(c, l)
	switch {
	case host.CodeOf(err) == host.Canceled:
		return err
	case err != nil, got.GuestError, sameResult(got, want):
		return nil
	}
	return fmt.Errorf("it answers %s, and otherwise %s", shown(got, nil), shown(want, nil))
}

const (
	// memorySlack is what memory may grow by all the same.
	memorySlack = 1 << 20
	// memoryRounds is after how many rounds of calls, each of which grew memory
	// by more than that, a guest is said to grow. A guest with a garbage collector
	// takes a few megabytes before it collects for the first time: Go's takes
	// four, and the collected heap a little more.
	memoryRounds = 10
)

func memory(g *guest) (broken []error) {
	for _, c := range g.calls {
		if err := g.grows(c); err != nil {
			broken = append(broken, err)
		}
	}
	return broken
}

// grows says that memory grows in every round of calls, or that a call fails.
// Memory that has grown and falls is growth as well: a module cannot give memory
// back, so that the instance has been replaced.
func (g *guest) grows(c Call) error {
	first, err := g.memoryAfter(c)
	if err != nil {
		return c.problem("again and again: %w", err)
	}
	most, calls := first, 0
	for range memoryRounds {
		after, err := g.memoryAfter(c)
		calls += g.repeats
		grown := most > first
		switch {
		case err != nil:
			return c.problem("again and again: %w", err)
		case after > most+memorySlack:
			most = after
		case grown && after < most:
			return c.problem("memory grows from %d to %d bytes in %d calls, until the instance is replaced", first, most, calls)
		default:
			return nil
		}
	}
	return c.problem("memory grows from %d to %d bytes in %d calls, after %d before", first, most, calls, g.repeats)
}

func (g *guest) memoryAfter(c Call) (bytes int64, err error) {
	for range g.repeats {
		r, err := g.call(g.plugin, c)
		if err != nil {
			return 0, err
		}
		bytes = r.Cost.PeakMemory
	}
	return bytes, nil
}

// histories are the calls that hand a plugin messages which it may answer with.
func (g *guest) histories() (list []Call) {
	for _, c := range g.calls {
		m, err := members(c.Input)
		if err == nil && c.Export == "process" && m["messages"] != nil {
			list = append(list, c)
		}
	}
	return list
}

func noHistories(g *guest) string {
	if len(g.histories()) == 0 {
		return "no processor of the plugin is handed messages"
	}
	return ""
}

// unknownParts gives each message a field and a part of a later contract, and
// looks for them in the messages of the same id that come back.
func unknownParts(g *guest) (broken []error) {
	for _, c := range g.histories() {
		m, _ := members(c.Input) // histories has read it
		marked, ids, err := markMessages(m["messages"])
		if err != nil {
			broken = append(broken, c.problem("its messages: %w", err))
			continue
		}
		c = c.with("messages", marked)
		r, err := g.callFresh(c)
		if err != nil || r.GuestError {
			broken = append(broken, c.problem("is answered with %s", shown(r, err)))
			continue
		}
		for _, back := range messagesOf(r.Output) {
			if err := carried(back, ids); err != nil {
				broken = append(broken, c.problem("%w", err))
			}
		}
	}
	return broken
}

// laterPart is a part whose type no version of the contract knows.
const laterPart = `{"type":"x-later","value":` + later + `}`

func markMessages(raw json.RawMessage) (marked json.RawMessage, ids []string, err error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, nil, err
	}
	for _, m := range list {
		var id string
		var parts []json.RawMessage
		if json.Unmarshal(m["id"], &id) != nil || json.Unmarshal(m["parts"], &parts) != nil || id == "" {
			return nil, nil, fmt.Errorf("each needs an id and parts")
		}
		m["x-later"] = json.RawMessage(later)
		if m["parts"], err = json.Marshal(append(parts, json.RawMessage(laterPart))); err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	marked, err = json.Marshal(list)
	return marked, ids, err
}

// messagesOf returns the messages in a processor's output, whole or edited.
func messagesOf(output []byte) []json.RawMessage {
	var out struct {
		Messages []json.RawMessage
		Edits    []struct {
			Replace struct{ Message json.RawMessage }
		}
	}
	if json.Unmarshal(output, &out) != nil {
		return nil // which is another rule's
	}
	list := out.Messages
	for _, e := range out.Edits {
		if e.Replace.Message != nil {
			list = append(list, e.Replace.Message)
		}
	}
	return list
}

// carried says what a message that has come back has lost.
func carried(raw json.RawMessage, ids []string) error {
	var m struct {
		ID    string          `json:"id"`
		Later json.RawMessage `json:"x-later"`
		Parts []json.RawMessage
	}
	if err := json.Unmarshal(raw, &m); err != nil || !slices.Contains(ids, m.ID) {
		return nil
	}
	if !sameJSON(m.Later, json.RawMessage(later)) {
		return fmt.Errorf("message %s comes back without the field x-later that it had, or with another: %.200s", m.ID, raw)
	}
	if !slices.ContainsFunc(m.Parts, func(p json.RawMessage) bool { return sameJSON(p, json.RawMessage(laterPart)) }) {
		return fmt.Errorf("message %s comes back without the part of type x-later that it had, or with another: %.200s", m.ID, raw)
	}
	return nil
}
