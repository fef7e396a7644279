package plugintest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// unknownParts gives each message and each part a field, and each message a part,
// of a later contract, and looks for them in the messages of the same id that
// come back.
func unknownParts(g *guest) (broken []error) {
	for _, c := range g.histories() {
		m, _ := members(c.Input) // histories has read it
		marked, sent, err := markMessages(m["messages"])
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
			if err := carried(back, sent); err != nil {
				broken = append(broken, c.problem("%w", err))
			}
		}
	}
	return broken
}

// laterPart is a part whose type no version of the contract knows.
const laterPart = `{"type":"x-later","value":` + later + `}`

// sentParts are the parts of messages, by their ids, as a guest is sent them.
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
		return nil // which part is which is not known
	}
	for i, back := range m.Parts {
		if err := carriedPart(back, sent[m.ID][i]); err != nil {
			return fmt.Errorf("part %d of message %s comes back %w: %.200s", i, m.ID, err, back)
		}
	}
	return nil
}

// carriedPart says what a part that has come back has lost, if it is still one of
// the type that it was. Its texts may be others; a number may not be another that
// is nearly the same.
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
