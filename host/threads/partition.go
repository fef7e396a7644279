package threads

import (
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/tenantkv"
)

// partition is a tenant's entries, which has the tenant's threads.
type partition struct{ tenantkv.Partition }

// partitionOf returns a tenant's partition, or the error of a name that no tenant can
// have.
func partitionOf(driver kv.Driver, tenant string) (partition, error) {
	name, err := host.TenantPartition(tenant)
	return partitionIn(driver, name), err
}

func partitionIn(driver kv.Driver, name string) partition {
	return partition{tenantkv.Partition{Driver: driver, Name: name}}
}
