package keys

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/cache"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The defaults of [Options], and bounds of a Store.
const (
	DefaultMaxFailures   = 30
	DefaultFlushInterval = 30 * time.Second

	// recordAge is for how long a record is used after its read began. It is less than a
	// second, within which a change must be known to every host.
	recordAge = 800 * time.Millisecond

	maxCached     = 10_000 // records, those of unknown ids included
	maxWaiting    = 10_000 // last uses that are not written yet
	usePrecision  = time.Minute
	flushTimeout  = 10 * time.Second
	verifyTimeout = 10 * time.Second
)

// TokenVerifier verifies credentials of another issuer, such as an identity provider.
type TokenVerifier interface {
	// VerifyToken returns the principal of a credential that does not have a prefix of
	// this package. Code unauthenticated if it is not valid; unavailable if the issuer
	// cannot be reached, so that nothing is known about it. It is called by many
	// goroutines at once.
	VerifyToken(ctx context.Context, credential string) (*Principal, error)
}

// Options are the optional parts of a Store. A zero field is its default.
type Options struct {
	// Tokens verifies credentials without a prefix of this package; nil refuses them.
	Tokens TokenVerifier

	// Admit is asked about each principal, also of Tokens; its error is the answer. It is
	// where a suspended tenant is refused, and must be quick. nil admits each.
	Admit func(ctx context.Context, p *Principal) error

	// Address returns the address of a request's sender, whose failures are counted. The
	// default is that of the connection: behind a proxy all callers would share one.
	Address func(*http.Request) netip.Addr

	MaxFailures   int           // of an address in a minute, before it must wait (30)
	FlushInterval time.Duration // between writes of last uses (30 s)

	Logger *slog.Logger // receives last uses that could not be written; nil discards
}

// Store makes and verifies credentials. It is safe for concurrent use, and any number of
// Stores on any number of hosts may share a driver.
type Store struct {
	driver  kv.Driver
	options Options

	records  *cache.Cache[cacheKey, cached]
	changes  atomic.Uint64 // of records by this Store
	failures *failures
	uses     uses

	cancel   context.CancelFunc // ends flushing
	flushing sync.WaitGroup
}

type cacheKey struct {
	kind kind
	id   string
}

// cached is a record and the time at which it was read.
type cached struct {
	record   *record // nil if the id has no record
	revision uint64
	read     time.Time
}

func (c *cached) verify(from *credential, now time.Time) *Principal {
	return cmp.Or(c.record, noRecord).verify(from, now)
}

// New returns a Store on a driver, which the caller closes after it. A nil *Options means
// the defaults.
func New(driver kv.Driver, opts *Options) *Store {
	s := &Store{driver: kv.Checked(driver), records: cache.New(cache.Options[cacheKey, cached]{MaxEntries: maxCached})}
	if opts != nil {
		s.options = *opts
	}
	o := &s.options
	defaults.Set(&o.MaxFailures, DefaultMaxFailures)
	defaults.Set(&o.FlushInterval, DefaultFlushInterval)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Address == nil {
		o.Address = connectionAddress
	}
	s.failures = newFailures(o.MaxFailures)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.flushing.Go(func() { s.flushUses(ctx) })
	return s
}

// Close writes the last uses that wait and ends the Store's goroutine. A second call does
// nothing. Verifying works after it, without last uses.
func (s *Store) Close() error {
	s.cancel()
	s.flushing.Wait()
	return nil
}

// Sender says where a credential comes from.
type Sender struct {
	Address netip.Addr // whose failures are counted; the zero Addr is not counted
	Origin  string     // of the page, which a token must name; empty for a sender without a page
}

// Verify returns the principal of a credential, without counting failures and without
// comparing a token's origin: the caller compares [Principal].Origin. Codes:
//
//	unauthenticated     the credential is not valid; the error does not tell why
//	unavailable, ...    the store, or the issuer of the credential, does not answer
//	others              those of Options.Admit
func (s *Store) Verify(ctx context.Context, text string) (*Principal, error) {
	p, err := s.verify(ctx, text, nil)
	if err != nil {
		return nil, err
	}
	return s.admit(ctx, p)
}

// VerifyFrom is Verify for a sender: a token is valid for its origin alone. Code
// resource_exhausted with RetryAfter, also for a valid credential, while the address of
// the sender has too many failures.
func (s *Store) VerifyFrom(ctx context.Context, text string, from Sender) (*Principal, error) {
	p, err := s.verify(ctx, text, func() error { return s.failures.check(from.Address, time.Now()) })
	if err == nil && p.Origin != "" && p.Origin != from.Origin {
		p, err = nil, errCredential()
	}
	if err != nil {
		if fault.CodeOf(err) == fault.Unauthenticated {
			s.failures.add(from.Address, time.Now())
		}
		return nil, err
	}
	return s.admit(ctx, p)
}

func (s *Store) admit(ctx context.Context, p *Principal) (*Principal, error) {
	if s.options.Admit != nil {
		if err := s.options.Admit(ctx, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// verify returns the principal of a credential. mayRead is asked before anything is read.
func (s *Store) verify(ctx context.Context, text string, mayRead func() error) (*Principal, error) {
	if mayRead == nil {
		mayRead = func() error { return nil }
	}
	if !isOurs(text) {
		return s.verifyOther(ctx, text, mayRead)
	}
	c, ok := parse(text)
	if !ok {
		return nil, cmp.Or(mayRead(), errCredential())
	}
	k := cacheKey{c.kind, c.id}
	if k.kind == pageToken {
		k.kind = tenantKey
	}
	now := time.Now()
	found, hit := s.records.Get(k)
	p := found.verify(c, now)
	if p == nil { // a caller that was served a second ago is no guesser
		if err := mayRead(); err != nil {
			return nil, err
		}
	}
	if !hit || now.Sub(found.read) >= recordAge {
		var err error
		if found, err = s.read(ctx, k, now); err != nil {
			return nil, err
		}
		p = found.verify(c, now)
	}
	if p == nil {
		return nil, errCredential()
	}
	s.uses.add(k, found.revision, now)
	return p, nil
}

func (s *Store) verifyOther(ctx context.Context, text string, mayRead func() error) (*Principal, error) {
	if err := mayRead(); err != nil {
		return nil, err
	}
	if s.options.Tokens == nil || text == "" || len(text) > maxCredentialBytes {
		return nil, errCredential()
	}
	p, err := s.options.Tokens.VerifyToken(ctx, text)
	switch {
	case fault.CodeOf(err) == fault.Unauthenticated:
		return nil, errCredential() // the text of another package may tell why
	case err != nil:
		return nil, err
	}
	return p, nil
}

// read reads a record into the cache.
func (s *Store) read(ctx context.Context, k cacheKey, now time.Time) (cached, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	changes := s.changes.Load()
	c := cached{read: now}
	e, err := s.driver.Get(ctx, partition, recordKey(k.kind, k.id))
	if err == nil {
		c.record, c.revision = &record{}, e.Revision
		err = decode(e.Value, c.record, &c.record.V)
	}
	if err != nil && !isMissing(err) {
		return c, kverror.Wrap(err, "verify a credential")
	}
	// A record that this Store has changed meanwhile is not kept: [Store.changed] is
	// either before this, and counted, or after it, and removes the record.
	s.records.Update(k, func(old cached, _ bool) (cached, bool) { return c, s.changes.Load() == changes })
	return c, nil
}

// changed removes a record from the cache after it was written.
func (s *Store) changed(k kind, id string) {
	s.changes.Add(1)
	s.records.Delete(cacheKey{k, id})
}
