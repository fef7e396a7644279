package lookup

import (
	"context"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/threads"
)

// ThreadIDs returns the threads that moved last, with their titles, for a shell to complete.
func ThreadIDs(ctx context.Context, s *threads.Store, tenant string) ([]string, error) {
	page, err := s.For(tenant).List(ctx, &threads.ListOptions{Limit: ui.MaxCompletions})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range page.Threads {
		ids = append(ids, ui.Completion(t.ID, t.Title))
	}
	return ids, nil
}

// RunIDs returns the runs that can be continued, for a shell to complete.
func RunIDs(ctx context.Context, s *threads.Store, tenant string) ([]string, error) {
	runs, err := s.For(tenant).Runs(ctx)
	if err == nil {
		runs, err = Answerable(ctx, s, tenant, runs)
	}
	var ids []string
	for _, r := range runs[:min(ui.MaxCompletions, len(runs))] {
		ids = append(ids, ui.Completion(r.Run, r.Target+" "+string(r.Status)))
	}
	return ids, err
}
