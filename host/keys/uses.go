package keys

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/kv"
)

// uses are the last uses that are not written yet.
type uses struct {
	mu      sync.Mutex
	waiting map[cacheKey]use
	written map[cacheKey]time.Time // by this process; at most maxWaiting
}

type use struct {
	at       time.Time
	revision uint64 // of the key's record: a use of a key that has changed is not written
}

// usedRecord is the stored form of a last use.
type usedRecord struct {
	V  int       `json:"v"`
	At time.Time `json:"at"`
}

// add notes a use. One beyond maxWaiting is lost, as is all but the last of a minute.
func (u *uses) add(k cacheKey, revision uint64, now time.Time) {
	at := now.Truncate(usePrecision)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.written[k].Equal(at) {
		return
	}
	if u.waiting == nil {
		u.waiting = map[cacheKey]use{}
	}
	if _, present := u.waiting[k]; present || len(u.waiting) < maxWaiting {
		u.waiting[k] = use{at, revision}
	}
}

// take returns the uses that wait, which it counts as written.
func (u *uses) take() map[cacheKey]use {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.waiting
	u.waiting = nil
	if len(taken)+len(u.written) > maxWaiting {
		u.written = nil
	}
	for k, use := range taken {
		if u.written == nil {
			u.written = make(map[cacheKey]time.Time, len(taken))
		}
		u.written[k] = use.at
	}
	return taken
}

// flushUses writes last uses until ctx ends, and then once more.
func (s *Store) flushUses(ctx context.Context) {
	tick := time.NewTicker(s.options.FlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.writeUses()
			return
		case <-tick.C:
			s.writeUses()
		}
	}
}

// writeUses writes the uses that wait. A key that was revoked or rotated meanwhile keeps
// the use before: a row of a revoked key would stay.
func (s *Store) writeUses() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	taken := s.uses.take()
	for batch := range slices.Chunk(slices.Collect(maps.Keys(taken)), kv.MaxCommitTxs) {
		txs := make([]kv.Tx, 0, len(batch))
		for _, k := range batch {
			value, err := kv.EncodeRecord(usedRecord{V: layout, At: taken[k].at.UTC()})
			if err != nil {
				s.options.Logger.ErrorContext(ctx, "the last use of a key is not encoded", "key", k.id, "error", err)
				continue
			}
			txs = append(txs, kv.Tx{
				Partition: partition, Conds: []kv.Cond{kv.AtRevision(recordKey(k.kind, k.id), taken[k].revision)},
				Writes: []kv.Write{kv.Put(usedKey(k.kind, k.id), value)},
			})
		}
		for _, res := range s.driver.Commit(ctx, txs...) {
			if res.Err != nil && !errors.Is(res.Err, kv.ErrPrecondition) {
				s.options.Logger.WarnContext(ctx, "last uses of keys are not written", "keys", len(txs), "error", res.Err)
				break
			}
		}
	}
}

// lastUse returns when a key was used last, on any host; zero is never.
func (s *Store) lastUse(ctx context.Context, k cacheKey) (time.Time, error) {
	s.uses.mu.Lock()
	at := s.uses.waiting[k].at
	s.uses.mu.Unlock()
	e, err := s.driver.Get(ctx, partition, usedKey(k.kind, k.id))
	if isMissing(err) {
		return at.UTC(), nil
	}
	if err != nil {
		return at, err
	}
	var stored usedRecord
	err = decode(e.Value, &stored, &stored.V)
	if stored.At.After(at) {
		at = stored.At
	}
	return at.UTC(), err
}
