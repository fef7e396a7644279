package threads

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// Store keeps threads on a driver. It holds nothing that a second store on the
// same driver would need, but for the queues of [Store.LockThread], so any
// number of stores may share one driver. The messages of the conversations that were last
// used stay decoded in memory ([Options].CacheBytes); each [Store.Get] reads the thread's
// record, so it returns messages that others have stored meanwhile. Safe for concurrent use. It does not
// close the driver: its opener does.
type Store struct {
	driver     kv.Driver
	window     int
	now        func() time.Time // but for tests time.Now
	locks      turnLocks
	index      *wordindex.Index                                   // nil if none is kept
	deleted    func(ctx context.Context, tenant, id string) error // may be nil
	repaired   func(context.Context) error                        // see Options.Repaired; may be nil
	retries    retryLocks
	overtaken  overtaken
	unfinished func(context.Context, *host.RunRecord) error // see Options.Interrupted; may be nil
	windows    *windowCache                                 // nil if none is kept
	open       openRuns
}

// Options are settings of a store. The zero value of each is its default.
type Options struct {
	// Window is how many messages Get returns at most, from the end
	// ([DefaultWindow]).
	Window int
	// CacheBytes is about how much memory the store takes for decoded messages, which
	// spare the next turn of a conversation to read it again ([DefaultCacheBytes]). A
	// negative number keeps none.
	CacheBytes int64
	// MaxWaiting is how many turns may wait for one thread in LockThread before
	// the next is refused ([DefaultMaxWaiting]).
	MaxWaiting int
	// SearchDisabled keeps no index of the words of messages, which is about half
	// the size of their texts. Search then finds messages that other stores have
	// indexed.
	SearchDisabled bool
	// Locks lock threads for one of several hosts that share the driver, such as
	// cluster.Locks; nil leaves that to the driver. See [Store.LockThread].
	Locks Locks
	// Interrupted continues a durable run that no process has any more and that a turn finds
	// on its thread: its process was killed, or the store took no writes at its end. The turn
	// comes after that run, whose conversation would be another one otherwise: it waits until
	// the run has ended, and up to 15 s until it is continued. Meanwhile Interrupted is called
	// again and again; its error lets the turn go first, as does nil for Interrupted. It is for
	// the process that has the store to itself, such as runs.Registry.Continue: with Locks
	// other hosts continue such runs, and turns wait for that without the option.
	Interrupted func(ctx context.Context, run *host.RunRecord) error
	// Deleted is called after a thread was deleted or pruned and all its entries are gone
	// from the store. It deletes the data that other stores keep of the thread, such as
	// traces. Its error becomes the error of the deletion.
	Deleted func(ctx context.Context, tenant, id string) error
	// Repaired is called after [Tenant.Repair] has replaced entries in place. It tells other
	// hosts that share the driver to call [Store.DropWindows]. Its error becomes that of the
	// repair, which is done.
	Repaired func(ctx context.Context) error
}

// Locks lock names for one of several processes at a time.
type Locks interface {
	// Lock waits until the caller has the lock of a name in a partition; with wait
	// false it returns [kv.ErrBusy] instead. fence holds as long as no other process has
	// the lock. unlock may be called more than once.
	Lock(ctx context.Context, partition, name string, wait bool) (fence []kv.Cond, unlock func(), err error)
}

// New returns a store on a driver, which it uses as [kv.Checked]: a stored value that
// has changed is data_loss. nil options are the defaults, and so are numbers below 1, but for CacheBytes.
// It panics if driver is nil.
func New(driver kv.Driver, opts *Options) *Store {
	if driver == nil {
		panic("threads.New: driver is nil; open one, or use kv.NewMemory")
	}
	if opts == nil {
		opts = &Options{}
	}
	driver = kv.Checked(driver)
	s := &Store{driver: driver, window: opts.Window, now: time.Now, retries: retryLocks{seed: maphash.MakeSeed()},
		deleted: opts.Deleted, repaired: opts.Repaired, unfinished: opts.Interrupted, windows: newWindowCache(opts.CacheBytes)}
	if !opts.SearchDisabled {
		s.index = wordindex.New()
	}
	s.locks.maxWaiting, s.locks.shared = opts.MaxWaiting, opts.Locks
	s.locks.locker, _ = driver.(kv.Locker)
	if s.window < 1 {
		s.window = DefaultWindow
	}
	if s.locks.maxWaiting < 1 {
		s.locks.maxWaiting = DefaultMaxWaiting
	}
	return s
}

// Driver returns the [kv.Checked] driver that the store keeps threads on, for
// callers that keep other data beside them.
func (s *Store) Driver() kv.Driver { return s.driver }

// Thread describes a thread without its messages.
type Thread struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	// Title is the first 50 characters of the first input, or the title that a caller has
	// set.
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

// Thread returns a thread. Code not_found if the thread does not exist.
func (tn *Tenant) Thread(ctx context.Context, id string) (*Thread, error) {
	t, err := tn.write.read.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.Thread(), nil
}

// Thread returns the thread at the moment. What it returns is the caller's: the store
// remembers the record that it is of.
func (t *Moment) Thread() *Thread {
	r := &t.rec
	return &Thread{
		ID: r.ID, Tenant: t.part.Name, Title: r.Title, Created: r.Created, Updated: r.Updated, Head: r.Head,
		Messages: r.shownMessages(), Turns: r.shownTurns(), Status: r.Status, Parent: r.Parent.clone(), Metadata: r.Metadata.clone(),
	}
}

// CreateOptions are the optional parts of a new thread.
type CreateOptions struct {
	ID       string // default: a fresh UUIDv7
	Title    string // default: the beginning of the first input
	Metadata Metadata
}

// Create makes sure that a thread exists. An existing thread is returned unchanged,
// with created false. Code invalid_argument for an id that no thread can have and for a
// title beyond [MaxTitleBytes], resource_exhausted for metadata beyond
// [MaxMetadataBytes].
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
	found, err := tn.write.commit(ctx, id, "create thread", func(d *draft) error {
		if created = d.thread.revision == 0; !created {
			return errNothing
		}
		d.thread.rec.Title, d.thread.rec.Metadata = opts.Title, opts.Metadata.clone()
		d.moveHead()
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return found.Thread(), created, nil
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
	t, err := tn.write.commit(ctx, id, "update thread", func(d *draft) error {
		if d.thread.revision == 0 {
			return notFound(id)
		}
		if change.Title != nil {
			d.thread.rec.Title = *change.Title
		}
		d.thread.rec.Metadata = d.thread.rec.Metadata.merge(change.Metadata)
		return cmp.Or(checkTitle(id, d.thread.rec.Title), d.thread.rec.Metadata.check(id))
	})
	if err != nil {
		return nil, err
	}
	return t.Thread(), nil
}
