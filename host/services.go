package host

import (
	"context"
	"sync"

	"github.com/agenthost/agenthost/host/internal/replay"
)

// services are offered by a run to the code in it, beside that code's arguments:
// sandboxed code reaches them through the host, never by itself.
type services struct {
	steps *replay.Steps
	queue Enqueuer
	scope func() Scope // of the run and of the agent at work

	mu    sync.Mutex
	after []func(stored bool)
	over  bool

	earlier earlierArtifacts // of the session, for tools
	usage   UsageRecord      // of the run; nil without a ledger
}

type (
	servicesKey struct{}
	modelKey    struct{} // the model of the agent at work, or that routers ask
)

func (r *run) withServices(ctx context.Context) context.Context {
	r.services = &services{steps: r.journal.steps, queue: r.host.opts.Queue, scope: r.ownScope, earlier: earlierArtifacts{run: r}}
	ctx = context.WithValue(ctx, servicesKey{}, r.services)
	return context.WithValue(ctx, modelKey{}, r.models.forRouters())
}

// ModelOf returns the model of the agent whose tool, processor or provider runs
// under ctx, or, for a router, the one that routers ask; nil outside a run and
// where no model is configured.
func ModelOf(ctx context.Context) Model {
	m, _ := ctx.Value(modelKey{}).(Model)
	return m
}

// AfterCommit has fn called when the run that ctx belongs to has stored its
// turn, with false if it could not, or discards it. fn must return soon: the run
// waits for it. AfterCommit reports false, and keeps nothing, outside a run and
// after its end.
func AfterCommit(ctx context.Context, fn func(stored bool)) bool {
	s, _ := ctx.Value(servicesKey{}).(*services)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.after = append(s.after, fn)
	return true
}

// callAfterCommit calls the functions that wait for the commit.
func (s *services) callAfterCommit(stored bool) {
	s.mu.Lock()
	after := s.after
	s.after, s.over = nil, true
	s.mu.Unlock()
	for _, fn := range after {
		fn(stored)
	}
}

// ownScope is the run's scope without the agent at work, which may be any.
func (r *run) ownScope() Scope {
	return Scope{Tenant: r.scope.Tenant, Thread: r.scope.Thread, Run: r.scope.Run, Network: r.net.name}
}
