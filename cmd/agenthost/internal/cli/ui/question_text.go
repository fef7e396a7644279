package ui

import (
	"cmp"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// QuestionText returns a question in words for a person.
func QuestionText(q *host.Question) string {
	what := fmt.Sprintf("%s %s", termtext.Printable(q.Tool), Clip(string(q.Arguments)))
	switch q.Kind {
	case host.AskApproval:
		what = "May it call " + what + "?"
	case host.AskResult:
		what = "What does this call give: " + what + "?"
	case host.AskUnknown:
		what = "Nobody knows whether this call has run: " + what + ". May it run again?"
	default:
		what = cmp.Or(termtext.Printable(q.Tool), "A tool") + " asks:"
	}
	if q.Reason != "" {
		what += " " + Clip(q.Reason)
	}
	if len(q.Data) > 0 {
		what += " " + Clip(string(q.Data))
	}
	if q.Expires != nil {
		what += " (until " + q.Expires.Local().Format(time.DateTime) + ")"
	}
	return what
}
