package host

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
)

// startEdits are the changes of an agent's Start hook in the rounds so far. They
// are kept as changes and not as their result, so that a round adds to those before
// it, and the same change made in each round is one.
type startEdits struct {
	instead *string // in the place of the instructions
	affixes []affix // around the instructions, in the order of their addition

	dropped  map[string]bool     // messages by id
	replaced map[string]*Message // by id
	added    []addedMessage
}

type affix struct{ before, after string }

// addedMessage is one that a hook has put behind another, or has moved there.
type addedMessage struct {
	behind  string // id of a message of the conversation; "" is its start
	message *Message
}

// hookStart asks the Start hook and returns the conversation with its changes and
// those of the rounds before.
func (t *turn) hookStart(ctx context.Context, messages []*Message) (_ []*Message, stop bool, err error) {
	hook := t.agent.opts.Hooks.Start
	if hook == nil {
		return messages, false, nil
	}
	lent := chat.Lend(messages)
	at := &StartHook{Scope: t.run.scope, State: t.run.state, Input: t.run.conv.input, SoFar: t.soFar(), Round: t.result.Rounds + 1,
		Instructions: t.instructions, Messages: slices.Clone(lent.Copies)}
	if err := hook(ctx, at); err != nil {
		return nil, false, t.agent.hookError(err, "start")
	}
	t.run.events.sendState(t.run.state)
	if at.Stop {
		t.result.FinishReason = chat.FinishStop
		return nil, true, nil
	}
	edited, err := t.agent.hookMessages(lent.Return(at.Messages), messages, "start")
	if err != nil {
		return nil, false, err
	}
	e := &t.startEdits
	if t.run.service.id != "" { // the model's service has those of the rounds before
		e.added = slices.DeleteFunc(e.added, func(a addedMessage) bool { return a.behind == "" })
	}
	e.editInstructions(t.instructions, at.Instructions)
	e.editMessages(messages, edited)
	edited, err = t.agent.hookMessages(e.messages(messages), messages, "start")
	return edited, false, err
}

// prompt returns the instructions for the next model call.
func (t *turn) prompt() string {
	text := t.startEdits.instructions(t.instructions)
	if text == "" {
		return strings.TrimPrefix(t.closing, "\n\n")
	}
	return text + t.closing
}

// editInstructions adds a hook's changes of the instructions.
func (e *startEdits) editInstructions(before, after string) {
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

func (e *startEdits) instructions(text string) string {
	if e.instead != nil {
		text = *e.instead
	}
	for _, a := range e.affixes {
		text = a.before + text + a.after
	}
	return text
}

// editMessages adds a hook's changes of the conversation.
func (e *startEdits) editMessages(before, after []*Message) {
	if slices.Equal(before, after) {
		return
	}
	same, at := make(map[*Message]int, len(before)), make(map[string]int, len(before))
	for i, m := range before {
		same[m], at[m.ID] = i, i
	}
	if e.dropped == nil {
		e.dropped, e.replaced = map[string]bool{}, map[string]*Message{}
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
func (e *startEdits) add(held []addedMessage, a addedMessage) []addedMessage {
	repeats := func(h addedMessage) bool { return h.message.ID == a.message.ID || sameSaid(h.message, a.message) }
	if i := slices.IndexFunc(held, repeats); i >= 0 {
		return slices.Delete(held, i, i+1)
	}
	e.added = append(e.added, a)
	return held
}

// messages returns a conversation with the changes made to it.
func (e *startEdits) messages(before []*Message) []*Message {
	if e.dropped == nil {
		return before
	}
	out := make([]*Message, 0, len(before)+len(e.added))
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
func idAt(messages []*Message, i int) string {
	if i < 0 {
		return ""
	}
	return messages[i].ID
}

// sameSaid reports whether two messages differ in nothing but their ids and times.
func sameSaid(a, b *Message) bool {
	return a.Role == b.Role && a.Agent == b.Agent && slices.EqualFunc(a.Parts, b.Parts, func(x, y Part) bool {
		return bytes.Equal(chat.AppendPartJSON(nil, x), chat.AppendPartJSON(nil, y))
	})
}
