package codemode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/plugin"
)

// request is the input of the script in code.js.
type request struct {
	Tool      string           `json:"tool"`
	Arguments requestArguments `json:"arguments"`
}

type requestArguments struct {
	Code         string          `json:"code"`
	Tools        string          `json:"tools"`          // names, a line each
	Keys         [][2]string     `json:"keys,omitempty"` // other names of functions, and the tools that they call
	Catalog      string          `json:"catalog,omitempty"`
	Keep         json.RawMessage `json:"keep,omitempty"`
	ConsoleBytes int             `json:"console_bytes"`
	ResultBytes  int             `json:"result_bytes"`
}

// answer is what the script in code.js answers.
type answer struct {
	Result  json.RawMessage `json:"result"`
	Console string          `json:"console,omitempty"`
	Keep    json.RawMessage `json:"keep,omitempty"`
}

// kept is what code keeps in the state of a run.
type kept struct {
	Run   string          `json:"run"`
	Value json.RawMessage `json:"value"`
}

// run runs the code of one call.
func (m *Mode) run(ctx context.Context, call *host.Call, d *declared) (*host.ToolOutput, error) {
	var in struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(call.Arguments, &in); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "arguments of %s: %w", m.opts.Name, err)
	}
	keep, err := m.loadKeep(call)
	if err != nil {
		return nil, err
	}
	functions := d.functions(call.Tools())
	input, err := json.Marshal(request{Tool: ToolName, Arguments: requestArguments{Code: in.Code, Tools: functions.named, Keys: functions.keys,
		Catalog: d.catalog, Keep: keep, ConsoleBytes: m.opts.ConsoleBytes, ResultBytes: m.opts.ResultBytes}})
	if err != nil {
		return nil, err
	}
	r, err := m.plugin.Call(ctx, call.Scope.Tenant, "tool", input, &plugin.CallOptions{Call: call, Only: []string{"tool.call"}, Operate: m.operate, Clock: call.Began, Seed: seedOf(call)})
	out := &host.ToolOutput{Cost: r.Cost}
	switch {
	case err != nil:
		return out, engineError(err)
	case r.GuestError:
		return out, codeError(r.Output)
	}
	var said struct {
		Content answer `json:"content"`
	}
	if err := json.Unmarshal(r.Output, &said); err != nil {
		return out, host.Errorf(host.InvalidArgument, "the code changed how it answers: %w: leave the language's own objects alone", err)
	}
	// The script holds itself to the bounds, but the code may have changed what it runs with.
	if n := len(said.Content.Result); n > m.opts.ResultBytes {
		return out, host.Errorf(host.ResourceExhausted, "the result has %d bytes, more than %d: return a summary of it", n, m.opts.ResultBytes)
	}
	said.Content.Console = cutConsole(said.Content.Console, m.opts.ConsoleBytes)
	if err := m.storeKeep(call, keep, said.Content.Keep); err != nil {
		return out, err
	}
	said.Content.Keep = nil
	out.Content, err = jsondoc.Marshal(said.Content)
	return out, err
}

// seedOf returns the seed of a call's random numbers: two calls differ, and one that starts again
// has those that it had. A call that an older version began has those of that version, and its clock.
func seedOf(call *host.Call) uint64 {
	if call.Began.IsZero() {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(call.IdempotencyKey))
	return h.Sum64()
}

// leftOut ends a console that was cut.
const leftOut = " … (the rest is left out)"

// cutConsole returns at most so many bytes of a console, and says where it has cut.
func cutConsole(text string, most int) string {
	kept := strings.TrimSuffix(text, leftOut)
	if len(kept) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(kept[most]) {
		most--
	}
	return kept[:most] + leftOut
}

// engineError returns the error of code that the host has ended. A trap of the engine is the
// code's doing: it has used up the memory or the stack.
func engineError(err error) error {
	if host.CodeOf(err) != host.Internal {
		return err
	}
	return &host.Error{Code: host.ResourceExhausted, Err: err, Message: "the code has ended the engine that runs it: it used up the memory or the stack, or changed what the engine needs: have it keep less at one time, recurse less deep, and leave the language's own objects alone"}
}

// codeError is the error that code ended with.
func codeError(raw []byte) error {
	var e host.Error
	if err := json.Unmarshal(raw, &e); err != nil || e.Message == "" {
		return host.Errorf(host.InvalidArgument, "the code ended with an error without a message: throw an Error that has one")
	}
	if !e.Code.Valid() || e.Code == host.Internal {
		e.Code = host.InvalidArgument
	}
	return fault.Disclose(&host.Error{Code: e.Code, Message: strings.ToValidUTF8(e.Message, "�")})
}

// statePath is the JSON pointer of the kept members in the state of a run.
func (m *Mode) statePath() string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m.opts.Name)
}

// loadKeep returns the keep that earlier code of the run has left; nil without the option Keep.
func (m *Mode) loadKeep(call *host.Call) (json.RawMessage, error) {
	if !m.opts.Keep {
		return nil, nil
	}
	var k kept
	found, err := call.State.Get(m.statePath(), &k)
	if err != nil {
		return nil, err
	}
	if !found || k.Run != call.Scope.Run || len(k.Value) == 0 {
		return json.RawMessage("{}"), nil
	}
	return k.Value, nil
}

// storeKeep stores the members of keep that code has changed, for the next call of the run. Changes
// that another call has made of other members meanwhile stay. before is the keep that the code got.
func (m *Mode) storeKeep(call *host.Call, before, after json.RawMessage) error {
	if !m.opts.Keep || len(after) == 0 {
		return nil
	}
	var had, has map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(before, &had), json.Unmarshal(after, &has)); err != nil {
		return host.Errorf(host.InvalidArgument, "the code changed what keep is: %w: keep is an object, of which code sets members", err)
	}
	return host.UpdateState(call.State, func(state *map[string]json.RawMessage) error {
		members, err := m.keptMembers((*state)[m.opts.Name], call.Scope.Run)
		if err != nil {
			return err
		}
		for name := range had {
			if _, stays := has[name]; !stays {
				delete(members, name)
			}
		}
		for name, value := range has {
			if !bytes.Equal(had[name], value) {
				members[name] = value
			}
		}
		value, err := jsondoc.Marshal(members)
		if err != nil {
			return err
		}
		if len(value) > KeepBytes {
			return host.Errorf(host.ResourceExhausted, "the code keeps %d bytes, more than %d: keep less, and take the rest from the tools again", len(value), KeepBytes)
		}
		(*state)[m.opts.Name], err = jsondoc.Marshal(kept{Run: call.Scope.Run, Value: value})
		return err
	})
}

// keptMembers returns the members in the member of a state that code keeps; empty for one of
// another run.
func (m *Mode) keptMembers(raw json.RawMessage, run string) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(raw) == 0 {
		return members, nil
	}
	var k kept
	err := json.Unmarshal(raw, &k)
	if err == nil && k.Run == run && len(k.Value) > 0 {
		err = json.Unmarshal(k.Value, &members)
	}
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "member %q of the state is not what code keeps: %w", m.opts.Name, err)
	}
	return members, nil
}
