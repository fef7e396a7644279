package project

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/bedrock"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/responsesmodel"
	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// named is a model without configuration, by the value of --model:
// PROVIDER:NAME, or a name whose provider is guessed.
func (s *modelSet) named(name string) configfile.Model {
	if provider, rest, found := strings.Cut(name, ":"); found && rest != "" && slices.Contains(configfile.ProviderNames(), provider) {
		return configfile.Model{Provider: provider, Name: rest}
	}
	return configfile.Model{Provider: s.providerOf(name), Name: name}
}

// providerOf guesses the provider of a model without configuration: Anthropic and Google
// their own, unless a server is named that speaks the other protocol.
func (s *modelSet) providerOf(model string) string {
	if s.getenv("OPENAI_BASE_URL") != "" {
		return configfile.OpenaiProvider
	}
	switch {
	case strings.HasPrefix(model, "claude-"):
		return configfile.AnthropicProvider
	case strings.HasPrefix(model, "gemini-"):
		return configfile.GeminiProvider
	}
	return configfile.OpenaiProvider
}

// providerHome is the address of a provider's models: the variables that hold it and
// the key, and the default.
type providerHome struct{ urlEnv, keyEnv, url string }

func homeOf(provider string) providerHome {
	switch provider {
	case configfile.AnthropicProvider:
		return providerHome{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", anthropicmodel.DefaultBaseURL}
	case configfile.GeminiProvider:
		return providerHome{"GEMINI_BASE_URL", "GEMINI_API_KEY", geminimodel.DefaultBaseURL}
	case configfile.BedrockProvider:
		return providerHome{"AWS_BEDROCK_BASE_URL", "AWS_BEARER_TOKEN_BEDROCK", bedrock.MessagesURL("REGION")}
	}
	return providerHome{"OPENAI_BASE_URL", "OPENAI_API_KEY", openaimodel.DefaultBaseURL}
}

// complete fills in the fields that a model's configuration leaves to the
// environment, and returns the key.
func (s *modelSet) complete(name string, mc *configfile.Model) (key string, err error) {
	from := homeOf(mc.Provider)
	mc.Name, mc.KeyEnv = cmp.Or(mc.Name, name), cmp.Or(mc.KeyEnv, from.keyEnv)
	if mc.BaseURL == "" {
		mc.BaseURL = s.getenv(from.urlEnv)
	}
	if key = s.getenv(mc.KeyEnv); key != "" || mc.BaseURL != "" {
		return key, nil
	}
	e := host.Errorf(host.Unauthenticated, "model %q needs a key, and %s is not set", mc.Name, mc.KeyEnv)
	if mc.Provider == configfile.OpenaiProvider {
		return "", e.WithHint("set %s, or OPENAI_BASE_URL for a local server such as http://localhost:11434/v1", mc.KeyEnv)
	}
	return "", e.WithHint("set %s", mc.KeyEnv)
}

// closable is a model that keeps connections open.
type closable interface {
	host.Model
	CloseIdleConnections()
}

// remote connects to a model on a remote server.
func (s *modelSet) remote(name string, mc configfile.Model) (host.Model, error) {
	m, err := s.reach(name, mc)
	if err != nil {
		return nil, err
	}
	s.closeLater(m)
	return upstream{m}, nil
}

func (s *modelSet) reach(name string, mc configfile.Model) (closable, error) {
	if mc.Provider == configfile.BedrockProvider {
		mc.Name = cmp.Or(mc.Name, name)
		return s.dialBedrock(mc)
	}
	key, err := s.complete(name, &mc)
	if err != nil {
		return nil, err
	}
	return s.dial(mc, key)
}

func (s *modelSet) closeLater(m closable) {
	s.closers.add(func() error { m.CloseIdleConnections(); return nil })
}

func (s *modelSet) dial(mc configfile.Model, key string) (closable, error) {
	server := modelhttp.Options{BaseURL: mc.BaseURL, APIKey: key, Timeout: time.Duration(mc.Timeout), KeepRaw: mc.KeepRaw, Whole: mc.Whole, Logger: s.logger}
	switch mc.Provider {
	case configfile.AnthropicProvider:
		return anthropicmodel.New(mc.Name, &anthropicmodel.Options{Server: server, ThinkingTokens: mc.Thinking, Cache: mc.Cache})
	case configfile.GeminiProvider:
		return geminimodel.New(mc.Name, &geminimodel.Options{Server: server, Effort: mc.Effort, ThinkingTokens: mc.Thinking, Thoughts: mc.Summary != ""})
	case configfile.ResponsesProvider:
		return responsesmodel.New(mc.Name, &responsesmodel.Options{Server: server, Store: mc.Store, Effort: mc.Effort, Summary: mc.Summary})
	}
	return openaimodel.New(mc.Name, &openaimodel.Options{Server: server, Effort: mc.Effort, Reasoning: openaimodel.ReasoningUse(mc.Reasoning)})
}

// closableEmbedder is an embedder that keeps connections open.
type closableEmbedder interface {
	llm.Embedder
	CloseIdleConnections()
}

// embedder connects to a model of embeddings.
func (s *modelSet) embedder(ctx context.Context, ec configfile.Embeddings) (llm.Embedder, error) {
	mc := configfile.Model{Provider: ec.Provider, Name: ec.Name, BaseURL: ec.BaseURL, KeyEnv: ec.KeyEnv, Timeout: ec.Timeout}
	key := ""
	var err error
	if ec.Provider == configfile.ScriptedProvider {
		err = s.scriptedEmbeddings(ctx, &mc)
	} else {
		key, err = s.complete(ec.Name, &mc)
	}
	if err != nil {
		return nil, err
	}
	e, err := s.dialEmbedder(mc, key, ec.Dimensions)
	if err != nil {
		return nil, err
	}
	s.closers.add(func() error { e.CloseIdleConnections(); return nil })
	return e, nil
}

// scriptedEmbeddings starts a stand-in for a model of embeddings.
func (s *modelSet) scriptedEmbeddings(ctx context.Context, mc *configfile.Model) error {
	server, err := s.startScripted(ctx, nil)
	if err != nil {
		return err
	}
	mc.BaseURL, mc.Name = server.BaseURL(), cmp.Or(mc.Name, scriptedmodel.DefaultName)
	return nil
}

func (s *modelSet) dialEmbedder(mc configfile.Model, key string, dimensions int) (closableEmbedder, error) {
	server := modelhttp.Options{BaseURL: mc.BaseURL, APIKey: key, Timeout: time.Duration(mc.Timeout), Logger: s.logger}
	if mc.Provider == configfile.GeminiProvider {
		return geminimodel.NewEmbedder(mc.Name, &geminimodel.EmbedderOptions{Server: server, Dimensions: dimensions})
	}
	return openaimodel.NewEmbedder(mc.Name, &openaimodel.EmbedderOptions{Server: server, Dimensions: dimensions})
}

// ModelServer is the server of a configured model, or of a provider.
type ModelServer struct {
	Name        string // of the model or provider
	BaseURL     string // "": the provider's own, DefaultURL
	DefaultURL  string
	KeyVariable string // the environment variable that holds the key
}

// ModelServers returns the servers of a configuration's models, by name. Without such
// models, also with a nil file, they are those of the providers that the environment
// has a key or an address of.
func ModelServers(file *File, getenv func(string) string) (list []ModelServer) {
	add := func(name string, m configfile.Model) {
		from := homeOf(m.Provider)
		list = append(list, ModelServer{Name: name, BaseURL: cmp.Or(m.BaseURL, getenv(from.urlEnv)), DefaultURL: from.url, KeyVariable: cmp.Or(m.KeyEnv, from.keyEnv)})
	}
	if file != nil {
		for _, name := range slices.Sorted(maps.Keys(file.c.Models)) {
			if m := file.c.Models[name]; m.Provider != configfile.ScriptedProvider {
				add(name, m)
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, provider := range []string{configfile.AnthropicProvider, configfile.GeminiProvider, configfile.OpenaiProvider} {
		if from := homeOf(provider); getenv(from.keyEnv) != "" || getenv(from.urlEnv) != "" {
			add(provider, configfile.Model{Provider: provider})
		}
	}
	return list
}
