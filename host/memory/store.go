package memory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/internal/words"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
)

// DefaultCacheBytes is the default of Options.CacheBytes.
const DefaultCacheBytes = 32 << 20

// NoStemming is the language of Options whose words are not stemmed.
const NoStemming = words.NoStemming

// Options are the optional parts of a store.
type Options struct {
	// Language is the language whose words are stemmed: english, french,
	// hungarian, norwegian, russian, spanish, swedish, or [NoStemming]. Default:
	// english. A store must be opened with the one it was written with.
	Language string

	// CacheBytes is how much of the index searches keep in memory, about.
	CacheBytes int

	// Embedder has searches compare meanings beside words, by vectors that are kept with
	// the memories. While it is not reached, memories are kept without vectors, which
	// [Store.Embed] adds later, and searches are by words: see
	// [SearchOptions].Degraded. nil compares words alone.
	Embedder llm.Embedder

	// MinSimilarity is the cosine of two vectors from which texts mean like things.
	// Default: DefaultMinSimilarity; models differ in it.
	MinSimilarity float64

	// VectorBytes is how much memory the vectors of scopes that are searched may take,
	// about: their number times their length. A scope with more is searched by words.
	VectorBytes int

	Logger *slog.Logger // nil discards

	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Store keeps memories on a driver. It is safe for concurrent use.
type Store struct {
	driver kv.Driver
	words  words.Words
	cache  indexCache
	now    func() time.Time
	locks  locks

	meaning *meaning // nil without an embedder
}

// New returns a store on a driver, which stays the caller's to close. Code
// invalid_argument for an unknown language.
func New(driver kv.Driver, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	w, err := words.New(opts.Language)
	if err != nil {
		return nil, err
	}
	s := &Store{driver: kv.Checked(driver), words: w, cache: newIndexCache(opts.CacheBytes), now: opts.Now, locks: newLocks()}
	if s.now == nil {
		s.now = time.Now
	}
	if opts.MinSimilarity < 0 || opts.MinSimilarity > 1 {
		return nil, host.Errorf(host.InvalidArgument, "the least similarity of memories is %v, not from 0 to 1", opts.MinSimilarity)
	}
	s.meaning = newMeaning(opts, s.now)
	return s, nil
}

// DropCache removes what searches have read from memory, for a host on which a tenant is
// erased.
func (s *Store) DropCache() {
	s.cache.byContent.Clear()
	if s.meaning != nil {
		s.meaning.cache.Clear()
	}
}

// layout is the version of the stored records.
const layout = 1

// scopeRecord is a scope's own entry. It changes with every write to the scope.
type scopeRecord struct {
	V       int    `json:"v"`
	Content string `json:"content"`
	Count   int    `json:"count"` // memories, expired ones among them
	Words   int    `json:"words"` // of all of them

	// Of vectors: how many changes there were, the memories of the last ones, the last one
	// last, and the embedder that all memories have vectors of.
	Seq      uint64   `json:"seq,omitempty"`
	Recent   []string `json:"recent,omitempty"`
	Embedded string   `json:"embedded,omitempty"`
}

// storedMemory is a memory's entry.
type storedMemory struct {
	V int `json:"v"`
	Memory
	Events uint64 `json:"events"` // of its history
}

// opened is a scope at the revision that was read.
type opened struct {
	scope    Scope
	revision uint64 // 0: it has no memory yet
	scopeRecord
}

func (o *opened) content() content { return content(o.Content) }

// open reads a scope's record.
func (s *Store) open(ctx context.Context, scope Scope) (*opened, error) {
	if err := scope.check(); err != nil {
		return nil, err
	}
	o := &opened{scope: scope}
	e, err := s.driver.Get(ctx, scope.partition(), scope.key())
	if errors.Is(err, kv.ErrNotFound) {
		o.scopeRecord = scopeRecord{V: layout, Content: host.NewID()}
		return o, nil
	}
	if err != nil {
		return nil, kverror.Wrap(err, "read a scope of memories")
	}
	o.revision = e.Revision
	return o, decode(e.Value, &o.scopeRecord, &o.V)
}

// decode reads a record of this package's layout.
func decode(value []byte, into any, version *int) error {
	if err := kv.DecodeRecord(value, into); err != nil {
		return kverror.Wrap(err, "read memories")
	}
	if *version != layout {
		return host.Errorf(host.FailedPrecondition, "memories have format %d, which this version does not know", *version).
			WithHint("open them with the version that wrote them, or a newer one; nothing was changed")
	}
	return nil
}

// load reads a memory; nil if it does not exist.
func (s *Store) load(ctx context.Context, o *opened, id string) (*storedMemory, error) {
	e, err := s.driver.Get(ctx, o.scope.partition(), o.content().memory(id))
	if errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, kverror.Wrap(err, "read memory %q", id)
	}
	m := &storedMemory{}
	return m, decode(e.Value, m, &m.V)
}

func unknown(id string) error {
	return host.Errorf(host.NotFound, "there is no memory %q in this scope", id).
		WithHint("search or list the scope for the ids that it has")
}

