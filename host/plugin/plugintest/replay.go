package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
)

// replay answers the host operations of a call from a case, or records them for
// one.
type replay struct {
	c        *goldenCase
	next     int // of the case's operations
	asked    []operation
	problems []string
	given    map[*scriptedAnswer]bool
}

func newReplay(c *goldenCase) *replay { return &replay{c: c, given: map[*scriptedAnswer]bool{}} }

// answer answers the next operation if it is the recorded one.
func (r *replay) answer(_ context.Context, op string, request []byte, _ plugin.Operation) ([]byte, error) {
	if op == toolCall && r.c.tools != nil {
		return r.callTools(request)
	}
	if r.next >= len(r.c.ops) {
		return nil, r.unexpected(fmt.Sprintf("operation %d is %s with %.300s; the case has %d", r.next+1, op, request, len(r.c.ops)))
	}
	want := r.c.ops[r.next]
	r.next++
	if op != want.Op {
		return nil, r.unexpected(fmt.Sprintf("operation %d is %s with %.300s, want %s", r.next, op, request, want.Op))
	}
	if diff := diffJSON(want.Request, value(request)); diff != nil {
		return nil, r.unexpected(fmt.Sprintf("request of operation %d, %s, differs: %s", r.next, op, strings.Join(diff, "; ")))
	}
	if want.Error != nil {
		return nil, want.Error
	}
	return want.Response, nil
}

func (r *replay) unexpected(what string) error {
	r.problems = append(r.problems, what)
	return host.Errorf(host.FailedPrecondition, "the case does not know this request")
}

// callTools answers calls of tools from the case, in whichever order they come.
func (r *replay) callTools(request []byte) ([]byte, error) {
	return r.c.tools.answer(request, func(name string, arguments json.RawMessage, a *scriptedAnswer) {
		if a == nil {
			r.problems = append(r.problems, fmt.Sprintf("the case has no answer of the tool %q to %.300s", name, arguments))
			return
		}
		r.given[a] = true
	})
}

// endOfTools lists the answers of tools that were not called for.
func (r *replay) endOfTools() {
	if r.c.tools != nil {
		r.problems = append(r.problems, r.c.tools.unasked(r.given)...)
	}
}

// end lists the recorded operations that were not called.
func (r *replay) end() {
	r.endOfTools()
	if left := len(r.c.ops) - r.next; left > 0 {
		r.problems = append(r.problems, fmt.Sprintf("%d of %d operations are not asked for, the first of them %s", left, len(r.c.ops), r.c.ops[r.next].Op))
	}
}

// record passes an operation to the host, and records the answer. Calls of tools are those of the
// case, if it has any: the host looks at their names alone.
func (r *replay) record(ctx context.Context, op string, request []byte, next plugin.Operation) ([]byte, error) {
	if op == toolCall && r.c.tools != nil {
		if response, err := next(ctx, op, request); host.CodeOf(err) != host.FailedPrecondition {
			return response, err
		}
		return r.callTools(request)
	}
	response, err := next(ctx, op, request)
	done := operation{Op: op, Request: value(request), Response: value(response)}
	if err != nil {
		done.Error, done.Response = fault.AsError(err), nil
	}
	r.asked = append(r.asked, done)
	return response, err
}

// value keeps bytes that are JSON unchanged, and others as a string, so that the
// file can always be read.
func value(b []byte) json.RawMessage {
	if json.Valid(b) {
		return json.RawMessage(strings.Clone(string(b)))
	}
	s, _ := json.Marshal(string(b)) // a string always has JSON
	return s
}
