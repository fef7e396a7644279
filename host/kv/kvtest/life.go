package kvtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

var limitRules = []rule{
	{"what is within the limits is accepted", func(t *testing.T, s Store) {
		d := open(t, s)
		tx := largestTx()
		apply(t, d, tx)
		n := 0
		for e, err := range kv.All(t.Context(), d, tx.Partition, kv.Range{Limit: kv.MaxScanLimit}) {
			if err != nil {
				t.Fatalf("All: %v", err)
			}
			if w := tx.Writes[n]; e.Key != w.Key || string(e.Value) != string(w.Value) {
				t.Fatalf("entry %d differs from what was written", n)
			}
			n++
		}
		if n != len(tx.Writes) {
			t.Errorf("found %d entries, want %d", n, len(tx.Writes))
		}
		put(t, d, "k", strings.Repeat("v", kv.MaxValueBytes))
		wantValue(t, d, "k", strings.Repeat("v", kv.MaxValueBytes))
	}},
	{"many large Txs are one commit", func(t *testing.T, s Store) {
		d := open(t, s)
		txs := make([]kv.Tx, 6)
		for i := range txs {
			txs[i] = largestTx()
			txs[i].Partition = fmt.Sprint(i)
		}
		for i, res := range d.Commit(t.Context(), txs...) {
			if res.Err != nil {
				t.Errorf("Tx %d: %v", i, res.Err)
			}
		}
	}},
	{"a Tx beyond a limit is refused with the limit", refusesLargeTx},
	{"a Tx that makes no sense is refused", refusesInvalidTx},
	{"a commit of too many Txs is refused whole", func(t *testing.T, s Store) {
		d := open(t, s)
		txs := make([]kv.Tx, kv.MaxCommitTxs+1)
		for i := range txs {
			txs[i] = kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put(kv.Key(fmt.Sprint(i)), nil)}}
		}
		for i, res := range d.Commit(t.Context(), txs...) {
			if !errors.Is(res.Err, kv.ErrTooLarge) {
				t.Fatalf("Tx %d: error %v, want kv.ErrTooLarge", i, res.Err)
			}
		}
		wantScan(t, d, kv.Range{}, nil, false)
		for i, res := range d.Commit(t.Context(), txs[:kv.MaxCommitTxs]...) {
			if res.Err != nil {
				t.Fatalf("Tx %d of %d: %v", i, kv.MaxCommitTxs, res.Err)
			}
		}
		if n := len(everything(t, d, tenant)); n != kv.MaxCommitTxs {
			t.Errorf("found %d entries, want %d", n, kv.MaxCommitTxs)
		}
	}},
	{"a read beyond a limit is refused", refusesRead},
}

// largestTx is at every limit at once, in the longest partition.
func largestTx() kv.Tx {
	tx := kv.Tx{Partition: strings.Repeat("p", kv.MaxPartitionBytes)}
	value := make([]byte, kv.MaxTxBytes/kv.MaxTxWrites-kv.MaxKeyBytes)
	for i := range kv.MaxTxWrites {
		key := kv.Key(fmt.Sprintf("%0*d", kv.MaxKeyBytes, i))
		tx.Writes = append(tx.Writes, kv.Put(key, value))
	}
	return tx
}

