package mcpserver

import (
	"context"
	"encoding/json"
	"iter"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
)

// callable is what clients call as a tool.
type callable struct {
	name   string
	target host.Target // the network or agent; of a tool, an agent that has it
	tool   *host.Tool  // nil of a network or agent
	result bool        // clients know the schema of its results
}

// targetParameters are the arguments of a network or agent.
const (
	targetParameters = `{"type":"object","properties":{"message":{"type":"string","description":"What is wanted, in words."}},"required":["message"],"additionalProperties":false}`
	threadParameters = `{"type":"object","properties":{"message":{"type":"string","description":"What is wanted, in words."},` +
		`"thread":{"type":"string","description":"The id of the conversation to continue, from the result of an earlier call. Leave it out to start one."}},"required":["message"],"additionalProperties":false}`
	targetResult = `{"type":"object","properties":{"text":{"type":"string","description":"The answer."},"thread":{"type":"string","description":"The id of the conversation."}},"required":["text"]}`
)

// offerCalls offers targets and tools.
func (e *endpoint) offerCalls(ctx context.Context, offers *Offers, next map[string]string) {
	add := func(c *callable, t *mcp.Tool) {
		key := kindTool + c.name
		if _, taken := next[key]; taken {
			return // the first of a name is offered
		}
		e.offer(ctx, next, key, t, func() { e.server.AddTool(t, e.callTool) })
		if _, offered := next[key]; offered {
			e.calls.Store(c.name, c)
		}
	}
	for i := range offers.Targets {
		t := &offers.Targets[i]
		parameters := targetParameters
		if e.thread == "" && e.owner.opts.Threads != nil {
			parameters = threadParameters
		}
		add(&callable{name: t.ToolName(), target: t.Target, result: true}, &mcp.Tool{
			Name: t.ToolName(), Title: t.Title, Description: t.description(),
			InputSchema: json.RawMessage(parameters), OutputSchema: json.RawMessage(targetResult),
		})
	}
	if e.thread != "" {
		return // a token of one thread reaches tools by agents, in that thread
	}
	for i := range offers.Tools {
		t := &offers.Tools[i]
		agent, err := e.owner.agentOf(t.Tool)
		if err != nil {
			e.owner.opts.Logger.WarnContext(ctx, "not offered to clients", "tenant", e.tenant, "tool", t.Name, "error", err)
			continue
		}
		c := &callable{name: t.Name, target: agent, tool: t.Tool}
		add(c, t.definition(c))
	}
}

// definition returns the tool as clients see it.
func (t *Tool) definition(c *callable) *mcp.Tool {
	d := &mcp.Tool{Name: t.Name, Title: t.Title, Description: t.Tool.Description, InputSchema: t.Parameters,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.ReadOnly, IdempotentHint: t.Idempotent}}
	switch {
	case t.ReadOnly:
		d.Annotations.DestructiveHint = new(false)
	case t.Destructive:
		d.Annotations.DestructiveHint = new(true)
	case t.Additive:
		d.Annotations.DestructiveHint = new(false)
	}
	if t.Closed {
		d.Annotations.OpenWorldHint = new(bool)
	}
	var result struct {
		Type string `json:"type"`
	}
	if len(t.Result) > 0 && json.Unmarshal(t.Result, &result) == nil && result.Type == "object" {
		d.OutputSchema, c.result = t.Result, true
	}
	return d
}

// agentOf returns an agent whose runs are calls of a tool: its model is asked once, and
// answers with the call.
func (s *Server) agentOf(t *host.Tool) (*host.Agent, error) {
	return host.NewAgent(t.Name, &host.AgentOptions{Tools: []*host.Tool{t}, MaxRounds: 1, History: s.history, Model: oneCall{}})
}

// oneCall is a model that answers with one call. The zero value, for a run that is resumed
// with its call, answers nothing.
type oneCall struct {
	tool      string
	arguments json.RawMessage
}

// Name implements [llm.Model].
func (oneCall) Name() string { return "mcp" }

// Generate implements [llm.Model].
func (m oneCall) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		answer := &llm.Response{Model: m.Name(), FinishReason: chat.FinishStop}
		if m.tool != "" {
			answer.Parts = []chat.Part{&chat.ToolCall{ID: chat.NewID(), Name: m.tool, Arguments: m.arguments}}
			answer.FinishReason = chat.FinishToolCalls
		}
		yield(llm.Chunk{Response: answer}, nil)
	}
}

// callHistory is the history of runs of tools, which stores only the records of questions,
// and those only with a journal.
type callHistory struct{}

