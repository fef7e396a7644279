package main

import (
	"context"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// approveConfig says which calls of a tool a person must agree to.
type approveConfig struct {
	Tool   string `yaml:"tool"`   // its name, or * for every tool
	When   any    `yaml:"when"`   // a JSON Schema that their arguments fit; absent: all calls
	Reason string `yaml:"reason"` // what the person is shown
}

// anyTool is every tool in an approveConfig.
const anyTool = "*"

// approvals returns the rule of the configuration, nil if nobody is asked.
func (a *app) approvals() (host.ApprovalRule, error) {
	if len(a.config.Approve) == 0 {
		return nil, nil
	}
	rules := map[string][]host.ApprovalRule{}
	for i, c := range a.config.Approve {
		rule, err := a.approval(keys("approve", i), c)
		if err != nil {
			return nil, err
		}
		rules[c.Tool] = append(rules[c.Tool], rule)
	}
	return func(ctx context.Context, call *host.Call) (string, error) {
		for _, name := range []string{call.Tool, anyTool} {
			for _, rule := range rules[name] {
				if reason, err := rule(ctx, call); reason != "" || err != nil {
					return reason, err
				}
			}
		}
		return "", nil
	}, nil
}

func (a *app) approval(at place, c approveConfig) (host.ApprovalRule, error) {
	if c.Tool == "" {
		return nil, a.config.errorAt(at, "no tool is named").WithHint("write: tool: NAME, or tool: \"*\" for every tool")
	}
	if have := a.toolNames(); c.Tool != anyTool && !have[c.Tool] {
		return nil, a.config.unknown(at.to("tool"), "tool", c.Tool, sortedKeys(have))
	}
	reason := c.Reason
	if reason == "" {
		reason = "the configuration asks for it"
	}
	if c.When == nil {
		return host.ApproveAlways(reason), nil
	}
	raw, err := a.toJSON(at.to("when"), c.When)
	if err != nil {
		return nil, err
	}
	schema, err := host.CompileSchema(raw)
	if err != nil {
		return nil, a.config.wrap(err, at.to("when"))
	}
	return host.ApproveWhen(schema, reason), nil
}

// toolNames are the tools of all plugins, of which an agent has some and a
// provider may add others, and the agents that are tools.
func (a *app) toolNames() map[string]bool {
	names := map[string]bool{}
	for _, p := range a.plugins {
		tools, err := p.Tools(a.toolNaming(p.ID()))
		if err != nil {
			continue // whoever uses it will say so
		}
		for _, t := range tools {
			names[t.Name] = true
		}
	}
	for _, ac := range a.config.Agents {
		for _, name := range ac.Agents {
			names[name] = true
		}
		for _, use := range ac.Tools {
			if !strings.HasPrefix(use, memoryPrefix) {
				continue
			}
			tools, _ := a.memoryTools(nil, use) // whoever uses it will say so
			for _, t := range tools {
				names[t.Name] = true
			}
		}
	}
	return names
}
