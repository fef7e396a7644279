package sessions

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Repair removes the damaged records of a session's background turns, and stores the
// order of the others if it is damaged. It returns the runs of the turns that it has
// removed, whose messages are lost unless their session has them. A service passes over
// these records and needs no Repair; an operator who wants a store without damage does. A damaged record names no session: it is the session's if the session's order
// has it, or if that is damaged, too. Code invalid_argument for a tenant that cannot be
// one.
func Repair(ctx context.Context, driver kv.Driver, tenant, session string) (removed []string, err error) {
	if tenant, err = host.TenantPartition(tenant); err != nil {
		return nil, err
	}
	driver = kv.Checked(driver)
	stored, revision, err := readOrder(ctx, driver, tenant, session)
	rebuilt := host.CodeOf(err) == host.DataLoss
	runs := stored
	if rebuilt {
		runs, revision, err = orderFromRecords(ctx, driver, tenant, session)
	}
	if err != nil {
		return nil, err
	}
	tx := kv.Tx{Partition: tenant}
	for turn, err := range eachTurn(ctx, driver, tenant) {
		if err != nil {
			return nil, err
		}
		if host.CodeOf(turn.damaged) != host.DataLoss || !rebuilt && !slices.Contains(runs, turn.run) {
			continue
		}
		removed = append(removed, turn.run)
		tx.Writes = append(tx.Writes, kv.Delete(recordKey(turn.run)))
	}
	if len(removed) == 0 && !rebuilt {
		return nil, nil
	}
	runs = slices.DeleteFunc(slices.Clone(runs), func(run string) bool { return slices.Contains(removed, run) })
	w, err := writeOrder(session, runs)
	if err != nil {
		return nil, err
	}
	tx.Writes = append(tx.Writes, w)
	if revision != anyRevision {
		tx.Conds = append(tx.Conds, kv.AtRevision(orderKey(session), revision))
	}
	if _, err := kv.Apply(ctx, driver, tx); err != nil {
		return nil, kverror.Wrap(err, "repair session %q", session)
	}
	return removed, nil
}
