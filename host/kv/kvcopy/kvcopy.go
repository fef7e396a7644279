// Package kvcopy copies a store of one driver to a store of another, entry by entry, and
// compares the two at the end: see [Copy].
//
// Values are copied as they are stored, digests included; revisions are the target's own.
// A copy that was interrupted is resumed by copying again: entries that the target has
// already are only read. Until the copy has ended, [Unfinished] reports it, so that no
// program takes a part of the data for all of it. A process may be killed after its copy
// has ended and before it says so: copying again then only compares the two stores.
//
// Nothing may write to either store meanwhile: what does to the source is found at the
// end, by the comparison, and copied by copying again. What is not an entry of the driver
// (keys of encryption, the list of erased partitions) is not copied.
package kvcopy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host/kv"
)

// Store is a driver that lists the partitions that have entries.
type Store interface {
	kv.Driver
	Partitions(ctx context.Context) iter.Seq2[string, error]
}

// The errors of Copy, beside those of the drivers.
var (
	// ErrNotEmpty is the error of a copy to a store that has entries, others than the
	// source, and no unfinished copy from the same source.
	ErrNotEmpty = errors.New("the target has data")
	// ErrDiffers is the error of a copy that differs from its source at the end: another
	// process wrote to one of them meanwhile.
	ErrDiffers = errors.New("the copy differs from its source")
)

// Options are the optional parts of a copy.
type Options struct {
	// Source names the source. An unfinished copy is resumed only from a source of the
	// same name.
	Source string
	// Progress, unless nil, is called after each commit and each page that was compared.
	Progress func(Progress)
}

// Progress is how far a copy is.
type Progress struct {
	Comparing bool // copying has ended, and both stores are read
	Entries   int  // read of the source, in this part
}

// Report is the result of a copy.
type Report struct {
	Partitions int   `json:"partitions"`
	Entries    int   `json:"entries"`
	Bytes      int64 `json:"bytes"` // of keys and values
	// Written is the number of entries that this copy wrote, and Deleted of those that it
	// removed from the target: the rest was there already.
	Written int `json:"written"`
	Deleted int `json:"deleted"`
	// Digest is the SHA-256 of all partitions, keys and values, in hexadecimal. Source
	// and target have the same.
	Digest string `json:"digest"`
}

// marker is the partition of the target, which no tenant can have, with the name of an
// unfinished copy's source.
const marker = "\x00copy"

var markerKey = kv.NewKey("source")

// Unfinished reports whether a copy into a store has begun and not ended, and the name of
// its source.
func Unfinished(ctx context.Context, d kv.Driver) (source string, unfinished bool, err error) {
	e, err := d.Get(ctx, marker, markerKey)
	if errors.Is(err, kv.ErrNotFound) {
		return "", false, nil
	}
	return string(e.Value), err == nil, err
}

// Copy makes to a copy of from. Both stores belong to the caller, who closes them.
//
// Errors: [ErrNotEmpty] before anything is written; [ErrDiffers] after the copy, which
// then stays unfinished; [kv.ErrCorrupt] with the partition and key of a damaged entry of
// the source; those of the drivers and of ctx, after which the copy can be resumed.
func Copy(ctx context.Context, to, from Store, opts *Options) (*Report, error) {
	c := &copying{to: to, from: from}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Progress == nil {
		c.opts.Progress = func(Progress) {}
	}
	names, ended, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	if ended {
		if err := c.compare(ctx); err != nil {
			return nil, err
		}
		return &c.report, nil
	}
	for _, name := range names {
		if err := c.partition(ctx, name); err != nil {
			return nil, fmt.Errorf("copy partition %q: %w", name, err)
		}
	}
	if err := c.compare(ctx); err != nil {
		return nil, err
	}
	if _, err := kv.Apply(ctx, to, kv.Tx{Partition: marker, Writes: []kv.Write{kv.Delete(markerKey)}}); err != nil {
		return nil, fmt.Errorf("end the copy: %w", err)
	}
	return &c.report, nil
}

