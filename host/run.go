package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// run is one run of a network: the loop of the package. Everything but the
// tools happens in the goroutine of whoever reads the events.
type run struct {
	host   *Host
	net    *Network
	req    *Request
	limits Limits
	yield  func(Event, error) bool
	cancel context.CancelFunc
	broken bool // the reader has left

	id      string
	tenant  string
	thread  string
	started time.Time
	seq     int64
	at      string // the agent at work

	history *History
	hreq    *HistoryRequest
	head    string
	input   *Message
	past    []*Message // before this turn, with open calls closed
	state   *State
	patched bool // the whole state has been sent

	results    []*Result
	artifacts  []Artifact
	iterations int
	toolCalls  int
	usage      Usage
	cost       Cost
	stack      []string
	steps      *steps
}

func newRun(h *Host, n *Network, req *Request) (*run, error) {
	if req == nil {
		req = &Request{}
	}
	r := &run{
		host: h, net: n, req: req, limits: h.opts.Limits,
		id: NewID(), tenant: req.Tenant, thread: req.Thread, started: time.Now(), steps: newSteps(),
	}
	r.history = n.opts.History
	if r.history == nil {
		r.history = h.opts.History
	}
	var err error
	if r.input, err = r.readInput(); err != nil {
		return nil, err
	}
	for _, a := range n.agents {
		if r.model(a) == nil {
			return nil, Errorf(InvalidArgument, "agent %q has no model", a.name).
				WithHint("set one on the agent, the network, the host or the request")
		}
	}
	return r, nil
}

func (r *run) readInput() (*Message, error) {
	m := r.req.Input
	switch {
	case m != nil && r.req.Text != "":
		return nil, Errorf(InvalidArgument, "request has both Text and Input")
	case m == nil && r.req.Text == "":
		return nil, nil
	case m == nil:
		m = UserText(r.req.Text)
	case m.Role != User:
		return nil, Errorf(InvalidArgument, "input message has role %q, not user", m.Role)
	default:
		m = withIdentity(m, nil)
	}
	if n := len(m.AppendJSON(nil)); n > r.limits.InputBytes {
		return nil, Errorf(ResourceExhausted, "input is %d bytes, more than the limit InputBytes of %d", n, r.limits.InputBytes).
			WithHint("send less, or give the agent a tool that reads it in pieces")
	}
	return m, nil
}

// model returns the model for an agent: the run's beats the agent's, which
// beats the network's, which beats the host's.
func (r *run) model(a *Agent) Model {
	for _, m := range []Model{r.req.Model, a.opts.Model, r.net.opts.Model, r.host.opts.Model} {
		if m != nil {
			return m
		}
	}
	return nil
}

func (r *run) scope() Scope {
	return Scope{Tenant: r.tenant, Thread: r.thread, Run: r.id, Network: r.net.name, Agent: r.at}
}

// emit sends an event to the reader. Once the reader has left it cancels the
// run and goes on without sending.
func (r *run) emit(data EventData) {
	if r.broken {
		return
	}
	ev := Event{Seq: r.seq, Time: time.Now().UTC(), Run: r.id, Network: r.net.name, Agent: r.at, Data: data}
	r.seq++
	if !r.yield(ev, nil) {
		r.broken = true
		r.cancel()
	}
}

