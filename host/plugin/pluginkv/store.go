package pluginkv

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// Options are the optional parts of a store.
type Options struct {
	// Now is the clock for the expiry of items. Default: time.Now.
	Now func() time.Time
}

// Store keeps items on a driver, each owner's in its tenant's partition. It is
// safe for concurrent use, and so are several stores on one driver.
//
// Concurrent writes for one owner are committed together, and those for many owners, too,
// if the driver is a [kv.Group]. A write whose context ends before the write begins
// writes nothing; once begun, it waits for its outcome. A write with an outcome unknown
// to the driver fails with code unavailable and may have been made.
type Store struct {
	driver kv.Driver
	now    func() time.Time

	mu    sync.Mutex
	lines map[plugin.Owner]*line // by owner, while items of the owner are being written
}

var _ plugin.Store = (*Store)(nil)

// New returns a store on a driver, which stays the caller's to close. opts may
// be nil.
func New(driver kv.Driver, opts *Options) *Store {
	s := &Store{driver: kv.Checked(driver), now: time.Now, lines: map[plugin.Owner]*line{}}
	if opts != nil && opts.Now != nil {
		s.now = opts.Now
	}
	return s
}

// Get implements [plugin.Store].
func (s *Store) Get(ctx context.Context, owner plugin.Owner, key string) (plugin.Item, error) {
	p, err := placeOf(owner)
	if err != nil {
		return plugin.Item{}, err
	}
	e, err := s.driver.Get(ctx, p.partition, p.item(key))
	if errors.Is(err, kv.ErrNotFound) {
		return plugin.Item{}, noItem(key)
	}
	if err != nil {
		return plugin.Item{}, storeError(err, "read a plugin's key")
	}
	it, err := readItem(e)
	if err != nil {
		return plugin.Item{}, err
	}
	if !it.live(s.now()) {
		return plugin.Item{}, noItem(key)
	}
	return plugin.Item{Key: key, Value: it.value, Revision: int64(it.revision)}, nil
}

func noItem(key string) error { return host.Errorf(host.NotFound, "there is no key %q", key) }

// List implements [plugin.Store].
func (s *Store) List(ctx context.Context, owner plugin.Owner, opts plugin.ListOptions) (items []plugin.Item, more bool, err error) {
	p, err := placeOf(owner)
	if err != nil {
		return nil, false, err
	}
	r := kv.Range{Prefix: p.item(opts.Prefix), Limit: min(max(opts.Limit, 0)+1, kv.MaxScanLimit)}
	if opts.After != "" {
		r.After = p.item(opts.After)
	}
	size, expired := int64(0), 0
	for e, err := range kv.All(ctx, s.driver, p.partition, r) {
		if err != nil {
			return nil, false, storeError(err, "list a plugin's keys")
		}
		it, err := readItem(e)
		if err != nil {
			return nil, false, err
		}
		if !it.live(s.now()) {
			expired++
			continue
		}
		item := plugin.Item{Key: p.key(e.Key), Revision: int64(it.revision)}
		if opts.Values {
			item.Value = it.value
		}
		size += plugin.ItemBytes(item.Key, item.Value)
		if more = len(items) == opts.Limit || len(items) > 0 && size > int64(opts.MaxBytes); more {
			break
		}
		items = append(items, item)
	}
	if expired > expirePage { // the next list need not skip them again
		err = s.expire(ctx, owner, p)
	}
	return items, more, err
}

// Put implements [plugin.Store].
func (s *Store) Put(ctx context.Context, owner plugin.Owner, key string, value []byte, opts plugin.PutOptions) (int64, error) {
	return s.write(ctx, owner, &change{key: key, value: value, put: true, opts: opts})
}

// Delete implements [plugin.Store].
func (s *Store) Delete(ctx context.Context, owner plugin.Owner, key string, at *int64) error {
	_, err := s.write(ctx, owner, &change{key: key, opts: plugin.PutOptions{At: at}})
	return err
}

// storeError gives a driver's error its code. A full device does not count as a full
// quota of a plugin.
func storeError(err error, doing string) error {
	if errors.Is(err, kv.ErrNoSpace) {
		return host.Errorf(host.Unavailable, "%s: %w", doing, kv.ErrNoSpace).WithHint("free some space; nothing was written")
	}
	return kverror.Wrap(err, "%s", doing)
}
