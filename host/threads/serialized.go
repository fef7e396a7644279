package threads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
)

// Serialized agent threads are kept byte for byte. Their content is not read, so
// a thread of a newer version stays intact.

// StaleSave is the age from which leftovers of an interrupted save are removed.
const StaleSave = time.Hour

// maxInlineThread is how long a serialized thread may be to lie in one entry.
const maxInlineThread = ChunkBytes

// serialized is the entry of one: its bytes, or the size and digest of its pieces
// together.
type serialized struct {
	version
	Head   string `json:"head"`
	Data   []byte `json:"data,omitempty"` // if it is short
	Size   int    `json:"size"`
	Digest string `json:"digest"`
}

func serializedKey(key string) kv.Key { return serializedKeys.With(key) }

func pieceKeys(key string) kv.Key { return pieceOfKeys.With(key) }

// errOvertaken says that the agent thread was replaced while it was being read.
var errOvertaken = errors.New("replaced meanwhile")

// SaveAgentThread keeps data, which [host.AgentThread.Serialize] returned, under a key
// of the caller's: an id as a thread has. It replaces the stored agent thread if that
// still has head, the one last loaded or saved, and fails with code conflict otherwise;
// an empty head guards nothing. It returns the new head. The old agent thread stays
// readable until the new one is whole. Code resource_exhausted beyond
// [host.MaxThreadBytes].
func (tn *Tenant) SaveAgentThread(ctx context.Context, key string, data []byte, head string) (string, error) {
	a, err := tn.write.agentThreads(key)
	if err != nil {
		return "", err
	}
	if len(data) > host.MaxThreadBytes {
		return "", host.Errorf(host.ResourceExhausted, "agent thread %q is %d bytes, more than %d", key, len(data), host.MaxThreadBytes)
	}
	rec := serialized{version: version{V: layout}, Head: host.NewID(), Size: len(data), Digest: digestOf(data)}
	if len(data) <= maxInlineThread {
		rec.Data = data
	} else if err := a.putPieces(ctx, key, rec.Head, data); err != nil {
		return "", wrap(err, "save agent thread %q", key)
	}
	for range maxAttempts {
		old, revision, err := a.serializedAt(ctx, key)
		if err != nil {
			return "", err
		}
		if head != "" && head != old.Head {
			a.dropPieces(ctx, key, &rec)
			return "", host.Errorf(host.Conflict, "agent thread %q has been saved by another since it was loaded", key).
				WithHint("load it, and run the turn again")
		}
		raw, err := encode(rec)
		if err != nil {
			return "", err
		}
		_, err = a.part.Apply(ctx, kv.Tx{Conds: []kv.Cond{kv.AtRevision(serializedKey(key), revision)},
			Writes: []kv.Write{kv.Put(serializedKey(key), raw)}})
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err == nil && revision != 0 && old.Data == nil {
			err = a.part.Remove(ctx, pieceKeys(key).With(old.Head))
		}
		return rec.Head, wrap(err, "save agent thread %q", key)
	}
	a.dropPieces(ctx, key, &rec)
	return "", host.Errorf(host.Conflict, "save agent thread %q: others changed it first, %d times", key, maxAttempts)
}

// agentThreads keeps the serialized agent threads of one tenant.
type agentThreads struct {
	part partition
	now  func() time.Time
}

// agentThreads returns a tenant's agent threads, if key can be the key of one.
func (w threadWriter) agentThreads(key string) (agentThreads, error) {
	err := w.read.err
	if err == nil {
		err = chat.ValidateID("agent thread", key, MaxThreadIDBytes)
	}
	return agentThreads{w.read.part, w.store.now}, err
}

// serializedAt returns the entry at key; revision 0 if the key has no entry.
func (a agentThreads) serializedAt(ctx context.Context, key string) (rec serialized, revision uint64, err error) {
	e, err := a.part.Get(ctx, serializedKey(key))
	if errors.Is(err, kv.ErrNotFound) {
		return rec, 0, nil
	}
	if err != nil {
		return rec, 0, wrap(err, "read agent thread %q", key)
	}
	return rec, e.Revision, decode(e.Value, &rec, "entry of agent thread", key)
}

