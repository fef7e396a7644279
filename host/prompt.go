package host

import (
	"strings"

	"github.com/agenthost/agenthost/host/internal/hookedit"
)

// prompt is the system prompt of an agent's run.
type prompt struct {
	instructions string         // without the Start hook's changes
	edits        hookedit.Edits // of the Start hook
	closing      string         // behind them, for the last answer
	message      *Message       // of the last request
}

// text returns the instructions for the next model call.
func (p *prompt) text() string {
	text := p.edits.Instructions(p.instructions)
	if text == "" {
		return strings.TrimPrefix(p.closing, "\n\n")
	}
	return text + p.closing
}

// system returns the message with the instructions, nil without any. The rounds of a turn
// share it, and with it its encoding for the model.
func (p *prompt) system() *Message {
	text := p.text()
	if p.message == nil || p.message.Text() != text {
		p.message = instructionsMessage(text)
	}
	return p.message
}

func withInstructions(instructions string, view []*Message) []*Message {
	return withSystem(instructionsMessage(instructions), view)
}

// instructionsMessage returns the system message of instructions, nil if there are none.
func instructionsMessage(text string) *Message {
	if text == "" {
		return nil
	}
	return &Message{ID: "instructions", Role: System, Parts: []Part{&Text{Text: text}}}
}

func withSystem(system *Message, view []*Message) []*Message {
	out := make([]*Message, 0, 1+len(view))
	if system != nil {
		out = append(out, system)
	}
	return append(out, view...)
}
