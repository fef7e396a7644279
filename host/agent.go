package host

import (
	"context"
	"maps"
	"regexp"
	"strings"

	"github.com/agenthost/agenthost/host/llm"
)

// Agent is a name, instructions, a model and tools. Make one with [NewAgent]; it
// is immutable and may belong to any number of networks. Run on its own it is a
// network of one.
type Agent struct {
	name string
	opts AgentOptions
	set  toolSet
	solo *Network
}

// AgentOptions are the optional parts of an agent.
type AgentOptions struct {
	// Description describes the agent to routers. A network routed by a model needs
	// it.
	Description string

	// Instructions is the system prompt. InstructionsFunc makes one for each run of
	// the agent instead, once a run.
	Instructions     string
	InstructionsFunc InstructionsFunc

	// Prefill is the beginning of the first answer of a run of the agent: the model
	// continues it. Not every provider can.
	Prefill string

	// Enabled says whether a network may choose the agent now; nil is yes. It is
	// asked before each routing decision. A router in code may still name an agent
	// that is not enabled. If no agent is enabled at the first decision, the run
	// fails; later, routers receive an empty list, and one that asks a model ends
	// the run.
	Enabled func(ctx context.Context, req *InstructionsRequest) (bool, error)

	Model      Model // default: the network's, then the host's
	Tools      []*Tool
	Processors []Processor
	Providers  []Provider
	History    *History // for runs of the agent on its own only

	// Messages keep the messages of the agent's threads: see [Agent.NewThread].
	// Default: each thread has its own, in memory. Where a model's service keeps
	// the conversation, they are not used.
	Messages MessageStores

	// ProviderTools are tools that the models' providers run by themselves.
	ProviderTools []ProviderTool

	Hooks Hooks

	// StateSchema types the state of runs of the agent on its own, as
	// [NetworkOptions].StateSchema does for a network's; in a network the network's
	// holds.
	StateSchema *Schema

	// Output makes the agent answer with JSON of this schema: see [Result].Output.
	// An answer that does not fit is sent back to the model once with its errors; if
	// the next one does not fit either, the run fails with code unavailable, and
	// keeps that answer.
	Output *Schema

	// StopWhen ends a run of the agent early. It is asked after each round in which
	// tools ran, with the result so far; nil is never. The results of the tools are
	// kept, and the finish reason is stop.
	StopWhen func(ctx context.Context, result *Result) (bool, error)

	// ToolChoice holds for the first model call of a run of the agent; later calls
	// are free, or the agent could never stop. [ToolChoiceNone] holds for all: a
	// model that still calls a tool gets an error as its result.
	ToolChoice      ToolChoice
	MaxRounds       int // model calls of one run of the agent; 0: until no tool is called, at most the host's limit
	OnMaxRounds     OnMaxRounds
	Temperature     *float64
	MaxOutputTokens int

	// ModelParameters are members of the requests to the model's service that have no
	// option here, by the service's names for them: top_p, seed, stop, any JSON.
	// They replace the host's member of the same name, such as temperature, and an
	// object is merged with the host's. Models refuse the members that the host has
	// to write itself (messages, tools, the limit of output) with code
	// invalid_argument, and services those that they do not know.
	// [Request].ModelParameters override them. At most [llm.MaxParameterBytes]. One has
	// no service's name: see [llm.PromptCacheParameter].
	ModelParameters map[string]any

	// SerialTools makes the agent's tools run one after the other, in the order in
	// which the model calls them: each sees the state as the one before left it. The
	// model is asked for at most one call an answer, too, where its provider has a
	// switch for that.
	SerialTools bool

	// JoinResults puts the results of the tools that one answer calls into one
	// message, in the order of the calls, and emits it when all results are there.
	// (So Genkit does it.) By default each result is a message of its own. Later
	// results, as those of calls that had a question, are another message.
	JoinResults bool
}

// OnMaxRounds says how an agent's run ends at the limits MaxRounds and
// MaxConsecutiveToolFailures.
type OnMaxRounds string

