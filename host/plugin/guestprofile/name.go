package guestprofile

import (
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/trapstack"
)

// maxName is how many bytes of a function's name a profile has.
const maxName = 100

// Named returns the function of a guest that has a name in its module's name section, in the
// form that it has in its source and fit to be shown. "" is no name; index then tells
// functions apart.
func Named(name string, index uint32) Function {
	if name == "" {
		return Function{Name: fmt.Sprintf("function %d", index)}
	}
	if len(name) > 4*maxName { // Readable makes a name shorter, at most by its hash and marks
		name = name[:4*maxName]
	}
	return Function{Name: shown(trapstack.Readable(name))}
}

// Imported returns a function that the host has for guests in a module of its own.
func Imported(module, name string) Function {
	return Function{Name: shown(module + "." + name), OfHost: true}
}

// shown bounds a name, and takes out what is not to be shown.
func shown(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(guesttext.Clean(name))
}
