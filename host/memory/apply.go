package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// MaxStems is by how many different words a memory is found. Words beyond them
// are kept with it, and not found.
const MaxStems = 300

// maxAttempts is how often a write is tried when others write to the scope at
// the same time.
const maxAttempts = 50

// AddOptions are the optional parts of [Store.Add]: ID, Metadata and Expires of a
// [Change]. Kind and Text are not looked at.
type AddOptions Change

// Add remembers a text of at most [MaxTextBytes]. If the scope has the text
// already, or a memory of the id in opts, Add returns that memory unchanged. opts
// may be nil. Codes: invalid_argument, and resource_exhausted in a scope of
// [MaxMemories].
func (s *Store) Add(ctx context.Context, scope Scope, text string, opts *AddOptions) (*Memory, error) {
	c := Change{}
	if opts != nil {
		c = Change(*opts)
	}
	c.Kind, c.Text = Add, text
	return s.one(ctx, scope, c)
}

// Update changes a memory's text; an empty text keeps it. Codes: not_found,
// invalid_argument, and already_exists if another memory has the text.
func (s *Store) Update(ctx context.Context, scope Scope, id, text string) (*Memory, error) {
	return s.one(ctx, scope, Change{Kind: Update, ID: id, Text: text})
}

// Delete forgets a memory. Its history stays. Code not_found.
func (s *Store) Delete(ctx context.Context, scope Scope, id string) error {
	_, err := s.one(ctx, scope, Change{Kind: Delete, ID: id})
	return err
}

func (s *Store) one(ctx context.Context, scope Scope, c Change) (*Memory, error) {
	memories, err := s.Apply(ctx, scope, c)
	if err != nil {
		return nil, err
	}
	return memories[0], nil
}

// Apply makes all changes or none, in order, in one transaction, and returns for
// each the memory after the change, for a deletion the memory before it. It may be
// repeated when its outcome is not known, if additions have ids. Codes: those of
// [Store.Add], [Store.Update] and [Store.Delete]; resource_exhausted for more than
// [MaxChanges], or changes with too many words for one transaction; conflict if
// other writers came first at every attempt.
func (s *Store) Apply(ctx context.Context, scope Scope, changes ...Change) ([]*Memory, error) {
	if err := checkChanges(changes); err != nil {
		return nil, err
	}
	vectors := s.embedChanges(ctx, scope, changes)
	unlock, err := s.locks.lock(ctx, scope)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for range maxAttempts {
		o, err := s.open(ctx, scope)
		if err != nil {
			return nil, err
		}
		b := s.batch(o)
		b.vectors = vectors
		memories, err := b.apply(ctx, changes)
		if err != nil {
			return nil, err
		}
		err = b.commit(ctx)
		switch {
		case err == nil:
			return memories, nil
		case !errors.Is(err, kv.ErrPrecondition):
			return nil, kverror.Wrap(err, "write memories")
		}
	}
	return nil, host.Errorf(host.Conflict, "write memories: others wrote to the scope first, %d times", maxAttempts)
}

// CheckChanges refuses, for backends other than [Store], arguments that no
// store accepts: a scope without a name, too many changes, and invalid changes.
// Codes: invalid_argument and resource_exhausted.
func CheckChanges(scope Scope, changes []Change) error {
	if err := scope.check(); err != nil {
		return err
	}
	return checkChanges(changes)
}