// The ways to end. The zero value is [StopAtMaxRounds] where the agent's own
// MaxRounds is reached, and [AnswerAtMaxRounds] at the host's limits MaxRounds and
// MaxConsecutiveToolFailures.
const (
	StopAtMaxRounds   OnMaxRounds = "stop"   // with the messages so far, and the finish reason max_rounds
	AnswerAtMaxRounds OnMaxRounds = "answer" // the same, when the model was asked once more with its tools off
	FailAtMaxRounds   OnMaxRounds = "fail"   // with code resource_exhausted
)

// InstructionsFunc makes an agent's system prompt.
type InstructionsFunc func(ctx context.Context, req *InstructionsRequest) (string, error)

// InstructionsRequest holds the values that instructions can depend on.
type InstructionsRequest struct {
	Scope Scope
	State *State
	Input *Message
	SoFar *SoFar // the conversation, the results and the agents; nil outside a run
}

// NewAgent returns an agent. Errors have code invalid_argument and name the
// agent: an empty name, two tools of one name, negative rounds, two kinds of
// instructions.
func NewAgent(name string, opts *AgentOptions) (*Agent, error) {
	if opts == nil {
		opts = &AgentOptions{}
	}
	a := &Agent{name: name, opts: *opts}
	a.opts.Tools = append([]*Tool(nil), opts.Tools...)
	a.opts.Processors = append([]Processor(nil), opts.Processors...)
	a.opts.Providers = append([]Provider(nil), opts.Providers...)
	a.opts.ProviderTools = append([]ProviderTool(nil), opts.ProviderTools...)
	if strings.TrimSpace(name) == "" {
		return nil, Errorf(InvalidArgument, "agent without a name")
	}
	if opts.MaxRounds < 0 {
		return nil, Errorf(InvalidArgument, "agent %q: max_rounds is %d", name, opts.MaxRounds).
			WithHint("leave it out to go on until no tool is called")
	}
	switch opts.OnMaxRounds {
	case "", StopAtMaxRounds, AnswerAtMaxRounds, FailAtMaxRounds:
	default:
		return nil, Errorf(InvalidArgument, "agent %q: on_max_rounds is %.60q", name, opts.OnMaxRounds).
			WithHint("use stop, answer or fail")
	}
	if opts.Instructions != "" && opts.InstructionsFunc != nil {
		return nil, Errorf(InvalidArgument, "agent %q has both Instructions and InstructionsFunc", name)
	}
	var err error
	if a.set, err = newToolSet(opts.Tools); err != nil {
		return nil, Errorf(InvalidArgument, "agent %q: %w", name, err)
	}
	if err := a.checkProviderTools(); err != nil {
		return nil, err
	}
	parameters, err := llm.EncodeParameters(opts.ModelParameters)
	if err != nil {
		return nil, wrapError(err, "agent %q", name)
	}
	a.opts.ModelParameters = asParameters(parameters) // the caller's map may change
	if err := checkProviders(&Network{}, a); err != nil {
		return nil, Errorf(InvalidArgument, "agent %q: %w", name, err)
	}
	if len(opts.Providers) == 0 {
		if err := a.checkToolChoice(a.set); err != nil {
			return nil, err
		}
	}
	return a.with(a.opts), nil
}

// checkToolChoice asks whether the agent's tool choice can be met; providers may
// have added to its tools.
func (a *Agent) checkToolChoice(tools toolSet) error {
	switch c := a.opts.ToolChoice; {
	case c == "" || c == ToolChoiceAuto || c == ToolChoiceNone || a.hasProviderTool(c):
		return nil
	case c == ToolChoiceAny && len(tools.specs) == 0:
		return Errorf(InvalidArgument, "agent %q: tool choice any without a tool", a.name)
	case c != ToolChoiceAny && tools.byName[string(c)] == nil:
		return Errorf(InvalidArgument, "agent %q: tool choice %q is none of its tools", a.name, c)
	}
	return nil
}

// WithModel returns an agent that differs in its model alone, under the same
// name, for another network or program. For one run [Request].Model is simpler.
// (AgentKit's method of this name loses the tool choice and the history.)
func (a *Agent) WithModel(model Model) *Agent {
	opts := a.opts
	opts.Model = model
	return a.with(opts)
}

