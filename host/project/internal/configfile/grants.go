package configfile

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/grantwords"
)

// httpGrant is access to a server, written as on the command line.
type httpGrant plugin.HTTPAccess

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (g *httpGrant) UnmarshalYAML(n ast.Node) error {
	access, err := grantwords.ParseHTTP(scalar(n))
	if err != nil {
		return badValue(n, "%q is not access to a server: write https://HOST, https://HOST:PORT, GET,POST https://HOST or https://HOST at 10.1.0.0/16", scalar(n))
	}
	*g = httpGrant(access)
	return nil
}

// String returns the grant in its form on the command line.
func (g httpGrant) String() string { return plugin.HTTPAccess(g).String() }

// Grants are the grants of a plugin in the configuration.
type Grants struct {
	State    string        `yaml:"state"` // none, read or write
	KV       string        `yaml:"kv"`    // none, read or write
	HTTP     []httpGrant   `yaml:"http"`  // https://HOST, GET,POST https://HOST or https://HOST at 10.1.0.0/16
	Secrets  []SecretGrant `yaml:"secrets"`
	Messages bool          `yaml:"messages"`
	Model    bool          `yaml:"model"`
	Queue    bool          `yaml:"queue"`
	Clock    bool          `yaml:"clock"`
	Random   bool          `yaml:"random"`
	Tools    []string      `yaml:"tools"` // names, or "*"

	Operations []string `yaml:"operations"` // of the program that embeds the host
}

type SecretGrant struct {
	Name  string   `yaml:"name"`
	Hosts []string `yaml:"hosts"`
}

// permissions maps grants at a place of the configuration.
func (c *Config) permissions(at KeyPath, g Grants) (plugin.Permissions, error) {
	p := plugin.Permissions{
		Messages: g.Messages, Model: g.Model, Queue: g.Queue, Clock: g.Clock, Random: g.Random,
		State: plugin.Access(g.State), KV: plugin.Access(g.KV),
	}
	for _, level := range []struct {
		name  string
		value plugin.Access
	}{{"state", p.State}, {"kv", p.KV}} {
		switch level.value {
		case "", plugin.None, plugin.Read, plugin.Write:
		default:
			return p, c.ErrorAt(at.To(level.name), "grant of %s is %q", level.name, level.value).WithHint("use none, read or write")
		}
	}
	if p.Tools = g.Tools; len(p.Tools) > 0 {
		if err := (&plugin.Permissions{Tools: p.Tools}).Check(); err != nil {
			return p, c.ErrorAt(at.To("tools"), "%w", err)
		}
	}
	for _, h := range g.HTTP {
		p.HTTP = append(p.HTTP, plugin.HTTPAccess(h))
	}
	p.Operations = g.Operations
	for _, s := range g.Secrets {
		p.Secrets = append(p.Secrets, plugin.SecretAccess{Name: s.Name, Hosts: s.Hosts})
	}
	return p, nil
}
