package project

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/mem0memory"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/usage"
)

// usedMemory is a memory of the configuration that was opened.
type usedMemory struct {
	backend memory.Backend
	scope   memory.ScopeFunc
}

// Memories returns the memories that the project keeps itself; nil if its configuration has
// none.
func (p *Project) Memories() *memory.Store { return p.memories.own }

// memorySet is the memories of a configuration.
type memorySet struct {
	config *configfile.Config
	getenv func(string) string
	models *modelSet
	logger *slog.Logger
	driver kv.Driver     // set when the data directory is open
	queue  *queue.Queue  // likewise
	ledger *usage.Ledger // likewise

	byName map[string]usedMemory
	own    *memory.Store // nil if no memory uses it
}

// open opens the memories of a configuration. Agents' writes go to the queue,
// unless the configuration wants them at once.
func (s *memorySet) open(ctx context.Context) error {
	s.byName = map[string]usedMemory{}
	for _, name := range slices.Sorted(maps.Keys(s.config.Memory)) {
		mc := s.config.Memory[name]
		backend, err := s.backend(ctx, configfile.Keys("memory", name), mc)
		if err != nil {
			return s.config.Wrap(err, configfile.Keys("memory", name))
		}
		if mc.Writes != configfile.AtOnce {
			job := memory.JobName + "/" + name
			q := memory.NewQueued(backend, renamed{s.queue, job})
			s.queue.Handle(job, q.HandleJob)
			backend = q
		}
		s.byName[name] = usedMemory{backend, func(run host.Scope, state *host.State) (memory.Scope, error) { return scopeOf(mc.Scope, run, state) }}
	}
	return nil
}

func (s *memorySet) backend(ctx context.Context, at configfile.KeyPath, mc configfile.Memory) (memory.Backend, error) {
	if mc.Backend == configfile.Mem0Memory {
		variable := cmp.Or(mc.KeyEnv, configfile.Mem0KeyVariable)
		key := s.getenv(variable)
		if key == "" {
			e := s.config.ErrorAt(at, "Mem0 needs a key, and %s is not set", variable)
			e.Code = host.Unauthenticated
			return nil, e.WithHint("set %s, or use backend: own", variable)
		}
		return mem0memory.New(&mem0memory.Options{APIKey: key, BaseURL: mc.BaseURL, Timeout: time.Duration(mc.Timeout)})
	}
	if s.own == nil {
		opts := &memory.Options{Language: s.config.MemoryLanguage(), Logger: s.logger}
		err := s.addEmbedder(ctx, opts)
		if err != nil {
			return nil, s.config.Wrap(err, at.To("embeddings"))
		}
		if s.own, err = memory.New(s.driver, opts); err != nil {
			return nil, s.config.Wrap(err, at.To("language"))
		}
	}
	return s.own, nil
}

// addEmbedder adds the configured embedder, whose calls the ledger counts.
func (s *memorySet) addEmbedder(ctx context.Context, opts *memory.Options) error {
	e := s.config.MemoryEmbeddings()
	if e == nil {
		return nil
	}
	embedder, err := s.models.embedder(ctx, *e)
	if err != nil {
		return err
	}
	if s.ledger != nil {
		embedder = s.ledger.Embedder(embedder)
	}
	opts.Embedder, opts.MinSimilarity, opts.VectorBytes = embedder, e.MinSimilarity, int(e.Vectors)
	return nil
}

// embed gives vectors to the memories of a tenant that have none. An embedder that is not
// reached is asked again the next time.
func (s *memorySet) embed(ctx context.Context, tenant string) error {
	if s.own == nil {
		return nil
	}
	if n, err := s.own.Embed(ctx, tenant); err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "memories have no vectors yet; search finds them by their words", "tenant", tenant, "embedded", n, "error", err)
	}
	return nil
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

// find finds the memory of memory:NAME or memory:NAME/PART.
func (s *memorySet) find(at configfile.KeyPath, use string) (usedMemory, string, error) {
	name, part := configfile.SplitUse(strings.TrimPrefix(use, configfile.MemoryPrefix))
	m, known := s.byName[name]
	if !known {
		return m, "", s.config.Unknown(at, "memory", name, slices.Sorted(maps.Keys(s.config.Memory)))
	}
	return m, part, nil
}

// tools returns the tools of a memory: all single-purpose ones, or the named one.
func (s *memorySet) tools(at configfile.KeyPath, use string) ([]*host.Tool, error) {
	m, part, err := s.find(at, use)
	if err != nil {
		return nil, err
	}
	tools := memory.NewTools(m.backend, m.scope)
	one := map[string]func() *host.Tool{"create": tools.Create, "recall": tools.Recall, "update": tools.Update, "delete": tools.Delete, "manage": tools.Manage}
	switch made := one[part]; {
	case part == "":
		return tools.Granular(), nil
	case made == nil:
		return nil, s.config.Unknown(at, "tool of a memory", part, slices.Sorted(maps.Keys(one)))
	default:
		return []*host.Tool{made()}, nil
	}
}

// recallKeys are the keys of a provider that recalls memories.
type recallKeys struct {
	Limit   int    `json:"limit"`
	Heading string `json:"heading"`
}

// provider returns the provider that gives an agent the matching memories.
func (s *memorySet) provider(at configfile.KeyPath, use configfile.Use) (host.Provider, error) {
	m, part, err := s.find(at.To("use"), use.Use)
	if err != nil {
		return nil, err
	}
	if part != "" {
		return nil, s.config.ErrorAt(at.To("use"), "a memory as a provider has no part %q", part).WithHint("write: use: %s; its tools go under tools", strings.TrimSuffix(use.Use, "/"+part))
	}
	var c recallKeys
	if err := decodeKeys(s.config, at.To("config"), use.Config, &c); err != nil {
		return nil, err
	}
	if c.Limit < 0 || c.Limit > memory.MaxHits {
		return nil, s.config.ErrorAt(at.To("config", "limit"), "limit is %d, not from 1 to %d", c.Limit, memory.MaxHits).WithHint("leave it out for %d", memory.DefaultHits)
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
func (s *memorySet) expire(ctx context.Context, tenant string) error {
	if s.own == nil {
		return nil
	}
	_, err := s.own.Expire(ctx, tenant)
	return err
}
