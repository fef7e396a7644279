package kv

import (
	"context"
	"iter"
)

// Driver is a store of ordered keys. All methods may be called from any number
// of goroutines at once. Drivers prove themselves with kvtest.Run.
//
// Byte slices belong to the caller on both sides: a driver keeps no reference to an
// argument after the call returns, and never touches a returned slice again.
//
// An error names the operation. Callers branch on the sentinels of this
// package with errors.Is, and on *[PreconditionError] and *[LimitError] with
// errors.As. When ctx ends before or while a method waits, its error satisfies
// errors.Is with ctx.Err().
type Driver interface {
	// Get returns the entry at key. It returns [ErrNotFound] for a missing key,
	// and [ErrInvalid] or a *[LimitError] if partition or key is empty or too
	// long. A partition that was never written is empty, not an error.
	//
	// Get sees every Tx whose Commit returned before Get was called.
	Get(ctx context.Context, partition string, key Key) (Entry, error)

	// Scan returns one page of the entries in r, in r's order, as they stood
	// at one moment. No entry in r is an empty page, not an error. Scan sees
	// every Tx whose Commit returned before Scan was called.
	Scan(ctx context.Context, partition string, r Range) (Page, error)

	// Commit commits each Tx by itself, with the effect of committing one
	// after another in the order given. The results are in that order, one for
	// each Tx; one that fails takes no other with it. A result without error
	// means that the Tx is as durable as the store makes anything: a
	// persistent store has synced it. Committing several Txs together lets a store sync
	// once for all of them.
	//
	// The Err of a result is one of these. All but the last mean that nothing
	// of the Tx was written.
	//
	//   - nil: every condition held and every write was made
	//   - *[PreconditionError]: the first condition that did not hold
	//   - [ErrInvalid] or *[LimitError]: [Tx.Validate] refuses the Tx
	//   - [ErrClosed], [ErrReadOnly], [ErrNoSpace], [ErrUnavailable], [ErrDenied]: the
	//     store takes no writes
	//   - the error of ctx, if it ended before the store began to write; once
	//     it has begun, Commit stays for the outcome
	//   - [ErrInDoubt]: the store failed while it wrote, and cannot say whether
	//     the Tx survives; a caller that needs to know reads it back
	//
	// More than [MaxCommitTxs] at once is a *LimitError for every Tx.
	Commit(ctx context.Context, txs ...Tx) []Result

	// Close waits for calls that have begun, then releases the store. Calls
	// that begin later return [ErrClosed]. A second Close does nothing and
	// returns nil.
	Close() error
}

// Entry is a key with its value.
type Entry struct {
	Key Key
	// Value may be empty; an empty value is still an entry.
	Value []byte
	// Revision is the number the store gave to the write that put Value here.
	Revision uint64
}

// Page is the result of one Scan.
type Page struct {
	// Entries are in the order of the Range, at most as many as its Limit.
	Entries []Entry
	// More says that entries of the Range follow the last one. They were left
	// out because of Limit or because the page reached [MaxScanBytes].
	More bool
}

// Apply commits one Tx and returns the revision of its writes, 0 if it has
// none, or its error.
func Apply(ctx context.Context, d Driver, tx Tx) (revision uint64, err error) {
	res := d.Commit(ctx, tx)[0]
	return res.Revision, res.Err
}

// All yields every entry of r, reading page after page with r.Limit entries
// each; r.Limit does not bound the total, breaking out of the loop does. Each
// page is a view of its own: an entry written while the loop runs is seen if
// the loop has not passed its key. An error is yielded last, with a zero Entry.
//
// Nothing is held open between pages, so the loop's body may take its time and
// may commit.
func All(ctx context.Context, d Driver, partition string, r Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			page, err := d.Scan(ctx, partition, r)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			r = r.Next(page)
		}
	}
}
