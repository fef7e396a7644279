package pluginkv

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// plan is a transaction on an owner's items and its effect. Its commit requires that the
// usage still has the revision read.
type plan struct {
	driver kv.Driver
	place  place
	now    time.Time

	usage    usageRecord
	revision uint64                 // of the usage; 0: absent
	damaged  bool                   // the usage cannot be read, and stays unchanged
	items    map[string]*storedItem // after the plan; nil: absent
	writes   map[kv.Key]kv.Write

	expired int  // expired items that it removes
	full    bool // a change did not fit
}

func (s *Store) newPlan(ctx context.Context, p place) (*plan, error) {
	pl, err := s.planErasing(ctx, p)
	if err == nil && pl.damaged {
		return nil, host.Errorf(host.DataLoss, "read what a plugin keeps: the record of how much it is, is damaged").
			WithHint("restore it from a backup, or erase what the plugin keeps")
	}
	return pl, err
}

// planErasing is newPlan for a plan that only removes items: the usage may be damaged.
func (s *Store) planErasing(ctx context.Context, p place) (*plan, error) {
	pl := &plan{driver: s.driver, place: p, now: s.now(), usage: usageRecord{V: usageFormat},
		items: map[string]*storedItem{}, writes: map[kv.Key]kv.Write{}}
	e, err := kv.Unchecked(s.driver).Get(ctx, p.partition, p.usage)
	if errors.Is(err, kv.ErrNotFound) {
		return pl, nil
	}
	if err != nil {
		return nil, storeError(err, "read what a plugin keeps")
	}
	pl.revision = e.Revision
	if e, err = kv.CheckEntry(p.partition, e); err == nil {
		err = kv.DecodeRecord(e.Value, &pl.usage)
	}
	switch {
	case errors.Is(err, kv.ErrCorrupt):
		pl.damaged = true
	case err != nil:
		return nil, storeError(err, "read what a plugin keeps")
	case pl.usage.V != usageFormat:
		return nil, host.Errorf(host.FailedPrecondition, "what a plugin keeps has format %d, which this version does not know", pl.usage.V).
			WithHint("open it with the version that wrote it, or a newer one; nothing was changed")
	}
	return pl, nil
}

// item returns the item at a key, nil if it is absent.
func (pl *plan) item(ctx context.Context, key string) (*storedItem, error) {
	if it, known := pl.items[key]; known {
		return it, nil
	}
	e, err := pl.driver.Get(ctx, pl.place.partition, pl.place.item(key))
	if errors.Is(err, kv.ErrNotFound) {
		pl.items[key] = nil
		return nil, nil
	}
	if err != nil {
		return nil, storeError(err, "read a plugin's key")
	}
	it, err := readItem(e)
	if err == nil {
		pl.items[key] = it
	}
	return it, err
}

// change adds a change to the plan. Its error refuses that change alone, or is the
// store's.
func (pl *plan) change(ctx context.Context, c *change) error {
	it, err := pl.item(ctx, c.key)
	if err != nil {
		return err
	}
	if at := c.opts.At; at != nil {
		found := int64(0)
		if it != nil && it.live(pl.now) {
			found = int64(it.revision)
		}
		if found != *at {
			return plugin.RevisionError(c.key, *at, found)
		}
	}
	if !c.put {
		pl.remove(c.key, it)
		return nil
	}
	bytes := pl.usage.Bytes + plugin.ItemBytes(c.key, c.value)
	if it != nil {
		bytes -= plugin.ItemBytes(c.key, it.value)
	}
	if bytes > c.opts.Quota {
		pl.full = true
		return plugin.QuotaError(c.opts.Quota)
	}
	pl.remove(c.key, it)
	pl.add(c.key, c.value, millis(c.opts.Expires))
	return nil
}

func (pl *plan) remove(key string, it *storedItem) {
	if it == nil {
		return
	}
	pl.write(kv.Delete(pl.place.item(key)))
	pl.usage.Items--
	pl.usage.Bytes -= plugin.ItemBytes(key, it.value)
	if it.expires != 0 {
		pl.write(kv.Delete(pl.place.timed(it.expires, key)))
		pl.usage.Timed--
	}
	pl.items[key] = nil
}

func (pl *plan) add(key string, value []byte, expires int64) {
	pl.write(kv.Put(pl.place.item(key), encodeItem(value, expires)))
	pl.usage.Items++
	pl.usage.Bytes += plugin.ItemBytes(key, value)
	if expires != 0 {
		pl.write(kv.Put(pl.place.timed(expires, key), nil))
		pl.usage.Timed++
	}
	pl.items[key] = &storedItem{value: value, expires: expires}
}

// write adds a write, and replaces an earlier one to the same key.
func (pl *plan) write(w kv.Write) { pl.writes[w.Key] = w }

// expire removes a page of expired items, in the order of their expiry.
func (pl *plan) expire(ctx context.Context) error {
	if pl.usage.Timed == 0 {
		return nil
	}
	page, err := pl.driver.Scan(ctx, pl.place.partition, kv.Range{Prefix: pl.place.time, Limit: expirePage})
	if err != nil {
		return storeError(err, "look for a plugin's expired keys")
	}
	for _, e := range page.Entries {
		ms, key, ok := pl.place.cutTimed(e.Key)
		if !ok {
			return host.Errorf(host.DataLoss, "a plugin's expired keys are damaged").WithHint("restore them from a backup")
		}
		if ms > pl.now.UnixMilli() {
			break
		}
		it, err := pl.item(ctx, key)
		if err != nil {
			return err
		}
		if it != nil && it.expires == ms {
			pl.remove(key, it)
		} else {
			pl.write(kv.Delete(e.Key))
		}
		pl.expired++
	}
	return nil
}

// tx returns the transaction. Without changes it is empty, unless it deletes the usage
// of an owner without items.
func (pl *plan) tx() (kv.Tx, error) {
	tx := kv.Tx{Partition: pl.place.partition, Conds: []kv.Cond{kv.AtRevision(pl.place.usage, pl.revision)}}
	if len(pl.writes) == 0 && (pl.damaged || pl.usage.Items != 0 || pl.revision == 0) {
		return tx, nil
	}
	for _, w := range pl.writes {
		tx.Writes = append(tx.Writes, w)
	}
	switch {
	case pl.damaged:
		return tx, nil
	case pl.usage.Items == 0:
		tx.Writes = append(tx.Writes, kv.Delete(pl.place.usage))
		return tx, nil
	}
	record, err := kv.EncodeRecord(pl.usage)
	tx.Writes = append(tx.Writes, kv.Put(pl.place.usage, record))
	return tx, err
}
