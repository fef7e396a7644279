// Package hookedit takes over the changes that an agent's hooks make to its instructions
// and its conversation.
//
// A hook's values go in beside those that it was given. [Check] returns the messages that
// the hook leaves, if they are no worse than before. [Edits] hold the changes of a Start
// hook in the rounds so far and make them again in each later round: a change that a hook
// makes in every round is made once, and messages that are added keep their place.
//
// The package knows no hook, no agent and no run. Messages are those of the caller, and
// are not written to.
package hookedit

import (
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// Check returns the messages that a hook of an agent leaves in the place of before, with
// ids and with the agent's name on those that it has added. Code internal for a message
// that is nil, and for more faults of pairing than before has.
func Check(after, before []*chat.Message, agent string) ([]*chat.Message, error) {
	if slices.Equal(after, before) {
		return before, nil
	}
	out := make([]*chat.Message, len(after))
	for i, m := range after {
		if m == nil {
			return nil, fault.Errorf(fault.Internal, "message %d is nil", i)
		}
		if out[i] = m.WithIdentity(); out[i].Agent == "" && m.Role != chat.User && !slices.Contains(before, m) {
			out[i].Agent = agent
		}
	}
	n, first := chat.Faults(out)
	if was, _ := chat.Faults(before); n > was {
		return nil, fault.Errorf(fault.Internal, "it leaves a broken history: %w", first)
	}
	return out, nil
}

// Edits are the changes of an agent's Start hook in the rounds so far. They are kept as
// changes and not as their result, so that a round adds to those before it, and the same
// change made in each round is one. The zero value has none.
type Edits struct {
	instead *string // in the place of the instructions
	affixes []affix // around the instructions, in the order of their addition

	dropped  map[string]bool          // messages by id
	replaced map[string]*chat.Message // by id
	added    []addedMessage
}

type affix struct{ before, after string }

// addedMessage is one that a hook has put behind another, or has moved there.
type addedMessage struct {
	behind  string // id of a message of the conversation; "" is its start
	message *chat.Message
}

// EditInstructions adds a hook's change of the instructions, which were before.
func (e *Edits) EditInstructions(before, after string) {
	if after == before {
		return
	}
	start, end, around := strings.Cut(after, before)
	if before == "" {
		start, end = "", after
	}
	if !around {
		e.instead, e.affixes = &after, nil
		return
	}
	if a := (affix{start, end}); !slices.Contains(e.affixes, a) {
		e.affixes = append(e.affixes, a)
	}
}

// Instructions returns instructions with the changes made to them.
func (e *Edits) Instructions(text string) string {
	if e.instead != nil {
		text = *e.instead
	}
	for _, a := range e.affixes {
		text = a.before + text + a.after
	}
	return text
}

// EditMessages adds a hook's changes of the conversation, which was before.
func (e *Edits) EditMessages(before, after []*chat.Message) {
	if slices.Equal(before, after) {
		return
	}
	same, at := make(map[*chat.Message]int, len(before)), make(map[string]int, len(before))
	for i, m := range before {
		same[m], at[m.ID] = i, i
	}
	if e.dropped == nil {
		e.dropped, e.replaced = map[string]bool{}, map[string]*chat.Message{}
	}
	stays := make([]bool, len(before))
	held := slices.Clone(e.added) // each may be repeated by one addition
	last := -1
	for _, m := range after {
		i, known := same[m]
		if !known {
			i, known = at[m.ID]
		}
		if !known || i <= last { // or moved behind what it stood before
			held = e.add(held, addedMessage{idAt(before, last), m})
			continue
		}
		if last, stays[i] = i, true; m != before[i] {
			e.replaced[m.ID] = m
		}
	}
	for i, m := range before {
		if !stays[i] {
			e.dropped[m.ID] = true
		}
	}
}

// add adds a message, unless it repeats one of held, which is returned without it.
func (e *Edits) add(held []addedMessage, a addedMessage) []addedMessage {
	repeats := func(h addedMessage) bool {
		return h.message.ID == a.message.ID || h.message.Agent == a.message.Agent && h.message.SameContent(a.message)
	}
	if i := slices.IndexFunc(held, repeats); i >= 0 {
		return slices.Delete(held, i, i+1)
	}
	e.added = append(e.added, a)
	return held
}

// ForgetFirst forgets the messages that were added before all others.
func (e *Edits) ForgetFirst() {
	e.added = slices.DeleteFunc(e.added, func(a addedMessage) bool { return a.behind == "" })
}

// Messages returns a conversation with the changes made to it.
func (e *Edits) Messages(before []*chat.Message) []*chat.Message {
	if e.dropped == nil {
		return before
	}
	out := make([]*chat.Message, 0, len(before)+len(e.added))
	insert := func(behind string) {
		for _, a := range e.added {
			if a.behind == behind {
				out = append(out, a.message)
			}
		}
	}
	insert("")
	for _, m := range before {
		if !e.dropped[m.ID] {
			if own := e.replaced[m.ID]; own != nil {
				m = own
			}
			out = append(out, m)
		}
		insert(m.ID)
	}
	return out
}

// idAt returns the id of a message, "" before the first.
func idAt(messages []*chat.Message, i int) string {
	if i < 0 {
		return ""
	}
	return messages[i].ID
}
