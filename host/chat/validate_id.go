package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/fault"
)

// MaxIDBytes is the longest id of a thread, a run or a message, in every store.
const MaxIDBytes = 256

// ValidateID is the rule for ids and names under which callers have things stored:
// UTF-8 of 1 to limit bytes without control characters, which could not be seen in
// a list and would be drawn by a terminal. Anything else, ".." and "/" too, is a
// name and never a path. The error has the code invalid_argument and begins with
// what, the thing that has the id.
func ValidateID(what, id string, limit int) error {
	switch {
	case id == "":
		return fault.Errorf(fault.InvalidArgument, "%s has no id", what).WithHint("name one")
	case len(id) > limit:
		return fault.Errorf(fault.InvalidArgument, "%s id %.20q... is %d bytes long, more than %d", what, id, len(id), limit)
	case !utf8.ValidString(id):
		return fault.Errorf(fault.InvalidArgument, "%s id %q is not UTF-8", what, id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fault.Errorf(fault.InvalidArgument, "%s id %q has a control character", what, id)
	}
	return nil
}
