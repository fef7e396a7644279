package kvtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
)

// The kit is tested with a durable store that is simple enough to be right, and
// with stores that break one promise each: the rule of that promise must fail.

func TestJournal(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		dir := t.TempDir()
		return kvtest.Store{Open: func() (kv.Driver, error) { return openJournal(dir, 0) }, Durable: true}
	})
}

func TestJournalCrash(t *testing.T) {
	kvtest.Crash(t, func(dir string) (kv.Driver, error) { return openJournal(dir, 0) })
}

// mutantEnv names the mutant in the child process that runs the kit on it.
const mutantEnv = "KVTEST_MUTANT"

// mutantStore breaks one rule.
type mutantStore struct {
	name string
	rule string
	make func() kv.Driver
}

var mutants = []mutantStore{
	{"shares slices", "slices stay with the caller", func() kv.Driver { return &sharing{mutant: newMutant(), given: map[kv.Key]kv.Entry{}} }},
	{"ignores fences", "fence holds for an equal value", without(kv.CondFence)},
	{"ignores revisions", "at revision holds for the write it names", without(kv.CondRevision)},
	{"ignores revisions under load", "increments under revisions lose nothing", without(kv.CondRevision)},
	{"ignores absence", "of writers that want the same absent key one wins", without(kv.CondAbsent)},
	{"writes by halves", "readers see a Tx whole", func() kv.Driver {
		m := newMutant()
		m.commit = func(ctx context.Context, txs []kv.Tx) []kv.Result { return oneByOne(ctx, m.Driver, txs) }
		return m
	}},
	{"fails together", "a failed Tx takes no other with it", func() kv.Driver {
		m := newMutant()
		m.commit = func(ctx context.Context, txs []kv.Tx) []kv.Result { return together(m.Driver.Commit(ctx, txs...)) }
		return m
	}},
	{"commits in any order", "a Tx sees the ones before it", func() kv.Driver {
		m := newMutant()
		m.commit = func(ctx context.Context, txs []kv.Tx) []kv.Result {
			slices.Reverse(txs)
			results := m.Driver.Commit(ctx, txs...)
			slices.Reverse(results)
			return results
		}
		return m
	}},
	{"cuts partitions at NUL", "a partition has its own keys", func() kv.Driver {
		m := newMutant()
		m.partition = func(p string) string { p, _, _ = strings.Cut(p, "\x00"); return p + "!" }
		return m
	}},
	{"takes From for After", "scan begins with From or after After", func() kv.Driver {
		m := newMutant()
		m.scan = func(r kv.Range) kv.Range { r.From, r.After = "", r.From+r.After; return r }
		return m
	}},
	{"reads on after the limit", "a page ends at the limit and says whether there is more", func() kv.Driver {
		m := newMutant()
		m.scan = func(r kv.Range) kv.Range { r.Limit = 0; return r }
		return m
	}},
	{"forgets the prefix", "a store does what a map would", func() kv.Driver {
		m := newMutant()
		m.scan = func(r kv.Range) kv.Range { r.Prefix = ""; return r }
		return m
	}},
	{"goes on without context", "a context that has ended ends the call", func() kv.Driver {
		m := newMutant()
		m.context = context.WithoutCancel
		return m
	}},
	{"reports no revision", "a result has the revision that get and scan report", func() kv.Driver {
		m := newMutant()
		m.commit = func(ctx context.Context, txs []kv.Tx) []kv.Result {
			results := m.Driver.Commit(ctx, txs...)
			for i := range results {
				results[i].Revision = min(results[i].Revision, 1)
			}
			return results
		}
		return m
	}},
	{"stays open", "after Close everything is ErrClosed", func() kv.Driver { return &unclosable{newMutant()} }},
	{"writes during an erasure", "a partition that is being erased is empty and takes no writes", func() kv.Driver { return newErasing(func(m *erasing) { m.admits = true }) }},
	{"erases nothing", "an erasure removes its partition and no other", func() kv.Driver { return newErasing(func(m *erasing) { m.keeps = true }) }},
	{"erases once", "erasures of one partition at once all end", func() kv.Driver { return newErasing(func(m *erasing) { m.once = true }) }},
	{"erases again", "completing an erasure that has ended removes nothing", func() kv.Driver { return newErasing(func(m *erasing) { m.again = true }) }},
	{"fails with an erasure", "callers beside erasures find a partition erased or not", func() kv.Driver { return newErasing(func(m *erasing) { m.fails = true }) }},
	{"forgets marks on close", "an erasure that has begun stays begun after reopening", func() kv.Driver { return newErasing(func(*erasing) {}) }},
	{"forgets on close", "what was committed is there after reopening", func() kv.Driver { return newMutant() }},
}

func TestRunFindsMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			rule := strings.ReplaceAll(m.rule, " ", "_")
			out, err := runMutant(t, "TestMutant$/^"+regexp.QuoteMeta(rule)+"$", m.name)
			if err == nil || !strings.Contains(out, "--- FAIL: TestMutant/"+rule) {
				t.Errorf("the kit lets it pass, want rule %q to fail:\n%s", m.rule, out)
			}
		})
	}
}

// The crash test must notice a store that acknowledges what it has not written. All kills may come
// when the store has just written, so a second run of the kit counts as well.
func TestCrashFindsLoss(t *testing.T) {
	out, err := runMutant(t, "TestMutantCrash$", "holds back")
	if err == nil {
		out, err = runMutant(t, "TestMutantCrash$", "holds back")
	}
	if err == nil || !strings.Contains(out, "was acknowledged") {
		t.Errorf("the kit lets a store pass that loses acknowledged writes:\n%s", out)
	}
}

