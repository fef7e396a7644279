package threads

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
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
	Branch     string         `json:"branch,omitempty"`  // of the thread
	Content    string         `json:"content,omitempty"` // the thread's, so that the run goes with it
	Target     string         `json:"target"`
	Status     host.RunStatus `json:"status"`
	Fence      int64          `json:"fence"`
	Host       string         `json:"host,omitempty"` // that owns an open run
	Answers    string         `json:"answers,omitempty"`
	AnsweredBy string         `json:"answered_by,omitempty"`
	Created    time.Time      `json:"created"`
	Updated    time.Time      `json:"updated"`
}

func (r *runRecord) open() bool { return r.Status == host.RunOpen }

// journal keeps the runs of one tenant.
type journal struct {
	part  partition
	store *Store
}

// journaled is the record of a run at one revision.
type journaled struct {
	rec      runRecord
	revision uint64
}

// journalOf returns the tenant's journal, if run can be the id of a run.
func (w threadWriter) journalOf(run string) (journal, error) {
	err := w.read.err
	if err == nil {
		err = chat.ValidateID("run", run, MaxMessageIDBytes)
	}
	return w.journal(), err
}

// find reads a run's record.
func (j journal) find(ctx context.Context, run string) (*journaled, error) {
	e, err := j.part.Get(ctx, runKey(run))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, noRun(run)
	}
	if err != nil {
		return nil, wrap(err, "read run %q", run)
	}
	r := &journaled{revision: e.Revision}
	return r, decode(e.Value, &r.rec, "record of run", run)
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
	j, err := s.writer(rec.Tenant).journalOf(rec.Run)
	if err != nil {
		return err
	}
	return j.create(ctx, rec, s.locks.turns.Fence(lockKey(j.part.Name, rec.Thread, rec.Branch)))
}

// create stores the record of a run. lock are the conditions under which this process has
// the run's thread: a process that was paused since it stored the user's message, and whose
// thread another one has taken, begins no run that would fail at its end.
//
// The first attempt takes the thread as this store's last commit has left it, if that is
// known, and needs it to be so still.
func (j journal) create(ctx context.Context, rec *host.RunRecord, lock []kv.Cond) error {
	var t *Moment
	if rec.Thread != "" {
		t = j.store.windows.record(j.part.Name, rec.Thread)
	}
	err := kv.ErrPrecondition
	if t != nil {
		err = j.createOn(ctx, rec, t, append(slices.Clone(lock), kv.AtRevision(threadKey(rec.Thread), t.revision)))
	}
	if t == nil || failedAt(err, threadKey(rec.Thread)) {
		if t, err = j.threadOf(ctx, rec); err != nil {
			return err
		}
		err = j.createOn(ctx, rec, t, lock)
	}
	if !errors.Is(err, kv.ErrPrecondition) {
		return err
	}
	if lostLock(err, lock) {
		return errLostLock("begin run", rec.Run)
	}
	if _, err := j.find(ctx, rec.Run); err == nil {
		return host.Errorf(host.AlreadyExists, "there is a run %q", rec.Run)
	}
	if rec.Answers != "" {
		return host.Errorf(host.Conflict, "the questions of run %q are answered already", rec.Answers)
	}
	return host.Errorf(host.Conflict, "begin run %q: another did at the same time", rec.Run)
}

// failedAt reports whether a commit failed because of the condition on a key.
func failedAt(err error, key kv.Key) bool {
	var failed *kv.PreconditionError
	return errors.As(err, &failed) && failed.Cond.Key == key
}

// threadOf reads the thread of a run; nil for a run without one, and for a thread that is
// kept elsewhere.
func (j journal) threadOf(ctx context.Context, rec *host.RunRecord) (*Moment, error) {
	if rec.Thread == "" {
		return nil, nil
	}
	return j.part.open(ctx, rec.Thread)
}

// createOn stores the record of a run under conditions. t is its thread, which may be nil.
// It returns kv.ErrPrecondition unchanged.
func (j journal) createOn(ctx context.Context, rec *host.RunRecord, t *Moment, conds []kv.Cond) error {
	w := j.writer(rec.Run)
	w.tx.Conds = append(w.tx.Conds, conds...)
	r := runRecord{version: version{V: layout}, Run: rec.Run, Thread: rec.Thread, Branch: rec.Branch, Target: rec.Target,
		Status: rec.Status, Fence: 1, Host: rec.Host, Answers: rec.Answers, Created: rec.Created.UTC(), Updated: rec.Updated.UTC()}
	if t != nil {
		r.Content = t.rec.root()
		w.put(t.root().journal(rec.Run), nil)
	}
	w.tx.Conds = append(w.tx.Conds, kv.Absent(runKey(rec.Run)))
	if err := w.putRecord(&r); err != nil {
		return err
	}
	asks, err := listValue(&r, rec.Asks)
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
		if err := j.answer(ctx, w, rec); err != nil {
			return err
		}
	}
	err = w.commit(ctx, "begin run")
	if err == nil && r.open() && !w.inPieces {
		j.store.open.begun(j.part.Name, &openRun{rec: r, steps: len(rec.Steps)})
	}
	return err
}

