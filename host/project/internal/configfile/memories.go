package configfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/memory"
)

// MemoryPrefix begins the names of memories where a configuration names tools and
// providers: memory:NAME, memory:NAME/TOOL.
const MemoryPrefix = "memory:"

// Memory configures the memory of agents across conversations, and its scope.
type Memory struct {
	Backend  string      `yaml:"backend"`  // own (default) or mem0
	Language string      `yaml:"language"` // own: the language of stemming
	KeyEnv   string      `yaml:"key_env"`  // mem0: the variable that holds the key
	BaseURL  string      `yaml:"base_url"` // mem0
	Timeout  Duration    `yaml:"timeout"`  // mem0: of one request
	Writes   string      `yaml:"writes"`   // queued (default) or at_once
	Scope    MemoryScope `yaml:"scope"`

	Embeddings *Embeddings `yaml:"embeddings"` // own: memories are found by their meaning too
}

// Embeddings configures the model that turns memories into vectors.
type Embeddings struct {
	Provider      string   `yaml:"provider"` // openai, gemini or scripted
	Name          string   `yaml:"name"`     // of the model, as the provider knows it
	BaseURL       string   `yaml:"base_url"`
	KeyEnv        string   `yaml:"key_env"` // the environment variable that holds the key
	Timeout       Duration `yaml:"timeout"`
	Dimensions    int      `yaml:"dimensions"` // of the vectors; 0 is the model's own
	MinSimilarity float64  `yaml:"min_similarity"`
	Vectors       byteSize `yaml:"vectors"` // that searches keep in memory
}

// EmbeddingProviders are the providers of models of embeddings.
func EmbeddingProviders() []string { return []string{OpenaiProvider, GeminiProvider, ScriptedProvider} }

// MemoryScope selects the memories that a run uses; the tenant is always part of the
// scope.
type MemoryScope struct {
	Application string `yaml:"application"` // a name
	UserAt      string `yaml:"user_at"`     // a pointer into the run's state
	Agent       bool   `yaml:"agent"`       // each agent's own
	Run         bool   `yaml:"run"`         // each run's own
}

// The backends of memories, and when they are written to.
const (
	ownMemory  = "own"
	Mem0Memory = "mem0"
	AtOnce     = "at_once"
	queued     = "queued"
)

// Mem0KeyVariable holds Mem0's key, unless a configuration names another one.
const Mem0KeyVariable = "MEM0_API_KEY"

// checkMemory checks the memories of a configuration without opening them.
func (c *Config) checkMemory() error {
	language := ""
	for _, name := range slices.Sorted(maps.Keys(c.Memory)) {
		mc, at := c.Memory[name], Keys("memory", name)
		for _, k := range []struct {
			key     string
			set     bool
			backend string
		}{
			{"language", mc.Language != "", ownMemory}, {"embeddings", mc.Embeddings != nil, ownMemory},
			{"key_env", mc.KeyEnv != "", Mem0Memory}, {"base_url", mc.BaseURL != "", Mem0Memory}, {"timeout", mc.Timeout != 0, Mem0Memory},
		} {
			if k.set && k.backend != cmp.Or(mc.Backend, ownMemory) {
				return c.ErrorAt(at.To(k.key), "memory %q has %s, and its backend is %s", name, k.key, cmp.Or(mc.Backend, ownMemory)).WithHint("it is for %s", k.backend)
			}
		}
		for _, k := range []struct {
			key, got string
			known    []string
		}{{"backend", mc.Backend, []string{ownMemory, Mem0Memory}}, {"writes", mc.Writes, []string{queued, AtOnce}}} {
			if k.got != "" && !slices.Contains(k.known, k.got) {
				return c.ErrorAt(at.To(k.key), "%s of memory %q is %q", k.key, name, k.got).WithHint("use %s", strings.Join(k.known, " or "))
			}
		}
		if mc.Scope.UserAt != "" && !strings.HasPrefix(mc.Scope.UserAt, "/") {
			return c.ErrorAt(at.To("scope", "user_at"), "user_at is %q, which is no pointer into the state", mc.Scope.UserAt).WithHint("write: user_at: /user")
		}
		if mc.Language != "" {
			if language != "" && language != mc.Language {
				return c.ErrorAt(at.To("language"), "memories are in one store, and its language is %q already", language).WithHint("name one language")
			}
			language = mc.Language
		}
		if err := c.checkEmbeddings(at.To("embeddings"), mc.Embeddings); err != nil {
			return err
		}
	}
	return nil
}

// checkEmbeddings checks the embeddings of a memory.
func (c *Config) checkEmbeddings(at KeyPath, e *Embeddings) error {
	first := c.MemoryEmbeddings()
	switch {
	case e == nil:
		return nil
	case !slices.Contains(EmbeddingProviders(), e.Provider):
		return c.ErrorAt(at.To("provider"), "provider of embeddings is %q", e.Provider).WithHint("use %s", strings.Join(EmbeddingProviders(), ", "))
	case e.Name == "" && e.Provider != ScriptedProvider:
		return c.ErrorAt(at.To("name"), "the embeddings have no model").WithHint("write: name: text-embedding-3-small")
	case e.Dimensions < 0 || e.Dimensions > llm.MaxDimensions:
		return c.ErrorAt(at.To("dimensions"), "dimensions are %d, not from 1 to %d", e.Dimensions, llm.MaxDimensions).WithHint("leave them out for the model's own")
	case e.MinSimilarity < 0 || e.MinSimilarity > 1:
		return c.ErrorAt(at.To("min_similarity"), "min_similarity is %v, not from 0 to 1", e.MinSimilarity).WithHint("leave it out for %v", memory.DefaultMinSimilarity)
	case *e != *first:
		return c.ErrorAt(at, "memories are in one store, and it has other embeddings already").WithHint("give embeddings to one memory; they hold for all")
	}
	return nil
}

// MemoryEmbeddings are the one embeddings of the memories; nil if they have none.
func (c *Config) MemoryEmbeddings() *Embeddings {
	for _, name := range slices.Sorted(maps.Keys(c.Memory)) {
		if e := c.Memory[name].Embeddings; e != nil {
			return e
		}
	}
	return nil
}

// MemoryLanguage is the one language of the memories.
func (c *Config) MemoryLanguage() string {
	for _, name := range slices.Sorted(maps.Keys(c.Memory)) {
		if l := c.Memory[name].Language; l != "" {
			return l
		}
	}
	return ""
}
