package talk

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
)

// Answers asks the questions of a turn, and returns the answers; nil if the person gives
// none to one of them, by an empty line or ctrl-C.
func (p *Person) Answers(ctx context.Context, questions []*host.Question) ([]host.Answer, error) {
	var list []host.Answer
	for _, q := range questions {
		text, err := p.Ask(ctx, ui.QuestionText(q)+" "+choices(q)+" ")
		if err != nil {
			return nil, err
		}
		answer, ok := readAnswer(q, strings.TrimSpace(text))
		if !ok {
			return nil, nil
		}
		list = append(list, answer)
	}
	return list, nil
}

func choices(q *host.Question) string {
	switch q.Kind {
	case host.AskInput, host.AskResult:
		return "[text or JSON]"
	}
	return "[y, n, or why not]"
}

// readAnswer parses a person's line; an empty line is no answer.
func readAnswer(q *host.Question, text string) (host.Answer, bool) {
	a := host.Answer{Question: q.ID}
	switch {
	case text == "":
		return a, false
	case q.Kind == host.AskInput || q.Kind == host.AskResult:
		a.Decision, a.Value = host.Reply, json.RawMessage(text)
		if !json.Valid(a.Value) {
			a.Value, _ = json.Marshal(text) // a string always has JSON
		}
	case strings.EqualFold(text, "y") || strings.EqualFold(text, "yes"):
		a.Decision = host.Approve
	default:
		a.Decision = host.Deny
		if !strings.EqualFold(text, "n") && !strings.EqualFold(text, "no") {
			a.Reason = text
		}
	}
	return a, true
}
