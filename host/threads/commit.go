package threads

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// errNothing is what a build returns when there is nothing to commit.
var errNothing = errors.New("nothing to commit")

// draft is a commit to one thread being put together.
type draft struct {
	*thread          // as it will be
	before  record   // as it is
	careful bool     // look every message id up instead of betting that it is new
	tx      kv.Tx    // all but the record
	room    int      // bytes of content that fit into tx
	blobs   []string // digests of blobs that are in tx or were written ahead
	ahead   bool     // something was written ahead
	// hidden says where the log has messages, by id, that do not show any more.
	hidden map[string][]uint64
}

// commit reads a thread, has build change it and commits that; when somebody
// else was faster it begins again. build may find a thread that does not exist
// yet (revision 0). The thread is returned as it is afterwards.
func (s *Store) commit(ctx context.Context, tenant, id, doing string, build func(*draft) error) (*thread, error) {
	return s.commitOn(ctx, tenant, id, "", doing, build)
}

// commitOn is commit to a branch of a thread, which there must be.
func (s *Store) commitOn(ctx context.Context, tenant, id, branch, doing string, build func(*draft) error) (*thread, error) {
	var d *draft
	for attempt := range maxAttempts {
		if attempt == queueAfter {
			crowd := s.crowd(tenant, id)
			crowd.Lock()
			defer crowd.Unlock()
		}
		t, err := s.openOrNew(ctx, tenant, id, branch)
		if err != nil {
			return nil, err
		}
		if d != nil && d.ahead && d.root() != t.root() {
			_ = s.bury(ctx, d.partition, d.rec.Content) // deleted meanwhile; what it leaves behind is only space
		}
		d = newDraft(t, attempt > 0)
		if err := build(d); err != nil {
			if errors.Is(err, errNothing) {
				return t, nil
			}
			return nil, wrap(err, "%s %q", doing, id)
		}
		err = d.apply(ctx)
		if err == nil {
			return d.thread, nil
		}
		if !errors.Is(err, kv.ErrPrecondition) {
			return nil, wrap(err, "%s %q", doing, id)
		}
	}
	return nil, host.Errorf(host.Conflict, "%s %q: others changed it first, %d times", doing, id, maxAttempts).
		WithHint("try again, with fewer writers at once")
}

// crowd is where those queue who have lost several times, so that they do not go
// on being in each other's way. Threads share them: there is no harm in that.
func (s *Store) crowd(tenant, id string) *sync.Mutex {
	return &s.crowds[maphash.Comparable(s.seed, [2]string{tenant, id})%uint64(len(s.crowds))]
}

// openOrNew returns a thread, or one to be made. Its content gets an id that no
// other attempt has used: what an attempt wrote ahead may be on its way out.
func (s *Store) openOrNew(ctx context.Context, tenant, id, branch string) (*thread, error) {
	t, err := s.openOn(ctx, tenant, id, branch)
	if err != nil || t != nil {
		return t, err
	}
	part, err := partition(tenant)
	if err != nil {
		return nil, err
	}
	now := s.now().UTC()
	rec := record{version: version{layout}, ID: id, Created: now, Updated: now, point: point{Content: host.NewID()}}
	return &thread{store: s, partition: part, rec: rec, content: contentOf(rec.Content)}, nil
}

func newDraft(t *thread, careful bool) *draft {
	return &draft{thread: t, before: t.rec, careful: careful, tx: kv.Tx{Partition: t.partition}, room: maxInlineBytes}
}

// moveHead gives the thread a new head and the time.
func (d *draft) moveHead() {
	d.rec.Head = host.NewID()
	if now := d.store.now().UTC(); now.After(d.rec.Updated) { // a clock may go back, a list must not
		d.rec.Updated = now
	}
}

// apply commits the draft if the thread is still what it was made from.
func (d *draft) apply(ctx context.Context) error {
	if d.branch != nil {
		return d.applyToBranch(ctx)
	}
	d.rec.V = d.rec.layout()
	raw, err := encode(d.rec)
	if err != nil {
		return err
	}
	key := threadKey(d.rec.ID)
	d.tx.Conds = append([]kv.Cond{kv.AtRevision(key, d.revision)}, d.tx.Conds...)
	d.put(key, raw)
	d.moveInList()
	d.revision, err = kv.Apply(ctx, d.store.driver, d.tx)
	return err
}

// moveInList moves the thread to its place in the list of recent ones.
func (d *draft) moveInList() {
	old, now := recentKey(d.before.Updated, d.rec.ID), recentKey(d.rec.Updated, d.rec.ID)
	if d.revision == 0 || old != now {
		d.put(now, nil)
	}
	if d.revision != 0 && old != now {
		d.tx.Writes = append(d.tx.Writes, kv.Delete(old))
	}
}

func (d *draft) put(key kv.Key, value []byte) { d.tx.Writes = append(d.tx.Writes, kv.Put(key, value)) }

// take reports whether n more bytes of content fit into the transaction.
func (d *draft) take(n int) bool {
	if n > ChunkBytes || n > d.room {
		return false
	}
	d.room -= n
	return true
}