// Get implements [host.HistoryLoader].
func (callHistory) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) {
	return &host.Loaded{}, nil
}

func newCallHistory(journal host.Journal) (*host.History, error) {
	if journal == nil {
		return host.NewHistory(callHistory{}, nil)
	}
	return host.NewHistory(struct {
		callHistory
		host.Journal
	}{Journal: journal}, nil)
}

// guard wraps the handling of each message: a panic becomes an error, and lists of resources
// are read from the present artifacts.
func (e *endpoint) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if v := recover(); v != nil {
				e.owner.opts.Logger.ErrorContext(ctx, "a message of a client made the server panic", "tenant", e.tenant, "method", method, "panic", v, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.MaskedText(fault.Internal, "")}
			}
		}()
		switch method {
		case "resources/list":
			return e.listResources(ctx, req, next)
		case "logging/setLevel":
			e.logs.Store(true)
		}
		return next(ctx, method, req)
	}
}

// requestOf returns the request that a message came with, or the stream that it came over.
func requestOf(ctx context.Context, extra *mcp.RequestExtra) *request {
	if extra != nil && extra.TokenInfo != nil {
		if r, ok := extra.TokenInfo.Extra[tokenRequest].(*request); ok {
			return r
		}
	}
	from, _ := ctx.Value(streamKey{}).(*request)
	return from
}

// errNoCaller is the error of a message without a request: the program has a fault.
func errNoCaller() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.MaskedText(fault.Internal, "")}
}

// callTool implements [mcp.ToolHandler] for every tool.
func (e *endpoint) callTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	from := requestOf(ctx, req.Extra)
	if from == nil {
		return nil, errNoCaller()
	}
	known, ok := e.calls.Load(req.Params.Name)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no tool of that name any more"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(from.gone, cancel)()
	c := &call{endpoint: e, callable: known.(*callable), caller: &from.caller, threads: e.threadsOf(from, req.Session), req: req}
	return c.run(ctx)
}

// call is a call of a client.
type call struct {
	*callable
	endpoint *endpoint
	caller   *Caller
	threads  *keptThreads // that the session continues; nil without a session
	req      *mcp.CallToolRequest
	progress progress
}

// run runs the call to its end: to its result, or to questions that the client is to answer.
func (c *call) run(ctx context.Context) (*mcp.CallToolResult, error) {
	request, err := c.request()
	if err == nil && c.req.Params.RequestState != "" {
		var again *mcp.CallToolResult
		if request, again, err = c.resumed(ctx); again != nil {
			return again, nil
		}
	}
	for err == nil {
		var o *outcome
		if o, err = c.start(ctx, request); err != nil {
			break
		}
		if len(o.questions) == 0 {
			return c.result(o), nil
		}
		if c.isStateless() {
			return c.ask(o)
		}
		answers, asked := c.elicit(ctx, o)
		if asked != nil {
			return asked, nil
		}
		request = c.answered(o, answers)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the client has left, or has canceled the call, and reads nothing
	}
	return c.failed(err, ""), nil
}

