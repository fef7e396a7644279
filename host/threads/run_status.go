package threads

import (
	"context"

	"github.com/agenthost/agenthost/host"
)

// RunStatus returns the status of a run, for a caller that needs it after a
// crash: [host.RunEnded] if the run's turn is in its thread, and otherwise the
// journal's status. Code not_found for a run of which neither the thread nor the
// journal has an entry.
func (s *Store) RunStatus(ctx context.Context, scope host.Scope) (host.RunStatus, error) {
	j, err := s.writer(scope.Tenant).journalOf(scope.Run)
	if err != nil {
		return "", err
	}
	if scope.Thread != "" {
		stored, err := j.hasTurn(ctx, scope.Thread, scope.Run)
		if err != nil || stored {
			return host.RunEnded, err
		}
	}
	r, err := j.find(ctx, scope.Run)
	if err != nil {
		return "", err
	}
	return r.rec.Status, nil
}

// hasTurn reports whether a thread or a branch of it has the turn of a run. The index at
// the root has all runs of the thread; the present content may have left this one.
func (j journal) hasTurn(ctx context.Context, thread, run string) (bool, error) {
	t, err := j.part.open(ctx, thread)
	if err != nil || t == nil {
		return false, err
	}
	_, _, stored, err := t.contents().turnOf(ctx, t.root(), run)
	return stored, err
}
