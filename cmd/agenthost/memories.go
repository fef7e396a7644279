package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mem0memory"
	"github.com/agenthost/agenthost/host/memory"
)

// memoryPrefix begins the names of memories where a configuration names tools and
// providers: memory:NAME, memory:NAME/TOOL.
const memoryPrefix = "memory:"

// memoryConfig is what agents remember across conversations, and whose it is.
type memoryConfig struct {
	Backend  string            `yaml:"backend"`  // own (default) or mem0
	Language string            `yaml:"language"` // own: whose words are stemmed
	KeyEnv   string            `yaml:"key_env"`  // mem0: the variable that holds the key
	BaseURL  string            `yaml:"base_url"` // mem0
	Timeout  duration          `yaml:"timeout"`  // mem0: of one request
	Writes   string            `yaml:"writes"`   // queued (default) or at_once
	Scope    memoryScopeConfig `yaml:"scope"`
}

// memoryScopeConfig says whose memories a run uses; the tenant is always part of
// it.
type memoryScopeConfig struct {
	Application string `yaml:"application"` // a name
	UserAt      string `yaml:"user_at"`     // a pointer into the run's state
	Agent       bool   `yaml:"agent"`       // each agent's own
	Run         bool   `yaml:"run"`         // each run's own
}

// The backends of memories, and when they are written to.
const (
	ownMemory  = "own"
	mem0Memory = "mem0"
	atOnce     = "at_once"
	queued     = "queued"
)

// mem0KeyVariable holds Mem0's key, unless a configuration names another one.
const mem0KeyVariable = "MEM0_API_KEY"

// checkMemory holds the memories of a configuration to what can be seen without
// opening them.
func (c *config) checkMemory() error {
	language := ""
	for _, name := range sortedKeys(c.Memory) {
		mc, at := c.Memory[name], keys("memory", name)
		for _, k := range []struct {
			key     string
			set     bool
			backend string
		}{
			{"language", mc.Language != "", ownMemory},
			{"key_env", mc.KeyEnv != "", mem0Memory}, {"base_url", mc.BaseURL != "", mem0Memory}, {"timeout", mc.Timeout != 0, mem0Memory},
		} {
			if k.set && k.backend != cmp.Or(mc.Backend, ownMemory) {
				return c.errorAt(at.to(k.key), "memory %q has %s, and its backend is %s", name, k.key, cmp.Or(mc.Backend, ownMemory)).WithHint("it is for %s", k.backend)
			}
		}
		for _, k := range []struct {
			key, got string
			known    []string
		}{{"backend", mc.Backend, []string{ownMemory, mem0Memory}}, {"writes", mc.Writes, []string{queued, atOnce}}} {
			if k.got != "" && !slices.Contains(k.known, k.got) {
				return c.errorAt(at.to(k.key), "%s of memory %q is %q", k.key, name, k.got).WithHint("use %s", strings.Join(k.known, " or "))
			}
		}
		if mc.Scope.UserAt != "" && !strings.HasPrefix(mc.Scope.UserAt, "/") {
			return c.errorAt(at.to("scope", "user_at"), "user_at is %q, which is no pointer into the state", mc.Scope.UserAt).WithHint("write: user_at: /user")
		}
		if mc.Language != "" {
			if language != "" && language != mc.Language {
				return c.errorAt(at.to("language"), "memories are in one store, and its language is %q already", language).WithHint("name one language")
			}
			language = mc.Language
		}
	}
	return nil
}

// usedMemory is a memory of the configuration that was opened.
type usedMemory struct {
	backend memory.Backend
	scope   memory.ScopeFunc
}

// openMemories opens the memories of a configuration. What agents write is left in
// the queue, unless the configuration wants it at once.
func (a *app) openMemories() error {
	a.memories = map[string]usedMemory{}
	for _, name := range sortedKeys(a.config.Memory) {
		mc := a.config.Memory[name]
		backend, err := a.memoryBackend(keys("memory", name), mc)
		if err != nil {
			return a.config.wrap(err, keys("memory", name))
		}
		if mc.Writes != atOnce {
			job := memory.JobName + "/" + name
			q := memory.NewQueued(backend, renamed{a.queue, job})
			a.queue.Handle(job, q.HandleJob)
			backend = q
		}
		a.memories[name] = usedMemory{backend, mc.Scope.of}
	}
	return nil
}

