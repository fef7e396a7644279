package savedthread

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/tenantkv"
)

// StaleAfter is the age from which leftovers of an interrupted save are removed.
const StaleAfter = time.Hour

const (
	// pieceBytes is the size of the pieces of a long thread. A shorter one lies in one
	// entry.
	pieceBytes = 256 << 10
	// maxAttempts is how often a save starts again because another was faster. Of racing
	// saves one always wins.
	maxAttempts = 128
)

// Where things are in a tenant's partition:
//
//	threads/serialized/<key>        an agent thread, or the description of its pieces
//	threads/piece/<key>/<head>/<i>  a piece of a large one
var (
	entryKeys   = kv.NewKey("threads", "serialized")
	pieceOfKeys = kv.NewKey("threads", "piece")
)

func entryKey(key string) kv.Key { return entryKeys.With(key) }

func pieceKeys(key string) kv.Key { return pieceOfKeys.With(key) }

// Store keeps the serialized agent threads of one tenant. Safe for concurrent use.
type Store struct {
	part tenantkv.Partition
	now  func() time.Time
}

// In returns the agent threads in a partition. now is the clock that leftovers age by.
func In(part tenantkv.Partition, now func() time.Time) Store { return Store{part, now} }

// entry is that of an agent thread: its bytes, or the size and digest of its pieces
// together.
type entry struct {
	tenantkv.Version
	Head   string `json:"head"`
	Data   []byte `json:"data,omitempty"` // if it is short
	Size   int    `json:"size"`
	Digest string `json:"digest"`
}

// errOvertaken says that the agent thread was replaced while it was being read.
var errOvertaken = errors.New("replaced meanwhile")

// Save keeps data, which [host.AgentThread.Serialize] returned, under a key
// of the caller's: an id as a thread has. It replaces the stored agent thread if that
// still has head, the one last loaded or saved, and fails with code conflict otherwise;
// an empty head guards nothing. It returns the new head. The old agent thread stays
// readable until the new one is whole. Code resource_exhausted beyond
// [host.MaxThreadBytes].
func (a Store) Save(ctx context.Context, key string, data []byte, head string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	if len(data) > host.MaxThreadBytes {
		return "", host.Errorf(host.ResourceExhausted, "agent thread %q is %d bytes, more than %d", key, len(data), host.MaxThreadBytes)
	}
	rec := entry{Version: tenantkv.Version{V: tenantkv.Layout}, Head: host.NewID(), Size: len(data), Digest: digestOf(data)}
	if len(data) <= pieceBytes {
		rec.Data = data
	} else if err := a.putPieces(ctx, key, rec.Head, data); err != nil {
		return "", kverror.Wrap(err, "save agent thread %q", key)
	}
	for range maxAttempts {
		old, revision, err := a.at(ctx, key)
		if err != nil {
			return "", err
		}
		if head != "" && head != old.Head {
			a.dropPieces(ctx, key, &rec)
			return "", host.Errorf(host.Conflict, "agent thread %q has been saved by another since it was loaded", key).
				WithHint("load it, and run the turn again")
		}
		raw, err := tenantkv.Encode(rec)
		if err != nil {
			return "", err
		}
		_, err = a.part.Apply(ctx, kv.Tx{Conds: []kv.Cond{kv.AtRevision(entryKey(key), revision)},
			Writes: []kv.Write{kv.Put(entryKey(key), raw)}})
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err == nil && revision != 0 && old.Data == nil {
			err = a.part.Remove(ctx, pieceKeys(key).With(old.Head))
		}
		return rec.Head, kverror.Wrap(err, "save agent thread %q", key)
	}
	a.dropPieces(ctx, key, &rec)
	return "", host.Errorf(host.Conflict, "save agent thread %q: others changed it first, %d times", key, maxAttempts)
}

// at returns the entry at key; revision 0 if the key has no entry.
func (a Store) at(ctx context.Context, key string) (rec entry, revision uint64, err error) {
	e, err := a.part.Get(ctx, entryKey(key))
	if errors.Is(err, kv.ErrNotFound) {
		return rec, 0, nil
	}
	if err != nil {
		return rec, 0, kverror.Wrap(err, "read agent thread %q", key)
	}
	return rec, e.Revision, tenantkv.Decode(e.Value, &rec, "entry of agent thread", key)
}

