package project

import (
	"context"
	"errors"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// ChainTarget names the network and the agent whose history processors form a chain.
// Either may be empty.
type ChainTarget struct{ Network, Agent string }

// ChainLink is a processor of a chain: of the level history, network or agent.
type ChainLink struct {
	host.Processor
	Level    string
	Optional bool
}

// Chain is the history processors of a project in the order of a run: those of the
// history, of the network, then of the agent.
type Chain struct {
	Processors []ChainLink
	Model      string // the name of the model that reads their output
	close      func() error
}

// Close unloads the plugins.
func (c *Chain) Close() error { return c.close() }

// OpenChain makes the chain of a configuration, and loads only the plugins in it.
func OpenChain(ctx context.Context, file *File, of ChainTarget, options *Options) (_ *Chain, err error) {
	c := file.c
	p := wire(c, options.orDefaults())
	p.plugins.only = map[string]bool{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	out := &Chain{close: p.Close}
	lists := out.find(c, of)
	for _, list := range lists {
		for _, use := range list.uses {
			id, _ := configfile.SplitUse(use.Use)
			p.plugins.only[id] = true
		}
	}
	if err := p.openPlugins(ctx, nil); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(lists, usedAt.asksModel) {
		if err := p.models.open(ctx, ""); err != nil {
			return nil, err
		}
	}
	for _, list := range lists {
		made, err := p.builder.processors(list.at, list.uses)
		if err != nil {
			return nil, err
		}
		for i, processor := range made {
			out.Processors = append(out.Processors, ChainLink{processor, list.level, list.uses[i].OnFailure == "skip"})
		}
	}
	return out, nil
}

// usedAt are the processors in use at one place of a configuration.
type usedAt struct {
	level string
	at    configfile.KeyPath
	uses  []configfile.Use
}

// asksModel reports whether a processor of the list asks a model.
func (u usedAt) asksModel() bool {
	return slices.ContainsFunc(u.uses, func(use configfile.Use) bool { return asksModel(use.Use, use.Config) })
}

// find returns the processors in use in the order of a run, and notes the model.
func (c *Chain) find(from *configfile.Config, of ChainTarget) []usedAt {
	lists := []usedAt{{"history", configfile.Keys("history", "processors"), from.History.Processors}}
	if of.Network != "" {
		n := from.Networks[of.Network]
		c.Model = from.ModelName(n.Model)
		lists = append(lists, usedAt{"network", configfile.Keys("networks", of.Network, "processors"), n.Processors})
	}
	if of.Agent != "" {
		agent := from.Agents[of.Agent]
		c.Model = from.ModelName(agent.Model)
		lists = append(lists, usedAt{"agent", configfile.Keys("agents", of.Agent, "processors"), agent.Processors})
	}
	return lists
}
