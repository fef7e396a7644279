package project

import (
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// historyOptions returns the options of the history of runs.
func (b *builder) historyOptions() (*host.HistoryOptions, error) {
	c := b.config.History
	opts := &host.HistoryOptions{EachRound: c.EachRound, Racing: host.Racing(c.Racing)}
	if !opts.Racing.Valid() {
		return nil, b.config.ErrorAt(configfile.Keys("history", "racing"), "there is no way to race called %q", c.Racing).
			WithHint("use wait, conflict or branch")
	}
	var err error
	opts.Processors, err = b.processors(configfile.Keys("history", "processors"), c.Processors)
	return opts, err
}
