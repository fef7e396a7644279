package project

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/postgreshistory"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// makeHistory opens the store of conversations: the database that the command line or
// the configuration names, otherwise the data directory.
func (p *Project) makeHistory(ctx context.Context, dsn string) (*host.History, error) {
	c := p.config.History
	opts := &host.HistoryOptions{EachRound: c.EachRound, Racing: host.Racing(c.Racing)}
	if !opts.Racing.Valid() {
		return nil, p.config.ErrorAt(configfile.Keys("history", "racing"), "there is no way to race called %q", c.Racing).
			WithHint("use wait, conflict or branch")
	}
	var err error
	if opts.Processors, err = p.builder.processors(configfile.Keys("history", "processors"), c.Processors); err != nil {
		return nil, err
	}
	p.historyOptions = *opts
	if dsn == "" && c.AddressEnv != "" {
		if dsn = p.getenv(c.AddressEnv); dsn == "" {
			return nil, p.config.ErrorAt(configfile.Keys("history", "address_env"), "the environment variable %s is not set", c.AddressEnv).
				WithHint("set it to an address such as postgres://user:password@host:5432/database")
		}
	}
	if dsn == "" {
		return host.NewHistory(p.threads, opts)
	}
	store, err := postgreshistory.Open(ctx, dsn, &postgreshistory.Options{Logger: p.logger})
	if err != nil {
		return nil, err
	}
	p.closers.add(func() error { store.Close(); return nil })
	return host.NewHistory(store, opts)
}
