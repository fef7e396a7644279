package host

import (
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// ThreadWithSum gives a serialized thread that was changed the sum of what it
// says now, for tests of what the sum does not find.
func ThreadWithSum(data []byte) ([]byte, error) {
	doc, err := jsondoc.Decode(data)
	if err != nil {
		return nil, err
	}
	members, ok := doc.(map[string]any)
	if !ok {
		return nil, Errorf(InvalidArgument, "not an object")
	}
	sum, err := threadSum(data)
	if err != nil {
		return nil, err
	}
	members["sum"] = sum
	return jsondoc.Encode(members), nil
}

// NewStateWithSchema returns a state as a network has it that names a schema.
func NewStateWithSchema(v any, schema *Schema) (*State, error) {
	members, err := stateMembers(v)
	if err != nil {
		return nil, err
	}
	return newState(members, DefaultLimits().StateBytes, schema)
}
