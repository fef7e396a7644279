package hosttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/nested"
)

// TranscriptNetwork is the section network.json of a transcript. One agent
// without a router runs on its own.
type TranscriptNetwork struct {
	Name   string            `json:"name"`   // default "network"
	Agents []TranscriptAgent `json:"agents"` // in order
	Tools  []TranscriptTool  `json:"tools"`

	// Router chooses the next agent: "model" for the default model router, the name of a
	// router of the test, or a list of its answers after 0, 1, 2... agents have run; past
	// its end no agent is chosen. RunRouter is the request's router.
	Router    json.RawMessage `json:"router"`
	RunRouter json.RawMessage `json:"run_router"`

	MaxIterations int             `json:"max_iterations"`
	Processors    []string        `json:"processors"`
	Providers     []string        `json:"providers"`
	State         json.RawMessage `json:"state"`
	StateSchema   json.RawMessage `json:"state_schema"`
	RunState      json.RawMessage `json:"run_state"` // the request's
	StateOfRun    bool            `json:"state_of_run"`
	Discard       bool            `json:"discard_on_failure"`

	History  *TranscriptHistory `json:"history"`
	Thread   string             `json:"thread"` // of the first turn
	Extra    string             `json:"run_instructions"`
	Messages []*host.Message    `json:"messages"` // the client's conversation

	Limits host.Limits `json:"limits"`
}

// TranscriptHistory gives a transcript a history in memory.
type TranscriptHistory struct {
	Processors []string        `json:"processors"`
	OfAgent    string          `json:"of_agent"` // the agent whose history it is, instead of the network's
	Thread     string          `json:"thread"`   // the thread of Messages
	Messages   []*host.Message `json:"messages"`
}

// TranscriptAgent is an agent of a transcript.
type TranscriptAgent struct {
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Instructions string   `json:"instructions"` // {{.state.x}} is replaced
	OnCall       bool     `json:"on_call"`      // of the network, and shown to no model
	Prefill      string   `json:"prefill"`
	Tools        []string `json:"tools"`
	Processors   []string `json:"processors"`
	Providers    []string `json:"providers"`
	ToolChoice   string   `json:"tool_choice"`
	MaxRounds    int      `json:"max_rounds"`
	Disabled     bool     `json:"disabled"`
	NoModel      bool     `json:"no_model"` // run without any model
}

