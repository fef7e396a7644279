package responses

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// MaxBytes bounds a record. One whose input makes it longer is kept without the input.
const MaxBytes = 1 << 20

// chunkBytes is how much of a record one entry has.
const chunkBytes = 256 << 10

// Record is one response.
type Record struct {
	ID       string          `json:"id"`
	Run      string          `json:"run"`
	Thread   string          `json:"thread"`
	Target   string          `json:"target"`
	Created  time.Time       `json:"created"`
	Ended    bool            `json:"ended"`    // Response is the last
	Response json.RawMessage `json:"response"` // as its client reads it
	Input    json.RawMessage `json:"input,omitempty"`
}

// Store keeps the responses of tenants. It is safe for concurrent use.
type Store struct{ driver kv.Driver }

// New returns a store on a driver, which stays the caller's to close.
func New(driver kv.Driver) *Store { return &Store{kv.Checked(driver)} }

// The keys of a tenant's partition.
var (
	responseKeys = kv.NewKey("response")        // id, "head" or "part" and its number
	threadKeys   = kv.NewKey("response-thread") // thread, id
	lastKeys     = kv.NewKey("response-last")   // thread: the claim of the last response that took it
)

// maxAttempts bounds the commits of a change that others overtake.
const maxAttempts = 8

// head is the first entry of a record. That of a deleted one stays until its thread goes, so
// that nothing which knows the response still stores it again.
type head struct {
	V       int    `json:"v"`
	Parts   int    `json:"parts"`
	Thread  string `json:"thread"`
	Deleted bool   `json:"deleted,omitempty"`

	revision uint64 // 0 without an entry
}

const layout = 1

// Put stores a record in the place of the one with its id. One that has not ended replaces
// none, and a response that was deleted is not stored again: the error is nil then, and nothing
// is written. Codes: invalid_argument for an id that no store takes, resource_exhausted for a
// record of more than [MaxBytes], and those of the driver.
func (s *Store) Put(ctx context.Context, tenant string, r *Record) error {
	return s.put(ctx, tenant, r, func(before *head) bool { return before.revision == 0 || r.Ended })
}

// Finish is Put of a record that is stored as begun: without that, as it or its thread was
// deleted meanwhile, nothing is written.
func (s *Store) Finish(ctx context.Context, tenant string, r *Record) error {
	return s.put(ctx, tenant, r, func(before *head) bool { return before.revision != 0 })
}

// put stores a record if wanted reports true of the head before, which is not a deleted one's.
func (s *Store) put(ctx context.Context, tenant string, r *Record, wanted func(before *head) bool) error {
	partition, err := host.TenantPartition(tenant)
	if err == nil {
		err = errors.Join(chat.ValidateID("response", r.ID, chat.MaxIDBytes), chat.ValidateID("thread", r.Thread, chat.MaxIDBytes))
	}
	if err != nil {
		return err
	}
	raw, err := encode(r)
	if err != nil {
		return err
	}
	return s.change(ctx, partition, r.ID, func(before *head) (kv.Tx, error) {
		if before.Deleted || !wanted(before) {
			return kv.Tx{}, nil
		}
		return writes(r, raw, before)
	})
}

// writes returns the writes of a record in the place of the one of a head.
func writes(r *Record, raw []byte, before *head) (tx kv.Tx, err error) {
	key, parts := responseKeys.With(r.ID), 0
	for chunk := range slices.Chunk(raw, chunkBytes) {
		tx.Writes = append(tx.Writes, kv.Put(key.With("part", strconv.Itoa(parts)), chunk))
		parts++
	}
	for n := parts; n < before.Parts; n++ {
		tx.Writes = append(tx.Writes, kv.Delete(key.With("part", strconv.Itoa(n))))
	}
	value, err := kv.EncodeRecord(head{V: layout, Parts: parts, Thread: r.Thread})
	tx.Writes = append(tx.Writes, kv.Put(key.With("head"), value), kv.Put(threadKeys.With(r.Thread, r.ID), []byte{layout}))
	return tx, err
}

// change commits the writes that make returns for the head of a record, if they are any. It
// is called again when another commit was faster.
func (s *Store) change(ctx context.Context, partition, id string, make func(before *head) (kv.Tx, error)) error {
	key := responseKeys.With(id, "head")
	for range maxAttempts {
		before, err := s.head(ctx, partition, id)
		if err != nil {
			return err
		}
		tx, err := make(before)
		if err != nil || len(tx.Writes) == 0 {
			return err
		}
		tx.Partition, tx.Quiet = partition, true
		tx.Conds = []kv.Cond{kv.AtRevision(key, before.revision)}
		if _, err = kv.Apply(ctx, s.driver, tx); !errors.Is(err, kv.ErrPrecondition) {
			return kverror.Wrap(err, "change response %q", id)
		}
	}
	return host.Errorf(host.Conflict, "change response %q: others changed it first, %d times", id, maxAttempts)
}