// runMutant runs a test of this binary on a mutant.
func runMutant(t *testing.T, test, mutant string) (output string, err error) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run=^"+test, "-test.count=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	cmd.Env = append(os.Environ(), mutantEnv+"="+mutant)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestMutant runs in a child process of TestRunFindsMutants.
func TestMutant(t *testing.T) {
	i := slices.IndexFunc(mutants, func(m mutantStore) bool { return m.name == os.Getenv(mutantEnv) })
	if i < 0 {
		t.Skip("runs only as a child of TestRunFindsMutants, which sets " + mutantEnv)
	}
	kvtest.Run(t, func(*testing.T) kvtest.Store {
		return kvtest.Store{Open: func() (kv.Driver, error) { return mutants[i].make(), nil }, Durable: true}
	})
}

// TestMutantCrash runs in a child process of TestCrashFindsLoss.
func TestMutantCrash(t *testing.T) {
	if os.Getenv(mutantEnv) == "" {
		t.Skip("runs only as a child of TestCrashFindsLoss, which sets " + mutantEnv)
	}
	kvtest.Crash(t, func(dir string) (kv.Driver, error) { return openJournal(dir, 5) })
}

// mutant is a good store behind functions that spoil what goes in.
type mutant struct {
	kv.Driver
	partition func(string) string
	scan      func(kv.Range) kv.Range
	context   func(context.Context) context.Context
	commit    func(context.Context, []kv.Tx) []kv.Result
}

func newMutant() *mutant {
	m := &mutant{
		Driver:    kv.NewMemory(),
		partition: func(p string) string { return p },
		scan:      func(r kv.Range) kv.Range { return r },
		context:   func(ctx context.Context) context.Context { return ctx },
	}
	m.commit = func(ctx context.Context, txs []kv.Tx) []kv.Result { return m.Driver.Commit(ctx, txs...) }
	return m
}

func (m *mutant) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	return m.Driver.Get(m.context(ctx), m.partition(partition), key)
}

func (m *mutant) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	return m.Driver.Scan(m.context(ctx), m.partition(partition), m.scan(r))
}

func (m *mutant) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	txs = slices.Clone(txs)
	for i := range txs {
		txs[i].Partition = m.partition(txs[i].Partition)
	}
	return m.commit(m.context(ctx), txs)
}

// without makes a store that drops conditions of a kind.
func without(kind kv.CondKind) func() kv.Driver {
	return func() kv.Driver {
		m := newMutant()
		m.commit = func(ctx context.Context, txs []kv.Tx) []kv.Result {
			for i := range txs {
				txs[i].Conds = slices.DeleteFunc(slices.Clone(txs[i].Conds), func(c kv.Cond) bool { return c.Kind == kind })
			}
			return m.Driver.Commit(ctx, txs...)
		}
		return m
	}
}

// oneByOne commits each write by itself.
func oneByOne(ctx context.Context, d kv.Driver, txs []kv.Tx) []kv.Result {
	results := make([]kv.Result, len(txs))
	for i, tx := range txs {
		for _, w := range tx.Writes {
			results[i] = d.Commit(ctx, kv.Tx{Partition: tx.Partition, Writes: []kv.Write{w}})[0]
		}
	}
	return results
}

// together gives every result the first error.
func together(results []kv.Result) []kv.Result {
	for _, r := range results {
		if r.Err != nil {
			return slices.Repeat([]kv.Result{r}, len(results))
		}
	}
	return results
}

// sharing gives everybody the same slice.
type sharing struct {
	*mutant
	given map[kv.Key]kv.Entry
}

func (s *sharing) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	e, err := s.mutant.Get(ctx, partition, key)
	if old := s.given[key]; err == nil && old.Revision == e.Revision {
		return old, nil
	}
	s.given[key] = e
	return e, err
}

// unclosable does not close.
type unclosable struct{ *mutant }

func (*unclosable) Close() error { return nil }

// erasing is a store in memory that breaks a promise of erasures.
type erasing struct {
	*kv.Memory
	admits bool // writes to a partition that is being erased
	keeps  bool // the entries of a partition that it erases
	once   bool // an erasure beside another fails
	again  bool // erases what was written since
	fails  bool // all commits of a call in which one is refused

	mu    sync.Mutex
	ended bool
}

func newErasing(breaks func(*erasing)) *erasing {
	e := &erasing{Memory: kv.NewMemory()}
	breaks(e)
	return e
}

func (e *erasing) BeginErase(ctx context.Context, partition string) error {
	if e.admits {
		return nil
	}
	return e.Memory.BeginErase(ctx, partition)
}

func (e *erasing) Erase(ctx context.Context, partition string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.once && e.ended {
		return errors.New("it is erased")
	}
	e.ended = true
	if e.keeps {
		return nil
	}
	if err := e.Memory.BeginErase(ctx, partition); err != nil {
		return err
	}
	time.Sleep(time.Millisecond) // callers find it marked
	return e.Memory.Erase(ctx, partition)
}

func (e *erasing) CompleteErase(ctx context.Context, partition string) error {
	if e.again {
		return e.Erase(ctx, partition)
	}
	return e.Memory.CompleteErase(ctx, partition)
}

func (e *erasing) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := e.Memory.Commit(ctx, txs...)
	if e.fails {
		return together(results)
	}
	return results
}
