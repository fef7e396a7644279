package threads

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/reduce"
)

// Summaries returns where reducers keep the newest summary of each thread of the
// store: beside its log, so that it goes when the thread goes. A summary says which
// message it reaches to; it covers the thread up to that one. It is no part of the
// conversation, and no commit of it.
func (s *Store) Summaries() reduce.Summaries { return summaries{s} }

type summaries struct{ *Store }

// storedSummary is a summary as it is stored.
type storedSummary struct {
	version
	reduce.Summary
}

func (c content) summary() kv.Key { return c.all().With("summary") }

// Load implements [reduce.Summaries]. A thread that is not there has no summary.
func (s summaries) Load(ctx context.Context, scope host.Scope) (*reduce.Summary, error) {
	if scope.Thread == "" {
		return nil, nil
	}
	t, err := s.open(ctx, scope.Tenant, scope.Thread)
	if err != nil || t == nil {
		return nil, err
	}
	raw, err := t.get(ctx, t.root().summary())
	if err != nil || raw == nil {
		return nil, err
	}
	var stored storedSummary
	if err := decode(raw, &stored, "summary of thread", scope.Thread); err != nil {
		return nil, err
	}
	return &stored.Summary, nil
}

// Save implements [reduce.Summaries]. Code not_found if the thread is not there
// any more.
func (s summaries) Save(ctx context.Context, scope host.Scope, summary *reduce.Summary) error {
	raw, err := encode(storedSummary{version{layout}, *summary})
	if err != nil {
		return err
	}
	for range maxAttempts {
		t, err := s.find(ctx, scope.Tenant, scope.Thread)
		if err != nil {
			return err
		}
		_, err = kv.Apply(ctx, s.driver, kv.Tx{Partition: t.partition, Writes: []kv.Write{kv.Put(t.root().summary(), raw)},
			Conds: []kv.Cond{kv.AtRevision(threadKey(scope.Thread), t.revision)}}) // or it might be gone
		if !errors.Is(err, kv.ErrPrecondition) {
			return wrap(err, "store the summary of thread %q", scope.Thread)
		}
	}
	return host.Errorf(host.Conflict, "store the summary of thread %q: others changed it first, %d times", scope.Thread, maxAttempts)
}
