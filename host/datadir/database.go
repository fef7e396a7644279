package datadir

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
)

// openDatabase opens the tables at an address, and makes missing ones.
func openDatabase(ctx context.Context, at Address, opts Options) (*Dir, error) {
	key, err := Key(opts.Getenv)
	if err != nil {
		return nil, err
	}
	store, err := pgkv.Open(ctx, at.Text(), &pgkv.Options{Key: key, Logger: opts.Logger})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fault.ContextError(ctx)
	case err != nil:
		return nil, databaseError(at, err)
	}
	if err := checkFinished(at.String(), store, opts); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &Dir{Driver: kv.Group(store), at: at, pg: store, getenv: opts.Getenv}, nil
}
