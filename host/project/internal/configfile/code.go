package configfile

import (
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/codemode"
)

// CodeUse is the tool that runs the code of an agent's model, where the agent names its tools.
const CodeUse = codemode.PluginID

// Code configures that tool.
type Code struct {
	Timeout      Duration `yaml:"timeout"`
	Memory       byteSize `yaml:"memory"`
	Instructions int64    `yaml:"instructions"`
	Output       byteSize `yaml:"output"`
	Console      byteSize `yaml:"console"`
	Instances    int      `yaml:"instances"`
	Keep         bool     `yaml:"keep"`
	Direct       bool     `yaml:"direct"`
}

// Options returns the options of package codemode.
func (c Code) Options() *codemode.Options {
	return &codemode.Options{
		Timeout: time.Duration(c.Timeout), MemoryBytes: int64(c.Memory), Instructions: c.Instructions,
		ResultBytes: int(c.Output), ConsoleBytes: int(c.Console), Instances: c.Instances, Keep: c.Keep, Direct: c.Direct,
	}
}

// WritesCode reports whether the agent has the tool that runs code.
func (a Agent) WritesCode() bool { return slices.Contains(a.Tools, CodeUse) }

// checkCode returns what cannot be in the entry of the agent with that name about code.
func (a Agent) checkCode(name string, c *Config) error {
	at := Keys("agents", name)
	for i, use := range a.Tools {
		if strings.HasPrefix(use, CodeUse+"/") {
			return c.ErrorAt(at.To("tools", i), "%s is one tool and has no parts", CodeUse).WithHint("write %s", CodeUse)
		}
	}
	if a.Code != (Code{}) && !a.WritesCode() {
		return c.ErrorAt(at.To("code"), "agent %q has settings for code, and no tool that runs any", name).
			WithHint("write tools: [%s], or remove code", CodeUse)
	}
	return c.Wrap(a.Code.Options().Check(), at.To("code"))
}
