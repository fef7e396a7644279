package llm

import (
	"encoding/json"
	"maps"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// PromptCacheParameter is the model parameter with a [PromptCache] as JSON. It is the one
// parameter that has no service's name: each model turns it into its service's words, and
// it never reaches a service itself.
const PromptCacheParameter = "prompt_cache"

// PromptCache says how a service may keep the beginning of a request, for requests that
// begin alike: as a parameter, {"off": true}, or {"long": true, "key": "support"}. A model
// whose service has no word for a member ignores it.
type PromptCache struct {
	// Off sets no marks, where the model's own options ask for them: for a request whose
	// beginning no other shares.
	Off bool `json:"off,omitempty"`

	// Long keeps it for longer than the service does by default, at its price: for an
	// hour at Anthropic, for a day at OpenAI.
	Long bool `json:"long,omitempty"`

	// Key leads requests that share it to one cache, at OpenAI. The services keep the caches
	// of accounts apart, not those of an account's tenants.
	Key string `json:"key,omitempty"`
}

// maxPromptCacheKey bounds the key of a cache, as OpenAI does.
const maxPromptCacheKey = 64

// PromptCache returns the [PromptCache] of the parameters, or nil without one, and the other
// parameters. Code invalid_argument for one that cannot be read.
func (p Parameters) PromptCache() (*PromptCache, Parameters, error) {
	raw, ok := p[PromptCacheParameter]
	if !ok {
		return nil, p, nil
	}
	c, err := readPromptCache(raw)
	if err != nil {
		return nil, nil, err
	}
	rest := maps.Clone(p)
	delete(rest, PromptCacheParameter)
	return c, rest, nil
}

func readPromptCache(raw json.RawMessage) (*PromptCache, error) {
	var off, long, key json.RawMessage
	c := &PromptCache{}
	err := jsondoc.DecodeMembers(raw, jsondoc.Allowed("off", &off), jsondoc.Allowed("long", &long), jsondoc.Allowed("key", &key))
	if err == nil {
		err = json.Unmarshal(raw, c)
	}
	switch {
	case err != nil:
		return nil, fault.Errorf(fault.InvalidArgument, "model parameter %q: %w", PromptCacheParameter, err).
			WithHint(`it looks like {"long": true, "key": "support"} or {"off": true}`)
	case len(c.Key) > maxPromptCacheKey:
		return nil, fault.Errorf(fault.InvalidArgument, "model parameter %q has a key of more than %d bytes", PromptCacheParameter, maxPromptCacheKey)
	}
	return c, nil
}
