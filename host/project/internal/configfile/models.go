package configfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The providers of models, as configurations and --model name them.
const (
	ScriptedProvider  = "scripted"
	OpenaiProvider    = "openai"
	ResponsesProvider = "responses"
	AnthropicProvider = "anthropic"
	GeminiProvider    = "gemini"
	BedrockProvider   = "bedrock"
)

func ProviderNames() []string {
	return []string{ScriptedProvider, OpenaiProvider, ResponsesProvider, AnthropicProvider, GeminiProvider, BedrockProvider}
}

// providerKey is a key of a model's configuration that only some providers have.
type providerKey struct {
	name  string
	set   bool
	known []string
}

func (mc *Model) providerKeys() []providerKey {
	return []providerKey{
		{"rules", mc.Rules != "", []string{ScriptedProvider}},
		{"keep_raw", mc.KeepRaw, []string{OpenaiProvider, ResponsesProvider, AnthropicProvider, GeminiProvider, BedrockProvider}},
		{"whole", mc.Whole, []string{OpenaiProvider, ResponsesProvider, AnthropicProvider, GeminiProvider, BedrockProvider}},
		{"effort", mc.Effort != "", []string{OpenaiProvider, ResponsesProvider, GeminiProvider}},
		{"reasoning", mc.Reasoning != "", []string{OpenaiProvider}},
		{"summary", mc.Summary != "", []string{ResponsesProvider, GeminiProvider}},
		{"store", mc.Store, []string{ResponsesProvider}},
		{"thinking", mc.Thinking != 0, []string{AnthropicProvider, GeminiProvider, BedrockProvider}},
		{"cache", mc.Cache, []string{AnthropicProvider, BedrockProvider}},
		{"region", mc.Region != "", []string{BedrockProvider}},
	}
}

// checkModel checks a model's configuration against the keys of its provider.
func (c *Config) checkModel(name string) error {
	mc, names := c.Models[name], ProviderNames()
	if !slices.Contains(names, mc.Provider) {
		e := c.ErrorAt(Keys("models", name, "provider"), "provider of model %q is %q", name, mc.Provider)
		if near := termtext.Nearest(mc.Provider, names); near != "" {
			return e.WithHint("did you mean %s?", near)
		}
		return e.WithHint("use scripted, anthropic, gemini, bedrock, responses for OpenAI's Responses API, or openai for any OpenAI-compatible server")
	}
	for _, k := range mc.providerKeys() {
		if k.set && !slices.Contains(k.known, mc.Provider) {
			return c.ErrorAt(Keys("models", name, k.name), "model %q has %s, and its provider is %s", name, k.name, mc.Provider).
				WithHint("it is for %s", strings.Join(k.known, ", "))
		}
	}
	return nil
}

// ModelName returns the provider's name of a model; an empty name is the default model.
func (c *Config) ModelName(name string) string {
	if name == "" {
		name = c.Model
	}
	if name == "" && len(c.Models) == 1 {
		name = slices.Sorted(maps.Keys(c.Models))[0]
	}
	switch m := c.Models[name]; {
	case m.Provider == "scripted" || m.Provider == "":
		return scriptedmodel.DefaultName
	case m.Name != "":
		return m.Name
	}
	return name
}

// ToolProviderNames are the providers whose models can run tools. Models of Bedrock are those of
// their protocols.
func ToolProviderNames() []string {
	return slices.DeleteFunc(ProviderNames(), func(name string) bool { return name == ScriptedProvider || name == BedrockProvider })
}
