package sockkv

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agenthost/agenthost/host/kv"
)

// A message is its length in four bytes, the highest first, and JSON. Names, keys and
// values are bytes, and therefore in base64.

// The bounds of a message.
const (
	// MaxMessageBytes is the largest message, which is a page of a scan.
	MaxMessageBytes = 16 << 20
	// maxSentBytes and maxSentTxs bound the Txs of one message.
	maxSentBytes = kv.MaxTxBytes
	maxSentTxs   = 256
)

type op string

const (
	opGet    op = "get"
	opScan   op = "scan"
	opCommit op = "commit"
	opLock   op = "lock"
	opUnlock op = "unlock" // of the lock that request Of took
	opCancel op = "cancel" // request Of
)

type request struct {
	ID        uint64    `json:"id"`
	Op        op        `json:"op"`
	Of        uint64    `json:"of,omitempty"`
	Partition []byte    `json:"partition,omitempty"`
	Key       []byte    `json:"key,omitempty"` // or the name of a lock
	NoWait    bool      `json:"no_wait,omitempty"`
	Range     *scanArgs `json:"range,omitempty"`
	Txs       []tx      `json:"txs,omitempty"`
}

type scanArgs struct {
	Prefix  []byte `json:"prefix,omitempty"`
	From    []byte `json:"from,omitempty"`
	After   []byte `json:"after,omitempty"`
	Reverse bool   `json:"reverse,omitempty"`
	Limit   int    `json:"limit,omitempty"`
}

type tx struct {
	Partition []byte  `json:"partition"`
	Conds     []cond  `json:"conds,omitempty"`
	Writes    []write `json:"writes,omitempty"`
}

type cond struct {
	Kind     kv.CondKind `json:"kind"`
	Key      []byte      `json:"key"`
	Revision uint64      `json:"revision,omitempty"`
	Value    []byte      `json:"value,omitempty"`
}

type write struct {
	Key    []byte `json:"key"`
	Value  []byte `json:"value,omitempty"`
	Delete bool   `json:"delete,omitempty"`
}

type response struct {
	ID      uint64     `json:"id"`
	Entries []entry    `json:"entries,omitempty"` // of a get, one
	More    bool       `json:"more,omitempty"`
	Results []result   `json:"results,omitempty"`
	Error   *wireError `json:"error,omitempty"`
}

type entry struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value,omitempty"`
	Revision uint64 `json:"revision"`
}

type result struct {
	Revision uint64     `json:"revision,omitempty"`
	Error    *wireError `json:"error,omitempty"`
}

// wireError is an error by its name, with the fields of a failed precondition.
type wireError struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Index int    `json:"index,omitempty"`
	Found uint64 `json:"found,omitempty"`
}

// names returns the sentinels by their names on the wire.
func names() map[string]error {
	return map[string]error{
		"not_found": kv.ErrNotFound, "precondition": kv.ErrPrecondition, "invalid": kv.ErrInvalid, "too_large": kv.ErrTooLarge,
		"closed": kv.ErrClosed, "read_only": kv.ErrReadOnly, "no_space": kv.ErrNoSpace, "in_doubt": kv.ErrInDoubt,
		"corrupt": kv.ErrCorrupt, "format": kv.ErrFormat, "canceled": context.Canceled, "deadline": context.DeadlineExceeded,
		"busy": kv.ErrBusy, "erasing": kv.ErrErasing, "unavailable": kv.ErrUnavailable, "denied": kv.ErrDenied,
	}
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	out := &wireError{Name: "failed", Text: err.Error()}
	for name, sentinel := range names() {
		if errors.Is(err, sentinel) {
			out.Name = name
		}
	}
	var p *kv.PreconditionError
	if errors.As(err, &p) {
		out.Index, out.Found = p.Index, p.Found
	}
	return out
}

// remoteError is an error of the other process.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// fromWire returns the error; conds are those of its Tx.
func fromWire(e *wireError, conds []kv.Cond) error {
	if e == nil {
		return nil
	}
	if e.Name == "precondition" && e.Index >= 0 && e.Index < len(conds) {
		c := conds[e.Index]
		c.Value = nil
		return fmt.Errorf("commit: %w", &kv.PreconditionError{Index: e.Index, Cond: c, Found: e.Found})
	}
	return &remoteError{e.Text, names()[e.Name]}
}

func (a *scanArgs) kv() kv.Range {
	return kv.Range{Prefix: kv.Key(a.Prefix), From: kv.Key(a.From), After: kv.Key(a.After), Reverse: a.Reverse, Limit: a.Limit}
}

func scanOf(r kv.Range) *scanArgs {
	return &scanArgs{Prefix: []byte(r.Prefix), From: []byte(r.From), After: []byte(r.After), Reverse: r.Reverse, Limit: r.Limit}
}

func (t *tx) kv() kv.Tx {
	out := kv.Tx{Partition: string(t.Partition)}
	for _, c := range t.Conds {
		out.Conds = append(out.Conds, kv.Cond{Kind: c.Kind, Key: kv.Key(c.Key), Revision: c.Revision, Value: c.Value})
	}
	for _, w := range t.Writes {
		out.Writes = append(out.Writes, kv.Write{Key: kv.Key(w.Key), Value: w.Value, Delete: w.Delete})
	}
	return out
}

func txOf(t kv.Tx) tx {
	out := tx{Partition: []byte(t.Partition)}
	for _, c := range t.Conds {
		out.Conds = append(out.Conds, cond{Kind: c.Kind, Key: []byte(c.Key), Revision: c.Revision, Value: c.Value})
	}
	for _, w := range t.Writes {
		out.Writes = append(out.Writes, write{[]byte(w.Key), w.Value, w.Delete})
	}
	return out
}

func entryOf(e kv.Entry) entry { return entry{[]byte(e.Key), e.Value, e.Revision} }

func (e entry) kv() kv.Entry {
	value := e.Value
	if value == nil {
		value = []byte{}
	}
	return kv.Entry{Key: kv.Key(e.Key), Value: value, Revision: e.Revision}
}

// send writes a message.
func send(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > MaxMessageBytes {
		return fmt.Errorf("%w: a message of %d bytes", kv.ErrTooLarge, len(body))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...))
	return err
}

// receive reads a message.
func receive(r io.Reader, v any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > MaxMessageBytes {
		return fmt.Errorf("%w: a message of %d bytes", kv.ErrTooLarge, n)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n))) // grows with the received bytes, not with the announced length
	if err == nil && len(body) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}