// with returns an agent of the same name and tools that has these options.
func (a *Agent) with(opts AgentOptions) *Agent {
	b := &Agent{name: a.name, opts: opts, set: a.set}
	b.solo = &Network{name: b.name, agents: []*Agent{b}, byName: map[string]*Agent{b.name: b}, solo: true,
		opts: NetworkOptions{History: opts.History, StateSchema: opts.StateSchema}}
	return b
}

// Name returns the agent's name.
func (a *Agent) Name() string { return a.name }

// Description returns the description of the agent that routers see.
func (a *Agent) Description() string { return a.opts.Description }

// Info returns the agent as routers see it.
func (a *Agent) Info() AgentInfo {
	info := AgentInfo{Name: a.name, Description: a.opts.Description}
	for _, t := range a.opts.Tools {
		info.Tools = append(info.Tools, t.Name)
	}
	return info
}

func (a *Agent) network() *Network { return a.solo }

func (a *Agent) instructions(ctx context.Context, req *InstructionsRequest) (string, error) {
	if a.opts.InstructionsFunc == nil {
		return a.opts.Instructions, nil
	}
	text, err := a.opts.InstructionsFunc(ctx, req)
	if err != nil {
		return "", Errorf(CodeOf(err), "instructions of agent %q: %w", a.name, err)
	}
	return text, nil
}

func (a *Agent) enabled(ctx context.Context, req *InstructionsRequest) (bool, error) {
	if a.opts.Enabled == nil {
		return true, nil
	}
	return a.opts.Enabled(ctx, req)
}

var placeholder = regexp.MustCompile(`\{\{\s*\.state((?:\.[A-Za-z0-9_]+)*)\s*\}\}`)

// TemplateInstructions returns instructions with {{.state.path}} replaced by
// the state's value there: a string verbatim, any other value as JSON, an absent
// one as nothing. The language has nothing else: for logic write an
// [InstructionsFunc] or a provider. Code invalid_argument for any other use of {{.
func TemplateInstructions(text string) (InstructionsFunc, error) {
	if rest := placeholder.ReplaceAllString(text, " "); strings.Contains(rest, "{{") {
		return nil, Errorf(InvalidArgument, "instructions use {{ for something other than {{.state.path}}").
			WithHint("a template can only insert state; use a provider plugin for more")
	}
	return func(_ context.Context, req *InstructionsRequest) (string, error) {
		return placeholder.ReplaceAllStringFunc(text, func(match string) string {
			path := placeholder.FindStringSubmatch(match)[1]
			return req.State.view().Text(strings.ReplaceAll(path, ".", "/"))
		}), nil
	}, nil
}

// toolSet is a list of tools with names that occur once.
type toolSet struct {
	specs  []llm.ToolSpec
	byName map[string]*Tool
	hidden []llm.FoundTool
	live   bool // one of them may change
}

func newToolSet(tools []*Tool) (toolSet, error) {
	s := toolSet{byName: make(map[string]*Tool, len(tools))}
	for i, t := range tools {
		if t != nil && t.mistake != nil {
			return s, t.mistake
		}
		if t == nil || t.handler == nil {
			return s, Errorf(InvalidArgument, "tool %d was not made by NewTool or NewRawTool", i)
		}
		if s.byName[t.Name] != nil {
			return s, Errorf(InvalidArgument, "two tools are named %q", t.Name).
				WithHint("leave one out, or give one another name: a plugin's tools take a prefix or are renamed (prefix and rename of the plugin in agenthost.yaml, PartOptions in Go)")
		}
		s.byName[t.Name] = t
		if t.ways.foundBy != "" {
			s.hidden = append(s.hidden, llm.FoundTool{ToolSpec: t.ToolSpec, By: t.ways.foundBy})
		} else {
			s.specs = append(s.specs, t.ToolSpec)
		}
		s.live = s.live || t.live != nil
	}
	return s, nil
}

// current returns the set with the current version of each live tool.
func (s toolSet) current(ctx context.Context) toolSet {
	if !s.live {
		return s
	}
	now := toolSet{byName: maps.Clone(s.byName), specs: make([]llm.ToolSpec, len(s.specs)), hidden: s.hidden}
	for i, spec := range s.specs {
		t := s.byName[spec.Name].current(ctx)
		now.byName[spec.Name], now.specs[i] = t, t.ToolSpec
	}
	return now
}
