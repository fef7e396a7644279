package audit_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// headAt returns the head after the entry with a number.
func headAt(t *testing.T, l *audit.Log, seq uint64) audit.Head {
	t.Helper()
	var all bytes.Buffer
	if _, err := l.Export(t.Context(), audit.Head{}, &all); err != nil {
		t.Fatal(err)
	}
	start, err := l.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(all.Bytes(), []byte("\n"))
	head, err := audit.VerifyExport(start, bytes.NewReader(bytes.Join(lines[:seq-start.Seq], nil)))
	if err != nil || head.Seq != seq {
		t.Fatalf("the head of entry %d = %+v, %v", seq, head, err)
	}
	return head
}

func TestTrimmedEntriesAreThoseOfAnExport(t *testing.T) {
	const n = 1300
	d, l := filled(t, n)
	var first bytes.Buffer
	end, err := l.Export(t.Context(), audit.Head{}, &first)
	if err != nil {
		t.Fatal(err)
	}
	old, to := headAt(t, l, 700), headAt(t, l, 1200)
	if removed, err := l.Trim(t.Context(), to); err != nil || removed != 1200 {
		t.Fatalf("Trim = %d, %v", removed, err)
	}
	if removed, err := l.Trim(t.Context(), to); err != nil || removed != 0 {
		t.Errorf("the same Trim again = %d, %v", removed, err)
	}
	if head, err := l.Verify(t.Context(), to, end); err != nil || head != end {
		t.Errorf("Verify of the rest = %+v, %v", head, err)
	}
	if seq := add(t, l, &audit.Entry{Actor: "key/1", Action: "tenant.change", Tenant: "t1"}); seq != n+1 {
		t.Errorf("the next entry has number %d", seq)
	}
	if _, err := l.Export(t.Context(), end, &first); err != nil { // it continues the file
		t.Fatal(err)
	}
	if head, err := audit.VerifyExport(audit.Head{}, &first); err != nil || head.Seq != n+1 {
		t.Errorf("the file ends with %+v, %v", head, err)
	}
	page, err := l.List(t.Context(), &audit.Filter{Tenant: "t1", Limit: audit.MaxListLimit})
	if err != nil || len(page.Entries) != 34 || page.Next != 0 {
		t.Errorf("List of a tenant = %d entries, next %d, %v", len(page.Entries), page.Next, err)
	}
	rows := 0
	for _, err := range kv.All(t.Context(), d, audit.Partition, kv.Range{}) {
		if rows++; err != nil {
			t.Fatal(err)
		}
	}
	if want := 2*(n-1200+1) + 2; rows != want { // an entry and its row of the index; the head and the start
		t.Errorf("%d rows are left, want %d", rows, want)
	}
	_, err = l.Export(t.Context(), old, &first)
	wantCode(t, "an export from before the start", err, fault.FailedPrecondition)
	_, err = l.Verify(t.Context(), old)
	wantCode(t, "a head from before the start", err, fault.FailedPrecondition)
}

func TestTrimRefuses(t *testing.T) {
	d, l := filled(t, 10)
	end, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := headAt(t, l, 5)
	other.Sum[0]++
	for name, c := range map[string]struct {
		to   audit.Head
		code fault.Code
	}{
		"the last entry":     {end, fault.InvalidArgument},
		"one after the last": {audit.Head{Seq: 99, Sum: end.Sum}, fault.InvalidArgument},
		"another sum":        {other, fault.FailedPrecondition},
	} {
		removed, err := l.Trim(t.Context(), c.to)
		if wantCode(t, name, err, c.code); removed != 0 {
			t.Errorf("%s: %d entries are removed", name, removed)
		}
	}
	to := headAt(t, l, 5)
	if _, err := kv.Apply(t.Context(), kv.Checked(d), kv.Tx{Partition: audit.Partition, Writes: []kv.Write{kv.Delete(audit.EntryKey(3))}}); err != nil {
		t.Fatal(err)
	}
	_, err = l.Trim(t.Context(), to)
	wantCode(t, "a log that lacks an entry", err, fault.DataLoss)
	if start, err := l.Start(t.Context()); err != nil || start != (audit.Head{}) {
		t.Errorf("Start = %+v, %v", start, err)
	}
}

