package configfile

import (
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Client configures the data that is hidden from clients.
type Client struct {
	Hide []string `yaml:"hide"` // pointers: /custom/..., /custom, /artifacts
}

// DescriptionOf returns the description of a network or agent.
func (c *Config) DescriptionOf(name string) string {
	if n, ok := c.Networks[name]; ok {
		return n.Description
	}
	return c.Agents[name].Description
}

// UnknownTarget returns the error of a --target that does not exist: a fault of the
// command line, not of the configuration.
func (c *Config) UnknownTarget(name string) error {
	e := host.Errorf(host.NotFound, "--target: %s has no network or agent %q", c.Name, name)
	if near := termtext.Nearest(name, c.TargetNames()); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("there are: %s", strings.Join(c.TargetNames(), ", "))
}
