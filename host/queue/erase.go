package queue

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// erasePoll is how often EraseTenant looks whether a tenant's jobs have ended.
const erasePoll = 20 * time.Millisecond

// EraseTenant forgets a tenant whose partition is being erased, with its jobs: the
// tenant's name is in the queue's own partition as well. It waits for the jobs that
// run.
func (q *Queue) EraseTenant(ctx context.Context, tenant string) error {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	for !q.schedule.forget(name) {
		select {
		case <-time.After(erasePoll):
		case <-ctx.Done():
			return kverror.Wrap(ctx.Err(), "wait for the tenant's jobs")
		}
	}
	return EraseTenant(ctx, q.store.driver, tenant)
}

// EraseTenant is [Queue.EraseTenant] where no queue runs.
func EraseTenant(ctx context.Context, driver kv.Driver, tenant string) error {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	err = (&jobStore{driver: driver}).removeIndex(ctx, name)
	return kverror.Wrap(err, "erase the tenant's entry in the queue")
}

// CountTenant returns how many entries of the queue's own partition name a tenant.
func CountTenant(ctx context.Context, driver kv.Driver, tenant string) (int, error) {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return 0, err
	}
	_, err = driver.Get(ctx, indexPartition, tenantKeys.With(name))
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, kverror.Wrap(err, "look for the tenant in the queue")
	}
	return 1, nil
}
