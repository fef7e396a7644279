package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// AgentToolOptions are the optional parts of an agent as a tool.
type AgentToolOptions struct {
	Name        string        // default: the agent's
	Description string        // default: the agent's
	Timeout     time.Duration // of one call; default: the rest of the run's
}

// NewAgentTool returns a tool that runs an agent. The calling model writes its
// request in the argument "request"; the agent sees that as the user's message and
// nothing of the conversation around it; its answer is the result: its output, if
// it has an output schema, else its text.
//
// The agent works in the run it is called in: it shares the run's state, its
// artifacts become the run's, agents that its tools schedule are scheduled, and
// its tokens and tool calls count. It gets the model that it would have as an
// agent of the network, and the processors of the history and the network apply
// to it. Its events arrive on the stream as [runevent.ToolProgress] of the kind "agent",
// whose data is the event. Nothing but the result joins the conversation.
//
// Agents may be tools of agents that are tools, [MaxAgentDepth] deep. When one asks
// a person, the run around it does: it ends interrupted with the question, whose
// Via leads there, and with the answer the agent continues where it asked; the
// other calls of that answer have run and do not run again. Code invalid_argument
// for a name that no provider takes or a missing description.
func NewAgentTool(agent *Agent, opts *AgentToolOptions) (*Tool, error) {
	if agent == nil {
		return nil, Errorf(InvalidArgument, "no agent to make a tool of")
	}
	if opts == nil {
		opts = &AgentToolOptions{}
	}
	spec := llm.ToolSpec{Name: opts.Name, Description: opts.Description, Parameters: json.RawMessage(agentToolSchema)}
	if spec.Name == "" {
		spec.Name = agent.name
	}
	if spec.Description == "" {
		spec.Description = agent.opts.Description
	}
	if spec.Description == "" {
		return nil, Errorf(InvalidArgument, "agent %q has no description", agent.name).
			WithHint("a model calls it by what its description says; set one on the agent or in the options")
	}
	tool, err := NewRawTool(spec, func(ctx context.Context, call *Call) (*ToolOutput, error) {
		return call.runAgent(ctx, agent)
	}, &ToolOptions{Timeout: opts.Timeout})
	if err != nil {
		return nil, Errorf(InvalidArgument, "agent %q as a tool: %w", agent.name, err)
	}
	tool.agent = agent
	return tool, nil
}

const agentToolSchema = `{"type":"object","properties":{"request":{"type":"string","description":"What is wanted, with everything that must be known for it."}},` +
	`"required":["request"],"additionalProperties":false}`

// MaxAgentDepth is how deep agents that are tools may call agents that are tools.
const MaxAgentDepth = replay.MaxAgentDepth

// branch is the run as an agent used as a tool sees it. It is made in the run's
// goroutine, before the call begins, and serves one call.
func (t *turn) branch() *run {
	n := *t.run
	n.events, n.ledger = t.run.events.Branch(), t.run.ledger.Branch()
	n.conv.results, n.conv.past, n.routes.stack, n.routes.iterations = nil, nil, nil, 0
	n.conv.inputInHistory = false
	n.service.id, n.service.storedIDs = "", nil // the conversation of the run's service is not the branch's
	return &n
}

// agentEvent is the kind of the progress that an agent used as a tool makes.
const agentEvent = "agent"

// runAgent runs an agent in the run that the call is of.
func (c *Call) runAgent(ctx context.Context, agent *Agent) (*ToolOutput, error) {
	if c.branch == nil {
		return nil, Errorf(FailedPrecondition, "The agent %s can only be called within a run.", agent.name)
	}
	if c.branch.events.Depth > MaxAgentDepth {
		return nil, Errorf(ResourceExhausted, "Agents call agents more than %d deep.", MaxAgentDepth)
	}
	if c.branch.models.forAgent(agent) == nil {
		return nil, Errorf(FailedPrecondition, "The agent %s has no model.", agent.name)
	}
	var in struct {
		Request string `json:"request"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return nil, argumentError(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := *c.branch // one for each attempt
	n.connect()    // the copy holds parts of its own
	n.conv.input, n.keyPrefix, n.events.Cancel, n.events.Yield, n.events.Around = UserText(in.Request), c.IdempotencyKey, cancel, c.forward, aroundAgent{c}
	n.journal.openCalls = nil
	saved := &replay.SavedTurn{Agent: agent.name}
	if began := n.journal.branches.Take(n.keyPrefix); began != nil {
		saved = began
		if saved.Input != nil {
			n.conv.input = saved.Input
		}
		n.routes.stack, n.ledger.Artifacts, n.ledger.Cost = saved.Stack, saved.Artifacts, saved.Cost
	}
	fromBefore := len(n.ledger.Artifacts)
	result, err := n.runAgent(ctx, agent, saved)
	for i, a := range n.ledger.Artifacts {
		if i < fromBefore { // another process made it, and may have sent its event
			c.putArtifact(a)
		} else {
			c.keepArtifact(a)
		}
	}
	out := &ToolOutput{Cost: &n.ledger.Cost, Schedule: n.routes.stack, Usage: &n.ledger.Usage}
	if result != nil {
		n.ledger.Usage = n.ledger.Usage.Add(result.Usage)
		out.Content = resultContent(result)
	}
	if err == nil && result.FinishReason == chat.FinishInterrupted {
		out.inside = &replay.Inside{Agent: agent.name, Input: n.conv.input, Result: result, Calls: n.journal.openCalls}
		replay.Lead(c.ID, n.journal.openCalls)
	}
	return out, err
}

// aroundAgent is the call that an agent used as a tool works for.
type aroundAgent struct{ call *Call }

var _ report.Around = aroundAgent{}

// Changed implements report.Around.
func (a aroundAgent) Changed(revision int64) { a.call.tellChange(revision) }

// Made implements report.Around.
func (a aroundAgent) Made(made Artifact) { a.call.tellArtifact(made) }

// resultContent returns the answer of an agent as the result of a tool.
func resultContent(r *Result) json.RawMessage {
	if r.Output != nil {
		return r.Output
	}
	return jsondoc.Quote(r.Text())
}

// forward passes on an event of an agent used as a tool.
func (c *Call) forward(ev Event, _ error) bool {
	raw, err := ev.ForClient().MarshalJSON() // clients read it as a tool's progress
	if err != nil {
		return true // an event without JSON is not worth the run
	}
	return c.emit(&runevent.ToolProgress{ID: c.ID, Name: c.Tool, Kind: agentEvent, Data: raw}) == nil
}
