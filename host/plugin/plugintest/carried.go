package plugintest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// unknownParts adds a field of a later contract to each message and each part, and a part
// of a later contract to each message, and looks for them in the returned messages with
// the same id.
func unknownParts(g *guest) (broken []error) {
	for _, c := range g.histories() {
		m, _ := members(c.Input) // histories has decoded it
		marked, sent, err := markMessages(m["messages"])
		if err != nil {
			broken = append(broken, c.problem("its messages: %w", err))
			continue
		}
		c = c.with("messages", marked)
		r, err := g.sandbox.callFresh(c)
		if err != nil || r.GuestError {
			broken = append(broken, c.problem("is answered with %s", shown(r, err)))
			continue
		}
		for _, back := range messagesOf(r.Output) {
			if err := carried(back, sent); err != nil {
				broken = append(broken, c.problem("%w", err))
			}
		}
	}
	return broken
}

// laterPart is a part with a type unknown in every version of the contract.
const laterPart = `{"type":"x-later","value":` + later + `}`

// sentParts are the parts of the messages sent to a guest, by message id.
type sentParts map[string][]json.RawMessage

func markMessages(raw json.RawMessage) (marked json.RawMessage, sent sentParts, err error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, nil, err
	}
	sent = sentParts{}
	for _, m := range list {
		var id string
		var parts []map[string]json.RawMessage
		if json.Unmarshal(m["id"], &id) != nil || json.Unmarshal(m["parts"], &parts) != nil || id == "" || slices.ContainsFunc(parts, isNil) {
			return nil, nil, fmt.Errorf("each needs an id and parts")
		}
		m["x-later"] = json.RawMessage(later)
		for _, p := range parts {
			p["x-later"] = json.RawMessage(later)
			b, err := json.Marshal(p)
			if err != nil {
				return nil, nil, err
			}
			sent[id] = append(sent[id], b)
		}
		sent[id] = append(sent[id], json.RawMessage(laterPart))
		if m["parts"], err = json.Marshal(sent[id]); err != nil {
			return nil, nil, err
		}
	}
	marked, err = json.Marshal(list)
	return marked, sent, err
}

func isNil(part map[string]json.RawMessage) bool { return part == nil }

// messagesOf returns the messages in a processor's output, whole or edited.
func messagesOf(output []byte) []json.RawMessage {
	var out struct {
		Messages []json.RawMessage
		Edits    []struct {
			Replace struct{ Message json.RawMessage }
		}
	}
	if json.Unmarshal(output, &out) != nil {
		return nil // another rule reports it
	}
	list := out.Messages
	for _, e := range out.Edits {
		if e.Replace.Message != nil {
			list = append(list, e.Replace.Message)
		}
	}
	return list
}

// carried returns which parts or fields a returned message has lost.
func carried(raw json.RawMessage, sent sentParts) error {
	var m struct {
		ID    string          `json:"id"`
		Later json.RawMessage `json:"x-later"`
		Parts []json.RawMessage
	}
	if err := json.Unmarshal(raw, &m); err != nil || sent[m.ID] == nil {
		return nil
	}
	if !sameJSON(m.Later, json.RawMessage(later)) {
		return fmt.Errorf("message %s comes back without the field x-later that it had, or with another: %.200s", m.ID, raw)
	}
	if !slices.ContainsFunc(m.Parts, func(p json.RawMessage) bool { return sameJSON(p, json.RawMessage(laterPart)) }) {
		return fmt.Errorf("message %s comes back without the part of type x-later that it had, or with another: %.200s", m.ID, raw)
	}
	if len(m.Parts) != len(sent[m.ID]) {
		return nil // the parts cannot be matched
	}
	for i, back := range m.Parts {
		if err := carriedPart(back, sent[m.ID][i]); err != nil {
			return fmt.Errorf("part %d of message %s comes back %w: %.200s", i, m.ID, err, back)
		}
	}
	return nil
}

// carriedPart returns which fields a returned part has lost, if its type is the same. Its
// texts may differ; a number must not be rounded to a nearly equal one.
func carriedPart(back, sent json.RawMessage) error {
	b, _ := members(string(back)) // of an object alone
	s, _ := members(string(sent))
	if !sameJSON(b["type"], s["type"]) {
		return nil
	}
	if s["x-later"] != nil && !sameJSON(b["x-later"], s["x-later"]) {
		return fmt.Errorf("without the field x-later that it had, or with another")
	}
	if sameJSON(back, sent) {
		return nil
	}
	var near, was any
	if json.Unmarshal(back, &near) == nil && json.Unmarshal(sent, &was) == nil && reflect.DeepEqual(near, was) {
		return fmt.Errorf("with other numbers than it had: numbers are their text")
	}
	return nil
}
