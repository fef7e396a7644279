package project

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mem0memory"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// usedMemory is a memory of the configuration that was opened.
type usedMemory struct {
	backend memory.Backend
	scope   memory.ScopeFunc
}

// openMemories opens the memories of a configuration. Agents' writes go to the queue,
// unless the configuration wants them at once.
func (a *Project) openMemories() error {
	a.memories = map[string]usedMemory{}
	for _, name := range slices.Sorted(maps.Keys(a.config.Memory)) {
		mc := a.config.Memory[name]
		backend, err := a.memoryBackend(configfile.Keys("memory", name), mc)
		if err != nil {
			return a.config.Wrap(err, configfile.Keys("memory", name))
		}
		if mc.Writes != configfile.AtOnce {
			job := memory.JobName + "/" + name
			q := memory.NewQueued(backend, renamed{a.queue, job})
			a.queue.Handle(job, q.HandleJob)
			backend = q
		}
		a.memories[name] = usedMemory{backend, func(run host.Scope, state *host.State) (memory.Scope, error) { return scopeOf(mc.Scope, run, state) }}
	}
	return nil
}

func (a *Project) memoryBackend(at configfile.KeyPath, mc configfile.Memory) (memory.Backend, error) {
	if mc.Backend == configfile.Mem0Memory {
		variable := cmp.Or(mc.KeyEnv, configfile.Mem0KeyVariable)
		key := a.getenv(variable)
		if key == "" {
			return nil, host.Errorf(host.Unauthenticated, "%s: Mem0 needs a key, and %s is not set", a.config.Position(at), variable).
				WithHint("set %s, or use backend: own", variable)
		}
		return mem0memory.New(&mem0memory.Options{APIKey: key, BaseURL: mc.BaseURL, Timeout: time.Duration(mc.Timeout)})
	}
	if a.ownMemory == nil {
		var err error
		if a.ownMemory, err = memory.New(a.data, &memory.Options{Language: a.config.MemoryLanguage()}); err != nil {
			return nil, a.config.Wrap(err, at.To("language"))
		}
	}
	return a.ownMemory, nil
}

// scopeOf returns the scope of the memories that a run uses.
func scopeOf(s configfile.MemoryScope, run host.Scope, state *host.State) (memory.Scope, error) {
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
func (a *Project) memory(at configfile.KeyPath, use string) (usedMemory, string, error) {
	name, part := configfile.SplitUse(strings.TrimPrefix(use, configfile.MemoryPrefix))
	m, known := a.memories[name]
	if !known {
		return m, "", a.config.Unknown(at, "memory", name, slices.Sorted(maps.Keys(a.config.Memory)))
	}
	return m, part, nil
}

// memoryTools returns the tools of a memory: all single-purpose ones, or the named one.
func (a *Project) memoryTools(at configfile.KeyPath, use string) ([]*host.Tool, error) {
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
		return nil, a.config.Unknown(at, "tool of a memory", part, slices.Sorted(maps.Keys(one)))
	default:
		return []*host.Tool{made()}, nil
	}
}

// recallKeys are the keys of a provider that recalls memories.
type recallKeys struct {
	Limit   int    `json:"limit"`
	Heading string `json:"heading"`
}

// memoryProvider returns the provider that gives an agent the matching memories.
func (a *Project) memoryProvider(at configfile.KeyPath, use configfile.Use) (host.Provider, error) {
	m, part, err := a.memory(at.To("use"), use.Use)
	if err != nil {
		return nil, err
	}
	if part != "" {
		return nil, a.config.ErrorAt(at.To("use"), "a memory as a provider has no part %q", part).WithHint("write: use: %s; its tools go under tools", strings.TrimSuffix(use.Use, "/"+part))
	}
	var c recallKeys
	if err := a.decodeKeys(at.To("config"), use.Config, &c); err != nil {
		return nil, err
	}
	if c.Limit < 0 || c.Limit > memory.MaxHits {
		return nil, a.config.ErrorAt(at.To("config", "limit"), "limit is %d, not from 1 to %d", c.Limit, memory.MaxHits).WithHint("leave it out for %d", memory.DefaultHits)
	}
	return memory.NewProvider(strings.TrimPrefix(use.Use, configfile.MemoryPrefix), m.backend, m.scope, &memory.ProviderOptions{Limit: c.Limit, Heading: c.Heading}), nil
}

// renamed enqueues jobs under another name, so that those of several memories in one
// queue can be distinguished.
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

// expire removes expired memories.
func (a *Project) expire(ctx context.Context, tenant string) error {
	if a.ownMemory == nil {
		return nil
	}
	_, err := a.ownMemory.Expire(ctx, tenant)
	return err
}
