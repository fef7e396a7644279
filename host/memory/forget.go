package memory

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// DeleteAll forgets everything that a scope has, its histories among it. It is
// gone at once, for every reader; if the removal is interrupted, the tenant's
// next DeleteAll continues it. An empty scope is no error.
func (s *Store) DeleteAll(ctx context.Context, scope Scope) error {
	for range maxAttempts {
		o, err := s.open(ctx, scope)
		if err != nil {
			return err
		}
		if o.revision != 0 {
			err = s.unlink(ctx, o)
		}
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err == nil {
			err = s.sweep(ctx, scope.partition())
		}
		return kverror.Wrap(err, "delete memories")
	}
	return host.Errorf(host.Conflict, "delete memories: others wrote to the scope first, %d times", maxAttempts)
}

func (s *Store) unlink(ctx context.Context, o *opened) error {
	tx := kv.Tx{Partition: o.scope.partition(), Conds: []kv.Cond{kv.AtRevision(o.scope.key(), o.revision)},
		Writes: []kv.Write{kv.Delete(o.scope.key()), kv.Put(o.content().deleted(), nil)}}
	for _, k := range o.scope.listings() {
		tx.Writes = append(tx.Writes, kv.Delete(k))
	}
	_, err := kv.Apply(ctx, s.driver, tx)
	return err
}

// sweep removes the content that no scope has any more. Ids of contents are not
// used again.
func (s *Store) sweep(ctx context.Context, partition string) error {
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: deletedKeys}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(deletedKeys)
		id, _, ok := rest.CutString()
		if !ok || id == "" {
			continue // not ours
		}
		if err := kv.Remove(ctx, s.driver, partition, content(id).all()); err != nil {
			return err
		}
		if _, err := kv.Apply(ctx, s.driver, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Delete(e.Key)}}); err != nil {
			return err
		}
	}
	return nil
}

// Expire removes a tenant's memories that have expired, which searches pass over
// meanwhile, and returns how many. A host calls it now and then.
func (s *Store) Expire(ctx context.Context, tenant string) (removed int, err error) {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return 0, err
	}
	now := s.now()
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: expiresKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return removed, kverror.Wrap(err, "expire memories")
		}
		rest, _ := e.Key.CutPrefix(expiresKeys)
		at, rest, _ := rest.CutUint()
		if time.UnixMilli(int64(at)).After(now) {
			break
		}
		contentID, rest, _ := rest.CutString()
		id, _, _ := rest.CutString()
		gone, err := s.expire(ctx, tenant, e, contentID, id)
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}

// expire removes one memory, if it still expires at that time, and its expiry
// entry. The entry of a memory that has not expired yet stays: its time is exact to
// the millisecond, and a clock may go backwards.
func (s *Store) expire(ctx context.Context, tenant string, e kv.Entry, contentID, id string) (bool, error) {
	var scope Scope
	if err := json.Unmarshal(e.Value, &scope); err != nil {
		return false, host.Errorf(host.DataLoss, "an entry of when memories expire is damaged").WithHint("restore it from a backup")
	}
	scope.Tenant = tenant
	if scope == (Scope{}) {
		scope.Tenant = defaultTenant
	}
	for range maxAttempts {
		o, err := s.open(ctx, scope)
		if err != nil {
			return false, err
		}
		b := s.batch(o)
		b.drop(e.Key)
		gone := false
		if o.Content == contentID && o.revision != 0 {
			m, err := b.current(ctx, id)
			if err != nil {
				return false, err
			}
			if gone = m != nil && m.expired(b.now); gone {
				b.remove(m)
				b.event(m, Delete, m.Text, "")
			} else if m != nil && !m.Expires.IsZero() && b.expiry(m) == e.Key {
				return false, nil
			}
		}
		if !gone { // nothing is left of it but the entry
			_, err := kv.Apply(ctx, s.driver, kv.Tx{Partition: scope.partition(),
				Conds: []kv.Cond{kv.AtRevision(e.Key, e.Revision)}, Writes: []kv.Write{kv.Delete(e.Key)}})
			if errors.Is(err, kv.ErrPrecondition) { // it is another's by now
				err = nil
			}
			return false, kverror.Wrap(err, "expire memories")
		}
		if err := b.commit(ctx); !errors.Is(err, kv.ErrPrecondition) {
			return err == nil, kverror.Wrap(err, "expire memories")
		}
	}
	return false, host.Errorf(host.Conflict, "expire memories: others wrote to the scope first, %d times", maxAttempts)
}

// scopeValue is a scope's names, for an entry that has to find it again.
func scopeValue(s Scope) []byte {
	s.Tenant = ""
	raw, _ := json.Marshal(s) // of strings, which does not fail
	return raw
}
