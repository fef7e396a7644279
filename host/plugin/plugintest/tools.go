package plugintest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/plugin"
)

// toolCall is the host operation by which a plugin's tool calls other tools.
const toolCall = "tool.call"

// Tools are tools of an agent that does not run: a plugin's tool that calls others gets their answers.
type Tools struct{ answers map[string][]*scriptedAnswer }

// scriptedAnswer is what a tool answers to arguments, or to all.
type scriptedAnswer struct {
	Arguments json.RawMessage `json:"arguments,omitempty"` // absent: any
	Content   json.RawMessage `json:"content,omitempty"`
	Media     json.RawMessage `json:"media,omitempty"`
	Error     *host.Error     `json:"error,omitempty"` // in place of a content
}

// ReadTools reads an object whose members are the answers of tools, by their names. An answer is
// {"content", "media"?} or {"error": {"code", "message"}}; with "arguments" it answers those. A
// tool may have a list of answers, of which the first that fits is given.
func ReadTools(raw []byte) (*Tools, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "read the answers of tools: %w", err).
			WithHint(`write an object such as {"search": {"content": "tea"}}`)
	}
	t := &Tools{answers: map[string][]*scriptedAnswer{}}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list, err := readAnswers(members[name])
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "read the answers of the tool %q: %w", name, err).
				WithHint(`an answer is {"content": ...} or {"error": {"code": ..., "message": ...}}, and has "arguments" if it is for these`)
		}
		t.answers[name] = list
	}
	return t, nil
}

// readAnswers reads the answers of one tool. It refuses unknown members: a misspelt content
// would answer the plugin with nothing.
func readAnswers(raw json.RawMessage) (list []*scriptedAnswer, err error) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		raw = slices.Concat([]byte("["), raw, []byte("]"))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	for _, a := range list {
		if a == nil || (a.Content == nil) == (a.Error == nil) {
			return nil, errors.New("an answer needs a content or an error")
		}
	}
	if len(list) == 0 {
		return nil, errors.New("it has none")
	}
	return list, nil
}

// Operate answers tool.call, for [plugin.CallOptions].Operate, and leaves other operations to next.
// The plugin needs the permission tools for the names that it calls, as in a run.
func (t *Tools) Operate(ctx context.Context, op string, request []byte, next plugin.Operation) ([]byte, error) {
	response, err := next(ctx, op, request)
	if op != toolCall || host.CodeOf(err) != host.FailedPrecondition {
		return response, err
	}
	return t.answer(request, nil) // the host has looked at the names, and has no agent whose tools they are
}

// answer answers a request of tool.call, and tells seen of each call which answer it gets: nil for
// a call that none fits.
func (t *Tools) answer(request []byte, seen func(name string, arguments json.RawMessage, a *scriptedAnswer)) ([]byte, error) {
	var in struct{ Calls []nested.Call }
	if err := json.Unmarshal(request, &in); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "request of %s: %w", toolCall, err)
	}
	results := []toolResult{}
	for _, c := range in.Calls {
		a := t.find(c)
		if seen != nil {
			seen(c.Name, c.Arguments, a)
		}
		if a == nil {
			a = &scriptedAnswer{Error: host.Errorf(host.NotFound, "There is no answer of the tool %q to %.300s.", c.Name, c.Arguments)}
		}
		results = append(results, a.result())
	}
	return json.Marshal(map[string]any{"results": results})
}

// toolResult is a result in the response of tool.call.
type toolResult struct {
	Kind    nested.Kind     `json:"kind"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error,omitempty"`
	Code    host.Code       `json:"code,omitempty"`
	Media   json.RawMessage `json:"media,omitempty"`
}

func (a *scriptedAnswer) result() toolResult {
	if a.Error == nil {
		return toolResult{Kind: nested.Result, Content: a.Content, Media: a.Media}
	}
	sentence, _ := json.Marshal(a.Error.Message) // a string always has JSON
	return toolResult{Kind: nested.Error, Content: sentence, IsError: true, Code: cmp.Or(a.Error.Code, host.Internal)}
}

func (t *Tools) find(c nested.Call) *scriptedAnswer {
	arguments := c.Arguments
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	for _, a := range t.answers[c.Name] {
		if a.Arguments == nil || diffJSON(a.Arguments, arguments) == nil {
			return a
		}
	}
	return nil
}

// unasked lists the answers that no call has got.
func (t *Tools) unasked(given map[*scriptedAnswer]bool) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(t.answers)) {
		for _, a := range t.answers[name] {
			if !given[a] {
				problems = append(problems, fmt.Sprintf("an answer of the tool %q is not asked for: no call has the arguments %.300s", name, cmp.Or(string(a.Arguments), "that come first")))
			}
		}
	}
	return problems
}
