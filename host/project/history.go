package project

import (
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// makeHistory makes the history of runs, whose conversations the threads keep.
func (p *Project) makeHistory() (*host.History, error) {
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
	return host.NewHistory(p.threads, opts)
}
