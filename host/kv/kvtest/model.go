package kvtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/kv"
)

var modelRules = []rule{
	{"a store does what a map would", func(t *testing.T, s Store) {
		d := open(t, s)
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			m := newModel(rt, d, run)
			rt.Repeat(map[string]func(*rapid.T){
				"commit": m.commit,
				"get":    m.get,
				"scan":   m.scan,
			})
		})
	}},
}

// model is the expected content of a store, as maps from key to entry.
type model struct {
	d          kv.Driver
	partitions []string
	entries    map[string]map[kv.Key]kv.Entry
	revisions  map[string]map[kv.Key][]uint64 // every revision a key ever had, ascending
}

// The few keys and values from which a run draws, so that its operations often meet.
var (
	modelKeys   = []kv.Key{"\x00", "a", "a\x00", "aa", "a\xff", "b", "\xff"}
	modelValues = []string{"", "1", "2", "\x00"}
)

// newModel makes a model over partitions that no other run has.
func newModel(t *rapid.T, d kv.Driver, run int) *model {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "aa", "\x00", "a\x00", "\xff"}), 1, 3, rapid.ID).
		Draw(t, "partitions")
	m := &model{d: d, entries: map[string]map[kv.Key]kv.Entry{}, revisions: map[string]map[kv.Key][]uint64{}}
	for _, name := range names {
		p := fmt.Sprintf("%d:%s", run, name)
		m.partitions = append(m.partitions, p)
		m.entries[p] = map[kv.Key]kv.Entry{}
		m.revisions[p] = map[kv.Key][]uint64{}
	}
	return m
}

func (m *model) partition(t *rapid.T) string {
	return rapid.SampledFrom(m.partitions).Draw(t, "partition")
}

func drawKey(t *rapid.T, label string) kv.Key {
	return rapid.SampledFrom(modelKeys).Draw(t, label)
}

// commit commits a few Txs at once and does the same to the model, one after
// another.
func (m *model) commit(t *rapid.T) {
	txs := make([]kv.Tx, rapid.IntRange(1, 4).Draw(t, "txs"))
	for i := range txs {
		txs[i] = m.drawTx(t)
	}
	results := m.d.Commit(t.Context(), txs...)
	if len(results) != len(txs) {
		t.Fatalf("Commit gave %d results for %d Txs", len(results), len(txs))
	}
	for i, tx := range txs {
		if err := m.apply(tx, results[i]); err != nil {
			t.Fatalf("Tx %d of %d, %s: %v", i, len(txs), outline(tx), err)
		}
	}
}

func (m *model) drawTx(t *rapid.T) kv.Tx {
	tx := kv.Tx{Partition: m.partition(t)}
	for range rapid.IntRange(0, 2).Draw(t, "conds") {
		tx.Conds = append(tx.Conds, m.drawCond(t, tx.Partition))
	}
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 0, 3, rapid.ID).Draw(t, "writes") {
		if rapid.Bool().Draw(t, "delete") {
			tx.Writes = append(tx.Writes, kv.Delete(k))
			continue
		}
		value := rapid.SampledFrom(modelValues).Draw(t, "value")
		tx.Writes = append(tx.Writes, kv.Put(k, []byte(value)))
	}
	return tx
}

// drawCond draws conditions that often hold and often nearly hold.
func (m *model) drawCond(t *rapid.T, partition string) kv.Cond {
	k := drawKey(t, "cond key")
	past := m.revisions[partition][k]
	switch rapid.IntRange(0, 3).Draw(t, "cond") {
	case 0:
		return kv.Absent(k)
	case 1:
		return kv.Fence(k, []byte(rapid.SampledFrom(modelValues).Draw(t, "fence")))
	case 2:
		if len(past) > 0 {
			return kv.AtRevision(k, rapid.SampledFrom(past).Draw(t, "past revision"))
		}
	}
	return kv.AtRevision(k, m.entries[partition][k].Revision)
}

