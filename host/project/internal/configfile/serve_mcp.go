package configfile

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ServeMCP configures what clients of the Model Context Protocol are offered.
type ServeMCP struct {
	Targets      []string             `yaml:"targets"` // networks and agents; absent: all
	Tools        []string             `yaml:"tools"`   // as of an agent
	Prompts      map[string]MCPPrompt `yaml:"prompts"`
	Threads      string               `yaml:"threads"`      // call, the default, or session
	Instructions string               `yaml:"instructions"` // for the models of clients

	URL                  string   `yaml:"url"` // of /mcp for clients
	AuthorizationServers []string `yaml:"authorization_servers"`
}

// MCPPrompt is a text with arguments that people choose in a client.
type MCPPrompt struct {
	Title       string        `yaml:"title"`
	Description string        `yaml:"description"`
	Arguments   []MCPArgument `yaml:"arguments"`
	Text        string        `yaml:"text"` // {{.arguments.NAME}} inserts an argument
}

// MCPArgument is an argument of a prompt.
type MCPArgument struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	Required    bool     `yaml:"required"`
	Values      []string `yaml:"values"` // that clients suggest
}

// SessionThreads has each session continue its own thread with each target.
const SessionThreads = "session"

// PromptArgument matches the place of an argument in the text of a prompt.
var PromptArgument = regexp.MustCompile(`\{\{\s*\.arguments\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// checkServeMCP validates what does not need the plugins.
func (c *Config) checkServeMCP() error {
	at := Keys("serve_mcp")
	for i, name := range c.ServeMCP.Targets {
		if !slices.Contains(c.TargetNames(), name) {
			return c.Unknown(at.To("targets").To(i), "network or agent", name, c.TargetNames())
		}
	}
	if t := c.ServeMCP.Threads; t != "" && t != "call" && t != SessionThreads {
		return c.ErrorAt(at.To("threads"), "threads is %q", t).WithHint("use call or session")
	}
	for i, server := range c.ServeMCP.AuthorizationServers {
		if !isWebAddress(server) {
			return c.ErrorAt(at.To("authorization_servers").To(i), "%q is no address", server).WithHint("write the issuer's, such as https://login.example.com")
		}
	}
	if c.ServeMCP.URL != "" && !isWebAddress(c.ServeMCP.URL) {
		return c.ErrorAt(at.To("url"), "%q is no address", c.ServeMCP.URL).WithHint("write that of /mcp for clients, such as https://agents.example.com/mcp")
	}
	for name, p := range c.ServeMCP.Prompts {
		if err := c.checkPrompt(at.To("prompts").To(name), p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkPrompt(at KeyPath, p MCPPrompt) error {
	if p.Text == "" {
		return c.ErrorAt(at, "the prompt has no text").WithHint("write: text: ...")
	}
	names := []string{}
	for i, a := range p.Arguments {
		if a.Name == "" || slices.Contains(names, a.Name) {
			return c.ErrorAt(at.To("arguments").To(i), "the argument's name %q is empty or given twice", a.Name)
		}
		names = append(names, a.Name)
	}
	for _, m := range PromptArgument.FindAllStringSubmatch(p.Text, -1) {
		if !slices.Contains(names, m[1]) {
			return c.Unknown(at.To("text"), "argument", m[1], names)
		}
	}
	if strings.Contains(PromptArgument.ReplaceAllString(p.Text, ""), "{{") {
		return c.ErrorAt(at.To("text"), "the text uses {{ for something other than {{.arguments.NAME}}")
	}
	return nil
}

func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}
