package host

import (
	"github.com/agenthost/agenthost/host/llm"
)

// clientTerms are the terms that a client sets for a run, compiled.
type clientTerms struct {
	terms  *llm.ClientTerms // nil without any
	tools  []*Tool
	output *Schema // nil is the agents' own
}

// compileClientTerms checks and compiles the terms of a run of n. Code invalid_argument for
// a tool of the name of an agent's own.
func compileClientTerms(n *Network, terms *llm.ClientTerms) (c clientTerms, err error) {
	if terms == nil {
		return c, nil
	}
	if err := terms.Check(); err != nil {
		return c, wrapError(err, "request")
	}
	c.terms = terms
	if c.output, err = compileOutput(terms.Output); err != nil {
		return c, Errorf(InvalidArgument, "the output that the client wants: %w", err)
	}
	if terms.ToolChoice == ToolChoiceNone {
		return c, nil
	}
	for _, spec := range terms.Tools {
		for _, a := range n.agents {
			if a.set.byName[spec.Name] != nil {
				return c, Errorf(InvalidArgument, "the client declares a tool %q, which agent %q has", spec.Name, a.name).
					WithHint("give it another name: the agent's own tools run in the host")
			}
		}
		tool, err := NewClientTool(spec)
		if err != nil {
			return c, wrapError(err, "tools of the client")
		}
		c.tools = append(c.tools, tool)
	}
	_, err = newToolSet(c.tools)
	return c, wrapError(err, "tools of the client")
}

func compileOutput(spec *llm.OutputSpec) (*Schema, error) {
	if spec == nil {
		return nil, nil
	}
	s, err := CompileSchema(spec.Schema)
	if err == nil {
		s.strict = spec.Strict
	}
	return s, err
}

// unstored reports whether the run stays out of the history.
func (c *clientTerms) unstored() bool { return c.terms != nil && c.terms.Unstored }

// withoutStore returns a history of the same processors that keeps nothing.
func (h *History) withoutStore() *History {
	if h == nil {
		return nil
	}
	return &History{name: h.name, processors: h.processors}
}

// clientTermsAt returns the terms that hold for an agent, depth being how many agents use it
// as a tool.
func (c *requestContent) clientTermsAt(depth int) *clientTerms {
	if depth > 0 {
		return &clientTerms{}
	}
	return &c.client
}

// applyTo puts the terms into a request to a model. first says that it is the first one of
// the run.
func (c *clientTerms) applyTo(req *llm.Request, first bool) {
	t := c.terms
	if t == nil {
		return
	}
	if t.Temperature != nil {
		req.Temperature = t.Temperature
	}
	if n := t.MaxOutputTokens; n > 0 && (req.MaxOutputTokens == 0 || n < req.MaxOutputTokens) {
		req.MaxOutputTokens = n
	}
	req.SerialTools = req.SerialTools || t.SerialTools
	if first && req.ToolChoice == "" && t.ToolChoice.Forces() {
		req.ToolChoice = t.ToolChoice
	}
	if t.Output != nil {
		req.Output = t.Output
	}
}

// outputOr returns the schema of an agent's output, whose own is given; nil is text.
func (c *clientTerms) outputOr(own *Schema) *Schema {
	if c.output != nil {
		return c.output
	}
	return own
}
