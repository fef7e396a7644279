package audit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func add(t testing.TB, l *audit.Log, e *audit.Entry) uint64 {
	t.Helper()
	seq, err := l.Append(t.Context(), e)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return seq
}

func filled(t testing.TB, n int) (kv.Driver, *audit.Log) {
	t.Helper()
	d := testdriver.New(t)
	l := audit.New(d)
	for i := range n {
		seq := add(t, l, &audit.Entry{Actor: fmt.Sprintf("key/%d", i%2), Action: "tenant.change", Tenant: fmt.Sprintf("t%d", i%3), Outcome: "allowed"})
		if seq != uint64(i+1) {
			t.Fatalf("entry %d has number %d", i, seq)
		}
	}
	return d, l
}

func wantCode(t testing.TB, doing string, err error, code fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); err == nil || got != code {
		t.Errorf("%s: %v (code %q), want code %q", doing, err, got, code)
	}
}

func TestHostsAppendToOneChain(t *testing.T) {
	d := testdriver.New(t)
	const hosts, callers, each = 3, 4, 10
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for host := range hosts {
		l := audit.New(d)
		for range callers {
			wg.Go(func() {
				for range each {
					seq, err := l.Append(t.Context(), &audit.Entry{Actor: fmt.Sprint("host/", host), Action: "test"})
					mu.Lock()
					if err != nil || seen[seq] {
						t.Errorf("Append = %d, %v; it is the second of the number: %t", seq, err, seen[seq])
					}
					seen[seq] = true
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	head, err := audit.New(d).Verify(t.Context())
	if err != nil || head.Seq != hosts*callers*each {
		t.Errorf("Verify = %d, %v", head.Seq, err)
	}
}

// slow is a driver whose commits wait, and are counted.
type slow struct {
	kv.Driver
	gate    chan struct{}
	mu      sync.Mutex
	commits int
}

func (s *slow) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	<-s.gate
	s.mu.Lock()
	s.commits++
	s.mu.Unlock()
	return s.Driver.Commit(ctx, txs...)
}

func TestWaitingEntriesAreCommittedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slow{Driver: kv.NewMemory(), gate: make(chan struct{})}
		l := audit.New(d)
		const n = 50
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if _, err := l.Append(t.Context(), &audit.Entry{Actor: "a", Action: "b"}); err != nil {
					t.Errorf("Append: %v", err)
				}
			})
		}
		synctest.Wait() // one caller commits, the others wait for it
		close(d.gate)
		wg.Wait()
		if d.commits > 2 {
			t.Errorf("%d commits for %d entries", d.commits, n)
		}
		if head, err := l.Verify(t.Context()); err != nil || head.Seq != n {
			t.Errorf("Verify = %+v, %v", head, err)
		}
	})
}

// doubtful is a driver whose first commit is made and returns that it is in doubt.
type doubtful struct {
	kv.Driver
	once sync.Once
}

func (d *doubtful) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	res := d.Driver.Commit(ctx, txs...)
	d.once.Do(func() { res[0] = kv.Result{Err: kv.ErrInDoubt} })
	return res
}

func TestCommitInDoubtIsReadBack(t *testing.T) {
	l := audit.New(&doubtful{Driver: kv.NewMemory()})
	for want := range uint64(3) {
		if seq := add(t, l, &audit.Entry{Actor: "a", Action: "b"}); seq != want+1 {
			t.Errorf("number %d, want %d", seq, want+1)
		}
	}
	if head, err := l.Verify(t.Context()); err != nil || head.Seq != 3 {
		t.Errorf("Verify = %+v, %v", head, err)
	}
}

func TestCanceledAppendWritesNothing(t *testing.T) {
	d := &slow{Driver: kv.NewMemory(), gate: make(chan struct{})}
	l := audit.New(d)
	var wg sync.WaitGroup
	wg.Go(func() { add(t, l, &audit.Entry{Actor: "first", Action: "b"}) })
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		if _, err := l.Append(ctx, &audit.Entry{Actor: "second", Action: "b"}); err != nil && fault.CodeOf(err) != fault.Canceled {
			t.Errorf("Append: %v", err)
		}
	})
	cancel()
	close(d.gate)
	wg.Wait()
	if _, err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLargeEntriesAreRefused(t *testing.T) {
	l := audit.New(testdriver.New(t))
	long := strings.Repeat("x", audit.MaxFieldBytes+1)
	for name, e := range map[string]*audit.Entry{
		"nil": nil, "no actor": {Action: "a"}, "no action": {Actor: "a"}, "long": {Actor: "a", Action: "a", Object: long},
		"control character": {Actor: "a\n", Action: "a"}, "not UTF-8": {Actor: "\xff", Action: "a"},
	} {
		_, err := l.Append(t.Context(), e)
		wantCode(t, name, err, fault.InvalidArgument)
	}
	longest := strings.Repeat("\u2028", audit.MaxFieldBytes/3)
	add(t, l, &audit.Entry{Actor: longest, Action: `<&>"\`, Tenant: longest, Object: longest, Digest: longest, Outcome: longest, Request: longest})
	if _, err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	var out strings.Builder
	if _, err := l.Export(t.Context(), audit.Head{}, &out); err != nil {
		t.Error(err)
	}
	if head, err := audit.VerifyExport(audit.Head{}, strings.NewReader(out.String())); err != nil || head.Seq != 1 {
		t.Errorf("VerifyExport = %+v, %v", head, err)
	}
}