func refusesLargeTx(t *testing.T, s Store) {
	d := open(t, s)
	many := make([]kv.Write, kv.MaxTxWrites+1)
	conds := make([]kv.Cond, kv.MaxTxConds+1)
	for i := range many {
		many[i] = kv.Put(kv.Key(fmt.Sprint(i)), nil)
	}
	for i := range conds {
		conds[i] = kv.Absent(kv.Key(fmt.Sprint("absent", i)))
	}
	var heavy []kv.Write
	for i := range kv.MaxTxBytes / kv.MaxValueBytes {
		heavy = append(heavy, kv.Put(kv.Key(fmt.Sprint(i)), make([]byte, kv.MaxValueBytes)))
	}
	longKey := kv.Key(strings.Repeat("k", kv.MaxKeyBytes+1))
	tooLong := make([]byte, kv.MaxValueBytes+1)
	ok := kv.Put("witness", nil)
	for _, c := range []struct {
		name string
		tx   kv.Tx
		max  int
	}{
		{"partition", kv.Tx{Partition: strings.Repeat("p", kv.MaxPartitionBytes+1), Writes: []kv.Write{ok}}, kv.MaxPartitionBytes},
		{"key", kv.Tx{Partition: tenant, Writes: []kv.Write{ok, kv.Put(longKey, nil)}}, kv.MaxKeyBytes},
		{"deleted key", kv.Tx{Partition: tenant, Writes: []kv.Write{ok, kv.Delete(longKey)}}, kv.MaxKeyBytes},
		{"key of a condition", kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent(longKey)}, Writes: []kv.Write{ok}}, kv.MaxKeyBytes},
		{"value", kv.Tx{Partition: tenant, Writes: []kv.Write{ok, kv.Put("k", tooLong)}}, kv.MaxValueBytes},
		{"fence", kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Fence("k", tooLong)}, Writes: []kv.Write{ok}}, kv.MaxValueBytes},
		{"number of writes", kv.Tx{Partition: tenant, Writes: many}, kv.MaxTxWrites},
		{"number of conditions", kv.Tx{Partition: tenant, Conds: conds, Writes: []kv.Write{ok}}, kv.MaxTxConds},
		{"bytes", kv.Tx{Partition: tenant, Writes: heavy}, kv.MaxTxBytes},
	} {
		_, err := kv.Apply(t.Context(), d, c.tx)
		var le *kv.LimitError
		if !errors.As(err, &le) || !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("%s: error %v, want a *kv.LimitError", c.name, err)
		} else if le.Max != c.max || le.Got <= le.Max {
			t.Errorf("%s: error %+v, want the limit %d and a size above it", c.name, le, c.max)
		}
	}
	wantScan(t, d, kv.Range{}, nil, false)
}

func refusesInvalidTx(t *testing.T, s Store) {
	d := open(t, s)
	ok := kv.Put("witness", nil)
	for _, c := range []struct {
		name string
		tx   kv.Tx
	}{
		{"no partition", kv.Tx{Writes: []kv.Write{ok}}},
		{"empty key", kv.Tx{Partition: tenant, Writes: []kv.Write{ok, kv.Put("", nil)}}},
		{"empty key of a condition", kv.Tx{Partition: tenant, Conds: []kv.Cond{kv.Absent("")}, Writes: []kv.Write{ok}}},
		{"key written twice", kv.Tx{Partition: tenant, Writes: []kv.Write{ok, kv.Put("k", nil), kv.Put("witness", nil)}}},
		{"key put and deleted", kv.Tx{Partition: tenant, Writes: []kv.Write{ok, kv.Delete("witness")}}},
		{"delete with a value", kv.Tx{Partition: tenant, Writes: []kv.Write{ok, {Key: "k", Value: []byte("v"), Delete: true}}}},
		{"condition of no kind", kv.Tx{Partition: tenant, Conds: []kv.Cond{{Key: "k"}}, Writes: []kv.Write{ok}}},
		{"condition of unknown kind", kv.Tx{Partition: tenant, Conds: []kv.Cond{{Key: "k", Kind: 99}}, Writes: []kv.Write{ok}}},
		{"condition at revision 0", kv.Tx{Partition: tenant, Conds: []kv.Cond{{Key: "k", Kind: kv.CondRevision}}, Writes: []kv.Write{ok}}},
	} {
		_, err := kv.Apply(t.Context(), d, c.tx)
		wantIs(t, c.name, err, kv.ErrInvalid)
	}
	wantAbsent(t, d, "witness")
}

