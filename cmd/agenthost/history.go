package main

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/postgreshistory"
)

// makeHistory finds out where conversations are kept: in the database that the
// command line or the configuration names, otherwise with the other data.
func (a *app) makeHistory(ctx context.Context, dsn string) (*host.History, error) {
	c := a.config.History
	opts := &host.HistoryOptions{EachRound: c.EachRound, Racing: host.Racing(c.Racing)}
	if !opts.Racing.Valid() {
		return nil, a.config.errorAt(keys("history", "racing"), "there is no way to race called %q", c.Racing).
			WithHint("use wait, conflict or branch")
	}
	var err error
	if opts.Processors, err = a.processors(keys("history", "processors"), c.Processors); err != nil {
		return nil, err
	}
	a.historyOptions = *opts
	if dsn == "" && c.AddressEnv != "" {
		if dsn = a.env.getenv(c.AddressEnv); dsn == "" {
			return nil, a.config.errorAt(keys("history", "address_env"), "the environment variable %s is not set", c.AddressEnv).
				WithHint("set it to an address such as postgres://user:password@host:5432/database")
		}
	}
	if dsn == "" {
		return host.NewHistory(a.threads, opts)
	}
	store, err := postgreshistory.Open(ctx, dsn, &postgreshistory.Options{Logger: a.logger})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() error { store.Close(); return nil })
	return host.NewHistory(store, opts)
}
