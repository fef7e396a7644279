package queue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// A process that runs no jobs lists those that wait, by when they are due.
func TestPendingListsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		q := queue.New(driver, nil)
		defer func() { _ = q.Close() }()
		now := time.Now()
		for i, after := range []time.Duration{2 * time.Hour, time.Hour, 3 * time.Hour} {
			job := &host.Job{Name: "note", Payload: []byte(fmt.Sprint(i)), NotBefore: now.Add(after), Scope: host.Scope{Tenant: "acme"}}
			if _, err := q.Enqueue(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		jobs, err := q.Pending(t.Context(), "acme", 0)
		if err != nil || len(jobs) != 3 {
			t.Fatalf("Pending = %d jobs, %v; want 3", len(jobs), err)
		}
		for i, payload := range []string{"1", "0", "2"} {
			j := jobs[i]
			if string(j.Payload) != payload || j.Status != queue.JobWaiting || j.Name != "note" || !j.Due.After(now) || j.Scope.Tenant != "acme" {
				t.Errorf("job %d is %+v, want payload %s, waiting", i, j, payload)
			}
		}
		if jobs, err := q.Pending(t.Context(), "acme", 2); err != nil || len(jobs) != 2 {
			t.Errorf("Pending of 2 = %d jobs, %v", len(jobs), err)
		}
		if jobs, err := q.Pending(t.Context(), "globex", 0); err != nil || len(jobs) != 0 {
			t.Errorf("another tenant's: %d jobs, %v", len(jobs), err)
		}
		if _, err := q.Pending(t.Context(), "a\tb", 0); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("Pending of a name that none has = %v", err)
		}
	})
}