// encode returns the JSON of a record, without its input if that is too long.
func encode(r *Record) ([]byte, error) {
	for _, input := range []json.RawMessage{r.Input, nil} {
		raw, err := encodeWith(r, input)
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "response %q cannot be written: %w", r.ID, err)
		}
		if len(raw) <= MaxBytes {
			return raw, nil
		}
	}
	return nil, host.Errorf(host.ResourceExhausted, "response %q has more than %d bytes", r.ID, MaxBytes)
}

// encodeWith returns the JSON of a record with an input. The documents in it are appended: to
// have them encoded again would cost more than the rest.
func encodeWith(r *Record, input json.RawMessage) ([]byte, error) {
	own := *r
	own.Response, own.Input = nil, nil
	raw, err := json.Marshal(own)
	if err != nil || len(r.Response) == 0 {
		return raw, err
	}
	raw = append(append(raw[:len(raw)-len(`,"response":null}`)], `,"response":`...), r.Response...)
	if len(input) > 0 {
		raw = append(append(raw, `,"input":`...), input...)
	}
	return append(raw, '}'), nil
}

// Get returns the record of an id. Codes: not_found, data_loss for one that is damaged, and
// those of the driver.
func (s *Store) Get(ctx context.Context, tenant, id string) (*Record, error) {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return nil, err
	}
	if chat.ValidateID("response", id, chat.MaxIDBytes) != nil {
		return nil, noResponse(id)
	}
	of, err := s.head(ctx, partition, id)
	if err != nil {
		return nil, err
	}
	if of.revision == 0 || of.Deleted {
		return nil, noResponse(id)
	}
	var raw []byte
	for n := range of.Parts {
		e, err := s.driver.Get(ctx, partition, responseKeys.With(id, "part", strconv.Itoa(n)))
		if err != nil {
			return nil, kverror.Wrap(err, "read response %q", id)
		}
		raw = append(raw, e.Value...)
	}
	r := &Record{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, host.Errorf(host.DataLoss, "response %q is damaged: %w", id, err)
	}
	return r, nil
}

// head returns the head of a record; one without a revision if there is none.
func (s *Store) head(ctx context.Context, partition, id string) (*head, error) {
	of := &head{}
	e, err := s.driver.Get(ctx, partition, responseKeys.With(id, "head"))
	if errors.Is(err, kv.ErrNotFound) {
		return of, nil
	}
	if err == nil {
		err = kv.DecodeRecord(e.Value, of)
	}
	if err == nil && of.V != layout {
		return nil, host.Errorf(host.FailedPrecondition, "response %q was written by another version of the host (%d)", id, of.V)
	}
	of.revision = e.Revision
	return of, kverror.Wrap(err, "read response %q", id)
}

func noResponse(id string) error {
	return host.Errorf(host.NotFound, "there is no response %.100q", id).WithHint("it was deleted, or made with store: false")
}

// Holder is the response that has a thread: the last that continues it.
type Holder struct {
	ID    string // "" if none has it
	Since time.Time
}

// claim is the entry of a thread that a response has.
type claim struct {
	V      int       `json:"v"`
	ID     string    `json:"id"`
	Before string    `json:"before,omitempty"` // has the thread again if ID is not made
	Since  time.Time `json:"since"`
}

// Claim gives a thread to the response id, which is to be its next one, and reports whether it
// has it: of the responses that continue the one named after, one does, and the others belong
// in threads of their own. An after of "" takes the thread from whichever has it. A response
// that has the thread keeps it, and takes it from its earlier attempts, which came to nothing.
// The holder is the response that had the thread until then, or has it still. Codes are those
// of the driver, and conflict.
func (s *Store) Claim(ctx context.Context, tenant, thread, id, after string, attempts ...string) (has bool, holder Holder, err error) {
	err = s.changeClaim(ctx, tenant, thread, func(last *claim) *claim {
		holder = Holder{last.ID, last.Since}
		has = true
		next := &claim{V: layout, ID: id, Before: last.ID, Since: time.Now().UTC()}
		switch {
		case last.ID == id:
			return nil
		case slices.Contains(attempts, last.ID):
			next.Before = last.Before
		case last.ID != "" && after != "" && last.ID != after:
			has = false
			return nil
		}
		return next
	})
	return has && err == nil, holder, err
}