// do is a run from beginning to end.
func (r *run) do(ctx context.Context) error {
	unlock, err := r.lockThread(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.open(ctx); err != nil {
		return r.finish(ctx, "", err)
	}
	reason, err := r.loop(ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.at = ""
	commitErr := r.commit(ctx, reason, err)
	return r.finish(ctx, reason, errors.Join(err, commitErr))
}

func (r *run) lockThread(ctx context.Context) (func(), error) {
	if r.history == nil || r.history.lock == nil || r.thread == "" {
		return func() {}, nil
	}
	return r.history.lock(ctx, &HistoryRequest{Tenant: r.tenant, Thread: r.thread, Run: r.id, Network: r.net.name})
}

// open makes the thread, stores the user's message and loads what was before.
func (r *run) open(ctx context.Context) error {
	r.hreq = &HistoryRequest{Tenant: r.tenant, Thread: r.thread, Run: r.id, Network: r.net.name, Input: r.input}
	created, err := r.ensureThread(ctx)
	if err != nil {
		return err
	}
	if err := r.storeInput(ctx); err != nil {
		return err
	}
	loaded, err := r.load(ctx, created)
	if err != nil {
		return err
	}
	if err := r.setState(loaded); err != nil {
		return err
	}
	r.past = r.pastMessages(loaded)
	started := &RunStarted{Tenant: r.tenant, Thread: r.thread}
	if r.input != nil {
		started.Message = r.input.ID
	} else if len(r.past) == 0 {
		return Errorf(InvalidArgument, "there is neither input nor a conversation to go on with").WithHint("say something")
	}
	r.emit(started)
	r.emitState()
	return nil
}

func (r *run) ensureThread(ctx context.Context) (created bool, err error) {
	if r.history == nil {
		return false, nil
	}
	if r.history.createThread != nil {
		var id string
		if id, created, err = r.history.createThread(ctx, r.hreq); err != nil {
			return false, wrapError(err, "create thread %q", r.thread)
		}
		if r.thread == "" {
			r.thread = id
		}
	}
	if r.thread == "" && r.history.get != nil {
		r.thread, created = NewID(), true
	}
	r.hreq.Thread = r.thread
	return created, nil
}

func (r *run) storeInput(ctx context.Context) error {
	if r.history == nil || r.history.appendUser == nil || r.input == nil {
		return nil
	}
	head, err := r.history.appendUser(ctx, r.hreq)
	if err != nil {
		return wrapError(err, "store the user's message in thread %q", r.thread)
	}
	r.head = head
	return nil
}

func (r *run) load(ctx context.Context, created bool) (*Loaded, error) {
	if r.history == nil || r.history.get == nil || created || len(r.req.Messages) > 0 {
		return &Loaded{Messages: r.req.Messages}, nil
	}
	loaded, err := r.history.get(ctx, r.hreq)
	if err != nil {
		return nil, wrapError(err, "load thread %q", r.thread)
	}
	if loaded == nil {
		return &Loaded{}, nil
	}
	if r.head == "" {
		r.head = loaded.Head
	}
	return loaded, nil
}

// pastMessages returns the conversation before this turn: without the message
// just stored, each message once, no call left open.
func (r *run) pastMessages(loaded *Loaded) []*Message {
	past := loaded.Messages
	if r.input != nil {
		past = slices.DeleteFunc(slices.Clone(past), func(m *Message) bool { return m.ID == r.input.ID })
	}
	return closeOpenCalls(past)
}

func (r *run) setState(loaded *Loaded) error {
	layers := []any{r.net.opts.State, loaded.State, r.req.State}
	if r.net.opts.StateOfRun {
		layers[1] = nil
	}
	merged := map[string]any{}
	for _, layer := range layers {
		raw, err := stateJSON(layer)
		if err != nil {
			return err
		}
		members, err := decodeState(raw)
		if err != nil {
			return err
		}
		maps.Copy(merged, members)
	}
	var err error
	r.state, err = newState(merged, r.limits.StateBytes)
	return err
}

// emitState sends what has changed of the state since it was last sent.
func (r *run) emitState() {
	ops := r.state.takeChanges()
	if !r.patched {
		r.patched = true
		r.emit(&StatePatched{Ops: []PatchOp{{Op: "replace", Path: "", Value: r.state.JSON()}}})
		return
	}
	if len(ops) > 0 {
		r.emit(&StatePatched{Ops: ops})
	}
}

// loop asks the router and runs agents until there is nobody to run.
func (r *run) loop(ctx context.Context) (FinishReason, error) {
	for {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		if err := r.route(ctx); err != nil {
			return "", err
		}
		if len(r.stack) == 0 {
			return r.reasonOfLast(), nil
		}
		if r.iterations >= r.maxIterations() {
			return FinishMaxIterations, nil
		}
		name := r.stack[0]
		r.stack = r.stack[1:]
		result, err := r.runAgent(ctx, r.net.byName[name])
		r.iterations++
		if result != nil {
			r.results = append(r.results, result)
			r.usage = r.usage.Add(result.Usage)
		}
		if err != nil {
			return "", err
		}
		if result.FinishReason == FinishInterrupted {
			return FinishInterrupted, nil
		}
	}
}

func (r *run) maxIterations() int {
	if n := r.net.opts.MaxIterations; n > 0 {
		return min(n, r.limits.MaxIterations)
	}
	return r.limits.MaxIterations
}

// reasonOfLast is how a run ends that nothing has stopped.
func (r *run) reasonOfLast() FinishReason {
	if r.net.solo && len(r.results) > 0 {
		return r.results[len(r.results)-1].FinishReason
	}
	return FinishStop
}

// route asks the router and puts whom it names on the stack. At most n
// iterations mean at most n questions.
func (r *run) route(ctx context.Context) error {
	if r.iterations > 0 && r.iterations >= r.maxIterations() {
		return nil
	}
	r.at = ""
	router := r.net.router
	if r.req.Router != nil {
		router = r.req.Router
	}
	route, router, err := r.decide(ctx, router)
	if err != nil {
		return wrapError(err, "router %q", router.Name())
	}
	for _, name := range route.Next {
		if r.net.byName[name] == nil {
			return Errorf(InvalidArgument, "router %q names the agent %q, which network %q does not have", router.Name(), name, r.net.name).
				WithHint("its agents are: %v", agentNames(r.net.Agents()))
		}
	}
	if len(r.stack)+len(route.Next) > maxScheduledAgents {
		return Errorf(ResourceExhausted, "router %q schedules more than %d agents", router.Name(), maxScheduledAgents)
	}
	r.cost.Add(route.Cost)
	if _, quiet := router.(onceRouter); !quiet {
		r.emit(&RouteChosen{Router: router.Name(), Call: r.iterations, Next: route.Next, Reason: route.Reason, Cost: route.Cost})
	}
	r.stack = append(r.stack, route.Next...)
	return nil
}

// maxDelegations bounds a chain of routers that delegate to each other.
const maxDelegations = 4

// decide asks a router, and those it delegates to.
func (r *run) decide(ctx context.Context, router Router) (*Route, Router, error) {
	for range maxDelegations {
		route, err := router.Route(ctx, r.routeRequest())
		if err != nil {
			return nil, router, err
		}
		if route == nil {
			route = &Route{}
		}
		if route.Delegate == "" {
			return route, router, nil
		}
		r.cost.Add(route.Cost)
		next, err := r.net.delegate(route.Delegate)
		if err != nil {
			return nil, router, err
		}
		router = next
	}
	return nil, router, Errorf(FailedPrecondition, "routers delegate to each other more than %d times", maxDelegations)
}

func (r *run) routeRequest() *RouteRequest {
	req := &RouteRequest{
		Scope: r.scope(), Input: r.input, CallCount: r.iterations, Stack: slices.Clone(r.stack),
		Agents: r.net.Agents(), State: r.state, Results: r.results[:len(r.results):len(r.results)],
		Messages: r.messages(), run: r,
	}
	if n := len(r.results); n > 0 {
		req.Last = r.results[n-1]
	}
	return req
}

// messages returns the conversation as it stands: past, input, results.
func (r *run) messages() []*Message {
	n := len(r.past) + 1
	for _, res := range r.results {
		n += len(res.Messages)
	}
	out := append(make([]*Message, 0, n+8), r.past...)
	if r.input != nil {
		out = append(out, r.input)
	}
	for _, res := range r.results {
		out = append(out, res.Messages...)
	}
	return out
}

// commit stores what the run leaves behind, once, also when it failed or was
// cancelled.
func (r *run) commit(ctx context.Context, reason FinishReason, failure error) error {
	if r.history == nil || r.history.appendResult == nil || r.iterations == 0 {
		return nil
	}
	turn := &Turn{Head: r.head, Results: r.results, Artifacts: r.artifacts, Status: reason, Usage: r.usage}
	if !r.net.opts.StateOfRun {
		turn.State = r.state.JSON()
	}
	if failure != nil {
		turn.Status, turn.Error = statusOf(failure), AsError(failure)
		if r.net.opts.DiscardOnFailure {
			turn.Results, turn.State, turn.Artifacts = nil, nil, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limits.CommitTimeout)
	defer cancel()
	if err := r.history.appendResult(ctx, r.hreq, turn); err != nil {
		return wrapError(err, "store the results of the run in thread %q", r.thread)
	}
	return nil
}

func statusOf(err error) FinishReason {
	if CodeOf(err) == Canceled {
		return FinishCanceled
	}
	return FinishFailed
}

// finish sends the last event and returns the run's error.
func (r *run) finish(ctx context.Context, reason FinishReason, err error) error {
	if err != nil {
		reason = statusOf(err)
		if ctx.Err() != nil && CodeOf(err) == Internal {
			err = Errorf(CodeOf(context.Cause(ctx)), "%w", err)
		}
	}
	result := &RunResult{
		Run: r.id, Thread: r.thread, FinishReason: reason, Results: r.results, Artifacts: r.artifacts,
		Usage: r.usage, Cost: r.cost, Error: AsError(err),
	}
	if r.state != nil {
		result.State = r.state.JSON()
	}
	r.emit(&RunFinished{
		FinishReason: reason, Thread: r.thread, Usage: r.usage, Cost: r.cost,
		DurationUS: time.Since(r.started).Microseconds(), Error: result.Error, Result: result,
	})
	if err == nil {
		return nil
	}
	return err
}

// wrapError says what was being done, keeping the code.
func wrapError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	out := &Error{Code: CodeOf(err), Message: fmt.Sprintf(format, args...) + ": " + err.Error(), Err: err}
	var inner *Error
	if errors.As(err, &inner) {
		out.Retryable = inner.Retryable
	}
	return out
}