// copying is one copy.
type copying struct {
	to, from Store
	opts     Options
	report   Report
	read     int // entries of the source, in this part
	tx       kv.Tx
	bytes    int // of tx
}

// begin marks the target, and returns the partitions of both stores. It changes nothing
// if a copy has ended already.
func (c *copying) begin(ctx context.Context) (names []string, ended bool, err error) {
	names, err = partitions(ctx, c.from)
	if err != nil {
		return nil, false, fmt.Errorf("list the partitions of the source: %w", err)
	}
	there, err := partitions(ctx, c.to)
	if err != nil {
		return nil, false, fmt.Errorf("list the partitions of the target: %w", err)
	}
	source, unfinished, err := Unfinished(ctx, c.to)
	switch {
	case err != nil:
		return nil, false, err
	case unfinished && source != c.opts.Source:
		return nil, false, fmt.Errorf("%w: an unfinished copy of %s", ErrNotEmpty, source)
	case !unfinished && len(there) > 0:
		if ended, err = c.same(ctx, names, there); err == nil && !ended {
			err = ErrNotEmpty
		}
		return nil, ended, err
	}
	if !unfinished {
		tx := kv.Tx{Partition: marker, Conds: []kv.Cond{kv.Absent(markerKey)}, Writes: []kv.Write{kv.Put(markerKey, []byte(c.opts.Source))}}
		if _, err := kv.Apply(ctx, c.to, tx); err != nil {
			return nil, false, fmt.Errorf("begin the copy: %w", err)
		}
	}
	all := map[string]bool{}
	for _, name := range append(names, there...) {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all)), false, nil
}

// same reports whether both stores have the same entries. It reads up to the first
// difference.
func (c *copying) same(ctx context.Context, names, there []string) (bool, error) {
	if !slices.Equal(names, there) {
		return false, nil
	}
	for _, name := range names {
		from, to := newCursor(c.from, name), newCursor(c.to, name)
		for {
			source, more, err := from.next(ctx)
			if err != nil {
				return false, fmt.Errorf("read partition %q of the source: %w", name, err)
			}
			target, moreThere, err := to.next(ctx)
			if err != nil {
				return false, fmt.Errorf("read partition %q of the target: %w", name, err)
			}
			if more != moreThere || source.Key != target.Key || !bytes.Equal(source.Value, target.Value) {
				return false, nil
			}
			if !more {
				break
			}
		}
	}
	return true, nil
}

