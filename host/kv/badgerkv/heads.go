package badgerkv

import (
	"bytes"
	"strings"
	"unsafe"

	"github.com/agenthost/agenthost/host/internal/cache"
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
	byKey *cache.Cache[string, kv.Entry] // by engine key
}

// maxHeadBytes bounds the cache, maxHead one value.
const (
	maxHeadBytes = 4 << 20
	maxHead      = 4 << 10
	headOverhead = 200 // of an entry in the cache, about
)

func newHeads() heads {
	return heads{cache.New(cache.Options[string, kv.Entry]{
		MaxBytes: maxHeadBytes,
		Cost: func(key string, e kv.Entry) int64 {
			return int64(len(key) + len(e.Key) + len(e.Value) + headOverhead)
		},
	})}
}

// get returns an entry, whose value belongs to heads.
func (h heads) get(key []byte) (kv.Entry, bool) {
	return h.byKey.Get(unsafe.String(unsafe.SliceData(key), len(key))) // which keeps nothing of it
}

// forget drops the keys that a commit is about to write.
func (h heads) forget(tx engineTx) {
	for _, key := range tx.writes {
		h.byKey.Delete(unsafe.String(unsafe.SliceData(key), len(key))) // which keeps nothing of it
	}
}

// forgetPartition drops all entries whose engine keys begin with prefix.
func (h heads) forgetPartition(prefix []byte) {
	of := string(prefix)
	h.byKey.DeleteIf(func(key string) bool { return strings.HasPrefix(key, of) })
}

// keep caches the entries that tx both checked by revision and wrote.
func (h heads) keep(tx engineTx, revision uint64) {
	for i, c := range tx.Conds {
		if c.Kind != kv.CondRevision {
			continue
		}
		for _, w := range tx.Writes {
			if w.Key != c.Key || w.Delete || len(w.Value) > maxHead {
				continue
			}
			e := kv.Entry{Key: w.Key, Value: bytes.Clone(w.Value), Revision: revision}
			h.byKey.Put(string(tx.conds[i]), e)
		}
	}
}