// request returns the request of the run that the call is.
func (c *call) request() (*host.Request, error) {
	r := &host.Request{Tenant: c.caller.Tenant, Key: c.caller.Key}
	if c.tool != nil {
		arguments := c.req.Params.Arguments
		if len(arguments) == 0 {
			arguments = json.RawMessage("{}")
		}
		r.Text, r.Model = "Call "+c.tool.Name+".", oneCall{c.tool.Name, arguments}
		return r, nil
	}
	var in struct {
		Message *string `json:"message"`
		Thread  string  `json:"thread"`
	}
	if err := decodeArguments(c.req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	if in.Message == nil {
		return nil, host.Errorf(host.InvalidArgument, `the argument "message" is missing`)
	}
	r.Text = *in.Message
	switch only := c.caller.Thread; {
	case only != "" && in.Thread != "" && in.Thread != only:
		return nil, host.Errorf(host.NotFound, "there is no thread %.60q", in.Thread)
	case only != "":
		r.Thread = only
	case in.Thread != "":
		r.Thread = in.Thread
	case c.endpoint.owner.opts.KeepThreads:
		r.Thread = c.threads.of(c.name)
	}
	return r, nil
}

// outcome is how a run has ended.
type outcome struct {
	run       *runs.Run
	text      string           // of the last answer
	result    *chat.ToolResult // of the last call
	artifacts []chat.Artifact
	questions []*host.Question
}

// start starts a run and follows it to its end. The run ends with ctx.
func (c *call) start(ctx context.Context, request *host.Request) (*outcome, error) {
	registry := c.endpoint.owner.runs
	if len(request.Answers) > 0 && c.caller.Answering != nil {
		if err := c.caller.Answering(ctx, request.Resume); err != nil {
			return nil, err
		}
	}
	run, attached, err := registry.StartAttached(ctx, c.target, request, nil)
	if err != nil {
		return nil, err
	}
	defer attached.Detach()
	o := &outcome{}
	failure := c.follow(ctx, attached, o)
	if ctx.Err() != nil {
		if _, err := registry.Cancel(context.WithoutCancel(ctx), run.Tenant, run.ID); err != nil {
			c.endpoint.owner.opts.Logger.WarnContext(ctx, "a run whose client has left is not canceled", "tenant", run.Tenant, "run", run.ID, "error", err)
		}
		return nil, fault.AsError(fault.ContextError(ctx))
	}
	c.flush(ctx)
	if o.run, err = attached.Wait(ctx); o.run == nil {
		return nil, err
	}
	if c.tool == nil && c.endpoint.owner.opts.KeepThreads {
		c.threads.keep(c.name, o.run.Thread)
	}
	if o.run.Status == runs.Interrupted {
		o.questions = o.run.Questions
		return o, nil
	}
	if failure != nil {
		return nil, &runError{failure, run.ID}
	}
	return o, nil
}

// follow follows a run to its end, and returns its error. A client that wants to read nothing
// before the result spares the run its reader.
func (c *call) follow(ctx context.Context, run *runs.Attachment, o *outcome) error {
	s := c.endpoint.owner
	if s.opts.View == nil && c.wantsNone() && !c.wantsLogs() {
		ended, err := run.Wait(ctx)
		if ended != nil && ended.Result != nil {
			for _, result := range ended.Result.Results {
				for _, m := range result.Messages {
					o.takeMessage(m)
				}
			}
			o.artifacts = ended.Result.Artifacts
		}
		return err
	}
	for ev, err := range c.events(ctx, run) {
		if err != nil {
			return err
		}
		o.take(ev)
		c.report(ctx, ev)
	}
	return nil
}

// runError is the error of a run, with its id.
type runError struct {
	error
	run string
}

func (e *runError) Unwrap() error { return e.error }

// events yields the events of a run that clients may see.
func (c *call) events(ctx context.Context, run *runs.Attachment) iter.Seq2[host.Event, error] {
	s := c.endpoint.owner
	events := run.Events(ctx, 0)
	if s.opts.View == nil {
		return events
	}
	return s.opts.View.Events(ctx, events)
}

// take takes over what an event adds to the result.
func (o *outcome) take(ev host.Event) {
	switch d := ev.Data.(type) {
	case *runevent.MessageDone:
		o.takeMessage(d.Message)
	case *runevent.ArtifactMade:
		o.artifacts = chat.PutArtifact(o.artifacts, *d.Artifact)
	}
}

func (o *outcome) takeMessage(m *chat.Message) {
	switch m.Role {
	case chat.Assistant:
		if text := m.Text(); text != "" {
			o.text = text
		}
	case chat.ToolRole:
		for _, p := range m.Parts {
			if r, ok := p.(*chat.ToolResult); ok {
				o.result = r
			}
		}
	}
}

// failed returns the result of a call that failed.
func (c *call) failed(err error, run string) *mcp.CallToolResult {
	if of, ok := err.(*runError); ok {
		run, err = of.run, of.error
	}
	e := c.endpoint.owner.forClient(err, run)
	r := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: e.Error()}}, Meta: mcp.Meta{metaCode: string(e.Code)}}
	if run != "" {
		r.Meta[metaRun] = run
	}
	if e.RetryAfter > 0 {
		r.Meta[metaRetryAfter] = e.RetryAfter.Milliseconds()
	}
	return r
}

// The members of the metadata of results.
const (
	metaRun        = "agenthost/run"
	metaThread     = "agenthost/thread"
	metaCode       = "agenthost/code"
	metaRetryAfter = "agenthost/retry_after_ms"
)

// forClient returns an error as clients may read it, and logs one of which they read less.
func (s *Server) forClient(err error, run string) *fault.Error {
	if s.opts.WholeErrors {
		return fault.AsError(err)
	}
	if fault.Masked(err) && host.CodeOf(err) != host.Canceled {
		s.opts.Logger.Error("request failed", "run", run, "error", err)
	}
	return fault.ForClient(err, run)
}