func TestARemovedStartIsNoticed(t *testing.T) {
	d, l := filled(t, 10)
	if _, err := l.Trim(t.Context(), headAt(t, l, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), kv.Checked(d), kv.Tx{Partition: audit.Partition, Writes: []kv.Write{kv.Delete(audit.StartKey)}}); err != nil {
		t.Fatal(err)
	}
	_, err := audit.New(d).Verify(t.Context())
	wantCode(t, "a log without its start", err, fault.DataLoss)
}

// failing is a driver whose commits fail from one on.
type failing struct {
	kv.Driver
	left int
}

func (d *failing) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if d.left--; d.left < 0 {
		out := make([]kv.Result, len(txs))
		for i := range out {
			out[i].Err = errors.New("the disk is full")
		}
		return out
	}
	return d.Driver.Commit(ctx, txs...)
}

func TestAnInterruptedTrimIsMadeAgain(t *testing.T) {
	d, l := filled(t, 1300)
	to := headAt(t, l, 1200)
	for commits := range 3 { // of the start; then the start stays, and of entries
		if _, err := audit.New(&failing{d, commits}).Trim(t.Context(), to); err == nil {
			t.Fatalf("Trim whose commit %d fails returns no error", commits)
		}
		if _, err := l.Verify(t.Context()); err != nil {
			t.Errorf("after commit %d failed: %v", commits, err)
		}
		if _, err := l.List(t.Context(), &audit.Filter{Tenant: "t1"}); err != nil {
			t.Errorf("after commit %d failed: %v", commits, err)
		}
	}
	if removed, err := l.Trim(t.Context(), to); err != nil || removed == 0 {
		t.Errorf("Trim = %d, %v", removed, err)
	}
	if page, err := l.List(t.Context(), &audit.Filter{Limit: 1000}); err != nil || len(page.Entries) != 100 {
		t.Errorf("%d entries are left, %v", len(page.Entries), err)
	}
}

// beside is a driver that calls fn before the first read of entries.
type beside struct {
	kv.Driver
	fn func()
}

func (d *beside) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if fn := d.fn; fn != nil {
		d.fn = nil
		fn()
	}
	return d.Driver.Scan(ctx, partition, r)
}

// A trim that another host overtakes does not report the entries as lost that the other one
// has removed.
func TestTwoHostsTrimALog(t *testing.T) {
	for name, c := range map[string]struct{ here, elsewhere uint64 }{"the other less": {40, 20}, "the other more": {20, 40}} {
		d, l := filled(t, 50)
		here, elsewhere := headAt(t, l, c.here), headAt(t, l, c.elsewhere)
		of := &beside{Driver: d, fn: func() {
			if _, err := l.Trim(t.Context(), elsewhere); err != nil {
				t.Errorf("%s: Trim elsewhere: %v", name, err)
			}
		}}
		if _, err := audit.New(of).Trim(t.Context(), here); err != nil {
			t.Errorf("%s: Trim: %v", name, err)
		}
		if start, err := l.Start(t.Context()); err != nil || start.Seq != 40 {
			t.Errorf("%s: the log begins after %d, %v", name, start.Seq, err)
		}
		if _, err := l.Verify(t.Context()); err != nil {
			t.Errorf("%s: Verify: %v", name, err)
		}
	}
}

func TestReadersBesideATrimSeeAWholeLog(t *testing.T) {
	d := testdriver.New(t)
	l := audit.New(d)
	const n = 600
	for range n {
		add(t, l, &audit.Entry{Actor: "key/1", Action: "tenant.change", Tenant: "t1"})
	}
	heads := []audit.Head{headAt(t, l, 100), headAt(t, l, 250), headAt(t, l, 400), headAt(t, l, n-1)}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				if head, err := l.Verify(t.Context()); err != nil || head.Seq != n {
					t.Errorf("Verify = %d, %v", head.Seq, err)
				}
				if _, err := l.List(t.Context(), &audit.Filter{Tenant: "t1", Limit: 1000}); err != nil {
					t.Errorf("List: %v", err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for _, h := range heads {
		if _, err := l.Trim(t.Context(), h); err != nil {
			t.Errorf("Trim: %v", err)
		}
	}
	close(done)
	readers.Wait()
}
