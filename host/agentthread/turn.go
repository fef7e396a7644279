package agentthread

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
)

// maxAnswers is the number of last input messages whose turns an agent thread
// remembers: a client repeats only a recent message.
const maxAnswers = 32

// answer says where an agent thread has the answer to a message. Run is empty
// as long as no turn that answers it has completed.
type answer struct {
	Message string            `json:"message"`
	Run     string            `json:"run,omitempty"`
	First   string            `json:"first,omitempty"` // id of the turn's first message
	Last    string            `json:"last,omitempty"`  // and of its last
	Count   int               `json:"count,omitempty"` // of its messages
	Rounds  int               `json:"rounds,omitempty"`
	Status  chat.FinishReason `json:"finish_reason,omitempty"`
}

func (a *answer) valid() bool {
	return a.Message != "" && validID(a.Message) && validID(a.Run) && validID(a.First) && validID(a.Last) &&
		a.Rounds >= 0 && a.Count >= 0 && (a.Run == "") == (a.First == "") && (a.Run == "") == (a.Count == 0)
}

// noteAnswer notes which message a turn has answered. A turn without an input of
// its own answers the previous turn's input again.
func (t *Thread) noteAnswer(turn *Turn) {
	last := len(t.answers) - 1
	open := last >= 0 && t.answers[last].Run == ""
	switch {
	case t.kind == Service:
		t.answers = nil
		return
	case turn.Input != nil && turn.InputNamed:
		t.answers = slices.DeleteFunc(t.answers, func(a answer) bool { return a.Message == turn.Input.ID })
		t.answers = append(t.answers, answer{Message: turn.Input.ID})
	case turn.Input != nil && open && t.answers[last].Message != turn.Input.ID:
		t.answers = t.answers[:last] // nothing answers it any more
		return
	case !open:
		return
	}
	if said := turn.Messages; turn.Completed && len(said) > 0 {
		a := &t.answers[len(t.answers)-1]
		a.Run, a.First, a.Last, a.Count = turn.Run, said[0].ID, said[len(said)-1].ID, len(said)
		a.Status, a.Rounds = turn.Status, turn.Rounds
	}
	if n := len(t.answers); n > maxAnswers {
		t.answers = slices.Clone(t.answers[n-maxAnswers:])
	}
}

func (e *envelope) readAnswers(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &e.answers); err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	if len(e.answers) > maxAnswers || slices.ContainsFunc(e.answers, func(a answer) bool { return !a.valid() }) {
		return fmt.Errorf("its answers are none that a thread has")
	}
	return nil
}
