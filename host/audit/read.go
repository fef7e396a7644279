package audit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The bounds of reading.
const (
	DefaultListLimit = 100
	MaxListLimit     = 1000
	maxLooked        = 20_000  // entries that one page looks at
	maxLineBytes     = 8 << 10 // of an export
)

// Filter chooses entries. An empty field excludes none.
type Filter struct {
	Tenant string
	Actor  string
	Action string
	Object string
	From   time.Time // the first time
	To     time.Time // the first time that is too late

	Before uint64 // the entries before this number; 0 begins with the last one
	Limit  int    // entries of the page (100), at most 1,000
}

func (f *Filter) matches(e *Entry) bool {
	for _, m := range []struct{ want, is string }{{f.Tenant, e.Tenant}, {f.Actor, e.Actor}, {f.Action, e.Action}, {f.Object, e.Object}} {
		if m.want != "" && m.want != m.is {
			return false
		}
	}
	return !e.Time.Before(f.From) && (f.To.IsZero() || e.Time.Before(f.To))
}

// Page is a page of entries, the last one first.
type Page struct {
	Entries []*Entry `json:"entries"`
	Next    uint64   `json:"next,omitempty"` // Before of the next page; 0 on the last
}

// List returns the entries that a filter chooses; nil chooses each. A page with a Next may
// have fewer than Limit entries, also none: one call looks at 20,000 entries at most. Code
// invalid_argument for a bad limit.
func (l *Log) List(ctx context.Context, f *Filter) (*Page, error) {
	if f == nil {
		f = &Filter{}
	}
	limit := cmp.Or(f.Limit, DefaultListLimit)
	if limit < 1 || limit > MaxListLimit {
		return nil, fault.Errorf(fault.InvalidArgument, "a page of %d entries: it has from 1 to %d", limit, MaxListLimit)
	}
	rows := entryRows
	if f.Tenant != "" {
		rows = tenantRows.With(f.Tenant)
	}
	r := kv.Range{Prefix: rows, Reverse: true, Limit: min(limit+1, kv.MaxScanLimit)}
	if f.Before > 0 {
		r.After = rows.WithUint(f.Before)
	}
	page, looked, last := &Page{Entries: []*Entry{}}, 0, uint64(0)
	for found, err := range kv.All(ctx, l.driver, partition, r) {
		if err != nil {
			return nil, kverror.Wrap(err, "list the audit log")
		}
		if looked == maxLooked || len(page.Entries) == limit {
			page.Next = last
			break
		}
		e, err := l.entryOf(ctx, found, rows)
		if err != nil {
			return nil, kverror.Wrap(err, "list the audit log")
		}
		if e == nil {
			break // Trim has removed it, and those before
		}
		if looked, last = looked+1, e.Seq; f.matches(e) {
			page.Entries = append(page.Entries, e)
		}
		if e.Time.Before(f.From.Add(-maxSkew)) {
			break
		}
	}
	return page, nil
}

// maxSkew is by how much the clocks of hosts may differ: entries are in order of numbers,
// and nearly in that of their times.
const maxSkew = 10 * time.Minute

// entryOf returns the entry of a row, or of a row of the index of tenants; nil if it was
// trimmed meanwhile.
func (l *Log) entryOf(ctx context.Context, found kv.Entry, rows kv.Key) (*Entry, error) {
	if rows != entryRows {
		rest, _ := found.Key.CutPrefix(rows)
		seq, _, ok := rest.CutUint()
		if !ok {
			return nil, kv.ErrCorrupt
		}
		var err error
		if found, err = l.driver.Get(ctx, partition, entryRows.WithUint(seq)); errors.Is(err, kv.ErrNotFound) {
			if start, err := l.Start(ctx); err != nil || seq <= start.Seq {
				return nil, err
			}
			return nil, broken(seq, "it was removed")
		} else if err != nil {
			return nil, err
		}
	}
	_, e, err := decodeRow(found.Value)
	return e, err
}

// Head returns the head of the chain.
func (l *Log) Head(ctx context.Context) (Head, error) {
	h, _, err := readHead(ctx, l.driver, headKey)
	return h, kverror.Wrap(err, "read the head of the audit log")
}

