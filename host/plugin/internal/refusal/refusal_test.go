package refusal

import (
	"errors"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
)

func TestRefusalsHaveCodes(t *testing.T) {
	if err := Invalid("it has %d bytes", 7); fault.CodeOf(err) != fault.InvalidArgument || err.Error() != "it has 7 bytes" {
		t.Errorf("Invalid = %v with code %s", err, fault.CodeOf(err))
	}
	if err := Unsupported("it is a component"); fault.CodeOf(err) != fault.FailedPrecondition {
		t.Errorf("Unsupported has code %s", fault.CodeOf(err))
	}
	a, b := errors.New("a"), errors.New("b")
	if First(nil) != nil || First([]error{a, b}) != a {
		t.Errorf("First(nil) = %v, First(a, b) = %v", First(nil), First([]error{a, b}))
	}
}
