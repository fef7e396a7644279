package lookup

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Answerable returns the runs that can be continued: a run that asks questions only if
// its thread still waits for the answers.
func Answerable(ctx context.Context, s *threads.Store, tenant string, runs []*host.RunRecord) ([]*host.RunRecord, error) {
	var out []*host.RunRecord
	for _, r := range runs {
		ok, err := IsAnswerable(ctx, s, tenant, r)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// IsAnswerable reports whether a run can be continued: see [Answerable].
func IsAnswerable(ctx context.Context, s *threads.Store, tenant string, r *host.RunRecord) (bool, error) {
	if r.Status != host.RunInterrupted || r.Thread == "" {
		return true, nil
	}
	for b, err := range s.For(tenant).Branches(ctx, r.Thread) {
		switch {
		case host.CodeOf(err) == host.NotFound && err != nil:
			return true, nil // the thread is stored elsewhere: an embedder's history may be another store
		case err != nil:
			return false, err
		case b.ID != "" && !b.Open:
			continue // no turn continues a closed branch
		}
		t, err := s.For(tenant).ShowAt(ctx, r.Thread, threads.At{Branch: b.ID}, 1)
		if err != nil {
			return false, err
		}
		if n := len(t.Snapshots); n > 0 && t.Snapshots[n-1].ID == r.Run {
			return true, nil
		}
	}
	return false, nil
}
