package ui

import (
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// ErrorText puts an error's next step on a line of its own. Models' servers, plugins and
// tools write parts of errors: ErrorText removes terminal control sequences.
func ErrorText(err error) string {
	text := err.Error()
	if hint := lastHint(err, text); hint != "" {
		text = strings.TrimSuffix(text, "; "+hint) + "\n  → " + hint
	}
	return termtext.Printable(text)
}

// lastHint finds the hint in err's tree that text ends with.
func lastHint(err error, text string) string {
	if e, ok := err.(*host.Error); ok && e.Hint != "" && strings.HasSuffix(text, "; "+e.Hint) {
		return e.Hint
	}
	var causes []error
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		causes = []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		causes = err.Unwrap()
	}
	for _, cause := range causes {
		if cause == nil {
			continue
		}
		if hint := lastHint(cause, text); hint != "" {
			return hint
		}
	}
	return ""
}