func refusesRead(t *testing.T, s Store) {
	d := open(t, s)
	ctx := t.Context()
	longKey := kv.Key(strings.Repeat("k", kv.MaxKeyBytes+1))
	longName := strings.Repeat("p", kv.MaxPartitionBytes+1)

	_, err := d.Get(ctx, "", "k")
	wantIs(t, "Get without partition", err, kv.ErrInvalid)
	_, err = d.Get(ctx, tenant, "")
	wantIs(t, "Get without key", err, kv.ErrInvalid)
	_, err = d.Get(ctx, tenant, longKey)
	wantIs(t, "Get of a long key", err, kv.ErrTooLarge)
	_, err = d.Get(ctx, longName, "k")
	wantIs(t, "Get of a long partition", err, kv.ErrTooLarge)

	for _, c := range []struct {
		name      string
		partition string
		r         kv.Range
		want      error
	}{
		{"no partition", "", kv.Range{}, kv.ErrInvalid},
		{"long partition", longName, kv.Range{}, kv.ErrTooLarge},
		{"long prefix", tenant, kv.Range{Prefix: longKey}, kv.ErrTooLarge},
		{"long From", tenant, kv.Range{From: longKey}, kv.ErrTooLarge},
		{"long After", tenant, kv.Range{After: longKey}, kv.ErrTooLarge},
		{"From and After", tenant, kv.Range{From: "a", After: "a"}, kv.ErrInvalid},
		{"negative limit", tenant, kv.Range{Limit: -1}, kv.ErrInvalid},
		{"high limit", tenant, kv.Range{Limit: kv.MaxScanLimit + 1}, kv.ErrTooLarge},
	} {
		_, err := d.Scan(ctx, c.partition, c.r)
		wantIs(t, "Scan with "+c.name, err, c.want)
	}
}

var lifeRules = []rule{
	{"a context that has ended ends the call", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "v")
		ctx := canceled(t)
		_, err := d.Get(ctx, tenant, "k")
		wantIs(t, "Get", err, context.Canceled)
		_, err = d.Scan(ctx, tenant, kv.Range{})
		wantIs(t, "Scan", err, context.Canceled)
		tx := kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("new", nil)}}
		wantErrs(t, d.Commit(ctx, tx, tx), context.Canceled, context.Canceled)
		wantAbsent(t, d, "new")

		late, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		wantErrs(t, d.Commit(late, tx), context.DeadlineExceeded)
		wantAbsent(t, d, "new")
	}},
	{"after Close everything is ErrClosed", func(t *testing.T, s Store) {
		d := open(t, s)
		put(t, d, "k", "v")
		closeDriver(t, d)
		ctx := t.Context()
		_, err := d.Get(ctx, tenant, "k")
		wantIs(t, "Get", err, kv.ErrClosed)
		_, err = d.Scan(ctx, tenant, kv.Range{})
		wantIs(t, "Scan", err, kv.ErrClosed)
		tx := kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put("new", nil)}}
		wantErrs(t, d.Commit(ctx, tx, tx), kv.ErrClosed, kv.ErrClosed)
		if err := d.Close(); err != nil {
			t.Errorf("second Close: %v, want nil", err)
		}
	}},
	{"Close waits for calls and turns later ones away", closeWhileBusy},
}

// closeWhileBusy closes a store that several goroutines use: each call either
// succeeds or says that the store is closed.
func closeWhileBusy(t *testing.T, s Store) {
	d := open(t, s)
	const writers = 4
	var wg sync.WaitGroup
	begun := make(chan struct{}, writers)
	committed := make([]int, writers)
	for w := range writers {
		wg.Go(func() {
			key := kv.NewKey("w").WithUint(uint64(w))
			for n := 1; ; n++ {
				err := useOnce(t.Context(), d, key, n)
				if errors.Is(err, kv.ErrClosed) {
					break
				}
				if err != nil {
					t.Errorf("writer %d, call %d: %v, want success or kv.ErrClosed", w, n, err)
					break
				}
				committed[w] = n
				if n == 1 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range writers {
		<-begun
	}
	closeDriver(t, d)
	wg.Wait()
	if s.Durable {
		wantCommitted(t, open(t, s), committed)
	}
}

// useOnce makes a call of each kind, the commit last.
func useOnce(ctx context.Context, d kv.Driver, key kv.Key, n int) error {
	if _, err := d.Get(ctx, tenant, key); err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	if _, err := d.Scan(ctx, tenant, kv.Range{Reverse: n%2 == 0}); err != nil {
		return err
	}
	_, err := kv.Apply(ctx, d, kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Put(key, fmt.Append(nil, n))}})
	return err
}

func wantCommitted(t *testing.T, d kv.Driver, committed []int) {
	t.Helper()
	for w, n := range committed {
		wantValue(t, d, kv.NewKey("w").WithUint(uint64(w)), fmt.Sprint(n))
	}
}
