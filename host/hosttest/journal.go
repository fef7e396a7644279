package hosttest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Journal is a journal in memory, for tests. Safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	runs map[runKey]*host.RunRecord
}

type runKey struct{ tenant, run string }

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{runs: map[runKey]*host.RunRecord{}} }

// Runs returns the runs that wait for answers or a resumption, in no order.
func (j *Journal) Runs() []*host.RunRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []*host.RunRecord
	for _, r := range j.runs {
		if r.Status == host.RunOpen || r.Status == host.RunInterrupted {
			out = append(out, copyRun(r))
		}
	}
	return out
}

func copyRun(r *host.RunRecord) *host.RunRecord {
	c := *r
	c.Asks = slices.Clone(r.Asks)
	c.Steps = copySteps(r.Steps)
	return &c
}

func copySteps(steps []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, s := range steps {
		out = append(out, slices.Clone(s))
	}
	return out
}

// CreateRun implements [host.Journal].
func (j *Journal) CreateRun(_ context.Context, rec *host.RunRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := runKey{tenantOf(rec.Tenant), rec.Run}
	if j.runs[key] != nil {
		return host.Errorf(host.AlreadyExists, "there is a run %q", rec.Run)
	}
	if rec.Answers != "" {
		asked := j.runs[runKey{tenantOf(rec.Tenant), rec.Answers}]
		switch {
		case asked == nil:
			return noRun(rec.Answers)
		case asked.Status != host.RunInterrupted:
			return host.Errorf(host.Conflict, "run %q is %s", rec.Answers, asked.Status)
		}
		asked.Status, asked.AnsweredBy, asked.Steps, asked.Asks = host.RunAnswered, rec.Run, nil, nil
	}
	own := copyRun(rec)
	own.Fence, own.AnsweredBy = 1, ""
	j.runs[key] = own
	return nil
}

func noRun(run string) error { return host.Errorf(host.NotFound, "there is no run %q", run) }

// ReadRun implements [host.Journal].
func (j *Journal) ReadRun(_ context.Context, tenant, run string) (*host.RunRecord, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.runs[runKey{tenantOf(tenant), run}]
	if r == nil {
		return nil, noRun(run)
	}
	return copyRun(r), nil
}

// owned returns a run that ref may write to.
func (j *Journal) owned(ref host.RunRef, statuses ...host.RunStatus) (*host.RunRecord, error) {
	r := j.runs[runKey{tenantOf(ref.Tenant), ref.Run}]
	switch {
	case r == nil:
		return nil, noRun(ref.Run)
	case r.Fence != ref.Fence:
		return nil, host.Errorf(host.Conflict, "run %q has owner %d, not %d", ref.Run, r.Fence, ref.Fence)
	case !slices.Contains(statuses, r.Status):
		return nil, host.Errorf(host.Conflict, "run %q is %s", ref.Run, r.Status)
	}
	r.Updated = time.Now().UTC()
	return r, nil
}

// TakeRun implements [host.Journal].
func (j *Journal) TakeRun(_ context.Context, ref host.RunRef, steps int) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, err := j.owned(ref, host.RunOpen)
	if err != nil {
		return 0, err
	}
	if steps >= 0 && len(r.Steps) > steps {
		return 0, host.Errorf(host.Conflict, "run %q has %d steps, more than %d", ref.Run, len(r.Steps), steps)
	}
	r.Fence++
	return r.Fence, nil
}

// AppendSteps implements [host.Journal].
func (j *Journal) AppendSteps(_ context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, err := j.owned(ref, host.RunOpen)
	if err != nil {
		return err
	}
	if at < 0 || at > len(r.Steps) {
		return host.Errorf(host.InvalidArgument, "run %q has %d steps; none can stand at %d", ref.Run, len(r.Steps), at)
	}
	r.Steps = append(r.Steps[:at], copySteps(steps)...)
	return nil
}

// EndRun implements [host.Journal].
func (j *Journal) EndRun(_ context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, err := j.owned(ref, host.RunOpen)
	if err != nil {
		return err
	}
	r.Status, r.Steps = status, nil
	if rest != nil {
		r.Steps = copySteps([]json.RawMessage{rest})
	}
	return nil
}

// LeaveRun implements [host.QuestionKeeper].
func (j *Journal) LeaveRun(ctx context.Context, ref host.RunRef, rest json.RawMessage, asks []host.AskedQuestion) error {
	if err := j.EndRun(ctx, ref, host.RunInterrupted, rest); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := j.runs[runKey{tenantOf(ref.Tenant), ref.Run}]; r != nil && r.Status == host.RunInterrupted {
		r.Asks = slices.Clone(asks)
	}
	return nil
}

// WaitingRuns implements [host.QuestionKeeper].
func (j *Journal) WaitingRuns(_ context.Context, tenant string, filter host.WaitingFilter) ([]*host.RunRecord, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []*host.RunRecord
	for key, r := range j.runs {
		if key.tenant == tenantOf(tenant) && r.Status == host.RunInterrupted && key.run > filter.After && filter.Takes(r.Asks) {
			c := copyRun(r)
			c.Steps = nil
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *host.RunRecord) int { return strings.Compare(a.Run, b.Run) })
	return out[:min(len(out), host.MaxWaitingRuns)], nil
}

var (
	_ host.Journal        = (*Journal)(nil)
	_ host.QuestionKeeper = (*Journal)(nil)
)
