package threads

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// Delete removes a thread and everything in it. The thread is gone at once, for
// every reader; a turn that runs on it gets a conflict. Then its content is
// removed; if that is interrupted, the tenant's next Delete goes on with it.
// Code not_found if there is no such thread.
func (s *Store) Delete(ctx context.Context, tenant, id string) error {
	for range maxAttempts {
		t, err := s.find(ctx, tenant, id)
		if err != nil {
			return err
		}
		if err := t.forgetRuns(ctx); err != nil {
			return wrap(err, "delete thread %q", id)
		}
		err = t.unlink(ctx)
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err != nil {
			return wrap(err, "delete thread %q", id)
		}
		return wrap(s.sweep(ctx, t.partition), "delete thread %q", id)
	}
	return host.Errorf(host.Conflict, "delete thread %q: others changed it first, %d times", id, maxAttempts)
}

// unlink makes the thread unknown and marks its content for removal.
func (t *thread) unlink(ctx context.Context) error {
	key := threadKey(t.rec.ID)
	_, err := kv.Apply(ctx, t.store.driver, kv.Tx{
		Partition: t.partition,
		Conds:     []kv.Cond{kv.AtRevision(key, t.revision)},
		Writes: []kv.Write{
			kv.Delete(key),
			kv.Delete(recentKey(t.rec.Updated, t.rec.ID)),
			kv.Put(deletedKeys.With(t.rec.Content), nil),
		},
	})
	return err
}

// bury marks content for removal that no thread has, and removes it.
func (s *Store) bury(ctx context.Context, part, id string) error {
	mark := kv.Tx{Partition: part, Writes: []kv.Write{kv.Put(deletedKeys.With(id), nil)}}
	if _, err := kv.Apply(ctx, s.driver, mark); err != nil {
		return err
	}
	return s.sweep(ctx, part)
}

// sweep removes all content that is marked for removal.
func (s *Store) sweep(ctx context.Context, part string) error {
	for e, err := range kv.All(ctx, s.driver, part, kv.Range{Prefix: deletedKeys}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(deletedKeys)
		id, _, ok := rest.CutString()
		if !ok || id == "" {
			continue // not ours
		}
		if err := s.remove(ctx, part, contentOf(id).all()); err != nil {
			return err
		}
		if _, err := kv.Apply(ctx, s.driver, kv.Tx{Partition: part, Writes: []kv.Write{kv.Delete(e.Key)}}); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes every key that begins with prefix, a page at a time.
func (s *Store) remove(ctx context.Context, part string, prefix kv.Key) error {
	r := kv.Range{Prefix: prefix, Limit: deletePage}
	for {
		page, err := s.driver.Scan(ctx, part, r)
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		tx := kv.Tx{Partition: part}
		for _, e := range page.Entries {
			tx.Writes = append(tx.Writes, kv.Delete(e.Key))
		}
		if _, err := kv.Apply(ctx, s.driver, tx); err != nil {
			return err
		}
	}
}
