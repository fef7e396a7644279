package plugin

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
)

// A tenant that fills the queue with jobs that take long keeps no other's waiting.
func TestMemoryQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := make(chan time.Duration, 1)
		began := time.Now()
		q := NewMemoryQueue(func(ctx context.Context, job *Job) error {
			if job.Owner.Tenant == "modest" {
				took <- time.Since(began)
				return nil
			}
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			return ctx.Err()
		}, nil)
		defer q.Close()
		for range 100 {
			if _, err := q.Send(t.Context(), &Job{Owner: Owner{"greedy", "p"}, Attempt: 1}, now); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, err := q.Send(t.Context(), &Job{Owner: Owner{"modest", "p"}, Attempt: 1}, now); err != nil {
			t.Fatal(err)
		}
		if d := <-took; d > 0 {
			t.Errorf("another tenant's job waits %s", d)
		}
	})
}

// Everybody who waits gets a slot in the end, and who leaves keeps none.
func TestFairSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFairSlots(4)
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan string, 100)
		for i := range 60 {
			tenant := string(rune('a' + i%3))
			go func() {
				who := ctx
				if i >= 30 {
					who = context.Background()
				}
				if s.take(who, tenant) == nil {
					time.Sleep(time.Second)
					s.give(tenant)
				}
				done <- tenant
			}()
		}
		synctest.Wait()
		leave()
		for range 60 {
			<-done
		}
		if s.free != 4 || len(s.line) != 0 || len(s.running) != 0 {
			t.Errorf("at the end %d slots are free, %d wait, %v run", s.free, len(s.line), s.running)
		}
	})
}

// What one tenant sends makes a queue forget nothing of another's.
func TestJobKeysAreTheTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewMemoryQueue(func(context.Context, *Job) error { return nil }, nil)
		defer q.Close()
		send := func(tenant, key string) error {
			_, err := q.Send(t.Context(), &Job{Owner: Owner{tenant, "p"}, IdempotencyKey: key, Attempt: 1}, now)
			synctest.Wait()
			return err
		}
		if err := send("modest", "once"); err != nil {
			t.Fatal(err)
		}
		for i := range 2*keptJobKeys + 1 {
			if err := send("greedy", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := send("modest", "once"); host.CodeOf(err) != host.AlreadyExists {
			t.Errorf("a key that was used: %v, want code %s", err, host.AlreadyExists)
		}
		if n := len(q.keys["greedy"].now) + len(q.keys["greedy"].before); n > 2*keptJobKeys {
			t.Errorf("%d keys of a tenant are kept", n)
		}
		for i := range 2 * keptKeyOwners {
			if err := send(fmt.Sprint("t", i), "once"); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(q.keys); n > keptKeyOwners {
			t.Errorf("keys of %d tenants are kept", n)
		}
	})
}