// putPieces writes data ahead of the entry that will refer to it.
func (a Store) putPieces(ctx context.Context, key, head string, data []byte) error {
	for i := 0; i*pieceBytes < len(data); i++ {
		piece := data[i*pieceBytes : min((i+1)*pieceBytes, len(data))]
		tx := kv.Tx{Writes: []kv.Write{kv.Put(pieceKeys(key).With(head).WithUint(uint64(i)), piece)}}
		if _, err := a.part.Apply(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// dropPieces removes the pieces that a refused save has written ahead. Remaining pieces
// are removed with the agent thread, once they are stale.
func (a Store) dropPieces(ctx context.Context, key string, rec *entry) {
	if rec.Data == nil {
		_ = a.part.Remove(context.WithoutCancel(ctx), pieceKeys(key).With(rec.Head))
	}
}

// Load returns the bytes that Save stored under key, and
// their head. Code not_found if the key has none, data_loss if they differ from
// the saved ones.
func (a Store) Load(ctx context.Context, key string) (data []byte, head string, err error) {
	if err := checkKey(key); err != nil {
		return nil, "", err
	}
	for range maxAttempts {
		rec, revision, err := a.at(ctx, key)
		if err != nil {
			return nil, "", err
		}
		if revision == 0 {
			return nil, "", host.Errorf(host.NotFound, "there is no agent thread %q", key)
		}
		data, err = a.readPieces(ctx, key, &rec)
		if errors.Is(err, errOvertaken) {
			_, now, err := a.at(ctx, key)
			if err != nil || now != revision {
				continue
			}
			return nil, "", tenantkv.Damaged("agent thread %q: a piece is missing", key)
		}
		if err != nil {
			return nil, "", kverror.Wrap(err, "read agent thread %q", key)
		}
		if len(data) != rec.Size || digestOf(data) != rec.Digest {
			return nil, "", tenantkv.Damaged("agent thread %q is not what was saved", key)
		}
		return data, rec.Head, nil
	}
	return nil, "", host.Errorf(host.Conflict, "read agent thread %q: others replaced it first, %d times", key, maxAttempts)
}

func (a Store) readPieces(ctx context.Context, key string, rec *entry) ([]byte, error) {
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

// Delete removes the agent thread under key, and the leftovers there of
// saves that were interrupted more than [StaleAfter] ago. A key without an agent thread
// is no error.
func (a Store) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	for range maxAttempts {
		rec, revision, err := a.at(ctx, key)
		if err != nil {
			return err
		}
		if revision != 0 {
			_, err = a.part.Apply(ctx, kv.Tx{Conds: []kv.Cond{kv.AtRevision(entryKey(key), revision)},
				Writes: []kv.Write{kv.Delete(entryKey(key))}})
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
		return kverror.Wrap(err, "delete agent thread %q", key)
	}
	return host.Errorf(host.Conflict, "delete agent thread %q: others changed it first, %d times", key, maxAttempts)
}

// removeStale removes pieces that no entry refers to. A head is a UUIDv7, so its
// text says when it was made: pieces of a save that is still running stay.
func (a Store) removeStale(ctx context.Context, key string) error {
	ms := a.now().Add(-StaleAfter).UnixMilli()
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

// List returns at most limit keys of agent threads behind the key after, in order of their
// bytes; "" begins.
func (a Store) List(ctx context.Context, after string, limit int) ([]string, error) {
	r := kv.Range{Prefix: entryKeys, Limit: limit}
	if after != "" {
		if err := checkKey(after); err != nil {
			return nil, err
		}
		r.After = entryKey(after)
	}
	page, err := a.part.Scan(ctx, r)
	if err != nil {
		return nil, kverror.Wrap(err, "list agent threads")
	}
	keys := make([]string, 0, len(page.Entries))
	for _, e := range page.Entries {
		rest, _ := e.Key.CutPrefix(entryKeys)
		if key, _, ok := rest.CutString(); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// checkKey refuses a key that no agent thread can have.
func checkKey(key string) error { return chat.ValidateID("agent thread", key, chat.MaxIDBytes) }

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
