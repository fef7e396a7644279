package configfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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
}

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
			{"language", mc.Language != "", ownMemory},
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
