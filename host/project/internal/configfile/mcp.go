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

// MCPServers returns the MCP servers of all tenants, and those of single ones.
func (c *Config) MCPServers() (shared []mcpclient.Server, tenants map[string][]mcpclient.Server) {
	for _, name := range slices.Sorted(maps.Keys(c.MCP)) {
		shared = append(shared, c.mcpServer(name, c.MCP[name]))
	}
	tenants = map[string][]mcpclient.Server{}
	for tenant, t := range c.Tenants {
		for _, name := range slices.Sorted(maps.Keys(t.MCP)) {
			tenants[tenant] = append(tenants[tenant], c.mcpServer(name, t.MCP[name]))
		}
	}
	return shared, tenants
}

// MCPNames returns the names of all MCP servers, sorted.
func (c *Config) MCPNames() []string {
	names := slices.Collect(maps.Keys(c.MCP))
	for _, t := range c.Tenants {
		names = slices.AppendSeq(names, maps.Keys(t.MCP))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsMCPTool reports whether a tool of an MCP server may have a name: the servers themselves
// say which have one.
func (c *Config) IsMCPTool(name string) bool {
	shared, tenants := c.MCPServers()
	for _, list := range tenants {
		shared = append(shared, list...)
	}
	return slices.ContainsFunc(shared, func(s mcpclient.Server) bool {
		return strings.HasPrefix(name, s.ToolPrefix()) || slices.Contains(slices.Collect(maps.Values(s.Rename)), name)
	})
}

func (c *Config) mcpServer(name string, m MCPServer) mcpclient.Server {
	s := mcpclient.Server{
		Name: name, Command: m.Command, Env: mcpSettings(m.Env),
		URL: m.URL, SSE: m.SSE, Headers: mcpSettings(m.Headers), PublicOnly: m.PublicOnly, Protocol: m.Protocol,
		Allow: m.Allow, Deny: m.Deny, Prefix: m.Prefix, Rename: m.Rename, SearchAbove: m.SearchAbove,
		Sampling: m.Sampling, Elicitation: m.Elicitation, Resources: m.Resources, Prompts: m.Prompts, Hints: m.Hints,
		Shared: m.Shared, Required: m.Required, Tenants: m.Tenants, Timeout: time.Duration(m.Timeout),
	}
	if len(m.Command) > 0 {
		s.Dir = c.FilePath(m.Dir)
	}
	return s
}

func mcpSettings(list []MCPSetting) []mcpclient.Setting {
	var out []mcpclient.Setting
	for _, v := range list {
		out = append(out, mcpclient.Setting{Name: v.Name, Value: v.Value, Prefix: v.Prefix, Secret: v.Secret})
	}
	return out
}
