package host

import (
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// What did fit is not looked at again, whatever the schema says of it.
func TestStatesAreCheckedWhereTheyChange(t *testing.T) {
	schema := mustSchema(t, `{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","pattern":"^a"}}}`)
	s, err := newState(map[string]any{"n": json.Number("1"), "s": "abc"}, 1000, schema)
	if err != nil {
		t.Fatal(err)
	}
	before := s.doc
	if err := s.Set("/n", 2); err != nil {
		t.Fatal(err)
	}
	if !schema.schema.StillFits(s.doc, jsondoc.Optional{Value: before, Present: true}) {
		t.Error("the validator is asked of a member that is as it was")
	}
	if err := s.Set("/s", "b"); CodeOf(err) != InvalidArgument {
		t.Errorf("a member that does not fit its pattern: %v", err)
	}
	if err := s.Set("/n", "x"); CodeOf(err) != InvalidArgument {
		t.Errorf("a member of another type: %v", err)
	}
	empty, err := newState(map[string]any{}, 1000, mustSchema(t, `{"required":["n"],"minProperties":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Patch([]PatchOp{{Op: "test", Path: "", Value: json.RawMessage("{}")}}); CodeOf(err) != InvalidArgument {
		t.Errorf("a state that has never fit is taken for one that did: %v", err)
	}
}

func mustSchema(t *testing.T, raw string) *Schema {
	t.Helper()
	s, err := CompileSchema(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
