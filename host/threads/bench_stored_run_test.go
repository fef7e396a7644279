//go:build unix

package threads_test

import (
	"context"
	"encoding/json"
	"iter"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
)

// BenchmarkStoredRun is a run on a new thread, one round that calls one tool, with a
// model that costs nothing. stored-ns/op is how much longer the run takes than the same
// run without a history, and driver-ns/op how long the driver alone takes to commit the
// same keys and bytes: each the least of many batches, taken in turns, for the other
// work of the machine can only add. The cpu figures are processor time, that of the
// garbage collector and of the driver's own goroutines among it. Allocations are those of
// all goroutines.
func BenchmarkStoredRun(b *testing.B) {
	benchDrivers(b, func(b *testing.B, driver kv.Driver) {
		rec := &recorder{Driver: driver}
		stored, alone := newClerk(b, threads.New(rec, nil)), newClerk(b, nil)
		stored.run(b, "")
		txs := rec.stop()
		for b.Loop() {
			stored.run(b, "")
		}
		replay := &replayer{driver: driver, txs: txs}
		replay.prepare(costBatches * costCalls)
		runs, bare, commits := &cost{fn: func() { stored.run(b, "") }}, &cost{fn: func() { alone.run(b, "") }}, &cost{fn: func() { replay.commit(b) }}
		measureCosts(runs, bare, commits)
		b.ReportMetric(runs.least-bare.least, "stored-ns/op")
		b.ReportMetric(commits.least, "driver-ns/op")
		b.ReportMetric(runs.cpu-bare.cpu, "stored-cpu-ns/op")
		b.ReportMetric(commits.cpu, "driver-cpu-ns/op")
		b.ReportMetric(runs.allocs-bare.allocs, "stored-allocs/op")
		b.ReportMetric(commits.allocs, "driver-allocs/op")
		b.ReportMetric(float64(keysOf(txs)), "keys/op")
		b.ReportMetric(float64(len(txs)), "commits/op")
	})
}

// What a stored run costs in counts, which no machine changes; times are the benchmark's.
func TestStoredRunStaysLean(t *testing.T) {
	const maxKeys, maxCommits, maxAllocs = 10, 2, 250
	rec := &recorder{Driver: kv.NewMemory()}
	stored, alone := newClerk(t, threads.New(rec, nil)), newClerk(t, nil)
	stored.run(t, "")
	txs := rec.stop()
	if keys := keysOf(txs); keys > maxKeys || len(txs) > maxCommits {
		t.Errorf("a run on a new thread writes %d keys in %d commits, more than %d in %d", keys, len(txs), maxKeys, maxCommits)
	}
	allocs := testing.AllocsPerRun(100, func() { stored.run(t, "") }) - testing.AllocsPerRun(100, func() { alone.run(t, "") })
	if t.Logf("%.0f allocations", allocs); allocs > maxAllocs {
		t.Errorf("storing a run makes %.0f allocations, more than %d", allocs, maxAllocs)
	}
}

// cost is what a call of fn takes.
type cost struct {
	fn         func()
	least, cpu float64 // nanoseconds
	allocs     float64
}

const costBatches, costCalls = 300, 5

// measureCosts measures functions in turns.
func measureCosts(costs ...*cost) {
	var before, after runtime.MemStats
	for range costBatches {
		for _, c := range costs {
			runtime.ReadMemStats(&before)
			cpu, began := processorTime(), time.Now()
			for range costCalls {
				c.fn()
			}
			if d := float64(time.Since(began).Nanoseconds()) / costCalls; c.least == 0 || d < c.least {
				c.least = d
			}
			c.cpu += float64((processorTime() - cpu).Nanoseconds()) / (costBatches * costCalls)
			runtime.ReadMemStats(&after)
			c.allocs += float64(after.Mallocs-before.Mallocs) / (costBatches * costCalls)
		}
	}
}

// processorTime is how much processor time the process has taken.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// clerk is a host with an agent that calls one tool and answers.
type clerk struct {
	host  *host.Host
	agent *host.Agent
}

