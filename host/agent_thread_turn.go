package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// maxThreadAnswers is the number of last input messages whose turns an agent thread
// remembers: a client repeats only a recent message.
const maxThreadAnswers = 32

// threadAnswer says where an agent thread has the answer to a message. Run is empty
// as long as no turn that answers it has completed.
type threadAnswer struct {
	Message string       `json:"message"`
	Run     string       `json:"run,omitempty"`
	First   string       `json:"first,omitempty"` // id of the turn's first message
	Last    string       `json:"last,omitempty"`  // and of its last
	Count   int          `json:"count,omitempty"` // of its messages
	Rounds  int          `json:"rounds,omitempty"`
	Status  FinishReason `json:"finish_reason,omitempty"`
}

func (a *threadAnswer) valid() bool {
	return a.Message != "" && validMessageID(a.Message) && validMessageID(a.Run) && validMessageID(a.First) && validMessageID(a.Last) &&
		a.Rounds >= 0 && a.Count >= 0 && (a.Run == "") == (a.First == "") && (a.Run == "") == (a.Count == 0)
}

// noteAnswer notes which message a turn has answered. A turn without an input of
// its own answers the previous turn's input again.
func (t *AgentThread) noteAnswer(req *HistoryRequest, turn *Turn) {
	last := len(t.answers) - 1
	open := last >= 0 && t.answers[last].Run == ""
	switch {
	case t.kind == ThreadService:
		t.answers = nil
		return
	case req.Input != nil && turn.inputNamed:
		t.answers = slices.DeleteFunc(t.answers, func(a threadAnswer) bool { return a.Message == req.Input.ID })
		t.answers = append(t.answers, threadAnswer{Message: req.Input.ID})
	case req.Input != nil && open && t.answers[last].Message != req.Input.ID:
		t.answers = t.answers[:last] // nothing answers it any more
		return
	case !open:
		return
	}
	if said := turn.Messages(); turn.Completed() && len(said) > 0 {
		a := &t.answers[len(t.answers)-1]
		a.Run, a.First, a.Last, a.Count = req.Run, said[0].ID, said[len(said)-1].ID, len(said)
		a.Status, a.Rounds = turn.Status, turn.Results[0].Rounds
	}
	if n := len(t.answers); n > maxThreadAnswers {
		t.answers = slices.Clone(t.answers[n-maxThreadAnswers:])
	}
}

// ReadTurn implements [TurnReader].
func (h *threadHistory) ReadTurn(ctx context.Context, req *HistoryRequest) (*StoredTurn, error) {
	t := (*AgentThread)(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.answers, func(a threadAnswer) bool { return a.Message == req.Input.ID })
	if i < 0 {
		return nil, nil
	}
	messages, err := t.messages(ctx)
	if err != nil {
		return nil, err
	}
	a := t.answers[i]
	asked := slices.IndexFunc(messages, func(m *Message) bool { return m.ID == a.Message })
	if asked < 0 {
		return nil, nil // it was reduced away
	}
	if !messages[asked].SameContent(req.Input) {
		return nil, Errorf(Conflict, "thread %q has a message %q that says something else", t.opts.ID, a.Message).
			WithHint("leave the id out for a fresh one")
	}
	first := slices.IndexFunc(messages, func(m *Message) bool { return m.ID == a.First })
	if a.Run == "" || first < asked || first+a.Count > len(messages) || messages[first+a.Count-1].ID != a.Last {
		return nil, nil // it failed, or the messages were edited or reduced since
	}
	return &StoredTurn{Run: a.Run, State: t.state, Status: a.Status, Results: []*Result{{
		ID: fmt.Sprintf("%s/0", a.Run), Agent: t.agent.name, Messages: slices.Clone(messages[first : first+a.Count]),
		FinishReason: a.Status, Rounds: a.Rounds, CreatedAt: messages[first].CreatedAt,
	}}}, nil
}

func (e *envelope) readAnswers(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &e.answers); err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	if len(e.answers) > maxThreadAnswers || slices.ContainsFunc(e.answers, func(a threadAnswer) bool { return !a.valid() }) {
		return fmt.Errorf("its answers are none that a thread has")
	}
	return nil
}
