package kv

import (
	"bytes"
	"slices"
)

// Tx is a set of writes to one partition that are made together or not at all,
// and only if every condition holds at that moment. It is a plain value: it can
// be kept, compared, merged with others into one Commit, and committed again.
type Tx struct {
	// Partition is where all keys of the Tx are.
	Partition string
	// Conds must all hold. They are checked in order, before any write.
	// A Tx of conditions alone asks whether they hold.
	Conds []Cond
	// Writes are made together. No two may name the same key, so their order
	// means nothing.
	Writes []Write
	// Quiet keeps a driver from waking the watches of other processes for this Tx: see
	// [Notifier]. They find it by polling. It is for frequent commits that no process
	// waits for.
	Quiet bool
}

// Result is the outcome of one Tx.
type Result struct {
	// Revision is the new revision of every key put by the Tx; 0 if the Tx failed or
	// wrote nothing.
	Revision uint64
	// Err is nil if the Tx was committed. See [Driver].Commit for the rest.
	Err error
}

// Write puts a value at a key or deletes the key. Make it with [Put] or
// [Delete].
type Write struct {
	Key Key
	// Value is what to store; nil and empty store an empty value.
	Value []byte
	// Delete removes the entry instead. Value must be empty then.
	Delete bool
}

// Put stores value at key, replacing a present one.
func Put(key Key, value []byte) Write { return Write{Key: key, Value: value} }

// Delete removes the entry at key. Deleting a missing key is no error.
func Delete(key Key) Write { return Write{Key: key, Delete: true} }

// CondKind is the kind of a condition.
type CondKind int

// The kinds of conditions. The zero value is none of them, so an empty Cond is refused
// rather than taken to hold.
const (
	// CondAbsent holds while the key has no entry.
	CondAbsent CondKind = iota + 1
	// CondRevision holds while the entry at the key has Cond.Revision.
	CondRevision
	// CondFence holds while the entry at the key has Cond.Value.
	CondFence
)

// Cond is a condition on one key. Make it with [Absent], [AtRevision] or
// [Fence].
type Cond struct {
	Kind     CondKind
	Key      Key
	Revision uint64 // of CondRevision, never 0
	Value    []byte // of CondFence
}

// Absent holds while key has no entry.
func Absent(key Key) Cond { return Cond{Kind: CondAbsent, Key: key} }

// AtRevision holds while the entry at key is the one written at revision: it
// was not written, deleted or deleted and written again since. Revision 0 is
// that of an entry which does not exist, so AtRevision(key, 0) is Absent(key).
func AtRevision(key Key, revision uint64) Cond {
	if revision == 0 {
		return Absent(key)
	}
	return Cond{Kind: CondRevision, Key: key, Revision: revision}
}

// Fence holds while the entry at key exists and its value equals value byte
// for byte.
func Fence(key Key, value []byte) Cond { return Cond{Kind: CondFence, Key: key, Value: value} }

// Check returns nil if c holds for e, the entry at c.Key or the zero Entry
// for a missing key, and otherwise the error of condition number index. Drivers call
// it, so that all of them decide alike.
func (c Cond) Check(index int, e Entry) error {
	if c.holds(e) {
		return nil
	}
	c.Value = nil
	return &PreconditionError{Index: index, Cond: c, Found: e.Revision}
}

func (c Cond) holds(e Entry) bool {
	switch exists := e.Revision != 0; c.Kind {
	case CondAbsent:
		return !exists
	case CondRevision:
		return exists && e.Revision == c.Revision
	case CondFence:
		return exists && bytes.Equal(e.Value, c.Value)
	default:
		return false
	}
}

// Size is the number of bytes of all keys and values in the Tx, conditions included.
// [MaxTxBytes] bounds it.
func (tx Tx) Size() int {
	n := 0
	for _, c := range tx.Conds {
		n += len(c.Key) + len(c.Value)
	}
	for _, w := range tx.Writes {
		n += len(w.Key) + len(w.Value)
	}
	return n
}

// Validate returns an [ErrInvalid] or a *[LimitError] if no store may accept
// the Tx. Drivers call it first.
func (tx Tx) Validate() error {
	if err := validPartition(tx.Partition); err != nil {
		return err
	}
	if err := within("transaction", len(tx.Conds), MaxTxConds, "conditions"); err != nil {
		return err
	}
	if err := within("transaction", len(tx.Writes), MaxTxWrites, "writes"); err != nil {
		return err
	}
	for i, c := range tx.Conds {
		if err := c.validate(i); err != nil {
			return err
		}
	}
	for i, w := range tx.Writes {
		if err := w.validate(i); err != nil {
			return err
		}
	}
	if err := within("transaction", tx.Size(), MaxTxBytes, "bytes"); err != nil {
		return err
	}
	return tx.validDistinct()
}

// validDistinct refuses two writes of one key: which of them wins would depend
// on the engine.
func (tx Tx) validDistinct() error {
	if len(tx.Writes) <= fewWrites {
		for i, w := range tx.Writes {
			for _, earlier := range tx.Writes[:i] {
				if w.Key == earlier.Key {
					return errWrittenTwice(w.Key)
				}
			}
		}
		return nil
	}
	keys := make([]Key, len(tx.Writes))
	for i, w := range tx.Writes {
		keys[i] = w.Key
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return errWrittenTwice(keys[i])
		}
	}
	return nil
}

// fewWrites are compared with each other faster than they are sorted.
const fewWrites = 16

func errWrittenTwice(key Key) error {
	return invalidf("transaction writes key %s twice; keep the last write", key)
}

func (c Cond) validate(i int) error {
	if err := validKey(c.Key); err != nil {
		return err
	}
	switch c.Kind {
	case CondAbsent:
		return nil
	case CondRevision:
		if c.Revision == 0 {
			return invalidf("condition %d on key %s wants revision 0; use Absent", i, c.Key)
		}
		return nil
	case CondFence:
		return validValue(c.Key, c.Value)
	default:
		return invalidf("condition %d on key %s has unknown kind %d", i, c.Key, c.Kind)
	}
}

func (w Write) validate(i int) error {
	if err := validKey(w.Key); err != nil {
		return err
	}
	if w.Delete && len(w.Value) > 0 {
		return invalidf("write %d deletes key %s and has a value; choose one", i, w.Key)
	}
	return validValue(w.Key, w.Value)
}

func validValue(key Key, value []byte) error {
	if len(value) <= MaxValueBytes {
		return nil
	}
	return within("value of key "+key.String(), len(value), MaxValueBytes, "bytes")
}

func validPartition(partition string) error {
	if partition == "" {
		return invalidf("partition is empty; name the tenant")
	}
	return within("partition", len(partition), MaxPartitionBytes, "bytes")
}

func validKey(key Key) error {
	if key == "" {
		return invalidf("key is empty")
	}
	return within("key", len(key), MaxKeyBytes, "bytes")
}

// ValidateKey returns an [ErrInvalid] or a *[LimitError] if no store may have
// an entry at that key of that partition. Drivers call it first in Get.
func ValidateKey(partition string, key Key) error {
	if err := validPartition(partition); err != nil {
		return err
	}
	return validKey(key)
}