func checkChanges(changes []Change) error {
	if len(changes) > MaxChanges {
		return host.Errorf(host.ResourceExhausted, "%d changes of memories at once, more than %d", len(changes), MaxChanges)
	}
	for i := range changes {
		if err := changes[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// batch is a set of changes to one scope that are committed together. Its reads
// are still valid when it commits, because every write to a scope changes the
// scope's record.
type batch struct {
	store *Store
	*opened
	now      time.Time
	memories map[string]*storedMemory // the changed memories; nil: deleted
	texts    map[string]string        // by digest, the id of the memory that says it; "": none
	events   map[string]uint64        // how long the histories are that the batch has added to
	writes   map[kv.Key]kv.Write
	vectors  map[string]vector // of new texts, by digest
	touched  bool              // the scope's record has changed by itself
}

func (s *Store) batch(o *opened) *batch {
	return &batch{store: s, opened: o, now: s.now().UTC(), memories: map[string]*storedMemory{}, texts: map[string]string{}, events: map[string]uint64{}, writes: map[kv.Key]kv.Write{}}
}

func (b *batch) apply(ctx context.Context, changes []Change) ([]*Memory, error) {
	var out []*Memory
	for i := range changes {
		var m *Memory
		var err error
		switch c := &changes[i]; c.Kind {
		case Add:
			m, err = b.add(ctx, c)
		case Update:
			m, err = b.update(ctx, c)
		case Delete:
			m, err = b.delete(ctx, c)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (b *batch) put(key kv.Key, value []byte) { b.writes[key] = kv.Put(key, value) }
func (b *batch) drop(key kv.Key)              { b.writes[key] = kv.Delete(key) }

// current returns a memory after the batch's changes so far; nil if it does not
// exist.
func (b *batch) current(ctx context.Context, id string) (*storedMemory, error) {
	if m, ok := b.memories[id]; ok {
		return m, nil
	}
	return b.store.load(ctx, b.opened, id)
}

// sayer returns the id of the memory that says a text, or "".
func (b *batch) sayer(ctx context.Context, digest string) (string, error) {
	if id, ok := b.texts[digest]; ok {
		return id, nil
	}
	e, err := b.store.driver.Get(ctx, b.scope.partition(), b.content().text(digest))
	if errors.Is(err, kv.ErrNotFound) {
		return "", nil
	}
	return string(e.Value), kverror.Wrap(err, "read memories")
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func (b *batch) add(ctx context.Context, c *Change) (*Memory, error) {
	id := c.ID
	if id == "" {
		id = host.NewID()
	}
	same, err := b.sayer(ctx, digestOf(c.Text))
	if err != nil {
		return nil, err
	}
	events := uint64(0)
	for _, known := range []string{id, same} {
		if known == "" {
			continue
		}
		m, err := b.current(ctx, known)
		switch {
		case err != nil:
			return nil, err
		case m == nil:
		case !m.expired(b.now):
			return &m.Memory, nil
		default: // it is over, and the new one takes its place
			b.remove(m)
			b.event(m, Delete, m.Text, "")
			if known == id {
				events = m.Events
			}
		}
	}
	if b.Count >= MaxMemories {
		return nil, host.Errorf(host.ResourceExhausted, "a scope has %d memories, and no room for more", b.Count).
			WithHint("delete some, or let them expire")
	}
	if c.ID != "" && events == 0 {
		if events, err = b.pastEvents(ctx, id); err != nil {
			return nil, err
		}
	}
	m := &storedMemory{V: layout, Events: events,
		Memory: Memory{ID: id, Text: c.Text, Metadata: c.Metadata, Created: b.now, Updated: b.now, Expires: c.Expires.UTC()}}
	b.event(m, Add, "", m.Text)
	return &m.Memory, b.insert(m)
}

// pastEvents is how long the history of a memory is that was deleted.
func (b *batch) pastEvents(ctx context.Context, id string) (uint64, error) {
	if b.events[id] > 0 { // deleted by this batch
		return b.events[id], nil
	}
	prefix := b.content().history(id)
	page, err := b.store.driver.Scan(ctx, b.scope.partition(), kv.Range{Prefix: prefix, Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return 0, kverror.Wrap(err, "read the history of memory %q", id)
	}
	rest, _ := page.Entries[0].Key.CutPrefix(prefix)
	n, _, _ := rest.CutUint()
	return n + 1, nil
}

func (b *batch) update(ctx context.Context, c *Change) (*Memory, error) {
	was, err := b.mustHave(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	now := *was
	now.Updated = b.now
	if c.Text != "" {
		now.Text = c.Text
	}
	if c.Metadata != nil {
		now.Metadata = c.Metadata
	}
	if !c.Expires.IsZero() {
		now.Expires = c.Expires.UTC()
	}
	if now.Text != was.Text {
		same, err := b.sayer(ctx, digestOf(now.Text))
		if err != nil {
			return nil, err
		}
		if same != "" && same != c.ID {
			return nil, host.Errorf(host.AlreadyExists, "memory %q says that already", same).WithHint("delete one of the two")
		}
	}
	kept, err := b.vectorEntry(ctx, was, now.Text)
	if err != nil {
		return nil, err
	}
	embedded := b.Embedded
	b.remove(was)
	b.event(&now, Update, was.Text, now.Text)
	if err := b.insert(&now); err != nil {
		return nil, err
	}
	if kept != nil {
		b.put(b.content().vector(now.ID), kept)
		b.Embedded = embedded
	}
	return &now.Memory, nil
}

// vectorEntry returns the entry of a memory's vector, if the memory keeps its text; nil if
// there is none.
func (b *batch) vectorEntry(ctx context.Context, m *storedMemory, text string) ([]byte, error) {
	if b.store.meaning == nil || m.Text != text {
		return nil, nil
	}
	key := b.content().vector(m.ID)
	if w, ok := b.writes[key]; ok {
		return w.Value, nil
	}
	e, err := b.store.driver.Get(ctx, b.scope.partition(), key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	return e.Value, kverror.Wrap(err, "read memories")
}

// putVector writes the vector of a memory.
func (b *batch) putVector(m *storedMemory, v vector) {
	b.put(b.content().vector(m.ID), encodeVector(b.store.meaning.print, m.Text, v))
	b.changed(m.ID)
}

// maxRecent bounds the memories that a scope's record names: those of two whole batches.
const maxRecent = 2 * MaxChanges

// changed notes that the vector of a memory may be another one, for the tables of vectors that
// stores have read.
func (b *batch) changed(id string) {
	if b.store.meaning == nil && b.Seq == 0 {
		return // no store has read any
	}
	b.Seq++
	b.Recent = append(b.Recent, id)
	b.Recent = slices.Clone(b.Recent[max(0, len(b.Recent)-maxRecent):])
}

func (b *batch) delete(ctx context.Context, c *Change) (*Memory, error) {
	m, err := b.mustHave(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	b.remove(m)
	b.event(m, Delete, m.Text, "")
	return &m.Memory, nil
}

func (b *batch) mustHave(ctx context.Context, id string) (*storedMemory, error) {
	m, err := b.current(ctx, id)
	if err == nil && (m == nil || m.expired(b.now)) {
		err = unknown(id)
	}
	return m, err
}

// insert writes a memory and its index.
func (b *batch) insert(m *storedMemory) error {
	raw, err := kv.EncodeRecord(m)
	if err != nil {
		return host.Errorf(host.InvalidArgument, "memory %q: %w", m.ID, err)
	}
	digest := digestOf(m.Text)
	b.put(b.content().memory(m.ID), raw)
	b.put(b.content().text(digest), []byte(m.ID))
	if !m.Expires.IsZero() {
		b.put(b.expiry(m), scopeValue(b.scope))
	}
	stems, total := b.stems(m.Text)
	for stem, n := range stems {
		b.put(b.content().posting(stem, m.ID), appendPosting(nil, n, total))
	}
	b.insertVector(m, digest)
	b.memories[m.ID], b.texts[digest] = m, m.ID
	b.Count++
	b.Words += total
	return nil
}

// insertVector writes the vector of a new text, and notes in the scope's record whether
// all memories have one.
func (b *batch) insertVector(m *storedMemory, digest string) {
	meaning := b.store.meaning
	v, ok := b.vectors[digest]
	switch {
	case ok && meaning != nil:
		if b.putVector(m, v); b.Count == 0 {
			b.Embedded = meaning.mark()
		}
	default:
		b.Embedded = ""
		b.changed(m.ID)
	}
}

// remove is the opposite of insert.
func (b *batch) remove(m *storedMemory) {
	digest := digestOf(m.Text)
	b.drop(b.content().memory(m.ID))
	b.drop(b.content().text(digest))
	if !m.Expires.IsZero() {
		b.drop(b.expiry(m))
	}
	stems, total := b.stems(m.Text)
	for stem := range stems {
		b.drop(b.content().posting(stem, m.ID))
	}
	b.drop(b.content().vector(m.ID))
	b.changed(m.ID)
	b.memories[m.ID], b.texts[digest] = nil, ""
	b.Count--
	b.Words -= total
}

// stems are the words by which a text is found; the same ones each time.
func (b *batch) stems(text string) (counts map[string]int, total int) {
	counts, total = b.store.words.Count(text)
	if len(counts) > MaxStems {
		for _, stem := range slices.Sorted(maps.Keys(counts))[MaxStems:] {
			delete(counts, stem)
		}
	}
	return counts, total
}

func (b *batch) expiry(m *storedMemory) kv.Key {
	return expiresKeys.WithUint(uint64(max(m.Expires.UnixMilli(), 0))).With(b.Content, m.ID)
}

// event adds to the history of a memory.
func (b *batch) event(m *storedMemory, kind ChangeKind, before, after string) {
	raw, err := kv.EncodeRecord(&storedEvent{layout, Event{Kind: kind, Before: before, After: after, Time: b.now}})
	if err != nil {
		return // of strings and a time; it does not fail
	}
	b.put(b.content().event(m.ID, m.Events), raw)
	m.Events++
	b.events[m.ID] = m.Events
}

// commit writes all changes if the scope's revision is still the one that was
// read.
func (b *batch) commit(ctx context.Context) error {
	if len(b.writes) == 0 && !b.touched {
		return nil
	}
	key := b.scope.key()
	raw, err := kv.EncodeRecord(&b.scopeRecord)
	if err != nil {
		return err
	}
	b.put(key, raw)
	if b.revision == 0 {
		for _, k := range b.scope.listings() {
			b.put(k, nil)
		}
	}
	tx := kv.Tx{Partition: b.scope.partition(), Conds: []kv.Cond{kv.AtRevision(key, b.revision)}}
	for _, k := range slices.Sorted(maps.Keys(b.writes)) {
		tx.Writes = append(tx.Writes, b.writes[k])
	}
	if len(tx.Writes) > kv.MaxTxWrites {
		return host.Errorf(host.ResourceExhausted, "changes of memories with too many words to be made at once").
			WithHint("make fewer of them at once")
	}
	if _, err = kv.Apply(ctx, b.store.driver, tx); err != nil {
		return fmt.Errorf("write memories: %w", err)
	}
	return nil
}
