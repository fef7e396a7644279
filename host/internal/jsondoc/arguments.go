package jsondoc

import (
	"bytes"
	"encoding/json"

	"github.com/agenthost/agenthost/host/fault"
)

// ReadArguments reads the arguments that a model wrote. It accepts faults that can be
// understood: an empty text is an empty object, and a string that holds JSON is that JSON.
// A text that is not JSON has code invalid_argument.
func ReadArguments(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	inner, isString := Unquote(raw)
	if isString {
		raw = bytes.TrimSpace([]byte(inner))
	}
	if len(raw) == 0 {
		return json.RawMessage("{}"), nil
	}
	if err := Check(raw); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "the arguments are not valid JSON")
	}
	return raw, nil
}

// UnwrapArguments returns the one member "value" of arguments. Code invalid_argument for others.
func UnwrapArguments(raw json.RawMessage) (json.RawMessage, error) {
	var value json.RawMessage
	members := 0
	err := EachMember(raw, func(name string, v []byte) error {
		members++
		if name == "value" {
			value = v
		}
		return nil
	})
	if err != nil || value == nil || members > 1 {
		return nil, fault.Errorf(fault.InvalidArgument, `the arguments must be an object with the one member "value"`)
	}
	return value, nil
}