// apply checks the result of a Tx against the model and brings the model up to
// date.
func (m *model) apply(tx kv.Tx, res kv.Result) error {
	entries := m.entries[tx.Partition]
	for i, c := range tx.Conds {
		if holds(c, entries[c.Key]) {
			continue
		}
		var pe *kv.PreconditionError
		if !errors.As(res.Err, &pe) || pe.Index != i || pe.Found != entries[c.Key].Revision {
			return fmt.Errorf("error %v, want condition %d to fail at revision %d", res.Err, i, entries[c.Key].Revision)
		}
		return nil
	}
	if res.Err != nil {
		return fmt.Errorf("error %w, want none", res.Err)
	}
	if (res.Revision != 0) != (len(tx.Writes) > 0) {
		return fmt.Errorf("revision %d with %d writes", res.Revision, len(tx.Writes))
	}
	for _, w := range tx.Writes {
		if err := m.write(tx.Partition, w, res.Revision); err != nil {
			return err
		}
	}
	return nil
}

// holds evaluates a condition independently of the code under test.
func holds(c kv.Cond, e kv.Entry) bool {
	switch c.Kind {
	case kv.CondAbsent:
		return e.Revision == 0
	case kv.CondRevision:
		return e.Revision == c.Revision
	default:
		return e.Revision != 0 && string(e.Value) == string(c.Value)
	}
}

func (m *model) write(partition string, w kv.Write, revision uint64) error {
	past := m.revisions[partition][w.Key]
	if len(past) > 0 && past[len(past)-1] >= revision {
		return fmt.Errorf("key %s has revision %d after %d", w.Key, revision, past[len(past)-1])
	}
	if w.Delete {
		delete(m.entries[partition], w.Key)
		return nil
	}
	m.revisions[partition][w.Key] = append(past, revision)
	m.entries[partition][w.Key] = kv.Entry{Key: w.Key, Value: w.Value, Revision: revision}
	return nil
}

func (m *model) get(t *rapid.T) {
	p, k := m.partition(t), drawKey(t, "key")
	want, ok := m.entries[p][k]
	got, err := m.d.Get(t.Context(), p, k)
	if !ok {
		if !errors.Is(err, kv.ErrNotFound) {
			t.Fatalf("Get(%q, %s) = %+v, %v, want kv.ErrNotFound", p, k, got, err)
		}
		return
	}
	if err != nil || !sameEntry(got, want) {
		t.Fatalf("Get(%q, %s) = %+v, %v, want %+v", p, k, got, err, want)
	}
}

func (m *model) scan(t *rapid.T) {
	p, r := m.partition(t), drawRange(t)
	want := m.inRange(p, r)
	got, err := m.d.Scan(t.Context(), p, r)
	if err != nil {
		t.Fatalf("Scan(%q, %+v): %v", p, r, err)
	}
	more := len(want) > r.Limit
	if more {
		want = want[:r.Limit]
	}
	if !slices.EqualFunc(got.Entries, want, sameEntry) || got.More != more {
		t.Fatalf("Scan(%q, %+v) = %+v, want %+v, more=%v", p, r, got, want, more)
	}
}

func drawRange(t *rapid.T) kv.Range {
	bounds := append([]kv.Key{"", "\xff\xff", "a\x01"}, modelKeys...)
	r := kv.Range{
		Prefix:  rapid.SampledFrom(bounds).Draw(t, "prefix"),
		Reverse: rapid.Bool().Draw(t, "reverse"),
		Limit:   rapid.IntRange(1, len(modelKeys)+1).Draw(t, "limit"),
	}
	start := rapid.SampledFrom(bounds).Draw(t, "start")
	if rapid.Bool().Draw(t, "after") {
		r.After = start
	} else {
		r.From = start
	}
	return r
}

// inRange returns every entry of r in r's order, whatever its limit.
func (m *model) inRange(partition string, r kv.Range) []kv.Entry {
	var in []kv.Entry
	for _, k := range slices.Sorted(maps.Keys(m.entries[partition])) {
		start := r.From + r.After
		c := strings.Compare(string(k), string(start))
		if r.Reverse {
			c = -c
		}
		begun := start == "" || c > 0 || c == 0 && r.After == ""
		if begun && strings.HasPrefix(string(k), string(r.Prefix)) {
			in = append(in, m.entries[partition][k])
		}
	}
	if r.Reverse {
		slices.Reverse(in)
	}
	return in
}

func sameEntry(a, b kv.Entry) bool {
	return a.Key == b.Key && string(a.Value) == string(b.Value) && a.Revision == b.Revision
}
