package permission

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
)

// maxOperations bounds the operations of a set.
const maxOperations = 64

// MaxOperationName bounds the name of an embedder's operation, as that of every other.
const MaxOperationName = 64

var operationName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`) })

// ValidOperation reports whether an embedder's operation may have a name:
// NAMESPACE.NAME in small letters, digits and underscores, with more parts if need be.
func ValidOperation(name string) bool {
	return len(name) <= MaxOperationName && operationName().MatchString(name)
}

func checkOperations(names []string) error {
	if len(names) > maxOperations {
		return fmt.Errorf("%d permissions for operations, more than %d", len(names), maxOperations)
	}
	for _, name := range names {
		if !ValidOperation(name) {
			return fmt.Errorf("permission for the operation %q, whose name is not NAMESPACE.NAME in small letters, digits and _", guesttext.Clean(name))
		}
	}
	return nil
}

// AllowsOperation reports whether an operation of the embedder's is among the permissions.
func (p *Set) AllowsOperation(name string) bool { return slices.Contains(p.Operations, name) }

// operationsInBoth returns the names in both lists, each once.
func operationsInBoth(asked, granted []string) (both []string) {
	for _, name := range asked {
		if slices.Contains(granted, name) && !slices.Contains(both, name) {
			both = append(both, name)
		}
	}
	return both
}
