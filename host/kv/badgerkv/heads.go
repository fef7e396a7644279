package badgerkv

import (
	"bytes"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
)

// heads caches entries that a commit both checked and wrote, because the next commit of
// the same kind will read them: the heads of threads. Badger looks for older versions
// of a key in every level, and a new read waits for the sync of the running commit; a
// cached entry needs neither, because no other process writes to the directory. Other
// entries are read from Badger.
//
// A key is not cached from before its write until the outcome is known, so no caller
// reads the old entry after another caller has read the new one. Safe for concurrent
// use.
type heads struct {
	mu         sync.Mutex
	young, old map[string]kv.Entry // by engine key; get moves an entry to young
	bytes      int                 // of young
}

// maxHeadBytes bounds each half of the cache, maxHead one value.
const (
	maxHeadBytes = 2 << 20
	maxHead      = 4 << 10
	headOverhead = 200 // of an entry in a map, about
)

// get returns an entry, whose value belongs to heads.
func (h *heads) get(key []byte) (kv.Entry, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.young[string(key)]; ok {
		return e, true
	}
	e, ok := h.old[string(key)]
	if ok {
		h.put(string(key), e)
	}
	return e, ok
}

// put keeps an entry. The lock is held.
func (h *heads) put(key string, e kv.Entry) {
	if h.bytes > maxHeadBytes {
		h.old, h.young, h.bytes = h.young, nil, 0
	}
	if h.young == nil {
		h.young = map[string]kv.Entry{}
	}
	h.young[key] = e
	h.bytes += len(key) + len(e.Key) + len(e.Value) + headOverhead
}

// forget drops the keys that a commit is about to write.
func (h *heads) forget(written map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range written {
		delete(h.young, key)
		delete(h.old, key)
	}
}

// forgetPartition drops all entries whose engine keys begin with prefix.
func (h *heads) forgetPartition(prefix []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, entries := range []map[string]kv.Entry{h.young, h.old} {
		for key := range entries {
			if strings.HasPrefix(key, string(prefix)) {
				delete(entries, key)
			}
		}
	}
}

// keep caches the entries that tx both checked by revision and wrote.
func (h *heads) keep(tx engineTx, revision uint64) {
	for i, c := range tx.Conds {
		if c.Kind != kv.CondRevision {
			continue
		}
		for _, w := range tx.Writes {
			if w.Key != c.Key || w.Delete || len(w.Value) > maxHead {
				continue
			}
			e := kv.Entry{Key: w.Key, Value: bytes.Clone(w.Value), Revision: revision}
			h.mu.Lock()
			h.put(string(tx.conds[i]), e)
			h.mu.Unlock()
		}
	}
}