// Verify reads the log, and returns the head that it has verified. An error of code
// data_loss names the first entry that was removed, changed or moved, or that is not the
// one of a known head. A known head before the start of a trimmed log has code
// failed_precondition. Entries that are appended meanwhile may be part of it or not.
func (l *Log) Verify(ctx context.Context, known ...Head) (Head, error) {
	for {
		start, err := l.Start(ctx)
		if err != nil {
			return Head{}, err
		}
		head, err := l.verify(ctx, start, known)
		if err == nil {
			return head, nil
		}
		if again, failed := l.Start(ctx); failed != nil || again == start {
			return head, err
		}
	}
}

// verify is Verify of a log that begins after start.
func (l *Log) verify(ctx context.Context, start Head, known []Head) (Head, error) {
	stored, err := l.Head(ctx)
	if err != nil {
		return Head{}, err
	}
	for _, k := range known {
		if err := trimmed(k, start); err != nil {
			return Head{}, err
		}
	}
	expected := append([]Head{stored}, known...)
	head, err := l.walk(ctx, start, func(h Head, _ *row) error { return compare(h, expected) })
	if err != nil {
		return head, err
	}
	for _, k := range expected {
		if k.Seq > head.Seq {
			return head, broken(head.Seq+1, "it was removed")
		}
	}
	if stored, err = l.Head(ctx); err != nil {
		return head, err
	}
	if stored.Seq < head.Seq { // appends only move it up
		return head, broken(stored.Seq+1, "it is after the end of the chain")
	}
	return head, nil
}

// compare returns an error if a head of the same number is another one.
func compare(h Head, known []Head) error {
	for _, k := range known {
		if k.Seq == h.Seq && k.Sum != h.Sum {
			return broken(h.Seq, "its sum is not the one that was kept")
		}
	}
	return nil
}

// walk verifies the rows after a head, and calls fn with each one and the head after it.
func (l *Log) walk(ctx context.Context, head Head, fn func(Head, *row) error) (Head, error) {
	r := kv.Range{Prefix: entryRows, After: entryRows.WithUint(head.Seq), Limit: kv.MaxScanLimit}
	if head.Seq == 0 {
		r.After = ""
	}
	for found, err := range kv.All(ctx, l.driver, partition, r) {
		if errors.Is(err, kv.ErrCorrupt) {
			return head, broken(head.Seq+1, "it was changed")
		}
		if err != nil {
			return head, kverror.Wrap(err, "read the audit log")
		}
		rest, _ := found.Key.CutPrefix(entryRows)
		at, _, _ := rest.CutUint()
		stored, e, err := decodeRow(found.Value)
		if err != nil {
			return head, broken(at, "it was changed, or a later version wrote it")
		}
		if head, err = head.follow(stored, e, at); err != nil {
			return head, err
		}
		if err := fn(head, stored); err != nil {
			return head, err
		}
	}
	return head, nil
}

// Export writes the entries after a head as lines of JSON, {"v":1,"entry":{...},"sum":"..."},
// and returns the head after the last one, from which the next export continues. The zero
// Head is the beginning of what is kept ([Log.Start]). Entries are verified while they are
// read; an error of code data_loss ends the export before the entry that it names. Code
// failed_precondition for a head whose following entry [Log.Trim] has removed.
func (l *Log) Export(ctx context.Context, after Head, w io.Writer) (Head, error) {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	after, err := l.from(ctx, after)
	if err != nil {
		return after, err
	}
	head, err := l.walk(ctx, after, func(_ Head, r *row) error { return fault.Wrap(enc.Encode(r), "write the export of the audit log") })
	if err != nil {
		if _, begins := l.from(ctx, head); begins != nil { // it was trimmed meanwhile
			err = begins
		}
	}
	return head, errors.Join(err, out.Flush())
}

// VerifyExport reads lines that [Log.Export] wrote after a head, and returns the head after
// the last one. Codes: data_loss for a line that does not follow the one before,
// invalid_argument for one that is no line of an export.
func VerifyExport(after Head, r io.Reader) (Head, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxLineBytes), maxLineBytes)
	head := after
	for lines.Scan() {
		var stored row
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &stored); err != nil || stored.V != layout || json.Unmarshal(stored.Entry, &e) != nil {
			return head, fault.Errorf(fault.InvalidArgument, "the line after entry %d is none of an export of an audit log", head.Seq)
		}
		var err error
		if head, err = head.follow(&stored, &e, e.Seq); err != nil {
			return head, err
		}
	}
	if err := lines.Err(); err != nil {
		return head, fault.Errorf(fault.InvalidArgument, "the line after entry %d: %w", head.Seq, err)
	}
	return head, nil
}
