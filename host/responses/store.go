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
	lastKeys     = kv.NewKey("response-last")   // thread: the id of its last response
)

// head is the first entry of a record.
type head struct {
	V      int    `json:"v"`
	Parts  int    `json:"parts"`
	Thread string `json:"thread"`
}

const layout = 1

// Put stores a record in the place of the one with its id, and makes it the last of its
// thread. One that has not ended replaces none. Codes: invalid_argument for an id that no store takes, resource_exhausted for a
// record of more than [MaxBytes], and those of the driver.
func (s *Store) Put(ctx context.Context, tenant string, r *Record) error {
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
	before, err := s.head(ctx, partition, r.ID)
	if err != nil && host.CodeOf(err) != host.NotFound {
		return err
	}
	if err == nil && !r.Ended {
		return nil
	}
	key := responseKeys.With(r.ID)
	tx := kv.Tx{Partition: partition, Quiet: true}
	parts := 0
	for chunk := range slices.Chunk(raw, chunkBytes) {
		tx.Writes = append(tx.Writes, kv.Put(key.With("part", strconv.Itoa(parts)), chunk))
		parts++
	}
	for n := parts; n < before.Parts; n++ {
		tx.Writes = append(tx.Writes, kv.Delete(key.With("part", strconv.Itoa(n))))
	}
	value, err := kv.EncodeRecord(head{V: layout, Parts: parts, Thread: r.Thread})
	if err != nil {
		return err
	}
	tx.Writes = append(tx.Writes, kv.Put(key.With("head"), value), kv.Put(threadKeys.With(r.Thread, r.ID), []byte{layout}), kv.Put(lastKeys.With(r.Thread), []byte(r.ID)))
	if !r.Ended {
		tx.Conds = []kv.Cond{kv.Absent(key.With("head"))}
	}
	if _, err = kv.Apply(ctx, s.driver, tx); !r.Ended && errors.Is(err, kv.ErrPrecondition) {
		return nil // it has ended meanwhile
	}
	return kverror.Wrap(err, "store response %q", r.ID)
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

func (s *Store) head(ctx context.Context, partition, id string) (of head, err error) {
	e, err := s.driver.Get(ctx, partition, responseKeys.With(id, "head"))
	if errors.Is(err, kv.ErrNotFound) {
		return of, noResponse(id)
	}
	if err == nil {
		err = kv.DecodeRecord(e.Value, &of)
	}
	if err == nil && of.V != layout {
		return of, host.Errorf(host.FailedPrecondition, "response %q was written by another version of the host (%d)", id, of.V)
	}
	return of, kverror.Wrap(err, "read response %q", id)
}

func noResponse(id string) error {
	return host.Errorf(host.NotFound, "there is no response %.100q", id).WithHint("it was deleted, or made with store: false")
}

// Last returns the id of the response that was stored last in a thread; it may be empty.
func (s *Store) Last(ctx context.Context, tenant, thread string) (string, error) {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return "", err
	}
	e, err := s.driver.Get(ctx, partition, lastKeys.With(thread))
	if errors.Is(err, kv.ErrNotFound) {
		return "", nil
	}
	return string(e.Value), kverror.Wrap(err, "read the last response of thread %q", thread)
}

// Delete removes a record. The messages of its thread stay. Code not_found.
func (s *Store) Delete(ctx context.Context, tenant, id string) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	of, err := s.head(ctx, partition, id)
	if err != nil {
		return err
	}
	_, err = kv.Apply(ctx, s.driver, removal(partition, of.Thread, id, of.Parts))
	return kverror.Wrap(err, "delete response %q", id)
}

// removal returns the transaction that removes a record.
func removal(partition, thread, id string, parts int) kv.Tx {
	key := responseKeys.With(id)
	tx := kv.Tx{Partition: partition, Quiet: true, Writes: []kv.Write{kv.Delete(key.With("head")), kv.Delete(threadKeys.With(thread, id))}}
	for n := range parts {
		tx.Writes = append(tx.Writes, kv.Delete(key.With("part", strconv.Itoa(n))))
	}
	return tx
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
		of, err := s.head(ctx, partition, id)
		if err != nil && host.CodeOf(err) != host.NotFound {
			return err
		}
		if _, err := kv.Apply(ctx, s.driver, removal(partition, thread, id, of.Parts)); err != nil {
			return kverror.Wrap(err, "remove the responses of thread %q", thread)
		}
	}
	_, err = kv.Apply(ctx, s.driver, kv.Tx{Partition: partition, Quiet: true, Writes: []kv.Write{kv.Delete(lastKeys.With(thread))}})
	return kverror.Wrap(err, "remove the responses of thread %q", thread)
}