// answer adds to w that the questions of a run are answered.
func (j journal) answer(ctx context.Context, w *runWriter, rec *host.RunRecord) error {
	asked, err := j.find(ctx, rec.Answers)
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
	j, err := s.writer(tenant).journalOf(run)
	if err != nil {
		return nil, err
	}
	r, err := j.find(ctx, run)
	if err != nil {
		return nil, err
	}
	out := r.rec.public(tenant)
	where := stepKeys(run)
	if !r.rec.open() {
		where = leftKeys(run)
	}
	out.Steps, err = j.readSteps(ctx, where, run)
	return out, err
}

func (r *runRecord) public(tenant string) *host.RunRecord {
	return &host.RunRecord{
		Ref:    host.RunRef{Tenant: tenant, Thread: r.Thread, Run: r.Run, Fence: r.Fence, Host: r.Host},
		Branch: r.Branch, Target: r.Target, Status: r.Status, Answers: r.Answers, AnsweredBy: r.AnsweredBy, Created: r.Created, Updated: r.Updated,
	}
}

// owned returns a run that ref may write to.
func (j journal) owned(ctx context.Context, ref host.RunRef) (*journaled, error) {
	r, err := j.find(ctx, ref.Run)
	if err == nil && (!r.rec.open() || r.rec.Fence != ref.Fence) {
		err = lostRun(ref.Run, &r.rec)
	}
	return r, err
}

// TakeRun implements [host.Journal].
func (s *Store) TakeRun(ctx context.Context, ref host.RunRef, steps int) (int64, error) {
	j, err := s.writer(ref.Tenant).journalOf(ref.Run)
	if err != nil {
		return 0, err
	}
	s.open.forget(j.part.Name, ref.Run)
	owned, err := j.owned(ctx, ref)
	if err != nil {
		return 0, err
	}
	w := j.writer(ref.Run)
	w.requireOwner(ref)
	next := stepKeys(ref.Run).WithUint(uint64(max(steps, 0)))
	if steps >= 0 {
		w.tx.Conds = append(w.tx.Conds, kv.Absent(next))
	}
	r := owned.rec
	r.Fence++
	r.Updated = j.store.now().UTC()
	w.put(leaseKey(ref.Run), lease(r.Fence))
	if r.Host != ref.Host {
		r.Host = ref.Host
		value, err := listValue(&r, nil)
		if err != nil {
			return 0, err
		}
		w.put(openRunKey(ref.Run), value)
	}
	if err := w.putRecord(&r); err != nil {
		return 0, err
	}
	err = w.commit(ctx, "take run")
	if steps >= 0 && failedAt(err, next) {
		return 0, host.Errorf(host.Conflict, "run %q has more steps than the %d that were read: its owner lives", ref.Run, steps).WithHint("leave it to that one, or read it again")
	}
	if err != nil {
		return 0, j.lost(ctx, ref.Run, err)
	}
	return r.Fence, nil
}

// lost says why a commit to a run was refused.
func (j journal) lost(ctx context.Context, run string, err error) error {
	if !errors.Is(err, kv.ErrPrecondition) {
		return err
	}
	r, err := j.find(ctx, run)
	if err != nil {
		return err
	}
	return lostRun(run, &r.rec)
}

// AppendSteps implements [host.Journal].
func (s *Store) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	j, err := s.writer(ref.Tenant).journalOf(ref.Run)
	if err != nil {
		return err
	}
	w := j.writer(ref.Run)
	w.requireOwner(ref)
	err = w.steps(ctx, at, steps)
	if err == nil {
		err = w.commit(ctx, "write steps of run")
	}
	if err != nil || w.inPieces {
		s.open.forget(j.part.Name, ref.Run)
		return j.lost(ctx, ref.Run, err)
	}
	s.open.grew(j.part.Name, ref, at, len(steps))
	return nil
}

// EndRun implements [host.Journal]. A run that has ended is forgotten.
func (s *Store) EndRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	j, err := s.writer(ref.Tenant).journalOf(ref.Run)
	if err != nil {
		return err
	}
	return j.end(ctx, ref, status, rest, nil)
}

// LeaveRun implements [host.QuestionKeeper].
func (s *Store) LeaveRun(ctx context.Context, ref host.RunRef, rest json.RawMessage, asks []host.AskedQuestion) error {
	j, err := s.writer(ref.Tenant).journalOf(ref.Run)
	if err != nil {
		return err
	}
	return j.end(ctx, ref, host.RunInterrupted, rest, asks)
}

// listValue encodes a run's entry in the list of open runs: the host of one that is
// open, the questions of one that waits.
func listValue(r *runRecord, asks []host.AskedQuestion) ([]byte, error) {
	if r.open() && r.Host != "" {
		return encode(&askedRecord{version: version{V: layout}, Host: r.Host})
	}
	return asksValue(asks)
}

