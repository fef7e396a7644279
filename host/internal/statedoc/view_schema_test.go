package statedoc

import (
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/schema"
)

// What did fit is not looked at again, whatever the schema says of it.
func TestStatesAreCheckedWhereTheyChange(t *testing.T) {
	rules := mustSchema(t, `{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","pattern":"^a"}}}`)
	s, err := New(map[string]any{"n": json.Number("1"), "s": "abc"}, 1000, rules)
	if err != nil {
		t.Fatal(err)
	}
	before := s.doc
	if err := s.Set("/n", 2); err != nil {
		t.Fatal(err)
	}
	if !rules.StillFits(s.doc, jsondoc.Optional{Value: before, Present: true}) {
		t.Error("the validator is asked of a member that is as it was")
	}
	if err := s.Set("/s", "b"); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("a member that does not fit its pattern: %v", err)
	}
	if err := s.Set("/n", "x"); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("a member of another type: %v", err)
	}
	empty, err := New(map[string]any{}, 1000, mustSchema(t, `{"required":["n"],"minProperties":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Patch([]jsondoc.Op{{Op: "test", Path: "", Value: json.RawMessage("{}")}}); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("a state that has never fit is taken for one that did: %v", err)
	}
}

func mustSchema(t *testing.T, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(t.Context(), json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
