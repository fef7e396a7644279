package conformance

// Scenario: a guest that copies what it is given, without a kit that reads it, does not pass.

import (
	"testing"

	"github.com/agenthost/agenthost/internal/testcode"
)

// It looks for the name of the part and for JSON that is none, as a guest without a kit would.
// What tells it apart, in each kind of document that guests read, is what it does not: of valid
// ones that their unknown members are not written, of others that they are refused.
func TestAGuestThatCopiesBytesFailsTheVectors(t *testing.T) {
	p := load(t, testcode.Build(t, "./testdata/copies"))
	told := map[string]map[bool]int{} // kinds, and the vectors that tell, by whether they are valid
	for _, v := range readVectors(t) {
		r, known := readings[v.Kind]
		if !known || written[v.Kind] && !v.Valid {
			continue
		}
		if told[v.Kind] == nil {
			told[v.Kind] = map[bool]int{}
		}
		if r.problem(t, p, &v) != "" {
			told[v.Kind][v.Valid]++
		}
	}
	for kind, by := range told {
		if by[true]+by[false] == 0 && !written[kind] {
			t.Errorf("no vector of kind %s tells a guest that copies from one that reads", kind)
		}
	}
	for _, kind := range []string{"tool_call", "process_in", "route_in", "integer"} {
		if told[kind][true] == 0 {
			t.Errorf("no valid vector of kind %s tells a guest that copies from one that reads", kind)
		}
	}
}
