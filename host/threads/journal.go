package threads

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// A Store is the journal of the runs whose history it keeps, and finds questions.
var (
	_ host.Journal        = (*Store)(nil)
	_ host.QuestionKeeper = (*Store)(nil)
)

// runRecord is a journaled run's own entry. It changes when the run gets another
// owner or status, never with a step.
type runRecord struct {
	version
	Run        string         `json:"run"`
	Thread     string         `json:"thread,omitempty"`
	Content    string         `json:"content,omitempty"` // the thread's, so that the run goes with it
	Target     string         `json:"target"`
	Status     host.RunStatus `json:"status"`
	Fence      int64          `json:"fence"`
	Answers    string         `json:"answers,omitempty"`
	AnsweredBy string         `json:"answered_by,omitempty"`
	Created    time.Time      `json:"created"`
	Updated    time.Time      `json:"updated"`
}

func (r *runRecord) open() bool { return r.Status == host.RunOpen }

// journaled is a run as it was at one moment.
type journaled struct {
	rec      runRecord
	revision uint64
}

// runPartition returns where a tenant's runs are, if run can be one's id.
func runPartition(tenant, run string) (string, error) {
	part, err := partition(tenant)
	if err == nil {
		err = host.ValidateID("run", run, MaxMessageIDBytes)
	}
	return part, err
}

// findRun reads a run's record.
func (s *Store) findRun(ctx context.Context, part, run string) (*journaled, error) {
	e, err := s.driver.Get(ctx, part, runKey(run))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, noRun(run)
	}
	if err != nil {
		return nil, wrap(err, "read run %q", run)
	}
	j := &journaled{revision: e.Revision}
	return j, decode(e.Value, &j.rec, "record of run", run)
}

func noRun(run string) error {
	return host.Errorf(host.NotFound, "there is no run %q in the journal", run).
		WithHint("it has ended, or was none that can be resumed")
}

func lostRun(run string, r *runRecord) error {
	if !r.open() {
		return host.Errorf(host.Conflict, "run %q is %s", run, r.Status)
	}
	return host.Errorf(host.Conflict, "run %q has another owner (%d)", run, r.Fence).WithHint("leave it to that one")
}

// CreateRun implements [host.Journal].
func (s *Store) CreateRun(ctx context.Context, rec *host.RunRecord) error {
	part, err := runPartition(rec.Tenant, rec.Run)
	if err != nil {
		return err
	}
	w := s.writer(part, rec.Run)
	r := runRecord{version: version{layout}, Run: rec.Run, Thread: rec.Thread, Target: rec.Target,
		Status: rec.Status, Fence: 1, Answers: rec.Answers, Created: rec.Created.UTC(), Updated: rec.Updated.UTC()}
	if rec.Thread != "" {
		t, err := s.open(ctx, part, rec.Thread)
		if err != nil {
			return err
		}
		if t != nil { // it may be kept elsewhere
			r.Content = t.rec.root()
			w.put(t.root().journal(rec.Run), nil)
		}
	}
	w.tx.Conds = append(w.tx.Conds, kv.Absent(runKey(rec.Run)))
	if err := w.putRecord(&r); err != nil {
		return err
	}
	asks, err := asksValue(rec.Asks)
	if err != nil {
		return err
	}
	w.put(openRunKey(rec.Run), asks)
	if r.open() {
		w.put(leaseKey(rec.Run), lease(1))
		err = w.steps(ctx, 0, rec.Steps)
	} else {
		err = w.left(ctx, rec.Steps)
	}
	if err != nil {
		return err
	}
	if rec.Answers != "" {
		if err := s.answer(ctx, w, rec); err != nil {
			return err
		}
	}
	if err := w.commit(ctx, "begin run"); !errors.Is(err, kv.ErrPrecondition) {
		return err
	}
	if _, err := s.findRun(ctx, part, rec.Run); err == nil {
		return host.Errorf(host.AlreadyExists, "there is a run %q", rec.Run)
	}
	if rec.Answers != "" {
		return host.Errorf(host.Conflict, "the questions of run %q are answered already", rec.Answers)
	}
	return host.Errorf(host.Conflict, "begin run %q: another did at the same time", rec.Run)
}

