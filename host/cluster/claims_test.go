package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/kv"
)

// counting counts the commits of a driver.
type counting struct {
	kv.Driver
	commits int
}

func (c *counting) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	c.commits++
	return c.Driver.Commit(ctx, txs...)
}

// A claim costs a commit once for each tenant, and again when others may have taken the
// member for dead: before the work is stored, or while it is.
func TestAClaimIsWrittenOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		of := &paused{Driver: store}
		a := join(t, of, &cluster.Options{ID: "a"})
		time.Sleep(time.Millisecond) // what follows is not at the time of a heartbeat
		index := &counting{Driver: store}
		claims := cluster.NewClaims(a, cluster.NewOwners(index, "test"))
		claim := func(between func()) (before, after int) {
			t.Helper()
			confirm, err := claims.Claim(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			before, index.commits = index.commits, 0
			between()
			if err := confirm(t.Context()); err != nil {
				t.Fatal(err)
			}
			after, index.commits = index.commits, 0
			return before, after
		}
		pause := func() {
			of.stopped.Store(true)
			time.Sleep(cluster.DefaultLease)
			of.stopped.Store(false)
		}
		beat := func() { time.Sleep(a.Interval()); synctest.Wait() }
		for _, tt := range []struct {
			name          string
			first         func()
			between       func()
			before, after int
		}{
			{"the first", nil, func() {}, 1, 0},
			{"a second", func() { time.Sleep(time.Minute) }, func() {}, 0, 0},
			{"in a pause", pause, func() {}, 1, 1},
			{"after a pause", beat, func() {}, 1, 0},
			{"around a pause", nil, pause, 0, 1},
			{"around a pause and a heartbeat", beat, func() { pause(); beat() }, 1, 1},
		} {
			if tt.first != nil {
				tt.first()
			}
			if before, after := claim(tt.between); before != tt.before || after != tt.after {
				t.Errorf("%s: %d commits before the work and %d after, want %d and %d", tt.name, before, after, tt.before, tt.after)
			}
		}
		if of := claims.Tenants(); len(of) != 1 || !of["acme"] {
			t.Errorf("Tenants = %v", of)
		}
	})
}
