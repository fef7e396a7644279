package llm

import (
	"bytes"
	"encoding/json"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// ProviderTool is a tool that a model's provider runs by itself, such as a web
// search or an interpreter. The declaration is sent to models of that provider
// untouched, beside the agent's tools; to others it is not sent, so that an agent
// can have one for each of the models it may be run with. The host runs nothing:
// the provider's work comes in the answer, whose unknown parts go back to the
// provider verbatim.
type ProviderTool struct {
	// Provider names the models that know the tool: "anthropic" are those of
	// package anthropicmodel, "openai" of openaimodel, "gemini" of geminimodel.
	// Others say so in their documentation.
	Provider string

	// Declaration is an object in the provider's own words, with its type:
	// {"type":"web_search_20250305","name":"web_search","max_uses":5}.
	Declaration json.RawMessage
}

// Name returns the name in the declaration, "" if it has none.
func (p ProviderTool) Name() string {
	var d struct{ Name string }
	if json.Unmarshal(p.Declaration, &d) != nil {
		return ""
	}
	return d.Name
}

// Check refuses, with code invalid_argument, a declaration that cannot be sent.
func (p ProviderTool) Check() error {
	raw := bytes.TrimLeft(p.Declaration, jsondoc.Space)
	switch {
	case p.Provider == "":
		return fault.Errorf(fault.InvalidArgument, "provider's tool without a provider").WithHint(`name whose models know it, such as "anthropic"`)
	case len(raw) == 0 || raw[0] != '{' || jsondoc.Check(p.Declaration) != nil:
		return fault.Errorf(fault.InvalidArgument, "tool of provider %q: its declaration is not a JSON object", p.Provider)
	}
	return nil
}

// ProviderToolsOf returns the declarations in a request that models of a provider
// are sent, for implementations of [Model].
func (req *Request) ProviderToolsOf(provider string) []json.RawMessage {
	var out []json.RawMessage
	for _, t := range req.ProviderTools {
		if t.Provider == provider {
			out = append(out, t.Declaration)
		}
	}
	return out
}