// Release gives a thread that a response has, and which is not made after all, back to the
// response that had it before. It does nothing if another one has it. Codes are those of the
// driver, and conflict.
func (s *Store) Release(ctx context.Context, tenant, thread, id string) error {
	return s.changeClaim(ctx, tenant, thread, func(last *claim) *claim {
		if last.ID != id {
			return nil
		}
		return &claim{V: layout, ID: last.Before, Since: last.Since}
	})
}

// changeClaim stores the claim that next returns for that of a thread: nil leaves it, and one
// without an id removes it. It is called again when another commit was faster.
func (s *Store) changeClaim(ctx context.Context, tenant, thread string, next func(last *claim) *claim) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	key := lastKeys.With(thread)
	for range maxAttempts {
		e, err := s.driver.Get(ctx, partition, key)
		last := &claim{}
		if err == nil {
			err = kv.DecodeRecord(e.Value, last)
		}
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return kverror.Wrap(err, "claim thread %q", thread)
		}
		to := next(last)
		if to == nil {
			return nil
		}
		write := kv.Delete(key)
		if to.ID != "" {
			value, err := kv.EncodeRecord(to)
			if err != nil {
				return host.Errorf(host.Internal, "claim thread %q: %w", thread, err)
			}
			write = kv.Put(key, value)
		}
		tx := kv.Tx{Partition: partition, Quiet: true, Conds: []kv.Cond{kv.AtRevision(key, e.Revision)}, Writes: []kv.Write{write}}
		if _, err = kv.Apply(ctx, s.driver, tx); !errors.Is(err, kv.ErrPrecondition) {
			return kverror.Wrap(err, "claim thread %q", thread)
		}
	}
	return host.Errorf(host.Conflict, "claim thread %q: others changed it first, %d times", thread, maxAttempts)
}

// Delete removes a record, and keeps its id from being stored again. The messages of its
// thread stay. Code not_found.
func (s *Store) Delete(ctx context.Context, tenant, id string) error {
	return s.remove(ctx, tenant, id, true)
}

// Forget removes a record as if it had not been stored: one whose thread is gone. Code
// not_found.
func (s *Store) Forget(ctx context.Context, tenant, id string) error {
	return s.remove(ctx, tenant, id, false)
}

// remove removes a record, for good or not.
func (s *Store) remove(ctx context.Context, tenant, id string, deleted bool) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	if chat.ValidateID("response", id, chat.MaxIDBytes) != nil {
		return noResponse(id)
	}
	return s.change(ctx, partition, id, func(before *head) (kv.Tx, error) {
		if before.revision == 0 || before.Deleted {
			return kv.Tx{}, noResponse(id)
		}
		tx := removal(before, id)
		if !deleted {
			return tx, nil
		}
		value, err := kv.EncodeRecord(head{V: layout, Thread: before.Thread, Deleted: true})
		tx.Writes = append(removalOfParts(before, id), kv.Put(responseKeys.With(id, "head"), value))
		return tx, err
	})
}

// removal returns the transaction that removes a record.
func removal(of *head, id string) kv.Tx {
	return kv.Tx{Writes: append(removalOfParts(of, id), kv.Delete(responseKeys.With(id, "head")), kv.Delete(threadKeys.With(of.Thread, id)))}
}

func removalOfParts(of *head, id string) (writes []kv.Write) {
	for n := range of.Parts {
		writes = append(writes, kv.Delete(responseKeys.With(id, "part", strconv.Itoa(n))))
	}
	return writes
}

// EraseThread removes the records of a deleted thread: see threads.Options.Deleted. Codes are
// those of the driver.
func EraseThread(ctx context.Context, driver kv.Driver, tenant, thread string) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	s := New(driver)
	prefix := threadKeys.With(thread)
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: prefix}) {
		if err != nil {
			return kverror.Wrap(err, "remove the responses of thread %q", thread)
		}
		rest, _ := e.Key.CutPrefix(prefix)
		id, _, ok := rest.CutString()
		if !ok {
			continue
		}
		err := s.change(ctx, partition, id, func(before *head) (kv.Tx, error) {
			before.Thread = thread
			return removal(before, id), nil
		})
		if err != nil {
			return err
		}
	}
	_, err = kv.Apply(ctx, s.driver, kv.Tx{Partition: partition, Quiet: true, Writes: []kv.Write{kv.Delete(lastKeys.With(thread))}})
	return kverror.Wrap(err, "remove the responses of thread %q", thread)
}
