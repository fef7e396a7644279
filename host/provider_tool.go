package host

import (
	"bytes"
	"encoding/json"

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

// name returns the name in the declaration, "" if it has none.
func (p ProviderTool) name() string {
	var d struct{ Name string }
	if json.Unmarshal(p.Declaration, &d) != nil {
		return ""
	}
	return d.Name
}

// check refuses a declaration that cannot be sent.
func (p ProviderTool) check() error {
	raw := bytes.TrimLeft(p.Declaration, jsondoc.Space)
	switch {
	case p.Provider == "":
		return Errorf(InvalidArgument, "provider's tool without a provider").WithHint(`name whose models know it, such as "anthropic"`)
	case len(raw) == 0 || raw[0] != '{' || jsondoc.Check(p.Declaration) != nil:
		return Errorf(InvalidArgument, "tool of provider %q: its declaration is not a JSON object", p.Provider)
	}
	return nil
}

// ProviderToolsOf returns the declarations in a request that models of a provider
// are sent, for implementations of [Model].
func (req *ModelRequest) ProviderToolsOf(provider string) []json.RawMessage {
	var out []json.RawMessage
	for _, t := range req.ProviderTools {
		if t.Provider == provider {
			out = append(out, t.Declaration)
		}
	}
	return out
}

// checkProviderTools refuses declarations that no provider could tell apart.
func (a *Agent) checkProviderTools() error {
	for _, t := range a.opts.ProviderTools {
		if err := t.check(); err != nil {
			return wrapError(err, "agent %q", a.name)
		}
		if name := t.name(); a.set.byName[name] != nil {
			return Errorf(InvalidArgument, "agent %q: two tools are named %q, one of them the provider's", a.name, name)
		}
	}
	return nil
}

// hasProviderTool reports whether the tool choice c is a provider's tool.
func (a *Agent) hasProviderTool(c ToolChoice) bool {
	for _, t := range a.opts.ProviderTools {
		if c == ToolChoiceAny || t.name() == string(c) {
			return true
		}
	}
	return false
}