// append adds to the log the messages that the thread does not have yet and
// returns how many these are.
func (d *draft) append(ctx context.Context, messages []*host.Message) (int, error) {
	messages, err := d.unknown(ctx, messages)
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	var index []kv.Write
	d.indexWords(d.rec.Messages, messages)
	each := (len(messages) + maxTurnEntries - 1) / maxTurnEntries
	for group := range slices.Chunk(messages, each) {
		entry, err := d.entry(ctx, group)
		if err != nil {
			return 0, err
		}
		d.put(d.content.logAt(d.rec.Messages), entry)
		for _, m := range group {
			seq, err := d.indexEntry(m.ID)
			if err != nil {
				return 0, err
			}
			index = append(index, kv.Put(d.content.message(m.ID), seq))
			d.rec.Messages++
		}
	}
	if len(messages) <= maxTurnEntries {
		d.tx.Writes = append(d.tx.Writes, index...)
		return len(messages), nil
	}
	return len(messages), d.writeAhead(ctx, index)
}

// indexEntry returns the index's entry of a message that comes to the end of the
// log: its position, beside those of its id that no longer show.
func (d *draft) indexEntry(id string) ([]byte, error) {
	if lies := d.hidden[id]; len(lies) > 0 {
		return encode(append(lies, d.rec.Messages))
	}
	return encode(d.rec.Messages)
}

// unknown returns the messages that the thread does not show, each once. Mostly
// all of them are new, so at first the transaction bets on it; when the bet is
// lost, and for a turn with more messages than it can bet on, each is looked up.
// A thread that goes back to the logs of others looks there in any case.
func (d *draft) unknown(ctx context.Context, messages []*host.Message) ([]*host.Message, error) {
	seen := make(map[string]bool, len(messages))
	out := make([]*host.Message, 0, len(messages))
	lookUp := d.looksUp(messages)
	for _, m := range messages {
		if err := host.ValidateID("message", m.ID, MaxMessageIDBytes); err != nil {
			return nil, err
		}
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		if !lookUp {
			d.tx.Conds = append(d.tx.Conds, kv.Absent(d.content.message(m.ID)))
		}
		if lookUp || d.view.OwnRank() > 0 {
			known, err := d.knows(ctx, m.ID)
			if err != nil {
				return nil, err
			}
			if known {
				continue
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// knows reports whether the thread shows a message of that id. If it has one that
// does not show, it keeps in mind where.
func (d *draft) knows(ctx context.Context, id string) (bool, error) {
	_, shown, err := d.position(ctx, id)
	if err != nil || shown {
		return shown, err
	}
	lies, err := d.indexed(ctx, d.content, id)
	if err != nil || len(lies) == 0 {
		return false, err
	}
	if d.hidden == nil {
		d.hidden = map[string][]uint64{}
	}
	d.hidden[id] = slices.DeleteFunc(lies, func(seq uint64) bool { return seq >= d.before.Messages })
	return false, nil
}

// looksUp reports whether messages are looked up rather than bet on.
func (d *draft) looksUp(messages []*host.Message) bool {
	return d.careful || len(messages) > maxTurnEntries
}

// valueOf returns content as the value of one key: itself, or a reference to a
// blob if it is large.
func (d *draft) valueOf(ctx context.Context, content []byte) ([]byte, error) {
	if d.take(len(content)) {
		return append([]byte{formatJSON}, content...), nil
	}
	ref, err := d.putBlob(ctx, content)
	if err != nil {
		return nil, err
	}
	return encode(reference{version{layout}, ref})
}

// putBlob stores content under its digest, in the transaction or ahead of it, if
// the thread does not have it.
func (d *draft) putBlob(ctx context.Context, content []byte) (*Ref, error) {
	ref := refTo(content)
	if slices.Contains(d.blobs, ref.Digest) {
		return ref, nil
	}
	if d.revision != 0 {
		if stored, err := d.hasBlob(ctx, ref.Digest); err != nil || stored {
			return ref, err
		}
	}
	d.blobs = append(d.blobs, ref.Digest)
	writes, err := d.content.blobWrites(content, ref)
	if err != nil {
		return nil, err
	}
	if d.take(len(content)) {
		d.tx.Writes = append(d.tx.Writes, writes...)
		return ref, nil
	}
	return ref, d.writeAhead(ctx, writes)
}

// writeAhead commits writes that nobody reads until the draft refers to them, in
// order and in as many transactions as they take.
func (d *draft) writeAhead(ctx context.Context, writes []kv.Write) error {
	d.ahead = true
	tx := kv.Tx{Partition: d.partition}
	for i, w := range writes {
		tx.Writes = append(tx.Writes, w)
		full := tx.Size() >= aheadBytes || len(tx.Writes) == aheadWrites
		if !full && i < len(writes)-1 {
			continue
		}
		if _, err := kv.Apply(ctx, d.store.driver, tx); err != nil {
			return wrap(err, "write to thread %q", d.rec.ID)
		}
		tx.Writes = nil
	}
	return nil
}

// putState stores custom state unless it is what the thread has.
func (d *draft) putState(ctx context.Context, state json.RawMessage) error {
	if len(state) == 0 {
		return nil
	}
	if !json.Valid(state) {
		return host.Errorf(host.InvalidArgument, "state of thread %q is not JSON", d.rec.ID)
	}
	if d.rec.State != nil && *d.rec.State == *refTo(state) {
		return nil
	}
	var err error
	d.rec.State, err = d.putBlob(ctx, state)
	return err
}