// putPieces writes data ahead of the entry that will refer to it.
func (a agentThreads) putPieces(ctx context.Context, key, head string, data []byte) error {
	for i := 0; i*ChunkBytes < len(data); i++ {
		piece := data[i*ChunkBytes : min((i+1)*ChunkBytes, len(data))]
		tx := kv.Tx{Writes: []kv.Write{kv.Put(pieceKeys(key).With(head).WithUint(uint64(i)), piece)}}
		if _, err := a.part.Apply(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// dropPieces removes the pieces that a refused save has written ahead. Remaining pieces
// are removed with the agent thread, once they are stale.
func (a agentThreads) dropPieces(ctx context.Context, key string, rec *serialized) {
	if rec.Data == nil {
		_ = a.part.Remove(context.WithoutCancel(ctx), pieceKeys(key).With(rec.Head))
	}
}

// LoadAgentThread returns the bytes that SaveAgentThread stored under key, and
// their head. Code not_found if the key has none, data_loss if they differ from
// the saved ones.
func (tn *Tenant) LoadAgentThread(ctx context.Context, key string) (data []byte, head string, err error) {
	a, err := tn.write.agentThreads(key)
	if err != nil {
		return nil, "", err
	}
	for range maxAttempts {
		rec, revision, err := a.serializedAt(ctx, key)
		if err != nil {
			return nil, "", err
		}
		if revision == 0 {
			return nil, "", host.Errorf(host.NotFound, "there is no agent thread %q", key)
		}
		data, err = a.readPieces(ctx, key, &rec)
		if errors.Is(err, errOvertaken) {
			_, now, err := a.serializedAt(ctx, key)
			if err != nil || now != revision {
				continue
			}
			return nil, "", damaged("agent thread %q: a piece is missing", key)
		}
		if err != nil {
			return nil, "", wrap(err, "read agent thread %q", key)
		}
		if len(data) != rec.Size || digestOf(data) != rec.Digest {
			return nil, "", damaged("agent thread %q is not what was saved", key)
		}
		return data, rec.Head, nil
	}
	return nil, "", host.Errorf(host.Conflict, "read agent thread %q: others replaced it first, %d times", key, maxAttempts)
}

func (a agentThreads) readPieces(ctx context.Context, key string, rec *serialized) ([]byte, error) {
	if rec.Data != nil || rec.Size == 0 {
		return rec.Data, nil
	}
	var data []byte
	for i := 0; len(data) < rec.Size; i++ {
		e, err := a.part.Get(ctx, pieceKeys(key).With(rec.Head).WithUint(uint64(i)))
		if errors.Is(err, kv.ErrNotFound) || err == nil && len(e.Value) == 0 {
			return nil, errOvertaken
		}
		if err != nil {
			return nil, err
		}
		data = append(data, e.Value...)
	}
	return data, nil
}

// DeleteAgentThread removes the agent thread under key, and the leftovers there of
// saves that were interrupted more than [StaleSave] ago. A key without an agent thread
// is no error.
func (tn *Tenant) DeleteAgentThread(ctx context.Context, key string) error {
	a, err := tn.write.agentThreads(key)
	if err != nil {
		return err
	}
	for range maxAttempts {
		rec, revision, err := a.serializedAt(ctx, key)
		if err != nil {
			return err
		}
		if revision != 0 {
			_, err = a.part.Apply(ctx, kv.Tx{Conds: []kv.Cond{kv.AtRevision(serializedKey(key), revision)},
				Writes: []kv.Write{kv.Delete(serializedKey(key))}})
		}
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err == nil && revision != 0 {
			err = a.part.Remove(ctx, pieceKeys(key).With(rec.Head))
		}
		if err == nil {
			err = a.removeStale(ctx, key)
		}
		return wrap(err, "delete agent thread %q", key)
	}
	return host.Errorf(host.Conflict, "delete agent thread %q: others changed it first, %d times", key, maxAttempts)
}

// removeStale removes pieces that no entry refers to. A head is a UUIDv7, so its
// text says when it was made: pieces of a save that is still running stay.
func (a agentThreads) removeStale(ctx context.Context, key string) error {
	ms := a.now().Add(-StaleSave).UnixMilli()
	stale := fmt.Sprintf("%08x-%04x", ms>>16, ms&0xffff)
	for {
		page, err := a.part.Scan(ctx, kv.Range{Prefix: pieceKeys(key), Limit: 1})
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		rest, _ := page.Entries[0].Key.CutPrefix(pieceKeys(key))
		head, _, ok := rest.CutString()
		if !ok || head >= stale {
			return nil
		}
		if err := a.part.Remove(ctx, pieceKeys(key).With(head)); err != nil {
			return err
		}
	}
}

// AgentThreads returns the keys of a tenant's agent threads behind the key after,
// in order of their bytes; "" begins. limit is [DefaultListLimit] below 1 and at
// most [MaxListLimit].
func (tn *Tenant) AgentThreads(ctx context.Context, after string, limit int) ([]string, error) {
	if tn.write.read.err != nil {
		return nil, tn.write.read.err
	}
	if limit < 1 {
		limit = DefaultListLimit
	}
	r := kv.Range{Prefix: serializedKeys, Limit: min(limit, MaxListLimit)}
	if after != "" {
		if err := chat.ValidateID("agent thread", after, MaxThreadIDBytes); err != nil {
			return nil, err
		}
		r.After = serializedKey(after)
	}
	page, err := tn.write.read.part.Scan(ctx, r)
	if err != nil {
		return nil, wrap(err, "list agent threads")
	}
	keys := make([]string, 0, len(page.Entries))
	for _, e := range page.Entries {
		rest, _ := e.Key.CutPrefix(serializedKeys)
		if key, _, ok := rest.CutString(); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
