package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// Where things are in a tenant's partition:
//
//	queue/job/<id>                     the record of a job
//	queue/due/<time>/<id>              its bytes and serial; jobs that wait, and those that run until their lease ends
//	queue/held/<id>                    its bytes and holder; jobs of a run whose turn is not stored yet
//	queue/serial/<digest>              the id of the job of that serial which runs
//	queue/dead/<time>/<id>             empty; jobs that were given up
//	queue/key/<digest>                 until when the key with that digest is known
//	queue/known/<time>/<digest>        empty; lists keys by when they are forgotten
//
// and in a partition of the queue's own, because a driver does not list them:
//
//	queue/tenant/<tenant>              empty; tenants that have had jobs
//	queue/holder/<id>                  the last heartbeat of a process: see package cluster
var (
	jobKeys    = kv.NewKey("queue", "job")
	dueKeys    = kv.NewKey("queue", "due")
	heldKeys   = kv.NewKey("queue", "held")
	deadKeys   = kv.NewKey("queue", "dead")
	keyKeys    = kv.NewKey("queue", "key")
	knownKeys  = kv.NewKey("queue", "known")
	serialKeys = kv.NewKey("queue", "serial")
	tenantKeys = kv.NewKey("queue", "tenant")
)

// indexPartition is the queue's own. A tenant of that name neither loses nor learns
// anything: no other key begins as the index's do.
const indexPartition = "agenthost/queue"

func jobKey(id string) kv.Key  { return jobKeys.With(id) }
func heldKey(id string) kv.Key { return heldKeys.With(id) }

func dueKey(at time.Time, id string) kv.Key          { return timed(dueKeys, at).With(id) }
func deadKey(at time.Time, id string) kv.Key         { return timed(deadKeys, at).With(id) }
func knownKey(until time.Time, digest string) kv.Key { return timed(knownKeys, until).With(digest) }
func idempotencyKey(digest string) kv.Key            { return keyKeys.With(digest) }
func serialKey(serial string) kv.Key                 { return serialKeys.With(digestOf(kv.NewKey(serial))) }

func timed(k kv.Key, at time.Time) kv.Key { return k.WithUint(uint64(max(at.UnixMilli(), 0))) }

// cutTimed reads a key that timed has made.
func cutTimed(k, prefix kv.Key) (at time.Time, rest kv.Key, ok bool) {
	rest, ok = k.CutPrefix(prefix)
	if !ok {
		return time.Time{}, rest, false
	}
	n, rest, ok := rest.CutUint()
	return time.UnixMilli(int64(n)), rest, ok
}

// layout is the version of the stored records.
const layout = 1

// record is the stored form of a job.
type record struct {
	V        int             `json:"v"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Payload  json.RawMessage `json:"payload"`
	Key      string          `json:"key,omitempty"`
	Until    time.Time       `json:"until,omitzero"` // when the key is forgotten
	Serial   string          `json:"serial,omitempty"`
	Scope    host.Scope      `json:"scope"`
	Left     time.Time       `json:"left"`     // when it was
	Due      time.Time       `json:"due"`      // when it is to run, or the lease of the one that runs it ends
	Attempts int             `json:"attempts"` // that have begun
	Running  bool            `json:"running,omitempty"`
	Holder   string          `json:"holder,omitempty"` // of one that runs
	Died     time.Time       `json:"died,omitzero"`
	Error    *host.Error     `json:"error,omitempty"` // of the last attempt
}

func (r *record) job() *host.Job {
	return &host.Job{ID: r.ID, Name: r.Name, Payload: r.Payload, Key: r.Key, Serial: r.Serial, Scope: r.Scope, Attempt: r.Attempts}
}

// amount returns how much of a tenant's limits the job takes.
func (r *record) amount() amount {
	return amount{1, int64(len(r.Payload) + len(r.Name) + len(r.Key) + len(r.Serial))}
}

// place returns the value of the job's entry among those that are due or held: the
// bytes that the job takes, and a serial or a holder. The bytes follow a zero byte; an
// entry of an earlier version has none, and is the serial or holder alone.
func (r *record) place(name string) []byte {
	return append(binary.AppendUvarint([]byte{0}, uint64(r.amount().bytes)), name...)
}

// cutPlace reads an entry that place has made. sized is false for one of an earlier
// version.
func cutPlace(value []byte) (name string, bytes int64, sized bool) {
	if len(value) == 0 || value[0] != 0 {
		return string(value), 0, false
	}
	size, n := binary.Uvarint(value[1:])
	if n <= 0 || size > maxJobBytes {
		return string(value), 0, false
	}
	return string(value[1+n:]), int64(size), true
}

// clearHolder says that no process runs the job.
func (r *record) clearHolder() { r.Running, r.Holder = false, "" }

func (r *record) encode() ([]byte, error) {
	raw, err := kv.EncodeRecord(r)
	if err != nil {
		return nil, host.Errorf(host.Internal, "encode job %q: %w", r.ID, err)
	}
	return raw, nil
}

// digest returns the digest under which the key of a job is stored.
func (r *record) digest() string { return digestOf(kv.NewKey(r.Name, r.Key)) }

func digestOf(k kv.Key) string {
	sum := sha256.Sum256([]byte(k))
	return hex.EncodeToString(sum[:16])
}

// storedError returns an error as the record keeps it, for its tenant to read: the full
// text is in the log.
func (r *record) storedError(err error) *host.Error {
	e := *fault.ForClient(err, r.Scope.Run)
	if len(e.Message) > maxErrorBytes {
		e.Message = strings.ToValidUTF8(e.Message[:maxErrorBytes], "")
	}
	return &e
}

// dropKey adds to writes that the key of a job which never ran is free again.
func (r *record) dropKey(writes []kv.Write) []kv.Write {
	if r.Key == "" {
		return writes
	}
	return append(writes, kv.Delete(idempotencyKey(r.digest())), kv.Delete(knownKey(r.Until, r.digest())))
}