// newClerk returns a clerk whose runs are stored by the store, unless that is nil.
func newClerk(t testing.TB, s *threads.Store) *clerk {
	t.Helper()
	look := host.NewTool("look", "Looks up an order.", func(_ context.Context, _ *host.Call, in struct {
		Order int `json:"order"`
	}) (string, error) {
		return "shipped", nil
	}, nil)
	agent, err := host.NewAgent("clerk", &host.AgentOptions{
		Instructions: "You answer questions about orders.", Tools: []*host.Tool{look}, Model: lookingModel{}})
	if err != nil {
		t.Fatal(err)
	}
	opts := &host.Options{SingleTenant: true}
	if s != nil {
		if opts.History, err = host.NewHistory(s, nil); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return &clerk{h, agent}
}

// run runs the agent on a thread, on a new one without an id.
func (c *clerk) run(t testing.TB, thread string) {
	t.Helper()
	result, err := c.host.Run(t.Context(), c.agent, &host.Request{Tenant: "acme", Thread: thread, Text: "where is order 1042?"})
	if err != nil || result.Text() != "It is shipped." {
		t.Fatalf("run: %v, %v", result, err)
	}
}

// lookingModel calls look and then says what it found.
type lookingModel struct{}

var lookUsage = host.Usage{InputTokens: 10, OutputTokens: 5}

func (lookingModel) Name() string { return "bench" }
func (lookingModel) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if req.Messages[len(req.Messages)-1].Role == host.User {
			yield(llm.Chunk{Response: &llm.Response{FinishReason: chat.FinishToolCalls, Usage: lookUsage,
				Parts: []host.Part{&host.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"order":1042}`)}}}}, nil)
			return
		}
		if yield(llm.Chunk{Text: "It is shipped."}, nil) {
			yield(llm.Chunk{Response: &llm.Response{FinishReason: chat.FinishStop, Usage: lookUsage, Parts: []host.Part{&host.Text{Text: "It is shipped."}}}}, nil)
		}
	}
}

// recorder is a driver that keeps the Txs that it commits until stop.
type recorder struct {
	kv.Driver
	mu   sync.Mutex
	done bool
	txs  []recordedTx
}

// recordedTx is a Tx and the revision that it made.
type recordedTx struct {
	kv.Tx
	revision uint64
}

func (r *recorder) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := r.Driver.Commit(ctx, txs...)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, tx := range txs {
		if r.done {
			break
		}
		kept := recordedTx{kv.Tx{Partition: tx.Partition, Conds: append([]kv.Cond(nil), tx.Conds...)}, results[i].Revision}
		for _, w := range tx.Writes {
			kept.Writes = append(kept.Writes, kv.Write{Key: w.Key, Value: append([]byte(nil), w.Value...), Delete: w.Delete})
		}
		r.txs = append(r.txs, kept)
	}
	return results
}

func (r *recorder) stop() []recordedTx {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
	return r.txs
}

func keysOf(txs []recordedTx) (keys int) {
	for _, tx := range txs {
		keys += len(tx.Writes)
	}
	return keys
}

// replayer commits recorded Txs again, under other ids of the same length.
type replayer struct {
	driver kv.Driver
	txs    []recordedTx
	ready  [][]recordedTx
}

// prepare makes Txs for n calls of commit.
func (r *replayer) prepare(n int) {
	for range n {
		replace := freshIDs(r.txs)
		var txs []recordedTx
		for _, tx := range r.txs {
			again := recordedTx{kv.Tx{Partition: tx.Partition}, tx.revision}
			for _, c := range tx.Conds {
				c.Key = kv.Key(replace.Replace(string(c.Key)))
				again.Conds = append(again.Conds, c)
			}
			for _, w := range tx.Writes {
				w.Key = kv.Key(replace.Replace(string(w.Key)))
				again.Writes = append(again.Writes, w)
			}
			txs = append(txs, again)
		}
		r.ready = append(r.ready, txs)
	}
}

// freshIDs replaces the ids in the keys of Txs.
func freshIDs(txs []recordedTx) *strings.Replacer {
	seen := map[string]bool{}
	var pairs []string
	for _, tx := range txs {
		for _, w := range tx.Writes {
			for rest := w.Key; rest != ""; {
				s, after, isString := rest.CutString()
				if !isString {
					_, after, _ = rest.CutUint()
				}
				if rest = after; len(s) == len(host.NewID()) && !seen[s] {
					seen[s] = true
					pairs = append(pairs, s, host.NewID())
				}
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

func (r *replayer) commit(t testing.TB) {
	txs := r.ready[0]
	r.ready = r.ready[1:]
	revisions := map[uint64]uint64{}
	for _, tx := range txs {
		for i := range tx.Conds {
			if c := &tx.Conds[i]; c.Kind == kv.CondRevision {
				c.Revision = revisions[c.Revision]
			}
		}
		revision, err := kv.Apply(t.Context(), r.driver, tx.Tx)
		if err != nil {
			t.Fatal(err)
		}
		revisions[tx.revision] = revision
	}
}