// Get returns a memory. Code not_found if the scope has none of that id, or it
// has expired.
func (s *Store) Get(ctx context.Context, scope Scope, id string) (*Memory, error) {
	o, err := s.open(ctx, scope)
	if err != nil {
		return nil, err
	}
	m, err := s.load(ctx, o, id)
	switch {
	case err != nil:
		return nil, err
	case m == nil || m.expired(s.now()):
		return nil, unknown(id)
	}
	return &m.Memory, nil
}

// ListOptions are the optional parts of [Store.List].
type ListOptions struct {
	After string // the id that the page starts after
	Limit int    // at most MaxListed, which is also the default
}

// MaxListed is how many memories a List returns at most.
const MaxListed = 1000

// List returns a scope's memories in the order of their ids; those that a store
// has made are in the order of time. More follow if there are as many as the
// limit.
func (s *Store) List(ctx context.Context, scope Scope, opts *ListOptions) ([]*Memory, error) {
	if opts == nil {
		opts = &ListOptions{}
	}
	o, err := s.open(ctx, scope)
	if err != nil || o.revision == 0 {
		return nil, err
	}
	limit := opts.Limit
	if limit <= 0 || limit > MaxListed {
		limit = MaxListed
	}
	r := kv.Range{Prefix: o.content().memories(), Limit: min(limit, kv.MaxScanLimit)}
	if opts.After != "" {
		r.After = o.content().memory(opts.After)
	}
	var list []*Memory
	for e, err := range kv.All(ctx, s.driver, scope.partition(), r) {
		if err != nil {
			return nil, kverror.Wrap(err, "list memories")
		}
		m := &storedMemory{}
		if err := decode(e.Value, m, &m.V); err != nil {
			return nil, err
		}
		if m.expired(s.now()) {
			continue
		}
		if list = append(list, &m.Memory); len(list) == limit {
			break
		}
	}
	return list, nil
}

// Count returns how many memories a scope has, those among them that have
// expired and were not yet removed by [Store.Expire].
func (s *Store) Count(ctx context.Context, scope Scope) (int, error) {
	o, err := s.open(ctx, scope)
	if err != nil {
		return 0, err
	}
	return o.Count, nil
}

// History returns the events of a memory, the oldest first, also after its
// deletion. Code not_found if the scope never had it.
func (s *Store) History(ctx context.Context, scope Scope, id string) ([]*Event, error) {
	o, err := s.open(ctx, scope)
	if err != nil {
		return nil, err
	}
	var events []*Event
	for e, err := range kv.All(ctx, s.driver, scope.partition(), kv.Range{Prefix: o.content().history(id)}) {
		if err != nil {
			return nil, kverror.Wrap(err, "read the history of memory %q", id)
		}
		event := &storedEvent{}
		if err := decode(e.Value, event, &event.V); err != nil {
			return nil, err
		}
		events = append(events, &event.Event)
	}
	if len(events) == 0 {
		return nil, unknown(id)
	}
	return events, nil
}

// storedEvent is an entry of a history.
type storedEvent struct {
	V int `json:"v"`
	Event
}

// MaxScopes is how many scopes Scopes and ScopesAfter list at most.
const MaxScopes = 10_000

// Scopes returns the scopes of filter's tenant that have memories and all of
// filter's names; without a name, all of the tenant's. Code resource_exhausted if
// they are more than [MaxScopes].
func (s *Store) Scopes(ctx context.Context, filter Scope) ([]Scope, error) {
	scopes, more, err := s.ScopesAfter(ctx, filter, nil, MaxScopes)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, host.Errorf(host.ResourceExhausted, "more than %d scopes", MaxScopes).WithHint("name more of the scope")
	}
	return scopes, nil
}

// ScopesAfter returns at most limit of the scopes of Scopes, and whether there are more.
// With after they are those that come after it in their order.
func (s *Store) ScopesAfter(ctx context.Context, filter Scope, after *Scope, limit int) (scopes []Scope, more bool, err error) {
	if err := filter.check(); err != nil {
		return nil, false, err
	}
	if limit < 1 || limit > MaxScopes {
		return nil, false, host.Errorf(host.InvalidArgument, "a page of %d scopes", limit).WithHint("ask for 1 to %d", MaxScopes)
	}
	prefix := scopeKeys
	for i, name := range filter.names() {
		if name != "" {
			prefix = byKeys.With(nameKinds[i], name)
		}
	}
	r := kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}
	if after != nil {
		if err := after.check(); err != nil {
			return nil, false, err
		}
		r.After = after.under(prefix)
	}
	for e, err := range kv.All(ctx, s.driver, filter.partition(), r) {
		if err != nil {
			return nil, false, kverror.Wrap(err, "list scopes of memories")
		}
		rest, _ := e.Key.CutPrefix(prefix)
		scope, ok := scopeOf(filter.Tenant, rest)
		if !ok || !scope.within(filter) {
			continue
		}
		if len(scopes) == limit {
			return scopes, true, nil
		}
		scopes = append(scopes, scope)
	}
	return scopes, false, nil
}
