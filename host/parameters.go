package host

import (
	"encoding/json"
	"maps"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// MaxParameterBytes bounds the model parameters of an agent or a request, as JSON.
const MaxParameterBytes = 64 << 10

// encodeParameters returns model parameters as JSON.
func encodeParameters(parameters map[string]any) (map[string]json.RawMessage, error) {
	if len(parameters) == 0 {
		return nil, nil
	}
	out, size := make(map[string]json.RawMessage, len(parameters)), 0
	for name, v := range parameters {
		if name == "" {
			return nil, Errorf(InvalidArgument, "a model parameter has no name")
		}
		raw, err := jsondoc.Marshal(v)
		if err != nil {
			return nil, Errorf(InvalidArgument, "model parameter %.60q: %w", name, err)
		}
		out[name] = raw
		if size += len(name) + len(raw); size > MaxParameterBytes {
			return nil, Errorf(InvalidArgument, "the model parameters have more than %d bytes", MaxParameterBytes)
		}
	}
	return out, nil
}

// withParameters returns parameters with others over them. One that is null is left
// out.
func withParameters(parameters, over map[string]json.RawMessage) map[string]json.RawMessage {
	if len(parameters)+len(over) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(parameters)+len(over))
	maps.Copy(out, parameters)
	maps.Copy(out, over)
	maps.DeleteFunc(out, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return out
}

// parameters returns the model parameters of the turn: the agent's, and the
// request's over them.
func (t *turn) parameters() (map[string]json.RawMessage, error) {
	own, err := encodeParameters(t.agent.opts.ModelParameters)
	if err != nil {
		return nil, err
	}
	return withParameters(own, t.run.content.parameters), nil
}

// asParameters returns parameters that were encoded before.
func asParameters(encoded map[string]json.RawMessage) map[string]any {
	if encoded == nil {
		return nil
	}
	out := make(map[string]any, len(encoded))
	for name, raw := range encoded {
		out[name] = raw
	}
	return out
}
