package host

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host/llm"
)

// parameters returns the model parameters of the turn: the agent's, and the
// request's over them.
func (t *turn) parameters() (map[string]json.RawMessage, error) {
	own, err := llm.EncodeParameters(t.agent.opts.ModelParameters)
	if err != nil {
		return nil, err
	}
	return own.With(t.run.content.parameters), nil
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