// TranscriptTool is a tool with the same effect on each call. Without Parameters it
// takes any arguments.
type TranscriptTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Result      json.RawMessage `json:"result"`
	Error       string          `json:"error"`
	Panic       string          `json:"panic"`
	State       []host.PatchOp  `json:"state"`
	Schedule    []string        `json:"schedule"`
	Interrupt   *host.Interrupt `json:"interrupt"` // asked until it has an answer
	Approval    string          `json:"approval"`  // the reason why each call needs one
	Client      bool            `json:"client"`    // executed by the client
	Emit        json.RawMessage `json:"emit"`      // as an event of kind "progress"

	// Calls are calls of other tools, one after the other: their answers are the result.
	Calls []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"calls"`
}

// newStage builds the network of a transcript. An error of the configuration may be the
// transcript's subject.
func newStage(archive *txtar.Archive, opts *TranscriptOptions) (*stage, error) {
	s := &stage{}
	def := TranscriptNetwork{Name: "network"}
	for _, f := range archive.Files {
		var err error
		switch f.Name {
		case "network.json":
			err = decodeStrict(f.Data, &def)
		case "model":
			s.model, err = parseModel(string(f.Data))
		default:
			if !strings.HasPrefix(f.Name, "turn ") {
				err = fmt.Errorf("unknown section")
			}
		}
		if err != nil {
			return s, fmt.Errorf("section %s: %w", f.Name, err)
		}
	}
	if s.model == nil {
		s.model = NewModel()
	}
	return s, s.build(&def, opts)
}

func decodeStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func (s *stage) build(def *TranscriptNetwork, opts *TranscriptOptions) error {
	b := &builder{def: def, opts: opts, stage: s, tools: map[string]*host.Tool{}}
	for name, tool := range opts.Tools {
		b.tools[name] = tool
	}
	limits := def.Limits
	limits.ParallelTools = 1
	var err error
	if s.host, err = host.New(&host.Options{SingleTenant: true, Limits: limits, Tokens: opts.Tokens, Journal: NewJournal()}); err != nil {
		return err
	}
	if err := b.makeTools(); err != nil {
		return err
	}
	if s.target, err = b.target(); err != nil {
		return err
	}
	s.request = host.Request{Tenant: "acme", Thread: def.Thread, Messages: def.Messages, Instructions: def.Extra}
	if len(def.RunState) > 0 {
		s.request.State = def.RunState
	}
	s.request.Router, err = b.router(def.RunRouter)
	return err
}

// builder makes a stage from its description.
type builder struct {
	def   *TranscriptNetwork
	opts  *TranscriptOptions
	stage *stage
	tools map[string]*host.Tool
}

func (b *builder) makeTools() error {
	for _, def := range b.def.Tools {
		if len(def.Parameters) == 0 {
			def.Parameters = json.RawMessage(`{"type":"object"}`)
		}
		spec := llm.ToolSpec{Name: def.Name, Description: def.Description, Parameters: def.Parameters}
		opts := &host.ToolOptions{}
		if def.Approval != "" {
			opts.Approve = host.ApproveAlways(def.Approval)
		}
		for _, c := range def.Calls {
			opts.Calls = append(opts.Calls, c.Name)
		}
		tool, err := host.NewRawTool(spec, def.run, opts)
		if def.Client {
			tool, err = host.NewClientTool(spec)
		}
		if err != nil {
			return err
		}
		b.tools[def.Name] = tool
	}
	return nil
}

func (def *TranscriptTool) run(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
	if len(def.Emit) > 0 {
		if err := call.Emit("progress", def.Emit); err != nil {
			return nil, err
		}
	}
	switch {
	case def.Panic != "":
		panic(def.Panic)
	case def.Error != "":
		return nil, fmt.Errorf("%s", def.Error)
	}
	if len(def.Calls) > 0 {
		return def.callTools(ctx, call)
	}
	out := &host.ToolOutput{Content: def.Result, State: def.State, Schedule: def.Schedule}
	if len(call.Resumed) == 0 {
		out.Interrupt = def.Interrupt
	}
	return out, nil
}

func (def *TranscriptTool) callTools(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
	var results []json.RawMessage
	for _, c := range def.Calls {
		answers, err := call.CallTools(ctx, []nested.Call{{Name: c.Name, Arguments: c.Arguments}})
		if err != nil {
			return nil, err
		}
		results = append(results, answers[0].Content)
	}
	content, err := json.Marshal(results)
	return &host.ToolOutput{Content: content}, err
}

func (b *builder) target() (host.Target, error) {
	history, err := b.history()
	if err != nil {
		return nil, err
	}
	var agents, onCall []*host.Agent
	for i := range b.def.Agents {
		def := &b.def.Agents[i]
		a, err := b.agent(def, history)
		switch {
		case err != nil:
			return nil, err
		case def.OnCall:
			onCall = append(onCall, a)
		default:
			agents = append(agents, a)
		}
	}
	if len(agents) == 1 && len(b.def.Router) == 0 {
		return agents[0], nil
	}
	opts := &host.NetworkOptions{MaxIterations: b.def.MaxIterations, StateOfRun: b.def.StateOfRun, DiscardOnFailure: b.def.Discard, OnCall: onCall}
	if b.def.History == nil || b.def.History.OfAgent == "" {
		opts.History = history
	}
	if len(b.def.State) > 0 {
		opts.State = b.def.State
	}
	if len(b.def.StateSchema) > 0 {
		if opts.StateSchema, err = host.CompileSchema(b.def.StateSchema); err != nil {
			return nil, err
		}
	}
	if len(b.def.Agents) > 0 && !b.def.Agents[0].NoModel {
		opts.Model = b.stage.model
	}
	if opts.Router, err = b.router(b.def.Router); err != nil {
		return nil, err
	}
	if opts.Processors, err = pick("processor", b.opts.Processors, b.def.Processors); err != nil {
		return nil, err
	}
	if opts.Providers, err = pick("provider", b.opts.Providers, b.def.Providers); err != nil {
		return nil, err
	}
	return host.NewNetwork(b.def.Name, agents, opts)
}

func (b *builder) agent(def *TranscriptAgent, history *host.History) (*host.Agent, error) {
	opts := &host.AgentOptions{
		Description: def.Description, Prefill: def.Prefill, ToolChoice: host.ToolChoice(def.ToolChoice), MaxRounds: def.MaxRounds,
	}
	if len(b.def.Agents) == 1 && len(b.def.Router) == 0 || b.def.History != nil && b.def.History.OfAgent == def.Name {
		opts.History = history
	}
	if !def.NoModel {
		opts.Model = b.stage.model
	}
	if def.Disabled {
		opts.Enabled = func(context.Context, *host.InstructionsRequest) (bool, error) { return false, nil }
	}
	var err error
	if opts.Instructions = def.Instructions; strings.Contains(def.Instructions, "{{") {
		opts.Instructions = ""
		if opts.InstructionsFunc, err = host.TemplateInstructions(def.Instructions); err != nil {
			return nil, err
		}
	}
	if opts.Tools, err = pick("tool", b.tools, def.Tools); err != nil {
		return nil, err
	}
	if opts.Processors, err = pick("processor", b.opts.Processors, def.Processors); err != nil {
		return nil, err
	}
	if opts.Providers, err = pick("provider", b.opts.Providers, def.Providers); err != nil {
		return nil, err
	}
	return host.NewAgent(def.Name, opts)
}

func pick[T any](kind string, from map[string]T, names []string) ([]T, error) {
	var out []T
	for _, name := range names {
		v, ok := from[name]
		if !ok {
			return nil, fmt.Errorf("the transcript names the %s %q, which the test does not give it", kind, name)
		}
		out = append(out, v)
	}
	return out, nil
}

func (b *builder) history() (*host.History, error) {
	def := b.def.History
	if def == nil {
		return nil, nil
	}
	b.stage.history = NewHistory()
	if def.Thread != "" {
		b.stage.history.Seed("acme", def.Thread, def.Messages...)
	}
	processors, err := pick("processor", b.opts.Processors, def.Processors)
	if err != nil {
		return nil, err
	}
	return host.NewHistory(b.stage.history, &host.HistoryOptions{Processors: processors})
}

// router makes a router from its description; nil stays nil.
func (b *builder) router(raw json.RawMessage) (host.Router, error) {
	var name string
	var steps []transcriptRoute
	switch {
	case len(raw) == 0:
		return nil, nil
	case json.Unmarshal(raw, &name) == nil && name == "model":
		return host.NewModelRouter(host.DefaultRouter, nil), nil
	case name != "":
		routers, err := pick("router", b.opts.Routers, []string{name})
		if err != nil {
			return nil, err
		}
		return routers[0], nil
	case json.Unmarshal(raw, &steps) == nil:
		return scriptedRouter(steps), nil
	}
	return nil, fmt.Errorf("router %s is neither a name nor a list", raw)
}

// transcriptRoute is a list of agents, or an object with delegate or error.
type transcriptRoute struct {
	Next     []string
	Delegate string
	Error    string
}

// UnmarshalJSON reads either form.
func (r *transcriptRoute) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, &r.Next)
	}
	type object transcriptRoute
	return json.Unmarshal(b, (*object)(r))
}

func scriptedRouter(steps []transcriptRoute) host.Router {
	return host.RouterFunc("script", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount >= len(steps) {
			return nil, nil
		}
		step := steps[req.CallCount]
		if step.Error != "" {
			return nil, fmt.Errorf("%s", step.Error)
		}
		reason := fmt.Sprintf("%d agents have run", req.CallCount)
		if len(req.Stack) > 0 {
			reason += ", waiting: " + strings.Join(req.Stack, ",")
		}
		if req.Last != nil {
			reason += ", last: " + req.Last.Agent
		}
		return &host.Route{Next: step.Next, Delegate: step.Delegate, Reason: reason}, nil
	})
}

// parseModel reads the section model.
func parseModel(text string) (*Model, error) {
	var replies []Reply
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.TrimSpace(block) == "" {
			continue
		}
		r := Reply{}
		for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
			if err := r.parseLine(line); err != nil {
				return nil, err
			}
		}
		replies = append(replies, r)
	}
	return NewModel(replies...), nil
}

func (r *Reply) parseLine(line string) error {
	key, rest, ok := strings.Cut(line, ":")
	rest = strings.TrimSpace(rest)
	key, id, _ := strings.Cut(key, "#")
	switch {
	case !ok:
		return fmt.Errorf("line %q has no colon", line)
	case key == "say":
		r.Text = strings.TrimPrefix(r.Text+"\n"+rest, "\n")
	case key == "think":
		r.Reasoning = rest
	case key == "finish":
		r.FinishReason = host.FinishReason(rest)
	case key == "call":
		name, arguments, _ := strings.Cut(rest, " ")
		r.Calls = append(r.Calls, &host.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)})
	case key == "error":
		code, message, _ := strings.Cut(rest, ":")
		r.Err = host.Errorf(host.Code(code), "%s", strings.TrimSpace(message))
	default:
		return fmt.Errorf("line %q begins with none of say, think, call, finish, error", line)
	}
	return nil
}
