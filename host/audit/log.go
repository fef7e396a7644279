package audit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

const (
	maxWaiting    = 10_000 // entries that wait to be committed on one host
	maxBatch      = 256    // entries of one commit
	maxAttempts   = 1000   // of a commit, after other hosts were faster
	commitTimeout = 30 * time.Second
	maxBackoff    = 20 * time.Millisecond
)

// partition is that of the log. No tenant can have its name.
const partition = "agenthost/audit"

// Where things are in the partition:
//
//	entry/<seq>           an entry
//	tenant/<tenant>/<seq> says that the entry is about the tenant; not of the chain
//	head                  the head of the chain, which each append changes
//	start                 the head before the first entry that is kept; absent before a Trim
var (
	entryRows  = kv.NewKey("entry")
	tenantRows = kv.NewKey("tenant")
	headKey    = kv.NewKey("head")
	startKey   = kv.NewKey("start")
)

// Log is the audit log of a store. It is safe for concurrent use, and any number of hosts
// may have one on the same driver.
type Log struct {
	driver kv.Driver
	lead   chan struct{} // full while a caller commits for those that wait

	mu      sync.Mutex
	waiting []*waiter

	// Of the caller that commits:
	head     Head
	revision uint64
	known    bool // head is that of the store, unless another host was faster
}

// waiter is an entry that is to be committed.
type waiter struct {
	entry Entry
	done  chan struct{} // closed when seq and err are set
	seq   uint64
	err   error
}

// New returns the log of a driver, which the caller closes after the last Append. Nothing
// is written before that.
func New(driver kv.Driver) *Log {
	return &Log{driver: kv.Checked(driver), lead: make(chan struct{}, 1)}
}

// Append adds an entry at the end, with the number that it returns and the time. Codes:
// invalid_argument for an entry that is too long, resource_exhausted while 10,000 others
// wait, unavailable if the store does not answer or fails (the entry may be stored then),
// and those of ctx, if it ends before a commit with the entry has begun.
func (l *Log) Append(ctx context.Context, e *Entry) (seq uint64, err error) {
	if err := e.check(); err != nil {
		return 0, err
	}
	w := &waiter{entry: *e, done: make(chan struct{})}
	if err := l.enqueue(w); err != nil {
		return 0, err
	}
	select {
	case <-w.done:
		return w.seq, w.err
	case l.lead <- struct{}{}:
		for !w.isDone() {
			l.commitBatch(ctx)
		}
		<-l.lead
		return w.seq, w.err
	case <-ctx.Done():
	}
	if l.withdraw(w) {
		return 0, fault.ContextError(ctx)
	}
	<-w.done // the commit has begun, and ends within its timeout
	return w.seq, w.err
}

func (l *Log) enqueue(w *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		return &fault.Error{Code: fault.ResourceExhausted, Message: "too many entries wait for the audit log", Hint: "try again later", Retryable: true}
	}
	l.waiting = append(l.waiting, w)
	return nil
}

func (w *waiter) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// withdraw removes an entry that waits, and reports whether it did.
func (l *Log) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, w)
	if at < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	return true
}

// commitBatch commits the entries that have waited longest. The caller has l.lead.
func (l *Log) commitBatch(ctx context.Context) {
	l.mu.Lock()
	n := min(len(l.waiting), maxBatch)
	batch := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.mu.Unlock()
	// The entries of other callers do not end with the context of this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := l.commit(ctx, batch)
	for _, w := range batch {
		w.err = kverror.Wrap(err, "append to the audit log")
		close(w.done)
	}
}

// commit appends entries after the head of the store.
func (l *Log) commit(ctx context.Context, batch []*waiter) error {
	for attempt := range maxAttempts {
		if !l.known {
			if err := l.readHead(ctx); err != nil {
				return err
			}
		}
		tx, head, err := l.transaction(batch)
		if err != nil {
			return err
		}
		l.known = false
		revision, err := kv.Apply(ctx, l.driver, tx)
		if errors.Is(err, kv.ErrInDoubt) {
			err = l.settle(ctx, head, err)
		}
		switch {
		case err == nil:
			if revision != 0 {
				l.head, l.revision, l.known = head, revision, true
			}
			return nil
		case !errors.Is(err, kv.ErrPrecondition):
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
	return fault.Errorf(fault.Unavailable, "other hosts have appended to the audit log first, %d times", maxAttempts).WithHint("try again")
}

// pause waits for a random time, so that hosts that were in each other's way are not again.
func pause(ctx context.Context, attempt int) error {
	longest := min(time.Millisecond<<min(attempt, 10), maxBackoff)
	select {
	case <-time.After(rand.N(longest)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle returns nil if a commit in doubt was made: the entry with its number then has its
// sum, whatever has followed.
func (l *Log) settle(ctx context.Context, head Head, inDoubt error) error {
	e, err := kv.ReadBack(ctx, l.driver, partition, entryRows.WithUint(head.Seq))
	if err != nil {
		return inDoubt
	}
	r, _, err := decodeRow(e.Value)
	if err != nil || r.Sum != head.Sum {
		return inDoubt
	}
	return nil
}

func (l *Log) readHead(ctx context.Context) error {
	h, revision, err := readHead(ctx, l.driver, headKey)
	if err == nil {
		l.head, l.revision, l.known = h, revision, true
	}
	return err
}

func readHead(ctx context.Context, d kv.Driver, key kv.Key) (Head, uint64, error) {
	e, err := d.Get(ctx, partition, key)
	if errors.Is(err, kv.ErrNotFound) {
		return Head{}, 0, nil
	}
	if err != nil {
		return Head{}, 0, err
	}
	var h headRow
	if err := kv.DecodeRecord(e.Value, &h); err != nil {
		return Head{}, 0, err
	}
	if h.V > layout {
		return Head{}, 0, kv.ErrFormat
	}
	return h.Head, e.Revision, nil
}

// transaction returns the writes of a batch after the present head, and the head after
// them.
func (l *Log) transaction(batch []*waiter) (kv.Tx, Head, error) {
	tx := kv.Tx{Partition: partition, Conds: []kv.Cond{kv.AtRevision(headKey, l.revision)}}
	head := l.head
	now := time.Now().UTC().Truncate(time.Microsecond)
	for _, w := range batch {
		w.entry.Seq, w.entry.Time = head.Seq+1, now
		body, err := encodeEntry(&w.entry)
		if err != nil {
			return tx, head, err
		}
		head = head.next(body)
		value, err := kv.EncodeRecord(row{V: layout, Entry: body, Sum: head.Sum})
		if err != nil {
			return tx, head, err
		}
		tx.Writes = append(tx.Writes, kv.Put(entryRows.WithUint(head.Seq), value))
		if w.entry.Tenant != "" {
			tx.Writes = append(tx.Writes, kv.Put(tenantRows.With(w.entry.Tenant).WithUint(head.Seq), nil))
		}
		w.seq = head.Seq
	}
	value, err := kv.EncodeRecord(headRow{V: layout, Head: head})
	if err != nil {
		return tx, head, err
	}
	tx.Writes = append(tx.Writes, kv.Put(headKey, value))
	return tx, head, nil
}
