package queue_test

// Scenario: the bytes of a tenant's waiting jobs are bounded, also right after a restart.

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func largeJob(tenant string) *host.Job {
	return &host.Job{Name: "done", Payload: []byte(`"` + strings.Repeat("x", 1000) + `"`), Scope: host.Scope{Tenant: tenant}}
}

func TestTheBytesOfATenantAreBounded(t *testing.T) {
	driver := testdriver.New(t)
	opts := &queue.Options{MaxBytes: 5_000}
	q := queue.New(driver, opts)
	for range 4 {
		leave(t, q, largeJob("acme"))
	}
	_, err := q.Enqueue(t.Context(), largeJob("acme"))
	wantCode(t, "a job over MaxBytes", err, host.ResourceExhausted)
	if !strings.Contains(err.Error(), "MaxBytes") || !strings.Contains(err.Error(), "5000") || !fault.AsError(err).Retryable {
		t.Errorf("the refusal is %v, want one that names the limit and is retryable", err)
	}
	leave(t, q, jobOf("acme", "1")) // a small one fits
	leave(t, q, largeJob("other"))
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}

	q = queue.New(driver, opts)
	defer q.Close()
	_, err = q.Enqueue(t.Context(), largeJob("acme"))
	wantCode(t, "a job over MaxBytes after a restart", err, host.ResourceExhausted)
}

func TestJobsThatAreDoneFreeTheirBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(testdriver.New(t), &queue.Options{MaxBytes: 5_000, Attempts: 1})
		defer q.Close()
		q.Handle("done", func(_ context.Context, job *host.Job) error {
			if job.Scope.Agent == "fails" {
				return fmt.Errorf("it fails")
			}
			return nil
		})
		if err := q.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			job := largeJob("acme")
			if i%2 == 0 {
				job.Scope.Agent = "fails"
			}
			leave(t, q, job)
			if err := q.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			job := largeJob("acme")
			job.NotBefore = time.Now().Add(time.Hour)
			leave(t, q, job)
		}
		_, err := q.Enqueue(t.Context(), largeJob("acme"))
		wantCode(t, "a fifth that waits", err, host.ResourceExhausted)
	})
}

// Entries of an earlier version do not say how many bytes their jobs have.
func TestJobsOfAnEarlierVersionAreCounted(t *testing.T) {
	driver := testdriver.New(t)
	opts := &queue.Options{MaxBytes: 5_000}
	q := queue.New(driver, opts)
	for range 4 {
		leave(t, q, largeJob("acme"))
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	checked := kv.Checked(driver)
	for e, err := range kv.All(t.Context(), checked, "acme", kv.Range{Prefix: kv.NewKey("queue", "due")}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Apply(t.Context(), checked, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(e.Key, nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	q = queue.New(driver, opts)
	defer q.Close()
	_, err := q.Enqueue(t.Context(), largeJob("acme"))
	wantCode(t, "a job over MaxBytes beside those of an earlier version", err, host.ResourceExhausted)
}
