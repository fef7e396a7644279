package keys

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Name implements the Part of package host/erasure.
func (s *Store) Name() string { return "keys" }

// Erase removes all keys of a tenant.
func (s *Store) Erase(ctx context.Context, tenant string) error {
	if err := host.ValidateTenant(tenant); err != nil {
		return err
	}
	r := s.Of(tenant)
	var removed []string
	err := r.change(ctx, func(ids []string) ([]string, *kv.Tx, error) {
		removed = ids[:min(len(ids), eraseAtOnce)]
		tx := &kv.Tx{}
		for _, id := range removed {
			tx.Writes = append(tx.Writes, kv.Delete(recordKey(tenantKey, id)), kv.Delete(usedKey(tenantKey, id)))
		}
		return ids[len(removed):], tx, nil
	})
	for _, id := range removed {
		s.changed(tenantKey, id)
	}
	if err == nil && len(removed) == eraseAtOnce {
		return s.Erase(ctx, tenant)
	}
	return kverror.Wrap(err, "erase the keys of tenant %q", tenant)
}

// eraseAtOnce is how many keys one transaction removes.
const eraseAtOnce = kv.MaxTxWrites/2 - 1

// Find counts the keys of a tenant.
func (s *Store) Find(ctx context.Context, tenant string) (int, error) {
	ids, _, err := s.Of(tenant).ids(ctx)
	return len(ids), kverror.Wrap(err, "count the keys of tenant %q", tenant)
}
