package project

import (
	"hash/maphash"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// MCP is the server of the Model Context Protocol that a configuration asks for.
type MCP struct {
	*mcpserver.Server
	URL                  string   // of /mcp for clients; "" is that of their requests
	AuthorizationServers []string // the OAuth servers that give out tokens
}

// MCP returns the server of the Model Context Protocol that offers each tenant what the
// configuration's serve_mcp says: networks and agents, tools of plugins, uploaded ones too,
// prompts, and the artifacts of threads. It is made once, and the project closes it.
func (p *Project) MCP() (*MCP, error) { return p.mcp.get() }

// lateMCP is a server that is made when it is first needed.
type lateMCP struct {
	project *Project
	mu      sync.Mutex
	made    *MCP
}

func (l *lateMCP) get() (*MCP, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made != nil {
		return l.made, nil
	}
	p := l.project
	view, err := p.ClientView()
	if err != nil {
		return nil, err
	}
	var journal host.Journal = p.threads
	if p.hosts.journal != nil {
		journal = p.hosts.journal
	}
	c := &p.config.ServeMCP
	server, err := mcpserver.New(p.Runs(), &mcpCatalog{project: p, seed: maphash.MakeSeed()}, &mcpserver.Options{
		Version: p.hosts.version, Instructions: c.Instructions, Host: p.host, Journal: journal, Threads: p.threads, View: view,
		KeepThreads: c.Threads == configfile.SessionThreads, Logger: p.logger,
	})
	if err != nil {
		return nil, err
	}
	p.closers.add(server.Close) // before the registry
	l.made = &MCP{Server: server, URL: c.URL, AuthorizationServers: c.AuthorizationServers}
	return l.made, nil
}
