package host

// NewStateWithSchema returns a state as a network has it that names a schema.
func NewStateWithSchema(v any, schema *Schema) (*State, error) {
	members, err := stateMembers(v)
	if err != nil {
		return nil, err
	}
	return newState(members, DefaultLimits().StateBytes, schema)
}
