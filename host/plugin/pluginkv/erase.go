package pluginkv

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// erasePage is how many items one transaction removes. Each takes two deletions at most,
// so that a page fits [kv.MaxTxWrites] and [kv.MaxTxBytes].
const erasePage = 500

var _ plugin.Eraser = (*Store)(nil)

// Erase implements [plugin.Eraser]. It removes a page of items at a time with their share
// of the usage, so that an interrupted Erase leaves fewer items and a correct usage.
// Writes for the owner through this Store wait until it is done. It removes damaged items
// and records, too. Code unavailable if other processes keep writing for the owner.
func (s *Store) Erase(ctx context.Context, owner plugin.Owner) (plugin.Erased, error) {
	var sum plugin.Erased
	p, err := placeOf(owner)
	if err != nil {
		return sum, err
	}
	l := s.enter(owner, nil)
	defer s.leave(owner, l)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return sum, ctx.Err()
	}
	defer func() { <-l.turn }()
	for tries := 0; tries < maxAttempts; {
		page, more, err := s.eraseSome(ctx, p)
		switch {
		case errors.Is(err, kv.ErrPrecondition):
			tries++
			continue
		case err != nil:
			return sum, storeError(err, "erase what a plugin keeps")
		}
		sum.Items += page.Items
		sum.Bytes += page.Bytes
		if tries = 0; !more {
			return sum, nil
		}
	}
	return sum, host.Errorf(host.Unavailable, "erase what plugin %q keeps: others write it all the time", owner.Plugin).
		WithHint("unload the plugin, or take it from the tenant, and run it again")
}

// eraseSome removes a page of an owner's items or, without items, a page of the owner's
// other entries. It reports whether more may be left.
func (s *Store) eraseSome(ctx context.Context, p place) (n plugin.Erased, more bool, err error) {
	pl, err := s.planErasing(ctx, p)
	if err != nil {
		return n, false, err
	}
	page, err := kv.Unchecked(s.driver).Scan(ctx, p.partition, kv.Range{Prefix: p.items, Limit: erasePage})
	if err != nil {
		return n, false, err
	}
	for _, stored := range page.Entries {
		n.Items++
		e, err := kv.CheckEntry(p.partition, stored)
		var it *storedItem
		if err == nil {
			it, err = readItem(e)
		}
		if err == nil {
			n.Bytes += plugin.ItemBytes(p.key(e.Key), it.value)
			pl.remove(p.key(e.Key), it)
		} else {
			pl.write(kv.Delete(e.Key))
		}
	}
	if more = len(page.Entries) > 0; !more {
		if more, err = pl.eraseRest(ctx); err != nil {
			return n, false, err
		}
	}
	_, err = s.commit(ctx, pl)
	return n, more, err
}

// eraseRest removes the entries that damaged items leave: their times of expiry, then the
// usage.
func (pl *plan) eraseRest(ctx context.Context) (more bool, err error) {
	page, err := kv.Unchecked(pl.driver).Scan(ctx, pl.place.partition, kv.Range{Prefix: pl.place.time, Limit: erasePage})
	if err != nil {
		return false, err
	}
	for _, e := range page.Entries {
		pl.write(kv.Delete(e.Key))
	}
	if !page.More {
		pl.usage, pl.damaged = usageRecord{V: usageFormat}, false
	}
	return page.More, nil
}

// EraseTenant implements [plugin.Eraser]: it erases one plugin after the other, in
// the order of their ids. Items written by a plugin meanwhile may stay.
func (s *Store) EraseTenant(ctx context.Context, tenant string) (plugin.Erased, error) {
	var sum plugin.Erased
	for from := kv.Key(""); ; {
		id, found, err := s.nextPlugin(ctx, tenant, from)
		if err != nil || !found {
			return sum, err
		}
		n, err := s.Erase(ctx, plugin.Owner{Tenant: tenant, Plugin: id})
		sum.Items += n.Items
		sum.Bytes += n.Bytes
		if err != nil {
			return sum, err
		}
		from = kv.NewKey(rootKey, id) + "\xff" // behind all keys of this plugin
	}
}

// nextPlugin returns the first plugin with stored entries for a tenant, starting at a key.
func (s *Store) nextPlugin(ctx context.Context, tenant string, from kv.Key) (id string, found bool, err error) {
	p, err := placeOf(plugin.Owner{Tenant: tenant})
	if err != nil {
		return "", false, err
	}
	root := kv.NewKey(rootKey)
	page, err := kv.Unchecked(s.driver).Scan(ctx, p.partition, kv.Range{Prefix: root, From: from, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return "", false, storeError(err, "look for what plugins keep")
	}
	rest, _ := page.Entries[0].Key.CutPrefix(root)
	id, _, found = rest.CutString()
	if !found {
		return "", false, host.Errorf(host.DataLoss, "a key that plugins keep is damaged: %s", page.Entries[0].Key).WithHint("restore it from a backup")
	}
	return id, true, nil
}
