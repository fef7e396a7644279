package main

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// verifyDigests compares every entry with its digest: also those that no thread shows,
// such as memories, jobs, what plugins keep, and the host's own.
func (s *store) verifyDigests(ctx context.Context, out *verified) error {
	for partition, err := range s.db.Partitions(ctx) {
		if err != nil {
			return err
		}
		for e, err := range kv.Damaged(ctx, s.Driver, partition) {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, kv.ErrCorrupt) && e.Key != "":
				out.add(partition, "", host.Errorf(host.DataLoss, "the value of key %s is not what was stored", e.Key).WithHint("restore it from a backup"))
			default: // the rest of the partition cannot be read
				out.add(partition, "", err)
			}
		}
	}
	return nil
}
