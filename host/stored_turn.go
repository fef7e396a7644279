package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/statedoc"
	"github.com/agenthost/agenthost/host/runevent"
)

// TurnReader is an optional interface of a history adapter: it finds the turn that
// answered a message. A client that lost the answer sends its message again, with
// the same id, and gets the stored turn: no model is asked, no tool runs, nothing
// is charged and nothing is stored.
type TurnReader interface {
	// ReadTurn returns the completed turn of the network req.Network that answered
	// the message with the id of req.Input; nil if the thread does not show that
	// message, its turns failed or were interrupted, or their messages are not whole
	// any more. A turn that was tried again without an input answers the message
	// before it. Code conflict if the thread's message of that id says something
	// else. It is called while the run has the thread, where there is a
	// [ThreadLocker]; for a run that its tenant's quota refuses it is called
	// without.
	ReadTurn(ctx context.Context, req *HistoryRequest) (*StoredTurn, error)
}

// StoredTurn is a completed turn as a history kept it.
type StoredTurn struct {
	Run       string
	Results   []*Result       // a nil Output is read from the last answer
	State     json.RawMessage // the custom state after it
	Artifacts []Artifact      // those that the turn made
	Status    FinishReason
}

// readStoredTurn returns the stored turn that answered the run's input, or nil.
// Only a message with an id of its client's can have been sent before.
func (t *runThread) readStoredTurn(ctx context.Context) (*StoredTurn, error) {
	if t.history == nil || t.history.readTurn == nil || t.scope.Thread == "" || t.req.Input == nil || t.req.Input.ID == "" {
		return nil, nil
	}
	stored, err := callHistory(ctx, t, historyCall[*StoredTurn]{method: "ReadTurn", limit: historyLimit(t.limits), call: t.history.readTurn})
	if err != nil || stored == nil {
		return nil, wrapError(err, "look in thread %q for an answer to message %q", t.scope.Thread, t.conv.input.ID)
	}
	own := *stored
	own.Results = make([]*Result, len(stored.Results))
	for i, result := range stored.Results {
		err := fmt.Errorf("result %d is nil", i)
		if result != nil {
			err = chat.CheckForm(result.Messages)
		}
		if err != nil {
			return nil, Errorf(DataLoss, "history adapter returned a damaged turn: %w", err)
		}
		own.Results[i] = result.Clone() // outputs are written into it
	}
	if own.Run == "" {
		return nil, Errorf(DataLoss, "history adapter returned a turn of no run")
	}
	return &own, nil
}

// replay answers with a stored turn, under the id of its run. Neither the meter nor
// the tracer has its events: they had them when the turn ran.
func (r *run) replay(ctx context.Context, stored *StoredTurn) error {
	r.events.Replayed, r.scope.Run, r.conv.results, r.ledger.Artifacts = true, stored.Run, stored.Results, stored.Artifacts
	var err error
	if r.state, err = newState(nil, r.limits.StateBytes, nil); err == nil && len(stored.State) > 0 {
		var members map[string]any
		if members, err = statedoc.Members(stored.State); err == nil {
			r.state, err = newState(members, len(stored.State)+r.limits.StateBytes, nil)
		}
	}
	if err != nil {
		return Errorf(DataLoss, "state of turn %q of thread %q: %w", stored.Run, r.scope.Thread, err)
	}
	r.sendStarted()
	r.events.SendState(r.state.view())
	for _, result := range stored.Results {
		sendStored(&r.events, result, r.routes.agentNamed(result.Agent))
	}
	for i := range stored.Artifacts {
		r.events.Emit(&runevent.ArtifactMade{Artifact: &stored.Artifacts[i]})
	}
	return r.finish(ctx, stored.Status, nil)
}

// sendStored sends a stored result of an agent, which may be nil: an answer in one piece.
func sendStored(events *report.Reporter, result *Result, a *Agent) {
	events.Scope.Agent = result.Agent
	defer func() { events.Scope.Agent = "" }()
	if a != nil && a.opts.Output != nil && result.Output == nil {
		if out, err := a.opts.Output.readOutput(result.Text()); err == nil {
			result.Output = out
		}
	}
	events.Emit(&runevent.AgentStarted{Result: result.ID})
	for _, m := range result.Messages {
		for _, part := range m.Parts {
			switch p := part.(type) {
			case *Reasoning:
				events.Emit(&runevent.ReasoningDelta{Text: p.Text})
			case *Text:
				if m.Role == Assistant {
					events.Emit(&runevent.TextDelta{Text: p.Text})
				}
			case *ToolResult:
				events.Emit(&runevent.ToolFinished{ID: p.ID, Name: p.Name, Content: slices.Clone(p.Content), IsError: p.IsError})
			}
		}
		events.Emit(&runevent.MessageDone{Message: m})
	}
	events.Emit(&runevent.AgentFinished{FinishReason: result.FinishReason, Rounds: result.Rounds})
}
