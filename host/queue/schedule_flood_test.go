package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// The jobs of one tenant, left first and as many as it may leave, take every second turn at
// most while another's few wait.
func TestAFloodDelaysOnlyItsTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const few = 5
		many := testdriver.Rounds(queue.DefaultMaxPerTenant, 500)
		var mu sync.Mutex
		var order []string
		q := queue.New(testdriver.New(t), &queue.Options{Workers: 1, MaxPerTenant: many})
		t.Cleanup(func() { _ = q.Close() })
		q.Handle("note", func(_ context.Context, job *host.Job) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, job.Scope.Tenant)
			return nil
		})
		for range many {
			leave(t, q, jobOf("loud", "1"))
		}
		_, err := q.Enqueue(t.Context(), jobOf("loud", "1"))
		wantCode(t, "one job more", err, host.ResourceExhausted)
		for range few {
			leave(t, q, jobOf("quiet", "1"))
		}
		if err := q.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		first := order[:min(len(order), 4*few)]
		if n := len(first) - len(slices.DeleteFunc(slices.Clone(first), func(s string) bool { return s == "quiet" })); n != few {
			t.Errorf("of the first %d jobs %d are the other's, want %d: %s", len(first), n, few, strings.Join(first, " "))
		}
		if got := fmt.Sprint(len(order)); got != fmt.Sprint(many+few) {
			t.Errorf("%s jobs ran", got)
		}
	})
}
