package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// mcpProvider is the name of the provider that offers an agent the tools of MCP servers.
const mcpProvider = "mcp"

// MCPServers are the MCP servers of a configuration, and the lock beside it.
type MCPServers struct {
	*mcpclient.Servers
	lock *mcpclient.Lock
	file *File
}

// OpenMCPServers returns the MCP servers of a configuration without the rest of a project. Servers
// are started and asked when they are needed. Codes are those of [mcpclient.New] and
// [mcpclient.ReadLock].
func OpenMCPServers(file *File, options *Options) (*MCPServers, error) {
	opts := options.orDefaults()
	lock, err := file.mcpLock()
	if err != nil {
		return nil, err
	}
	shared, tenants := configfile.MCP{Config: file.c}.Servers()
	servers, err := mcpclient.New(&mcpclient.Options{
		Servers: shared, Tenants: tenants, Lock: lock, Secrets: opts.Modules.secrets(), Logger: opts.Logger, Version: opts.Version,
	})
	if err != nil {
		return nil, file.c.Wrap(err, configfile.Keys("mcp"))
	}
	return &MCPServers{servers, lock, file}, nil
}

// mcpLock reads the lock beside the configuration; an absent one is empty.
func (f *File) mcpLock() (*mcpclient.Lock, error) {
	open := f.c.Fsys
	if open == nil {
		open = configfile.OSFiles{}
	}
	r, err := open.Open(f.c.FilePath(mcpclient.LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return &mcpclient.Lock{}, nil
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read %s: %w", mcpclient.LockName, err)
	}
	defer r.Close()
	return mcpclient.ReadLock(r)
}

// WriteLock writes the lock beside the configuration. Code failed_precondition for a
// configuration that is not in the operating system's files.
func (m *MCPServers) WriteLock() error {
	if m.file.Embedded() {
		return host.Errorf(host.FailedPrecondition, "the configuration is in the binary, and has no place for %s", mcpclient.LockName).
			WithHint("make a project of your own: agenthost init")
	}
	var text strings.Builder
	if _, err := m.lock.WriteTo(&text); err != nil {
		return err
	}
	name := filepath.FromSlash(m.file.c.FilePath(mcpclient.LockName))
	err := os.WriteFile(name+".new", []byte(text.String()), 0o644)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "write %s: %w", mcpclient.LockName, err).WithHint("make the directory writable for this user")
	}
	return nil
}

// savedMCP are the MCP servers of a saved configuration, and the lock beside it, before they serve.
type savedMCP struct {
	config  *configfile.Config
	shared  []mcpclient.Server
	tenants map[string][]mcpclient.Server // those that the program has set itself are not among them
	lock    *mcpclient.Lock
}

// read returns the servers of a saved configuration, which can take the place of those that serve.
func (m *MCPServers) read(next *configfile.Config) (*savedMCP, error) {
	if err := checkMCPUses(next); err != nil {
		return nil, err
	}
	lock, err := (&File{next}).mcpLock()
	if err != nil {
		return nil, err
	}
	saved := &savedMCP{config: next, lock: lock}
	saved.shared, saved.tenants = configfile.MCP{Config: next}.Servers()
	for tenant, t := range m.file.c.Tenants {
		if _, stays := saved.tenants[tenant]; !stays && len(t.MCP) > 0 {
			saved.tenants[tenant] = nil
		}
	}
	if err := m.CheckReplace(saved.shared, saved.tenants); err != nil {
		return nil, next.Wrap(err, configfile.Keys("mcp"))
	}
	return saved, nil
}

// take has the servers of a saved configuration, and the definitions that its lock accepts, take
// the place of those that serve. If it fails nothing changes.
func (m *MCPServers) take(saved *savedMCP) error {
	before := &mcpclient.Lock{}
	before.Take(m.lock)
	m.lock.Take(saved.lock) // first: no new server is compared with the old definitions
	if err := m.Replace(saved.shared, saved.tenants); err != nil {
		m.lock.Take(before)
		return saved.config.Wrap(err, configfile.Keys("mcp"))
	}
	return nil
}

