package threads

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/words"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// Store keeps threads on a driver. It holds nothing that a second store on the
// same driver would need, but for the queues of [Store.LockThread], so any
// number of stores may share one driver. Safe for concurrent use. It does not
// close the driver: who opened it does.
type Store struct {
	driver     kv.Driver
	window     int
	maxWaiting int
	now        func() time.Time // but for tests time.Now
	locks      lockTable
	locker     kv.Locker // nil unless other processes lock threads, too
	words      words.Words

	searchDisabled bool
	deleted        func(ctx context.Context, tenant, id string) error // may be nil
	crowds         [64]sync.Mutex
	seed           maphash.Seed
}

// Options are settings of a store. The zero value of each is its default.
type Options struct {
	// Window is how many messages Get returns at most, from the end
	// ([DefaultWindow]).
	Window int
	// MaxWaiting is how many turns may wait for one thread in LockThread before
	// the next is refused ([DefaultMaxWaiting]).
	MaxWaiting int
	// SearchDisabled keeps no index of the words of messages, which is about half
	// the size of their texts. Search then finds what other stores have indexed.
	SearchDisabled bool
	// Deleted is called when a thread was deleted or pruned and nothing of it is left
	// in the store, to delete what is kept of it elsewhere, such as traces. Its error
	// is that of the deletion.
	Deleted func(ctx context.Context, tenant, id string) error
}

// New returns a store on a driver, which it uses as [kv.Checked]: a value that is not
// what was stored is data_loss. nil options are the defaults, and so are
// numbers below 1. It panics if driver is nil.
func New(driver kv.Driver, opts *Options) *Store {
	if driver == nil {
		panic("threads.New: driver is nil; open one, or use kv.NewMemory")
	}
	if opts == nil {
		opts = &Options{}
	}
	driver = kv.Checked(driver)
	s := &Store{driver: driver, window: opts.Window, maxWaiting: opts.MaxWaiting, now: time.Now, seed: maphash.MakeSeed(),
		searchDisabled: opts.SearchDisabled, deleted: opts.Deleted}
	s.locker, _ = driver.(kv.Locker)
	s.words, _ = words.New("") // English is known
	if s.window < 1 {
		s.window = DefaultWindow
	}
	if s.maxWaiting < 1 {
		s.maxWaiting = DefaultMaxWaiting
	}
	return s
}

// Driver returns what the store keeps threads on, for who keeps something beside
// them: a [kv.Checked] driver.
func (s *Store) Driver() kv.Driver { return s.driver }

// thread is a thread as it was at one moment: its record, and with it the part
// of the log, turns and artifacts that belonged to it then. What is committed
// later lies behind the counts of the record and is not seen.
type thread struct {
	store     *Store
	partition string
	rec       record
	revision  uint64 // of the record; 0 if there is none yet
	content   content
	view      view.View
	branch    *onBranch // nil on its own line
}

// open reads a thread's record. A thread that does not exist is nil.
func (s *Store) open(ctx context.Context, tenant, id string) (*thread, error) {
	part, err := partition(tenant)
	if err != nil {
		return nil, err
	}
	if err := ValidateID(id); err != nil {
		return nil, err
	}
	e, err := s.driver.Get(ctx, part, threadKey(id))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap(err, "read thread %q", id)
	}
	return s.threadOf(ctx, part, id, e)
}

// threadOf is the thread of a record.
func (s *Store) threadOf(ctx context.Context, part, id string, e kv.Entry) (*thread, error) {
	t := &thread{store: s, partition: part, revision: e.Revision}
	if err := decode(e.Value, &t.rec, "record of thread", id); err != nil {
		return nil, err
	}
	if t.rec.V > t.rec.layout() {
		return nil, newer(t.rec.V, "record of thread", id)
	}
	return t, t.look(ctx)
}

// look finds the content and the view of a thread whose record is known.
func (t *thread) look(ctx context.Context) error {
	t.content, t.view = contentOf(t.rec.Content), view.View{}
	if t.rec.View == 0 {
		return nil
	}
	raw, err := t.get(ctx, t.content.view(t.rec.View))
	if err != nil {
		return err
	}
	if raw == nil {
		return damaged("view %d of thread %q is missing", t.rec.View, t.rec.ID)
	}
	var stored storedView
	if err := decode(raw, &stored, "view of thread", t.rec.ID); err != nil {
		return err
	}
	t.view = stored.View
	if !t.view.Valid() {
		return damaged("view %d of thread %q is damaged", t.rec.View, t.rec.ID)
	}
	return nil
}

// root is the content that keeps a thread's lineage and the index of its runs.
func (t *thread) root() content { return contentOf(t.rec.root()) }

