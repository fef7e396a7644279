// Package trapstack reads the functions of a guest out of the text of a trap, so that an
// error names where the guest was. It knows the text of wazero's stack traces, and names
// come from the guest: they are cleaned and bounded.
package trapstack

import (
	"regexp"
	"strings"

	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
)

// The bounds of the functions that an error names.
const (
	maxFunctions = 4
	maxName      = 100 // bytes
)

// frame matches a function of a stack trace with its signature.
var frame = regexp.MustCompile(`^\t([^\t].*?)\([a-z0-9,]*\)(?: [a-z0-9]+| \([a-z0-9,]*\))?$`)

// Functions returns the names of the innermost functions in a trap's text, which are those
// of a module with the given name. Functions that have no names, and those whose names
// begin with hidden, are left out.
func Functions(trap, module, hidden string) (names []string) {
	_, trace, found := strings.Cut(trap, "\nwasm stack trace:\n")
	if !found {
		return nil
	}
	for line := range strings.SplitSeq(trace, "\n") {
		m := frame.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, ofModule := strings.CutPrefix(m[1], module+".")
		if !ofModule || strings.HasPrefix(name, "$") || strings.HasPrefix(name, hidden) {
			continue
		}
		name = guesttext.Clean(cut(Readable(name)))
		if len(names) > 0 && names[len(names)-1] == name { // it calls itself
			continue
		}
		names = append(names, name)
		if len(names) == maxFunctions {
			break
		}
	}
	return names
}

// cut bounds a name.
func cut(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") + "…"
}
