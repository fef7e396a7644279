package threads

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// Delete removes a thread and everything in it. The thread is gone at once, for
// every reader; a turn that runs on it gets a conflict. Then its content is
// removed; if that is interrupted, the tenant's next Delete completes it. Code
// not_found if there is no such thread.
func (tn *Tenant) Delete(ctx context.Context, id string) error {
	return tn.write.deleteIf(ctx, id, nil)
}

// deleteIf removes a thread if goes reports true of it; a nil goes is any thread.
func (w threadWriter) deleteIf(ctx context.Context, id string, goes func(*Moment) bool) error {
	for range maxAttempts {
		t, err := w.read.find(ctx, id)
		if err != nil {
			return err
		}
		if goes != nil && !goes(t) {
			return errNothing
		}
		if err := w.journal().forgetRunsOf(ctx, t); err != nil {
			return wrap(err, "delete thread %q", id)
		}
		err = w.unlink(ctx, t)
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err != nil {
			return wrap(err, "delete thread %q", id)
		}
		w.store.windows.dropThread(w.read.part.Name, id)
		deleted := w.store.deleted
		if err := (sweeper{w.read.part}).sweep(ctx); err != nil || deleted == nil {
			return wrap(err, "delete thread %q", id)
		}
		return wrap(deleted(ctx, w.read.part.Name, id), "delete thread %q", id)
	}
	return host.Errorf(host.Conflict, "delete thread %q: others changed it first, %d times", id, maxAttempts)
}

// unlink makes the thread unknown and marks its content for removal.
func (w threadWriter) unlink(ctx context.Context, t *Moment) error {
	mark, err := sweeper{w.read.part}.mark(ctx, t.rec.root())
	if err != nil {
		return err
	}
	key := threadKey(t.rec.ID)
	d := newDraft(w, t, false)
	d.tx.require(kv.AtRevision(key, t.revision))
	d.tx.add(kv.Delete(key), kv.Delete(recentKey(t.rec.Updated, t.rec.ID)), mark)
	if late := t.rec.late(); late != nil { // forks may show the message
		if err := d.index.putWith(ctx, late); err != nil {
			return err
		}
	}
	_, err = d.tx.commit(ctx)
	return err
}

// marked is the mark of content that is to be removed. It lists the contents
// that this content refers to, which cannot be read once the content is removed.
type marked struct {
	version
	Origins []string `json:"origins,omitempty"`
}

// sweeper removes contents that no thread has any more.
type sweeper struct{ part partition }

// mark returns the write that marks content for removal.
func (s sweeper) mark(ctx context.Context, id string) (kv.Write, error) {
	m := marked{version: version{V: layout}}
	page, err := s.part.Scan(ctx, kv.Range{Prefix: contentOf(id).views(), Limit: 1})
	if err != nil {
		return kv.Write{}, err
	}
	if len(page.Entries) > 0 {
		var v storedView
		if err := decode(page.Entries[0].Value, &v, "view of content", id); err != nil {
			return kv.Write{}, err
		}
		m.Origins = v.Origins
	}
	raw, err := encode(m)
	return kv.Put(deletedKeys.With(id), raw), err
}

// discard marks content for removal that no thread has, and removes it.
func (s sweeper) discard(ctx context.Context, id string) error {
	mark, err := s.mark(ctx, id)
	if err != nil {
		return err
	}
	if _, err := s.part.Apply(ctx, kv.Tx{Writes: []kv.Write{mark}}); err != nil {
		return err
	}
	return s.sweep(ctx)
}

// sweep removes all content that is marked for removal and that no other content
// refers to. A removed content may have been the last one that referred to
// another, so sweep repeats until a pass removes nothing.
func (s sweeper) sweep(ctx context.Context) error {
	for again := true; again; {
		again = false
		for e, err := range s.part.All(ctx, kv.Range{Prefix: deletedKeys}) {
			if err != nil {
				return err
			}
			rest, _ := e.Key.CutPrefix(deletedKeys)
			id, _, ok := rest.CutString()
			if !ok || id == "" {
				continue // not ours
			}
			removed, err := s.removeContent(ctx, id, e.Value)
			if err != nil {
				return err
			}
			again = again || removed
		}
	}
	return nil
}

// removeContent removes content that is marked for removal, unless other content
// refers to it. The other contents of its thread are marked first.
func (s sweeper) removeContent(ctx context.Context, id string, mark []byte) (removed bool, err error) {
	owned, err := s.named(ctx, contentOf(id).owned())
	if err != nil {
		return false, err
	}
	if len(owned) > 0 {
		return true, s.markOwned(ctx, id, owned)
	}
	children, err := s.part.Scan(ctx, kv.Range{Prefix: childKeys.With(id), Limit: 1})
	if err != nil || len(children.Entries) > 0 {
		return false, err
	}
	for _, prefix := range []kv.Key{wordindex.KeysOf(id), contentOf(id).all()} {
		if err := s.part.Remove(ctx, prefix); err != nil {
			return false, err
		}
	}
	tx := kv.Tx{Writes: []kv.Write{kv.Delete(deletedKeys.With(id))}}
	if len(mark) > 0 { // older ones are empty
		var m marked
		if err := decode(mark, &m, "mark of content", id); err != nil {
			return false, err
		}
		for _, origin := range m.Origins {
			tx.Writes = append(tx.Writes, kv.Delete(childKeys.With(origin, id)))
		}
	}
	_, err = s.part.Apply(ctx, tx)
	return err == nil, err
}

// markOwned hands the removal of a thread's content on to other contents of it.
func (s sweeper) markOwned(ctx context.Context, id string, owned []string) error {
	tx := kv.Tx{}
	for _, other := range owned {
		mark, err := s.mark(ctx, other)
		if err != nil {
			return err
		}
		tx.Writes = append(tx.Writes, mark, kv.Delete(contentOf(id).owned().With(other)))
	}
	_, err := s.part.Apply(ctx, tx)
	return err
}

// named returns up to ownedPage of the names that follow a prefix in keys; the
// list is empty if no key has the prefix.
func (s sweeper) named(ctx context.Context, prefix kv.Key) ([]string, error) {
	page, err := s.part.Scan(ctx, kv.Range{Prefix: prefix, Limit: ownedPage})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range page.Entries {
		rest, _ := e.Key.CutPrefix(prefix)
		if name, _, ok := rest.CutString(); ok {
			names = append(names, name)
		}
	}
	return names, nil
}