func partitions(ctx context.Context, s Store) ([]string, error) {
	var names []string
	for name, err := range s.Partitions(ctx) {
		if err != nil {
			return nil, err
		}
		if name != marker {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// partition writes the entries of a partition that the target lacks or has with another
// value, and deletes those that the source has not.
func (c *copying) partition(ctx context.Context, name string) error {
	c.tx, c.bytes = kv.Tx{Partition: name}, 0
	from, to := newCursor(c.from, name), newCursor(c.to, name)
	source, more, err := from.next(ctx)
	if err != nil {
		return err
	}
	target, there, err := to.next(ctx)
	if err != nil {
		return err
	}
	for more || there {
		takeSource := more && (!there || source.Key <= target.Key)
		takeTarget := there && (!more || target.Key <= source.Key)
		switch {
		case takeSource && takeTarget && bytes.Equal(source.Value, target.Value):
		case takeSource:
			err = c.put(ctx, source)
		default:
			err = c.add(ctx, kv.Delete(target.Key))
			c.report.Deleted++
		}
		if err == nil && takeSource {
			c.read++
			source, more, err = from.next(ctx)
		}
		if err == nil && takeTarget {
			target, there, err = to.next(ctx)
		}
		if err != nil {
			return err
		}
	}
	return c.commit(ctx)
}

// put copies an entry, unless it is damaged.
func (c *copying) put(ctx context.Context, e kv.Entry) error {
	if _, err := kv.CheckEntry(c.tx.Partition, e); err != nil {
		return err
	}
	c.report.Written++
	return c.add(ctx, kv.Put(e.Key, e.Value))
}

// add adds a write to the next commit.
func (c *copying) add(ctx context.Context, w kv.Write) error {
	size := len(w.Key) + len(w.Value)
	if len(c.tx.Writes) == kv.MaxTxWrites || c.bytes+size > kv.MaxTxBytes {
		if err := c.commit(ctx); err != nil {
			return err
		}
	}
	c.tx.Writes, c.bytes = append(c.tx.Writes, w), c.bytes+size
	return nil
}

func (c *copying) commit(ctx context.Context) error {
	if len(c.tx.Writes) > 0 {
		if _, err := kv.Apply(ctx, c.to, c.tx); err != nil {
			return err
		}
	}
	c.tx, c.bytes = kv.Tx{Partition: c.tx.Partition}, 0
	c.opts.Progress(Progress{Entries: c.read})
	return nil
}

// compare reads both stores whole and compares them, and completes the report.
func (c *copying) compare(ctx context.Context) error {
	c.read = 0
	from, err := c.sum(ctx, c.from, func(n int) { c.opts.Progress(Progress{Comparing: true, Entries: n}) })
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	to, err := c.sum(ctx, c.to, func(int) {})
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	if from.entries != to.entries || from.partitions != to.partitions || from.digest() != to.digest() {
		return fmt.Errorf("%w: it has %d entries in %d partitions, and the source %d in %d", ErrDiffers, to.entries, to.partitions, from.entries, from.partitions)
	}
	c.report.Partitions, c.report.Entries, c.report.Bytes, c.report.Digest = from.partitions, from.entries, from.bytes, from.digest()
	return nil
}

// sum is what a store has.
type sum struct {
	hash                hash.Hash
	partitions, entries int
	bytes               int64
}

func (s *sum) digest() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// add adds a text with its length, so that no two lists of texts are the same bytes.
func (s *sum) add(text []byte) {
	s.hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	s.hash.Write(text)
}

func (c *copying) sum(ctx context.Context, of Store, tell func(entries int)) (*sum, error) {
	names, err := partitions(ctx, of)
	if err != nil {
		return nil, err
	}
	s := &sum{hash: sha256.New(), partitions: len(names)}
	for _, name := range names {
		s.add([]byte(name))
		for in := newCursor(of, name); ; {
			e, more, err := in.next(ctx)
			if err != nil {
				return nil, fmt.Errorf("partition %q: %w", name, err)
			}
			if !more {
				break
			}
			s.add([]byte(e.Key))
			s.add(e.Value)
			s.entries++
			s.bytes += int64(len(e.Key) + len(e.Value))
			if s.entries%kv.MaxScanLimit == 0 {
				tell(s.entries)
			}
		}
	}
	tell(s.entries)
	return s, nil
}

// cursor reads the entries of a partition in ascending order, a page at a time.
type cursor struct {
	driver    kv.Driver
	partition string
	at        kv.Range
	page      kv.Page
	i         int
	begun     bool
}

func newCursor(d kv.Driver, partition string) *cursor {
	return &cursor{driver: kv.Unchecked(d), partition: partition, at: kv.Range{Limit: kv.MaxScanLimit}}
}

// next returns the next entry; false at the end.
func (c *cursor) next(ctx context.Context) (kv.Entry, bool, error) {
	for c.i == len(c.page.Entries) {
		if c.begun && !c.page.More {
			return kv.Entry{}, false, nil
		}
		if c.begun {
			c.at = c.at.Next(c.page)
		}
		page, err := c.driver.Scan(ctx, c.partition, c.at)
		if err != nil {
			return kv.Entry{}, false, err
		}
		c.page, c.i, c.begun = page, 0, true
	}
	e := c.page.Entries[c.i]
	c.i++
	return e, true, nil
}
