package plugintest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/plugin"
)

// answers checks each answer against the rules of pdk/ABI.md for its export.
func answers(g *guest) (broken []error) {
	for _, c := range g.calls {
		r, err := g.sandbox.callFresh(c)
		if err == nil {
			err = g.answer(c, r)
		}
		if err != nil {
			broken = append(broken, c.problem("%w", err))
		}
	}
	return broken
}

// answer returns the faults of an answer that a run finds, or that a run with another
// conversation and other agents would find.
func (g *guest) answer(c Call, r *plugin.CallResult) error {
	if err := g.sandbox.plugin.CheckAnswer(c.Export, []byte(c.Input), r); err != nil {
		return err
	}
	if r.GuestError {
		return errorObject(r.Output)
	}
	switch c.Export {
	case "tool":
		return toolAnswer(r.Output)
	case "process":
		return processAnswer(c, r.Output)
	case "provide":
		return provideAnswer(g.sandbox.plugin.Manifest(), r.Output)
	}
	return nil
}

func toolAnswer(output []byte) error {
	var a struct{ Interrupt *host.Interrupt }
	if err := json.Unmarshal(output, &a); err != nil {
		return err
	}
	if a.Interrupt != nil && a.Interrupt.Reason == "" {
		return fmt.Errorf("the interrupt has no reason, which is what a person would be asked")
	}
	return nil
}

// processAnswer applies a processor's edits to a conversation of the same shape.
func processAnswer(c Call, output []byte) error {
	var a struct{ Edits json.RawMessage }
	if err := json.Unmarshal(output, &a); err != nil || a.Edits == nil {
		return err
	}
	edits, err := chat.DecodeEdits(a.Edits)
	if err != nil {
		return err
	}
	view, err := conversation(c)
	if err != nil {
		return err
	}
	_, err = chat.ApplyEdits(view, edits)
	return err
}

// conversation returns the messages of a process call, or made-up ones with as many
// messages and parts as its outline.
func conversation(c Call) ([]*host.Message, error) {
	var in struct {
		Messages []*host.Message
		Outline  struct{ Parts []int }
	}
	if err := json.Unmarshal([]byte(c.Input), &in); err != nil {
		return nil, fmt.Errorf("the input: %w", err)
	}
	for _, n := range in.Outline.Parts {
		m := host.NewMessage(host.User)
		for range min(n, maxParts) {
			m.Parts = append(m.Parts, &host.Text{})
		}
		in.Messages = append(in.Messages, m)
	}
	return in.Messages, nil
}

// maxParts bounds the parts of a message made up from an outline.
const maxParts = 1000

func provideAnswer(m *plugin.Manifest, output []byte) error {
	var a struct{ Tools []string }
	if err := json.Unmarshal(output, &a); err != nil {
		return err
	}
	for _, name := range a.Tools {
		if !slices.ContainsFunc(m.Tools, func(t plugin.ToolInfo) bool { return t.Name == name }) {
			return fmt.Errorf("the answer offers the tool %q, which is not in the plugin's manifest", name)
		}
	}
	return nil
}
