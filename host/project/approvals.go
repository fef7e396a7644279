package project

import (
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// approvalRule is a configfile.Approval, compiled.
type approvalRule struct {
	rule  host.ApprovalRule
	terms host.TermsRule // may be nil
}

// anyTool stands for every tool in a configfile.Approval.
const anyTool = "*"

// approvals returns the rules of the configuration: which calls a person must approve,
// and the terms of those questions. Both are nil if no call needs approval.
func (b *builder) approvals() (host.ApprovalRule, host.TermsRule, error) {
	if len(b.config.Approve) == 0 {
		return nil, nil, nil
	}
	list := map[string][]approvalRule{}
	for i, c := range b.config.Approve {
		at := configfile.Keys("approve", i)
		rule, err := b.approval(at, c)
		if err != nil {
			return nil, nil, err
		}
		terms, err := b.questionTerms(at, c)
		if err != nil {
			return nil, nil, err
		}
		list[c.Tool] = append(list[c.Tool], approvalRule{rule, terms})
	}
	// first returns the first entry that asks about a call, and its reason.
	first := func(ctx context.Context, call *host.Call) (approvalRule, string, error) {
		for _, name := range []string{call.Tool, anyTool} {
			for _, entry := range list[name] {
				if reason, err := entry.rule(ctx, call); reason != "" || err != nil {
					return entry, reason, err
				}
			}
		}
		return approvalRule{}, "", nil
	}
	destructive := b.destructiveTools()
	rule := func(ctx context.Context, call *host.Call) (string, error) {
		_, reason, err := first(ctx, call)
		if reason != "" && destructive[call.Tool] {
			reason += "; the call may change or remove what is there"
		}
		return reason, err
	}
	terms := func(ctx context.Context, call *host.Call, q *host.Question) (*host.QuestionTerms, error) {
		if q.Kind != host.AskApproval {
			return nil, nil
		}
		entry, _, err := first(ctx, call)
		if err != nil || entry.terms == nil {
			return nil, err
		}
		return entry.terms(ctx, call, q)
	}
	return rule, terms, nil
}

// ofArguments matches the beginning of a template that inserts an argument into a key.
var ofArguments = regexp.MustCompile(`\{\{\s*\.arguments\b`)

// questionTerms returns the terms of an entry's questions, nil for none.
func (b *builder) questionTerms(at configfile.KeyPath, c configfile.Approval) (host.TermsRule, error) {
	if c.Key == "" && c.Timeout == 0 && c.OnTimeout == "" {
		return nil, nil
	}
	terms := host.QuestionTerms{Timeout: time.Duration(c.Timeout)}
	switch c.OnTimeout {
	case "", configfile.OnTimeoutExpire:
	case configfile.OnTimeoutApprove:
		terms.Default = &host.Answer{Decision: host.Approve}
	case configfile.OnTimeoutDeny:
		terms.Default = &host.Answer{Decision: host.Deny, Reason: "Nobody answered in time."}
	default:
		return nil, b.config.ErrorAt(at.To("on_timeout"), "on_timeout is %q", c.OnTimeout).
			WithHint("use %s, %s or %s", configfile.OnTimeoutApprove, configfile.OnTimeoutDeny, configfile.OnTimeoutExpire)
	}
	if c.OnTimeout != "" && c.Timeout == 0 {
		return nil, b.config.ErrorAt(at.To("on_timeout"), "on_timeout without a timeout").WithHint("say how long the question stands: timeout: 4h")
	}
	if c.Timeout < 0 || terms.Timeout > host.MaxQuestionTimeout {
		return nil, b.config.ErrorAt(at.To("timeout"), "timeout is %s", terms.Timeout).WithHint("write a time such as 4h")
	}
	// A template of instructions inserts members of a document; here the arguments are
	// the only member.
	if strings.Contains(ofArguments.ReplaceAllString(c.Key, ""), "{{") {
		return nil, b.config.ErrorAt(at.To("key"), "key uses {{ for something other than {{.arguments.NAME}}")
	}
	key, err := host.TemplateInstructions(ofArguments.ReplaceAllString(c.Key, "{{.state"))
	if err != nil {
		return nil, b.config.ErrorAt(at.To("key"), "key uses {{ for something other than {{.arguments.NAME}}")
	}
	return func(ctx context.Context, call *host.Call, _ *host.Question) (*host.QuestionTerms, error) {
		arguments, err := host.NewState(call.Arguments, math.MaxInt) // the run has already checked their size
		if err != nil {
			return nil, err
		}
		own := terms
		own.Key, err = key(ctx, &host.InstructionsRequest{State: arguments})
		return &own, err
	}, nil
}

func (b *builder) approval(at configfile.KeyPath, c configfile.Approval) (host.ApprovalRule, error) {
	if c.Tool == "" {
		return nil, b.config.ErrorAt(at, "no tool is named").WithHint("write: tool: NAME, or tool: \"*\" for every tool")
	}
	if have := b.toolNames(); c.Tool != anyTool && !have[c.Tool] && !(configfile.MCP{Config: b.config}).IsTool(c.Tool) {
		return nil, b.config.Unknown(at.To("tool"), "tool", c.Tool, slices.Sorted(maps.Keys(have)))
	}
	reason := c.Reason
	if reason == "" {
		reason = "the configuration asks for it"
	}
	if c.When == nil {
		return host.ApproveAlways(reason), nil
	}
	raw, err := toJSON(b.config, at.To("when"), c.When)
	if err != nil {
		return nil, err
	}
	schema, err := host.CompileSchema(raw)
	if err != nil {
		return nil, b.config.Wrap(err, at.To("when"))
	}
	return host.ApproveWhen(schema, reason), nil
}

// destructiveTools returns the tools of plugins that their manifests call destructive, by the
// names that agents use.
func (b *builder) destructiveTools() map[string]bool {
	names := map[string]bool{}
	for id, p := range b.plugins.parts.all() {
		m := manifestOf(p)
		if m == nil {
			continue
		}
		for _, info := range m.Tools {
			if !info.Annotations.Destructive {
				continue
			}
			if t, err := p.Tool(info.Name, b.plugins.naming(id)); err == nil {
				names[t.Name] = true
			}
		}
	}
	return names
}

// toolNames returns the tools of all plugins, the agents that are tools, the memory tools in
// use and the tool that runs code. An agent has some of them, and a provider may add others.
func (b *builder) toolNames() map[string]bool {
	names := map[string]bool{}
	for _, p := range b.plugins.parts.all() {
		tools, err := p.Tools(b.plugins.naming(p.ID()))
		if err != nil {
			continue // making an agent that uses the plugin reports it
		}
		for _, t := range tools {
			names[t.Name] = true
		}
	}
	for _, ac := range b.config.Agents {
		if ac.WritesCode() {
			names[codemode.ToolName] = true
		}
		for _, name := range ac.Agents {
			names[name] = true
		}
		for _, use := range ac.Tools {
			if !strings.HasPrefix(use, configfile.MemoryPrefix) {
				continue
			}
			tools, _ := b.memories.tools(nil, use) // making the agent reports the error
			for _, t := range tools {
				names[t.Name] = true
			}
		}
	}
	return names
}