// answer adds to w that the questions of a run are answered.
func (s *Store) answer(ctx context.Context, w *runWriter, rec *host.RunRecord) error {
	asked, err := s.findRun(ctx, w.tx.Partition, rec.Answers)
	if err != nil {
		return err
	}
	if asked.rec.Status != host.RunInterrupted {
		return lostRun(rec.Answers, &asked.rec)
	}
	r := asked.rec
	r.Status, r.AnsweredBy, r.Updated = host.RunAnswered, rec.Run, rec.Updated.UTC()
	w.tx.Conds = append(w.tx.Conds, kv.AtRevision(runKey(rec.Answers), asked.revision))
	w.tx.Writes = append(w.tx.Writes, kv.Delete(openRunKey(rec.Answers)))
	if err := w.deleteAll(ctx, leftKeys(rec.Answers)); err != nil {
		return err
	}
	return w.putRecord(&r)
}

// ReadRun implements [host.Journal].
func (s *Store) ReadRun(ctx context.Context, tenant, run string) (*host.RunRecord, error) {
	part, err := runPartition(tenant, run)
	if err != nil {
		return nil, err
	}
	j, err := s.findRun(ctx, part, run)
	if err != nil {
		return nil, err
	}
	out := j.rec.public(tenant)
	where := stepKeys(run)
	if !j.rec.open() {
		where = leftKeys(run)
	}
	out.Steps, err = s.readSteps(ctx, part, where, run)
	return out, err
}

func (r *runRecord) public(tenant string) *host.RunRecord {
	return &host.RunRecord{
		RunRef: host.RunRef{Tenant: tenant, Thread: r.Thread, Run: r.Run, Fence: r.Fence},
		Target: r.Target, Status: r.Status, Answers: r.Answers, AnsweredBy: r.AnsweredBy, Created: r.Created, Updated: r.Updated,
	}
}

// owned returns a run that ref may write to.
func (s *Store) owned(ctx context.Context, ref host.RunRef) (*journaled, string, error) {
	part, err := runPartition(ref.Tenant, ref.Run)
	if err != nil {
		return nil, "", err
	}
	j, err := s.findRun(ctx, part, ref.Run)
	if err == nil && (!j.rec.open() || j.rec.Fence != ref.Fence) {
		err = lostRun(ref.Run, &j.rec)
	}
	return j, part, err
}

// TakeRun implements [host.Journal].
func (s *Store) TakeRun(ctx context.Context, ref host.RunRef) (int64, error) {
	j, part, err := s.owned(ctx, ref)
	if err != nil {
		return 0, err
	}
	w := s.writer(part, ref.Run)
	w.owned(ref)
	r := j.rec
	r.Fence++
	r.Updated = s.now().UTC()
	w.put(leaseKey(ref.Run), lease(r.Fence))
	if err := w.putRecord(&r); err != nil {
		return 0, err
	}
	if err := w.commit(ctx, "take run"); err != nil {
		return 0, s.lost(ctx, part, ref.Run, err)
	}
	return r.Fence, nil
}

// lost says why a commit to a run was refused.
func (s *Store) lost(ctx context.Context, part, run string, err error) error {
	if !errors.Is(err, kv.ErrPrecondition) {
		return err
	}
	j, err := s.findRun(ctx, part, run)
	if err != nil {
		return err
	}
	return lostRun(run, &j.rec)
}

// AppendSteps implements [host.Journal].
func (s *Store) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	part, err := runPartition(ref.Tenant, ref.Run)
	if err != nil {
		return err
	}
	w := s.writer(part, ref.Run)
	w.owned(ref)
	if err := w.steps(ctx, at, steps); err != nil {
		return s.lost(ctx, part, ref.Run, err)
	}
	return s.lost(ctx, part, ref.Run, w.commit(ctx, "write steps of run"))
}

// EndRun implements [host.Journal]. A run that has ended is forgotten.
func (s *Store) EndRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	return s.endRun(ctx, ref, status, rest, nil)
}

// LeaveRun implements [host.QuestionKeeper].
func (s *Store) LeaveRun(ctx context.Context, ref host.RunRef, rest json.RawMessage, asks []host.AskedQuestion) error {
	return s.endRun(ctx, ref, host.RunInterrupted, rest, asks)
}

// asksValue is what a run's entry in the list of open runs says of its questions:
// nothing where none has a key or a time.
func asksValue(asks []host.AskedQuestion) ([]byte, error) {
	if !slices.ContainsFunc(asks, func(a host.AskedQuestion) bool { return a.Key != "" || a.Expires != nil }) {
		return nil, nil
	}
	return encode(&askedRecord{version{layout}, asks})
}

// askedRecord is what a run asks that waits for answers.
type askedRecord struct {
	version
	Asks []host.AskedQuestion `json:"asks"`
}

// asksOf reads what asksValue has written.
func asksOf(value []byte, run string) ([]host.AskedQuestion, error) {
	if len(value) == 0 {
		return nil, nil
	}
	var asked askedRecord
	err := decode(value, &asked, "questions of run", run)
	return asked.Asks, err
}

