package datadir

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host/cluster"
)

// The topics by which the hosts of a database learn that their memory is stale: see
// cluster.Member. Every host that keeps tenants' data in its memory subscribes to both.
const (
	// ErasuresTopic is announced while tenants are being erased ([Dir.Erasing]): each host
	// acknowledges it when its memory has nothing more of these.
	ErasuresTopic = "erasures"
	// RepairsTopic is announced after entries of a thread were replaced in place.
	RepairsTopic = "repairs"
)

// announceTimeout bounds the announcement of a repair.
const announceTimeout = 5 * time.Second

// forgetOnHosts returns when no host of a database has data of tenants that are being erased
// in its memory. A host that dies meanwhile is not waited for.
func (d *Dir) forgetOnHosts(ctx context.Context) error {
	return d.asMember(func(m *cluster.Member) error { return m.AnnounceAndWait(ctx, ErasuresTopic) })
}

// AnnounceRepair tells the hosts of a database that entries of a thread were replaced in
// place, which decoded messages in their memory still show. It does nothing without a
// database.
func (d *Dir) AnnounceRepair(ctx context.Context) error {
	if d.pg == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	return d.asMember(func(m *cluster.Member) error { return m.Announce(ctx, RepairsTopic) })
}

// asMember calls fn with a member that others do not see: this process may be none, such as
// that of a command.
func (d *Dir) asMember(fn func(*cluster.Member) error) error {
	m, err := cluster.New(d.Driver, nil)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	return fn(m)
}
