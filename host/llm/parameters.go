package llm

import (
	"encoding/json"
	"maps"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Parameters are members of a request to a model's service, by the service's names;
// [PromptCacheParameter] alone has a name of its own. They must not be changed. A model without such a service ignores them.
type Parameters map[string]json.RawMessage

// MaxParameterBytes bounds the model parameters of an agent or a request, as JSON.
const MaxParameterBytes = 64 << 10

// EncodeParameters returns model parameters as JSON. Code invalid_argument for one that
// has no name or no JSON, for a [PromptCache] that cannot be read, and for more than
// [MaxParameterBytes].
func EncodeParameters(parameters map[string]any) (Parameters, error) {
	if len(parameters) == 0 {
		return nil, nil
	}
	out, size := make(Parameters, len(parameters)), 0
	for name, v := range parameters {
		if name == "" {
			return nil, fault.Errorf(fault.InvalidArgument, "a model parameter has no name")
		}
		raw, err := jsondoc.Marshal(v)
		if err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "model parameter %.60q: %w", name, err)
		}
		out[name] = raw
		if size += len(name) + len(raw); size > MaxParameterBytes {
			return nil, fault.Errorf(fault.InvalidArgument, "the model parameters have more than %d bytes", MaxParameterBytes)
		}
	}
	if _, _, err := out.PromptCache(); err != nil && string(out[PromptCacheParameter]) != "null" {
		return nil, err
	}
	return out, nil
}

// With returns the parameters with others over them. One that is null is left out.
func (p Parameters) With(over Parameters) Parameters {
	if len(p)+len(over) == 0 {
		return nil
	}
	out := make(Parameters, len(p)+len(over))
	maps.Copy(out, p)
	maps.Copy(out, over)
	maps.DeleteFunc(out, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return out
}
