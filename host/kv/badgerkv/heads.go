package badgerkv

import (
	"bytes"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
)

// heads are entries that a commit was guarded by and wrote anew, as the next
// commit of the same kind will: the heads of threads. Badger looks for older
// versions of a key in every level, and has whoever begins to read wait for the
// sync of what is being written; of these neither is needed, for nobody else
// writes to the directory. What is not here is read from Badger.
//
// A key that is being written is not here from before the write until its outcome
// is known, so nobody reads what was there before after somebody has read what
// came. Safe for concurrent use.
type heads struct {
	mu         sync.Mutex
	young, old map[string]kv.Entry // by engine key; what is asked for becomes young
	bytes      int                 // of young
}

// maxHeadBytes bounds each half of what is kept, maxHead one entry.
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

// forget drops what a commit writes, before it does.
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

// keep takes over what tx wrote that it was guarded by.
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
