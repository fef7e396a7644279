package queue_test

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/queue"
)

// A tenant's name does not come back into the queue's own partition through a caller
// that still works for the tenant while its partition is being erased.
func TestJobsOfATenantThatIsBeingErasedLeaveNoTrace(t *testing.T) {
	for name, add := range map[string]func(*queue.Queue) error{
		"enqueue": func(q *queue.Queue) error {
			_, err := q.Enqueue(t.Context(), &host.Job{Name: "mail", Scope: host.Scope{Tenant: "acme"}})
			return err
		},
		"retry": func(q *queue.Queue) error { return q.Retry(t.Context(), "acme", "j1") },
	} {
		t.Run(name, func(t *testing.T) {
			d := kv.NewMemory()
			q := queue.New(d, nil)
			defer q.Close()
			if _, err := q.Enqueue(t.Context(), &host.Job{Name: "mail", Scope: host.Scope{Tenant: "acme"}}); err != nil {
				t.Fatal(err)
			}
			if err := d.BeginErase(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			if err := q.EraseTenant(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			if err := add(q); host.CodeOf(err) != host.FailedPrecondition {
				t.Errorf("meanwhile = %v, want failed_precondition", err)
			}
			if err := d.Erase(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			if n, err := queue.CountTenant(t.Context(), d, "acme"); err != nil || n != 0 {
				t.Errorf("CountTenant = %d, %v after the erasure", n, err)
			}
			if _, err := q.Enqueue(t.Context(), &host.Job{Name: "mail", Scope: host.Scope{Tenant: "acme"}}); err != nil {
				t.Errorf("Enqueue for the next tenant of that name = %v", err)
			}
			if n, err := queue.CountTenant(t.Context(), d, "acme"); err != nil || n != 1 {
				t.Errorf("CountTenant = %d, %v for the next tenant", n, err)
			}
		})
	}
}