func (a *app) memoryBackend(at place, mc memoryConfig) (memory.Backend, error) {
	if mc.Backend == mem0Memory {
		variable := cmp.Or(mc.KeyEnv, mem0KeyVariable)
		key := a.env.getenv(variable)
		if key == "" {
			return nil, host.Errorf(host.Unauthenticated, "%s: Mem0 needs a key, and %s is not set", a.config.position(at), variable).
				WithHint("set %s, or use backend: own", variable)
		}
		return mem0memory.New(&mem0memory.Options{APIKey: key, BaseURL: mc.BaseURL, Timeout: time.Duration(mc.Timeout)})
	}
	if a.ownMemory == nil {
		var err error
		if a.ownMemory, err = memory.New(a.data, &memory.Options{Language: a.config.memoryLanguage()}); err != nil {
			return nil, a.config.wrap(err, at.to("language"))
		}
	}
	return a.ownMemory, nil
}

// memoryLanguage is the one language of the memories.
func (c *config) memoryLanguage() string {
	for _, name := range sortedKeys(c.Memory) {
		if l := c.Memory[name].Language; l != "" {
			return l
		}
	}
	return ""
}

// of implements memory.ScopeFunc.
func (s memoryScopeConfig) of(run host.Scope, state *host.State) (memory.Scope, error) {
	scope := memory.Scope{Tenant: run.Tenant}
	if s.UserAt != "" {
		var err error
		if scope, err = memory.UserAt(s.UserAt)(run, state); err != nil {
			return memory.Scope{}, err
		}
	}
	scope.Application = s.Application
	if s.Agent {
		scope.Agent = run.Agent
	}
	if s.Run {
		scope.Run = run.Run
	}
	return scope, nil
}

// memory finds the memory of memory:NAME or memory:NAME/PART.
func (a *app) memory(at place, use string) (usedMemory, string, error) {
	name, part := splitUse(strings.TrimPrefix(use, memoryPrefix))
	m, known := a.memories[name]
	if !known {
		return m, "", a.config.unknown(at, "memory", name, sortedKeys(a.config.Memory))
	}
	return m, part, nil
}

// memoryTools returns the tools of a memory: all that do one thing, or the one
// that is named.
func (a *app) memoryTools(at place, use string) ([]*host.Tool, error) {
	m, part, err := a.memory(at, use)
	if err != nil {
		return nil, err
	}
	tools := memory.NewTools(m.backend, m.scope)
	one := map[string]func() *host.Tool{"create": tools.Create, "recall": tools.Recall, "update": tools.Update, "delete": tools.Delete, "manage": tools.Manage}
	switch made := one[part]; {
	case part == "":
		return tools.Granular(), nil
	case made == nil:
		return nil, a.config.unknown(at, "tool of a memory", part, sortedKeys(one))
	default:
		return []*host.Tool{made()}, nil
	}
}

// recallKeys are those of a provider that recalls.
type recallKeys struct {
	Limit   int    `json:"limit"`
	Heading string `json:"heading"`
}

// memoryProvider returns what puts memories that fit before an agent.
func (a *app) memoryProvider(at place, use useConfig) (host.Provider, error) {
	m, part, err := a.memory(at.to("use"), use.Use)
	if err != nil {
		return nil, err
	}
	if part != "" {
		return nil, a.config.errorAt(at.to("use"), "a memory as a provider has no part %q", part).WithHint("write: use: %s; its tools go under tools", strings.TrimSuffix(use.Use, "/"+part))
	}
	var c recallKeys
	if err := a.decodeKeys(at.to("config"), use.Config, &c); err != nil {
		return nil, err
	}
	if c.Limit < 0 || c.Limit > memory.MaxHits {
		return nil, a.config.errorAt(at.to("config", "limit"), "limit is %d, not from 1 to %d", c.Limit, memory.MaxHits).WithHint("leave it out for %d", memory.DefaultHits)
	}
	return memory.NewProvider(strings.TrimPrefix(use.Use, memoryPrefix), m.backend, m.scope, &memory.ProviderOptions{Limit: c.Limit, Heading: c.Heading}), nil
}

// renamed leaves jobs under a name of their own, so that several in one queue are
// told apart.
type renamed struct {
	jobs host.Enqueuer
	name string
}

// Enqueue implements [host.Enqueuer].
func (r renamed) Enqueue(ctx context.Context, job *host.Job) (string, error) {
	own := *job
	own.Name = r.name
	return r.jobs.Enqueue(ctx, &own)
}

var _ host.Enqueuer = renamed{}

// expire removes memories that have expired.
func (a *app) expire(ctx context.Context, tenant string) error {
	if a.ownMemory == nil {
		return nil
	}
	_, err := a.ownMemory.Expire(ctx, tenant)
	return err
}
