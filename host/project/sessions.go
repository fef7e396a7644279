package project

import (
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
)

// viewsOf returns the view of each target's clients.
func viewsOf(c *configfile.Config) (map[string]*stream.View, error) {
	views := map[string]*stream.View{}
	add := func(at configfile.KeyPath, name string, of configfile.Client) (err error) {
		if len(of.Hide) > 0 {
			views[name], err = stream.NewView(&stream.ViewOptions{Hide: of.Hide})
		}
		return c.Wrap(err, at.To("client"))
	}
	for name, nc := range c.Networks {
		if err := add(configfile.Keys("networks", name), name, nc.Client); err != nil {
			return nil, err
		}
	}
	for name, ac := range c.Agents {
		if err := add(configfile.Keys("agents", name), name, ac.Client); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// ClientView returns the view of clients that may run every target. It hides all places
// that any target of the configuration hides; nil hides nothing.
func (p *Project) ClientView() (*stream.View, error) {
	var hide []string
	for _, nc := range p.config.Networks {
		hide = append(hide, nc.Client.Hide...)
	}
	for _, ac := range p.config.Agents {
		hide = append(hide, ac.Client.Hide...)
	}
	if len(hide) == 0 {
		return nil, nil
	}
	slices.Sort(hide)
	return stream.NewView(&stream.ViewOptions{Hide: slices.Compact(hide)})
}

// Sessions returns the sessions of a target, limited to the view of clients.
func (p *Project) Sessions(target host.Target) (*sessions.Service, error) {
	opts := &sessions.Options{Host: p.hostOptions, HistoryOptions: p.historyOptions, Store: p.threads, View: p.views[target.Name()], Member: p.hosts.member}
	opts.Host.History, opts.Host.Journal = nil, nil
	return sessions.New(target, opts)
}
