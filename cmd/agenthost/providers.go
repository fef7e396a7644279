package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

// The providers of models, as configurations and --model name them.
const (
	scriptedProvider  = "scripted"
	openaiProvider    = "openai"
	responsesProvider = "responses"
	anthropicProvider = "anthropic"
	geminiProvider    = "gemini"
)

func providerNames() []string {
	return []string{scriptedProvider, openaiProvider, responsesProvider, anthropicProvider, geminiProvider}
}

// providerKey is a key of a model's configuration that only some providers have.
type providerKey struct {
	name  string
	set   bool
	known []string
}

func (mc *modelConfig) providerKeys() []providerKey {
	return []providerKey{
		{"rules", mc.Rules != "", []string{scriptedProvider}},
		{"keep_raw", mc.KeepRaw, []string{openaiProvider, responsesProvider, anthropicProvider, geminiProvider}},
		{"effort", mc.Effort != "", []string{openaiProvider, responsesProvider, geminiProvider}},
		{"reasoning", mc.Reasoning != "", []string{openaiProvider}},
		{"summary", mc.Summary != "", []string{responsesProvider, geminiProvider}},
		{"store", mc.Store, []string{responsesProvider}},
		{"thinking", mc.Thinking != 0, []string{anthropicProvider, geminiProvider}},
		{"cache", mc.Cache, []string{anthropicProvider}},
	}
}

// checkModel holds a model's configuration to its provider.
func (c *config) checkModel(name string) error {
	mc, names := c.Models[name], providerNames()
	if !slices.Contains(names, mc.Provider) {
		e := c.errorAt(keys("models", name, "provider"), "provider of model %q is %q", name, mc.Provider)
		if near := nearest(mc.Provider, names); near != "" {
			return e.WithHint("did you mean %s?", near)
		}
		return e.WithHint("use scripted, anthropic, gemini, responses for OpenAI's Responses API, or openai for any OpenAI-compatible server")
	}
	for _, k := range mc.providerKeys() {
		if k.set && !slices.Contains(k.known, mc.Provider) {
			return c.errorAt(keys("models", name, k.name), "model %q has %s, and its provider is %s", name, k.name, mc.Provider).
				WithHint("it is for %s", strings.Join(k.known, ", "))
		}
	}
	return nil
}

// namedModel is a model that nobody configured, by what --model says:
// PROVIDER:NAME, or a name whose provider is guessed.
func (a *app) namedModel(name string) modelConfig {
	if provider, rest, found := strings.Cut(name, ":"); found && rest != "" && slices.Contains(providerNames(), provider) {
		return modelConfig{Provider: provider, Name: rest}
	}
	return modelConfig{Provider: a.providerOf(name), Name: name}
}

// providerOf guesses who has a model that nobody configured: Anthropic and Google
// their own, unless a server is named that speaks the other protocol.
func (a *app) providerOf(model string) string {
	if a.env.getenv("OPENAI_BASE_URL") != "" {
		return openaiProvider
	}
	switch {
	case strings.HasPrefix(model, "claude-"):
		return anthropicProvider
	case strings.HasPrefix(model, "gemini-"):
		return geminiProvider
	}
	return openaiProvider
}

// providerHome is where a provider's models are: the variables that say it, and
// the address without them.
type providerHome struct{ urlEnv, keyEnv, url string }

func homeOf(provider string) providerHome {
	switch provider {
	case anthropicProvider:
		return providerHome{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", anthropicmodel.DefaultBaseURL}
	case geminiProvider:
		return providerHome{"GEMINI_BASE_URL", "GEMINI_API_KEY", geminimodel.DefaultBaseURL}
	}
	return providerHome{"OPENAI_BASE_URL", "OPENAI_API_KEY", openaimodel.DefaultBaseURL}
}

// completeModel fills in what a model's configuration leaves to the environment,
// and returns the key.
func (a *app) completeModel(name string, mc *modelConfig) (key string, err error) {
	from := homeOf(mc.Provider)
	mc.Name, mc.KeyEnv = cmp.Or(mc.Name, name), cmp.Or(mc.KeyEnv, from.keyEnv)
	if mc.BaseURL == "" {
		mc.BaseURL = a.env.getenv(from.urlEnv)
	}
	if key = a.env.getenv(mc.KeyEnv); key != "" || mc.BaseURL != "" {
		return key, nil
	}
	e := host.Errorf(host.Unauthenticated, "model %q needs a key, and %s is not set", mc.Name, mc.KeyEnv)
	if mc.Provider == openaiProvider {
		return "", e.WithHint("set %s, or OPENAI_BASE_URL for a local server such as http://localhost:11434/v1", mc.KeyEnv)
	}
	return "", e.WithHint("set %s", mc.KeyEnv)
}

// closable is a model that keeps connections.
type closable interface {
	host.Model
	CloseIdleConnections()
}

// remoteModel connects to a model on somebody else's machine.
func (a *app) remoteModel(name string, mc modelConfig) (host.Model, error) {
	key, err := a.completeModel(name, &mc)
	if err != nil {
		return nil, err
	}
	m, err := a.dial(mc, key)
	if err != nil {
		return nil, err
	}
	a.closeLater(m)
	return upstream{m}, nil
}

func (a *app) closeLater(m closable) {
	a.closers = append(a.closers, func() error { m.CloseIdleConnections(); return nil })
}

func (a *app) dial(mc modelConfig, key string) (closable, error) {
	timeout := time.Duration(mc.Timeout)
	switch mc.Provider {
	case anthropicProvider:
		return anthropicmodel.New(mc.Name, &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: mc.BaseURL, APIKey: key, Timeout: timeout, KeepRaw: mc.KeepRaw, Logger: a.logger}, ThinkingTokens: mc.Thinking, Cache: mc.Cache})
	case geminiProvider:
		return geminimodel.New(mc.Name, &geminimodel.Options{Server: modelhttp.Options{BaseURL: mc.BaseURL, APIKey: key, Timeout: timeout, KeepRaw: mc.KeepRaw, Logger: a.logger}, Effort: mc.Effort, ThinkingTokens: mc.Thinking, Thoughts: mc.Summary != ""})
	case responsesProvider:
		return responsesmodel.New(mc.Name, &responsesmodel.Options{Server: modelhttp.Options{BaseURL: mc.BaseURL, APIKey: key, Timeout: timeout, KeepRaw: mc.KeepRaw, Logger: a.logger}, Store: mc.Store, Effort: mc.Effort, Summary: mc.Summary})
	}
	return openaimodel.New(mc.Name, &openaimodel.Options{Server: modelhttp.Options{BaseURL: mc.BaseURL, APIKey: key, Timeout: timeout, KeepRaw: mc.KeepRaw, Logger: a.logger}, Effort: mc.Effort, Reasoning: openaimodel.ReasoningUse(mc.Reasoning)})
}