// WaitingRuns implements [host.QuestionKeeper]. It reads a short entry for each run
// that waits, and the records of those that filter takes.
func (s *Store) WaitingRuns(ctx context.Context, tenant string, filter host.WaitingFilter) ([]*host.RunRecord, error) {
	part, err := partition(tenant)
	if err != nil {
		return nil, err
	}
	var out []*host.RunRecord
	where := kv.Range{Prefix: openRunKeys}
	if filter.After != "" {
		where.After = openRunKey(filter.After)
	}
	for e, err := range kv.All(ctx, s.driver, part, where) {
		if err != nil {
			return nil, wrap(err, "list runs that wait")
		}
		rest, _ := e.Key.CutPrefix(openRunKeys)
		run, _, ok := rest.CutString()
		if !ok || run <= filter.After {
			continue
		}
		asks, err := asksOf(e.Value, run)
		if err != nil {
			return nil, err
		}
		if !filter.Takes(asks) {
			continue
		}
		j, err := s.findRun(ctx, part, run)
		if host.CodeOf(err) == host.NotFound || err == nil && j.rec.Status != host.RunInterrupted {
			continue // it was answered meanwhile, or is at work
		}
		if err != nil {
			return nil, err
		}
		rec := j.rec.public(tenant)
		rec.Asks = asks
		if out = append(out, rec); len(out) == host.MaxWaitingRuns {
			break
		}
	}
	return out, nil
}

func (s *Store) endRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage, asks []host.AskedQuestion) error {
	j, part, err := s.owned(ctx, ref)
	if err != nil {
		return err
	}
	w := s.writer(part, ref.Run)
	w.owned(ref)
	w.delete(leaseKey(ref.Run))
	if status == host.RunEnded {
		w.delete(runKey(ref.Run))
		w.delete(openRunKey(ref.Run))
		if j.rec.Content != "" {
			w.delete(contentOf(j.rec.Content).journal(ref.Run))
		}
		if j.rec.Answers != "" && j.rec.Thread == "" {
			w.forget(j.rec.Answers) // there is no thread to tell that it was answered
		}
	} else {
		r := j.rec
		r.Status, r.Updated = status, s.now().UTC()
		if err := w.putRecord(&r); err != nil {
			return err
		}
		value, err := asksValue(asks)
		if err != nil {
			return err
		}
		w.put(openRunKey(ref.Run), value)
		if err := w.left(ctx, []json.RawMessage{rest}); err != nil {
			return s.lost(ctx, part, ref.Run, err)
		}
	}
	if err := w.deleteAll(ctx, stepKeys(ref.Run)); err != nil {
		return err
	}
	return s.lost(ctx, part, ref.Run, w.commit(ctx, "end run"))
}

func lease(fence int64) []byte { return strconv.AppendInt(nil, fence, 10) }

// forgetRuns removes the runs that have begun in a thread.
func (t *thread) forgetRuns(ctx context.Context) error {
	for e, err := range kv.All(ctx, t.store.driver, t.partition, kv.Range{Prefix: t.root().journals()}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(t.root().journals())
		run, _, ok := rest.CutString()
		if !ok {
			continue
		}
		w := t.store.writer(t.partition, run)
		w.forget(run)
		if err := w.commit(ctx, "forget run"); err != nil {
			return err
		}
		for _, prefix := range []kv.Key{stepKeys(run), leftKeys(run)} {
			if err := t.store.remove(ctx, t.partition, prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

// Runs returns the runs of a tenant that wait for answers or for somebody to go
// on with them, without their steps, the first begun first; at most [MaxListLimit].
func (tn *Tenant) Runs(ctx context.Context) ([]*host.RunRecord, error) {
	part, err := partition(tn.name)
	if err != nil {
		return nil, err
	}
	var out []*host.RunRecord
	for e, err := range kv.All(ctx, tn.store.driver, part, kv.Range{Prefix: openRunKeys}) {
		if err != nil {
			return nil, wrap(err, "list runs")
		}
		rest, _ := e.Key.CutPrefix(openRunKeys)
		run, _, ok := rest.CutString()
		if !ok {
			continue
		}
		j, err := tn.store.findRun(ctx, part, run)
		if host.CodeOf(err) == host.NotFound {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		rec := j.rec.public(tn.name)
		if rec.Asks, err = asksOf(e.Value, run); err != nil {
			return nil, err
		}
		if out = append(out, rec); len(out) == MaxListLimit {
			break
		}
	}
	return out, nil
}
