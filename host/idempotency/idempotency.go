// Package idempotency remembers which requests came with which keys of their senders. The
// same request that is sent again is known, and another one with the same key is refused.
//
//	requests := idempotency.New(driver, nil)
//	again, err := requests.Begin(ctx, "acme", r.Header.Get("Idempotency-Key"), body)
//
// No answers are kept: who serves a request gives the things that it makes ids that depend
// on the key, so that the request makes them once however often it is served.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The bounds of a Store.
const (
	DefaultKeptFor = 24 * time.Hour
	MaxKeyBytes    = 255

	sweptAtOnce = 8 // keys that a new one removes when their time is over
	maxAttempts = 5 // of a commit that another one overtakes
)

// Options are the optional parts of a [Store].
type Options struct {
	KeptFor time.Duration // how long a key is remembered (24 h)
}

// Store remembers keys in a driver. It is safe for concurrent use, and any number of Stores
// on any number of hosts may share a driver.
type Store struct {
	driver  kv.Driver
	keptFor time.Duration
}

// New returns a Store on a driver, which the caller closes. A nil *Options means the
// defaults.
func New(driver kv.Driver, opts *Options) *Store {
	s := &Store{driver: kv.Checked(driver)}
	if opts != nil {
		s.keptFor = opts.KeptFor
	}
	defaults.Set(&s.keptFor, DefaultKeptFor)
	return s
}

// hostPartition is that of keys of no tenant. No tenant can have its name.
const hostPartition = "agenthost/idempotency"

// Where things are in the partition of a tenant, and are deleted with it. A key is its
// digest.
//
//	idempotency/key/<key>        record
//	idempotency/until/<s>/<key>  empty: the key is forgotten at that second
var (
	keyRows   = kv.NewKey("idempotency", "key")
	untilRows = kv.NewKey("idempotency", "until")
)

const layout = 1

// record is a key with its request.
type record struct {
	V       int    `json:"v"`
	Request []byte `json:"request"` // SHA-256
	Until   int64  `json:"until"`   // the second at which it is forgotten
}

// Begin remembers a request that a tenant sends with a key: all of it that must be the same
// when it is sent again. A tenant of "" is the host itself. It reports whether the same
// request came before. Code conflict if another request came with the key, and
// invalid_argument for a key that is empty, longer than [MaxKeyBytes] or not UTF-8.
func (s *Store) Begin(ctx context.Context, tenant, key string, request []byte) (again bool, err error) {
	if key == "" || len(key) > MaxKeyBytes || !utf8.ValidString(key) {
		return false, host.Errorf(host.InvalidArgument, "an idempotency key is UTF-8 of 1 to %d bytes", MaxKeyBytes)
	}
	partition := hostPartition
	if tenant != "" {
		if partition, err = host.TenantPartition(tenant); err != nil {
			return false, err
		}
	}
	id, sum := sha256.Sum256([]byte(key)), sha256.Sum256(request)
	for range maxAttempts {
		again, err = s.tryBegin(ctx, partition, hex.EncodeToString(id[:]), sum[:])
		if !errors.Is(err, kv.ErrPrecondition) {
			break
		}
	}
	return again, kverror.Wrap(err, "remember an idempotency key")
}

// tryBegin is Begin; [kv.ErrPrecondition] if another commit overtakes it.
func (s *Store) tryBegin(ctx context.Context, partition, id string, request []byte) (again bool, err error) {
	now := time.Now().Unix()
	row := keyRows.With(id)
	var tx kv.Tx
	e, err := s.driver.Get(ctx, partition, row)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		tx.Conds = append(tx.Conds, kv.Absent(row))
	case err != nil:
		return false, err
	default:
		before, err := decode(e.Value)
		if err != nil {
			return false, err
		}
		if before.Until > now {
			return true, before.compare(request)
		}
		tx.Conds = append(tx.Conds, kv.AtRevision(row, e.Revision))
		tx.Writes = append(tx.Writes, kv.Delete(untilRow(before.Until, id)))
	}
	rec := record{V: layout, Request: request, Until: now + int64(s.keptFor/time.Second)}
	value, err := kv.EncodeRecord(&rec)
	if err != nil {
		return false, err
	}
	tx.Partition = partition
	tx.Writes = append(tx.Writes, kv.Put(row, value), kv.Put(untilRow(rec.Until, id), nil))
	if err := s.sweep(ctx, partition, id, now, &tx); err != nil {
		return false, err
	}
	_, err = kv.Apply(ctx, s.driver, tx)
	return false, err
}

func decode(value []byte) (*record, error) {
	r := &record{}
	if err := kv.DecodeRecord(value, r); err != nil {
		return nil, err
	}
	if r.V > layout {
		return nil, kv.ErrFormat
	}
	return r, nil
}

// compare returns the error of a request that is not the key's.
func (r *record) compare(request []byte) error {
	if string(r.Request) == string(request) {
		return nil
	}
	return host.Errorf(host.Conflict, "the idempotency key came with another request before").WithHint("send a key of its own with each request")
}

func untilRow(second int64, id string) kv.Key { return untilRows.WithUint(uint64(second)).With(id) }

// sweep adds the removal of keys whose time is over to tx, which has that of the key id.
func (s *Store) sweep(ctx context.Context, partition, id string, now int64, tx *kv.Tx) error {
	page, err := s.driver.Scan(ctx, partition, kv.Range{Prefix: untilRows, Limit: sweptAtOnce})
	if err != nil {
		return err
	}
	for _, e := range page.Entries {
		rest, _ := e.Key.CutPrefix(untilRows)
		second, rest, timed := rest.CutUint()
		of, _, named := rest.CutString()
		if !timed || !named {
			return kv.ErrCorrupt
		}
		if int64(second) > now {
			return nil
		}
		if of == id {
			continue
		}
		tx.Conds = append(tx.Conds, kv.AtRevision(e.Key, e.Revision))
		tx.Writes = append(tx.Writes, kv.Delete(e.Key), kv.Delete(keyRows.With(of)))
	}
	return nil
}