func (j journal) end(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage, asks []host.AskedQuestion) error {
	w := j.writer(ref.Run)
	w.requireOwner(ref)
	r, err := j.deleteSteps(ctx, ref, w)
	if err != nil {
		return err
	}
	w.delete(leaseKey(ref.Run))
	if status == host.RunEnded {
		w.delete(runKey(ref.Run))
		w.delete(openRunKey(ref.Run))
		if r.Content != "" {
			w.delete(contentOf(r.Content).journal(ref.Run))
		}
		if r.Answers != "" && r.Thread == "" {
			w.forget(r.Answers) // there is no thread to tell that it was answered
		}
	} else {
		r.Status, r.Updated = status, j.store.now().UTC()
		if err := w.putRecord(&r); err != nil {
			return err
		}
		value, err := asksValue(asks)
		if err != nil {
			return err
		}
		w.put(openRunKey(ref.Run), value)
		if err := w.left(ctx, []json.RawMessage{rest}); err != nil {
			return j.lost(ctx, ref.Run, err)
		}
	}
	return j.lost(ctx, ref.Run, w.commit(ctx, "end run"))
}

// deleteSteps adds to w that the steps of a run are deleted, and returns the record of the
// run, which ref owns. It reads nothing of a run that this store has begun.
func (j journal) deleteSteps(ctx context.Context, ref host.RunRef, w *runWriter) (runRecord, error) {
	if own := j.store.open.find(j.part.Name, ref); own != nil {
		j.store.open.forget(j.part.Name, ref.Run)
		for i := range own.steps {
			w.delete(stepKeys(ref.Run).WithUint(uint64(i)))
		}
		return own.rec, nil
	}
	owned, err := j.owned(ctx, ref)
	if err != nil {
		return runRecord{}, err
	}
	return owned.rec, w.deleteAll(ctx, stepKeys(ref.Run))
}

func lease(fence int64) []byte { return strconv.AppendInt(nil, fence, 10) }

// forgetRunsOf removes the runs that have begun in a thread.
func (j journal) forgetRunsOf(ctx context.Context, t *Moment) error {
	for e, err := range j.part.All(ctx, kv.Range{Prefix: t.root().journals()}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(t.root().journals())
		run, _, ok := rest.CutString()
		if !ok {
			continue
		}
		w := j.writer(run)
		w.forget(run)
		if err := w.commit(ctx, "forget run"); err != nil {
			return err
		}
		for _, prefix := range []kv.Key{stepKeys(run), leftKeys(run)} {
			if err := j.part.Remove(ctx, prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

// Runs returns the runs of a tenant that wait for answers or for a process that
// continues them, without their steps, the first begun first; at most [MaxListLimit].
func (tn *Tenant) Runs(ctx context.Context) ([]*host.RunRecord, error) {
	if tn.write.read.err != nil {
		return nil, tn.write.read.err
	}
	var out []*host.RunRecord
	all := func([]host.AskedQuestion) bool { return true }
	for run, err := range tn.write.journal().list(ctx, "", all) {
		if err != nil {
			return nil, err
		}
		if out = append(out, run.public(tn.write.read.part.Name)); len(out) == MaxListLimit {
			break
		}
	}
	return out, nil
}

// DropWaiting removes a run that waits for answers and that nothing can continue any more; its
// thread stays. Code not_found for a run that does not exist, conflict for one that does not
// wait.
func (tn *Tenant) DropWaiting(ctx context.Context, run string) error {
	if tn.write.read.err != nil {
		return tn.write.read.err
	}
	j := tn.write.journal()
	r, err := j.find(ctx, run)
	if err != nil {
		return err
	}
	if r.rec.Status != host.RunInterrupted {
		return lostRun(run, &r.rec)
	}
	w := j.writer(run)
	w.tx.Conds = append(w.tx.Conds, kv.AtRevision(runKey(run), r.revision))
	w.forget(run)
	if r.rec.Content != "" {
		w.delete(contentOf(r.rec.Content).journal(run))
	}
	if err := w.deleteAll(ctx, leftKeys(run)); err != nil {
		return err
	}
	return j.lost(ctx, run, w.commit(ctx, "remove run"))
}

// RunsOf returns open runs of a tenant that a host owns, by its id in a cluster, without
// their steps: in the order of their ids, at most [MaxListLimit].
func (s *Store) RunsOf(ctx context.Context, tenant, owner string) ([]*host.RunRecord, error) {
	part, err := partitionOf(s.driver, tenant)
	if err != nil {
		return nil, err
	}
	j, out := journal{part, s}, []*host.RunRecord(nil)
	for e, err := range part.All(ctx, kv.Range{Prefix: openRunKeys}) {
		if err != nil {
			return nil, wrap(err, "list the runs of a host")
		}
		rest, _ := e.Key.CutPrefix(openRunKeys)
		run, _, ok := rest.CutString()
		var listed askedRecord
		if !ok || len(e.Value) == 0 || decode(e.Value, &listed, "entry of run", run) != nil || listed.Host != owner {
			continue
		}
		r, err := j.find(ctx, run)
		if host.CodeOf(err) == host.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.rec.open() && r.rec.Host == owner {
			if out = append(out, r.rec.public(tenant)); len(out) == MaxListLimit {
				break
			}
		}
	}
	return out, nil
}

func (w threadWriter) journal() journal { return journal{w.read.part, w.store} }
