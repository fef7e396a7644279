package host

import (
	"strings"
	"unicode/utf8"
)

// ValidateID is the rule for ids and names that callers give to whoever stores
// things under them: UTF-8 of 1 to limit bytes without NUL. Anything else, ".."
// and "/" too, is a name and never a path. The error has the code
// invalid_argument and begins with what, the thing that has the id.
func ValidateID(what, id string, limit int) error {
	switch {
	case id == "":
		return Errorf(InvalidArgument, "%s has no id", what).WithHint("name one")
	case len(id) > limit:
		return Errorf(InvalidArgument, "%s id %.20q... is %d bytes long, more than %d", what, id, len(id), limit)
	case !utf8.ValidString(id):
		return Errorf(InvalidArgument, "%s id %q is not UTF-8", what, id)
	case strings.Contains(id, "\x00"):
		return Errorf(InvalidArgument, "%s id %q contains NUL", what, id)
	}
	return nil
}