// contentAt returns the content of a rank.
func (t *thread) contentAt(rank uint64) content {
	if rank == t.view.OwnRank() {
		return t.content
	}
	return contentOf(t.view.Origins[rank])
}

// messages is what the thread shows of logs.
func (t *thread) messages() view.List { return t.view.MessageList(t.rec.Messages) }

// turns is what the thread shows of turns, the first of which has number 0.
func (t *thread) turns() view.List { return t.view.TurnList(t.rec.Turns) }

// find is open for callers to whom an unknown thread is an error.
func (s *Store) find(ctx context.Context, tenant, id string) (*thread, error) {
	t, err := s.open(ctx, tenant, id)
	if err == nil && t == nil {
		err = notFound(id)
	}
	return t, err
}

// get reads one key of the thread's content; nil if there is none.
func (t *thread) get(ctx context.Context, key kv.Key) ([]byte, error) {
	e, err := t.store.driver.Get(ctx, t.partition, key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	return e.Value, wrap(err, "read thread %q", t.rec.ID)
}

// Thread is what is known of a thread without reading it.
type Thread struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	// Title is the first 50 characters of the first input, or what it was set to.
	Title   string    `json:"title,omitempty"`
	Created time.Time `json:"created_at"`
	// Updated is the time of the last message or turn.
	Updated time.Time `json:"updated_at"`
	// Head names the state of the log. It changes with every commit to it and
	// never comes back.
	Head     string `json:"head"`
	Messages int    `json:"messages"`
	Turns    int    `json:"turns"`
	// Status is the last turn's; empty before the first.
	Status Status `json:"status,omitempty"`
	// Parent is where the thread was forked from; nil if it was not.
	Parent   *Parent  `json:"parent,omitempty"`
	Metadata Metadata `json:"metadata,omitempty"`
}

// Thread returns a thread. Code not_found if there is none.
func (tn *Tenant) Thread(ctx context.Context, id string) (*Thread, error) {
	t, err := tn.store.find(ctx, tn.name, id)
	if err != nil {
		return nil, err
	}
	return t.info(), nil
}

func (t *thread) info() *Thread {
	r := &t.rec
	return &Thread{
		ID: r.ID, Tenant: t.partition, Title: r.Title, Created: r.Created, Updated: r.Updated, Head: r.Head,
		Messages: r.shownMessages(), Turns: r.shownTurns(), Status: r.Status, Parent: r.Parent, Metadata: r.Metadata,
	}
}

// CreateOptions are the optional parts of a new thread.
type CreateOptions struct {
	ID       string // default: a fresh UUIDv7
	Title    string // default: the beginning of the first input
	Metadata Metadata
}

// Create makes sure that a thread exists. One that exists is returned as it is,
// with created false. Code invalid_argument for an id that no thread can have and
// for a title beyond [MaxTitleBytes], resource_exhausted for metadata beyond [MaxMetadataBytes].
func (tn *Tenant) Create(ctx context.Context, opts *CreateOptions) (t *Thread, created bool, err error) {
	if opts == nil {
		opts = &CreateOptions{}
	}
	id := opts.ID
	if id == "" {
		id = host.NewID()
	}
	if err := cmp.Or(checkTitle(id, opts.Title), opts.Metadata.check(id)); err != nil {
		return nil, false, err
	}
	found, err := tn.store.commit(ctx, tn.name, id, "create thread", func(d *draft) error {
		if created = d.revision == 0; !created {
			return errNothing
		}
		d.rec.Title, d.rec.Metadata = opts.Title, opts.Metadata
		d.moveHead()
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return found.info(), created, nil
}

// Change says what to change of a thread.
type Change struct {
	Title *string // nil leaves it
	// Metadata replaces the members it has; one that is null is removed.
	Metadata Metadata
}

// Update changes a thread's title and metadata. It moves neither the head nor
// the time of the last update, so it disturbs no turn. Code not_found if there
// is no such thread, invalid_argument for a title beyond [MaxTitleBytes],
// resource_exhausted for metadata beyond [MaxMetadataBytes].
func (tn *Tenant) Update(ctx context.Context, id string, change Change) (*Thread, error) {
	t, err := tn.store.commit(ctx, tn.name, id, "update thread", func(d *draft) error {
		if d.revision == 0 {
			return notFound(id)
		}
		if change.Title != nil {
			d.rec.Title = *change.Title
		}
		d.rec.Metadata = d.rec.Metadata.merge(change.Metadata)
		return cmp.Or(checkTitle(id, d.rec.Title), d.rec.Metadata.check(id))
	})
	if err != nil {
		return nil, err
	}
	return t.info(), nil
}
