package threads

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// RunStatus returns where a run stands, for who has to know it after a crash:
// [host.RunEnded] if its turn is in its thread, and otherwise what the journal
// says. Code not_found for a run of which nothing is stored, or that was neither
// in a thread nor is in the journal any more.
func (s *Store) RunStatus(ctx context.Context, scope host.Scope) (host.RunStatus, error) {
	part, err := runPartition(scope.Tenant, scope.Run)
	if err != nil {
		return "", err
	}
	if scope.Thread != "" {
		stored, err := s.hasTurn(ctx, part, scope.Thread, scope.Run)
		if err != nil || stored {
			return host.RunEnded, err
		}
	}
	j, err := s.findRun(ctx, part, scope.Run)
	if err != nil {
		return "", err
	}
	return j.rec.Status, nil
}

// hasTurn reports whether a thread has the turn of a run.
func (s *Store) hasTurn(ctx context.Context, part, id, run string) (bool, error) {
	t, err := s.open(ctx, part, id)
	if err != nil || t == nil {
		return false, err
	}
	_, err = s.driver.Get(ctx, part, t.content.run(run))
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, wrap(err, "look for the turn of run %q", run)
}
