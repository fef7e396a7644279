//go:build unix

package usage_test

// Scenario: processes with runs of a tenant are killed, one after the other on one store.
// Use of the runs that they acknowledged is counted, once, and what they had leased is free
// again when the leases have expired.

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testchild"
	"github.com/agenthost/agenthost/internal/testhost"
)

// storeVariable is the environment variable with the directory of a process that is killed.
const storeVariable = "AGENTHOST_USAGE_TEST_STORE"

// killedTokens is the budget of the tenant, of which a lease has at most 1 %.
const killedTokens = 10_000_000

func killedOptions() *usage.Options {
	return &usage.Options{FlushInterval: 20 * time.Millisecond, Default: planOf(monthLong, map[usage.Resource]int64{usage.Tokens: killedTokens})}
}

// TestRunsProcess runs until it is killed, if it is started for that, and prints each run
// that has ended with its tokens.
func TestRunsProcess(t *testing.T) {
	dir := os.Getenv(storeVariable)
	if dir == "" {
		t.Skip("runs only as a child of the test with kills")
	}
	store, err := badgerkv.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	history := testhost.NewHistory(t, threads.New(store, nil))
	agent := testhost.NewAgent(t, "clerk", nil)
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("one two three") })
	h := testhost.New(t, &host.Options{Model: model, History: history, Ledger: newLedger(t, store, killedOptions())})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				run := host.NewID()
				r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Key: "website", Run: run, Thread: "t" + run, Text: "hi"})
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Println(run, r.Usage.Total())
			}
		})
	}
	clients.Wait()
}

// runUntilKilled starts a process, kills it after a number of acknowledged runs, and adds
// these to acknowledged.
func runUntilKilled(t *testing.T, dir string, after int, acknowledged map[string]int64) {
	t.Helper()
	child, n := testchild.Start(t, "TestRunsProcess", storeVariable+"="+dir), 0
	for line := range child.Lines() { // what it printed before it was killed is acknowledged too
		var run string
		var tokens int64
		if _, err := fmt.Sscan(line, &run, &tokens); err != nil {
			t.Fatalf("the process says %q", line)
		}
		acknowledged[run] = tokens
		if n++; n > after {
			child.Kill()
		}
	}
	_ = child.Cmd.Wait()
}

func TestUseOfKilledProcessesIsCountedOnce(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[string]int64{}
	kills := longtest.Rounds(4, 25)
	sum := func() (tokens int64) {
		for _, n := range acknowledged {
			tokens += n
		}
		return tokens
	}
	for i := range kills {
		runUntilKilled(t, dir, 5+13*i%40, acknowledged)
		store, err := badgerkv.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, store, killedOptions())
		u := used(t, l, "acme", usage.Tokens)
		if u.Spent+u.Leased < sum() || u.Leased > int64(i+1)*killedTokens/100 {
			t.Errorf("after %d kills %+v counts, want at least the %d tokens that are acknowledged and leases of 1 %%", i+1, u, sum())
		}
		if i == kills-1 {
			checkBooks(t, copied(t, store), acknowledged)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d runs acknowledged with %d tokens", kills, len(acknowledged), sum())
}

// copied returns the entries of the tenant.
func copied(t *testing.T, from kv.Driver) (entries []kv.Entry) {
	t.Helper()
	for e, err := range kv.All(t.Context(), from, "acme", kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// checkBooks compares what a ledger has when all leases have expired with the runs that
// were acknowledged.
func checkBooks(t *testing.T, entries []kv.Entry, acknowledged map[string]int64) {
	t.Helper()
	now := time.Now().Round(0) // the clock of the test below has no monotonic part of this one's
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		for _, e := range entries {
			if _, err := kv.Apply(t.Context(), store, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(e.Key, e.Value)}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(now) + usage.LeaseTerm + usage.MaxClockSkew + time.Second)
		l := newLedger(t, store, killedOptions())
		for n := 0; ; n++ { // a settling takes over at most 200 of the records that the processes had stored
			answer(t, l, "acme", 1)
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if u := used(t, l, "acme", usage.Tokens); u.Leased == 0 {
				break
			} else if n > 1000 {
				t.Fatalf("%+v counts after the leases have expired", u)
			}
		}
		found := map[string]int64{}
		total := int64(0)
		for after, more := uint64(0), true; more; {
			var page []usage.Record
			var err error
			if page, more, err = l.Export(t.Context(), "acme", "", after, 100); err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				after = r.Seq
				if _, again := found[r.Run]; again {
					t.Errorf("run %s has two records", r.Run)
				}
				for _, c := range r.Calls {
					found[r.Run] += int64(c.Usage.Total())
				}
				total += found[r.Run]
			}
		}
		for run, tokens := range acknowledged {
			if got, ok := found[run]; !ok || got != tokens {
				t.Errorf("run %s was acknowledged with %d tokens, and has a record of %d (%t)", run, tokens, got, ok)
			}
		}
		bill := billOf(t, l, "acme")
		if got := bill.Total.InputTokens + bill.Total.OutputTokens; got != total || bill.Total.Runs != int64(len(found)) {
			t.Errorf("the bill has %d tokens of %d runs, the records %d of %d", got, bill.Total.Runs, total, len(found))
		}
		if u := used(t, l, "acme", usage.Tokens); u.Spent != total {
			t.Errorf("%+v counts when the leases have expired, want %d spent", u, total)
		}
	})
}
