package queue_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/queue"
)

func Example() {
	ctx := context.Background()
	q := queue.New(kv.NewMemory(), nil) // on badgerkv it survives the process
	q.Handle("welcome", func(_ context.Context, job *host.Job) error {
		fmt.Printf("welcome, %s (attempt %d)\n", job.Payload, job.Attempt)
		return nil
	})
	if err := q.Start(ctx); err != nil {
		fmt.Println(err)
	}
	defer func() { _ = q.Close() }()

	job := &host.Job{Name: "welcome", Key: "ada", Payload: []byte(`"Ada"`), Scope: host.Scope{Tenant: "acme"}}
	_, err := q.Enqueue(ctx, job)
	fmt.Println(err)
	_, err = q.Enqueue(ctx, job) // the same key
	fmt.Println(host.CodeOf(err))
	_ = q.Drain(ctx)
	// Unordered output:
	// <nil>
	// already_exists
	// welcome, "Ada" (attempt 1)
}