// checkMCPUses refuses agents that name an MCP server which no tenant has.
func checkMCPUses(c *configfile.Config) error {
	b := &builder{config: c}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		at := configfile.Keys("agents", name)
		for i, use := range c.Agents[name].Tools {
			if server, ok := strings.CutPrefix(use, configfile.MCPPrefix); ok && server != "*" {
				if err := b.checkMCPName(at.To("tools").To(i), server); err != nil {
					return err
				}
			}
		}
		for i, use := range c.Agents[name].Providers {
			if server, ok := strings.CutPrefix(use.Use, configfile.MCPPrefix); ok {
				if err := b.checkMCPName(at.To("providers").To(i).To("use"), server); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// takeLock has the definitions count that the lock beside the configuration accepts now.
func (m *MCPServers) takeLock() error {
	lock, err := m.file.mcpLock()
	if err == nil {
		m.lock.Take(lock)
	}
	return err
}

// MCPServers returns the servers of the Model Context Protocol that agents use.
func (p *Project) MCPServers() *mcpclient.Servers { return p.builder.mcp.Servers }

// openMCPServers opens the servers of the configuration.
func (b *builder) openMCPServers(opts *Options, closers *closers) (err error) {
	if b.mcp, err = OpenMCPServers(&File{b.config}, opts); err != nil {
		return err
	}
	closers.add(b.mcp.Close)
	return nil
}

// serverTools returns the provider of the MCP servers that an agent's tools name; nil if they
// name none.
func (b *builder) serverTools(at configfile.KeyPath, uses []string) (host.Provider, error) {
	opts := &mcpclient.ProviderOptions{Servers: []string{}}
	all := false
	for i, use := range uses {
		name, ok := strings.CutPrefix(use, configfile.MCPPrefix)
		switch {
		case !ok:
		case name == "*":
			all = true
		default:
			if err := b.checkMCPName(at.To(i), name); err != nil {
				return nil, err
			}
			opts.Servers = append(opts.Servers, name)
		}
	}
	if all {
		opts.Servers = nil
	} else if len(opts.Servers) == 0 {
		return nil, nil
	}
	provider, err := b.mcp.Provider(mcpProvider, opts)
	if err != nil {
		return nil, err
	}
	return &providerWithOptions{provider, b}, nil
}

// checkMCPName refuses the name of a server that no tenant has.
func (b *builder) checkMCPName(at configfile.KeyPath, name string) error {
	for _, have := range (configfile.MCP{Config: b.config}).Names() {
		if have == name {
			return nil
		}
	}
	return b.config.Unknown(at, "MCP server", name, configfile.MCP{Config: b.config}.Names())
}

// mcpTexts returns an MCP server as a provider of its resources and prompts.
func (b *builder) mcpTexts(at configfile.KeyPath, use configfile.Use) (host.Provider, error) {
	name := strings.TrimPrefix(use.Use, configfile.MCPPrefix)
	if err := b.checkMCPName(at.To("use"), name); err != nil {
		return nil, err
	}
	var c configfile.MCPUse
	raw, err := toJSON(b.config, at.To("config"), use.Config)
	if err == nil && raw != nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(&c)
	}
	if err != nil || len(c.Resources)+len(c.Prompts) == 0 {
		return nil, b.config.ErrorAt(at.To("config"), "an MCP server in use as a provider has a list of resources, or of prompts").
			WithHint("write config: {resources: [URI]}, or prompts: [{name: NAME, arguments: {}}]; its tools stand under tools")
	}
	opts := &mcpclient.ProviderOptions{Servers: []string{name}, NoTools: true, Resources: c.Resources}
	for _, p := range c.Prompts {
		opts.Prompts = append(opts.Prompts, mcpclient.PromptUse{Name: p.Name, Arguments: p.Arguments})
	}
	provider, err := b.mcp.Provider(use.Use, opts)
	return provider, b.config.Wrap(err, at)
}
