package configfile

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

// MCPPrefix begins the names of MCP servers where an agent names its tools or providers:
// mcp:SERVER, or mcp:* for the tools of all that the tenant of a run has.
const MCPPrefix = "mcp:"

// MCPServer is a server of the Model Context Protocol whose tools agents use.
type MCPServer struct {
	Command    []string     `yaml:"command"` // of a process, with its arguments
	Dir        string       `yaml:"dir"`     // where it runs; absent: the configuration's directory
	Env        []MCPSetting `yaml:"env"`
	URL        string       `yaml:"url"`
	SSE        bool         `yaml:"sse"` // the older transport
	Headers    []MCPSetting `yaml:"headers"`
	PublicOnly bool         `yaml:"public_only"`
	Protocol   string       `yaml:"protocol"`
	Tenants    []string     `yaml:"tenants"` // the only ones that have it; absent: all

	Allow       []string          `yaml:"allow"`
	Deny        []string          `yaml:"deny"`
	Prefix      *string           `yaml:"prefix"` // absent: NAME__
	Rename      map[string]string `yaml:"rename"`
	SearchAbove int               `yaml:"search_above"`

	Sampling    bool     `yaml:"sampling"`
	Elicitation bool     `yaml:"elicitation"`
	Resources   bool     `yaml:"resources"`
	Prompts     bool     `yaml:"prompts"`
	Hints       bool     `yaml:"hints"`
	Shared      bool     `yaml:"shared"`
	Required    bool     `yaml:"required"`
	Timeout     Duration `yaml:"timeout"`
}

// MCPSetting is a header of requests, or a variable of a process.
type MCPSetting struct {
	Name   string `yaml:"name"`
	Value  string `yaml:"value"`
	Prefix string `yaml:"prefix"`
	Secret string `yaml:"secret"`
}

// MCPUse is the config of an MCP server in use as a provider.
type MCPUse struct {
	Resources []string       `yaml:"resources"`
	Prompts   []MCPPromptUse `yaml:"prompts"`
}

// MCPPromptUse is a prompt that stands before the input.
type MCPPromptUse struct {
	Name      string            `yaml:"name"`
	Arguments map[string]string `yaml:"arguments"`
}

// MCP is the part of a configuration about MCP servers that agents use.
type MCP struct{ Config *Config }

// Servers returns the MCP servers of all tenants, and those of single ones.
func (m MCP) Servers() (shared []mcpclient.Server, tenants map[string][]mcpclient.Server) {
	c := m.Config
	for _, name := range slices.Sorted(maps.Keys(c.MCP)) {
		shared = append(shared, m.server(name, c.MCP[name]))
	}
	tenants = map[string][]mcpclient.Server{}
	for tenant, t := range c.Tenants {
		for _, name := range slices.Sorted(maps.Keys(t.MCP)) {
			tenants[tenant] = append(tenants[tenant], m.server(name, t.MCP[name]))
		}
	}
	return shared, tenants
}

// Names returns the names of all MCP servers, sorted.
func (m MCP) Names() []string {
	names := slices.Collect(maps.Keys(m.Config.MCP))
	for _, t := range m.Config.Tenants {
		names = slices.AppendSeq(names, maps.Keys(t.MCP))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsTool reports whether a tool of an MCP server may have a name: the servers themselves
// say which have one.
func (m MCP) IsTool(name string) bool {
	shared, tenants := m.Servers()
	for _, list := range tenants {
		shared = append(shared, list...)
	}
	return slices.ContainsFunc(shared, func(s mcpclient.Server) bool {
		return strings.HasPrefix(name, s.ToolPrefix()) || slices.Contains(slices.Collect(maps.Values(s.Rename)), name)
	})
}

func (m MCP) server(name string, s MCPServer) mcpclient.Server {
	out := mcpclient.Server{
		Name: name, Command: s.Command, Env: mcpSettings(s.Env),
		URL: s.URL, SSE: s.SSE, Headers: mcpSettings(s.Headers), PublicOnly: s.PublicOnly, Protocol: s.Protocol,
		Allow: s.Allow, Deny: s.Deny, Prefix: s.Prefix, Rename: s.Rename, SearchAbove: s.SearchAbove,
		Sampling: s.Sampling, Elicitation: s.Elicitation, Resources: s.Resources, Prompts: s.Prompts, Hints: s.Hints,
		Shared: s.Shared, Required: s.Required, Tenants: s.Tenants, Timeout: time.Duration(s.Timeout),
	}
	if len(s.Command) > 0 {
		out.Dir = m.Config.FilePath(s.Dir)
	}
	return out
}

func mcpSettings(list []MCPSetting) []mcpclient.Setting {
	var out []mcpclient.Setting
	for _, v := range list {
		out = append(out, mcpclient.Setting{Name: v.Name, Value: v.Value, Prefix: v.Prefix, Secret: v.Secret})
	}
	return out
}
