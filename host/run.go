package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/modelcall"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/runusage"
	"github.com/agenthost/agenthost/host/providerstate"
	"github.com/agenthost/agenthost/host/runevent"
)

// run is one run of a network: it holds the parts of the run and has the loop. All but
// the tools runs in the goroutine that reads the events.
type run struct {
	host    *Host
	net     *Network
	req     *Request // the caller's, which is not changed
	content requestContent
	resume  resumption
	limits  *Limits
	scope   Scope // Agent is the agent at work
	started time.Time

	events  report.Reporter
	ledger  runusage.Counter
	conv    conversation
	thread  runThread
	service serviceConversation
	journal runJournal
	routes  routing
	models  modelChoice
	asks    modelcall.Calls

	state     *State
	initial   initialState
	keyPrefix string // of the idempotency keys of tool calls
	services  *services
	operation *instrument.Run // nil without an instrument
	opened    bool            // RunStarted is sent

	stoppedAtStart bool  // by the Start hook of the network
	startFailure   error // the failure of that hook
}

func newRun(h *Host, n *Network, req *Request) (*run, error) {
	if req == nil {
		req = &Request{}
	}
	tenant, err := h.Tenant(req.Tenant)
	if err != nil {
		return nil, err
	}
	resume, err := resumptionOf(req)
	if err != nil {
		return nil, err
	}
	r := &run{
		host: h, net: n, req: req, resume: resume, started: time.Now(), limits: h.limitsOf(tenant),
		scope:   Scope{Tenant: tenant, Thread: req.Thread, Run: cmp.Or(req.Run, NewID()), Network: n.name},
		thread:  runThread{history: h.historyOf(n), branch: req.Branch},
		journal: runJournal{steps: replay.NewSteps(), nested: replay.NewNested()},
		ledger:  runusage.Counter{Total: &runusage.Total{}},
	}
	r.initial = initialState{net: &n.opts, limit: r.limits.StateBytes, request: req.State}
	r.connect()
	r.keyPrefix = r.scope.Run
	if err := r.checkThread(); err != nil {
		return nil, err
	}
	if r.content, err = contentOf(n, req); err != nil {
		return nil, err
	}
	r.journal.guarded = h.guardJournal(r.thread.history)
	if r.content.client.unstored() {
		if req.Thread != "" || req.AgentThread != nil {
			return nil, Errorf(InvalidArgument, "request names a thread and is not to be stored").WithHint("bring the conversation as Messages")
		}
		r.thread.history = r.thread.history.withoutStore()
	}
	r.journal.storesResults = r.thread.history != nil && r.thread.history.appendResult != nil
	if err := r.thread.history.checkDiscard(n); err != nil {
		return nil, err
	}
	if !validMessageID(r.scope.Run) {
		return nil, Errorf(InvalidArgument, "request names a run by %d bytes that no store takes", len(r.scope.Run)).
			WithHint("use at most %d bytes of UTF-8 without control characters, or leave it out", maxMessageID)
	}
	if r.scope.Thread != "" {
		if err := chat.ValidateID("thread", r.scope.Thread, chat.MaxIDBytes); err != nil {
			return nil, err
		}
	}
	if r.conv.input, err = readInput(req, r.limits); err != nil {
		return nil, err
	}
	if err := r.checkResume(); err != nil {
		return nil, err
	}
	if err := r.thread.checkRequest(); err != nil {
		return nil, err
	}
	if err := providerstate.Check(req.Providers); err != nil {
		return nil, Errorf(InvalidArgument, "request: %w", err)
	}
	if err := checkBroughtArtifacts(req.Artifacts); err != nil {
		return nil, err
	}
	if r.conv.input == nil && len(req.Messages) == 0 && resume.run == "" && (r.thread.history == nil || r.scope.Thread == "") {
		return nil, errNothingSaid()
	}
	r.journal.clientAnswers = (req.ClientCheckpoint || resume.fromClient() && r.service.thread == nil) && r.journal.store() == nil
	if r.durable() && r.journal.store() == nil {
		return nil, errNoJournal()
	}
	return r, r.models.checkNetwork(r.net, r.routes.first())
}

var _ historyRequester = (*run)(nil)

// connect gives each part of the run the options and the other parts that it uses.
func (r *run) connect() {
	opts := &r.host.opts
	r.models = modelsOf(r.host, r.net, r.req)
	e := &r.events
	e.Scope, e.Meter, e.Tracer, e.Logger = &r.scope, opts.Meter, opts.Trace, opts.Logger
	l := &r.ledger
	l.Events, l.Limits, l.Tokens = e, r.limits, opts.Tokens
	r.asks = modelcall.Calls{Events: e, Usage: l, Instrument: r.host.instrument}
	t := &r.thread
	t.scope, t.limits, t.logger, t.req, t.content, t.resume = &r.scope, r.limits, opts.Logger, r.req, &r.content, &r.resume
	t.conv, t.requests = &r.conv, r
	r.service.scope = &r.scope
	r.journal.scope, r.journal.resume = &r.scope, &r.resume
	n := &r.routes
	n.net, n.chosen, n.models, n.asks, n.events, n.ledger = r.net, r.req.Router, &r.models, &r.asks, e, l
	n.conv, n.journal, n.limits = &r.conv, &r.journal, r.limits
}

func errNothingSaid() error {
	return Errorf(InvalidArgument, "there is neither input nor a conversation to go on with").WithHint("say something")
}

// maxMessageID bounds the id that a client gives a message.
const maxMessageID = chat.MaxIDBytes

func validMessageID(id string) bool {
	return id == "" || chat.ValidateID("message", id, maxMessageID) == nil
}

func readInput(req *Request, limits *Limits) (*Message, error) {
	m := req.Input
	switch {
	case m != nil && req.Text != "":
		return nil, Errorf(InvalidArgument, "request has both Text and Input")
	case m == nil && req.Text == "":
		return nil, nil
	case m == nil:
		m = UserText(req.Text)
	case m.Role != User:
		return nil, Errorf(InvalidArgument, "input message has role %q, not user", m.Role)
	case len(m.Parts) == 0:
		return nil, Errorf(InvalidArgument, "input message has no parts").
			WithHint("leave it out to go on from what is there")
	case slices.Contains(m.Parts, nil):
		return nil, Errorf(InvalidArgument, "input message has a part that is nil")
	case len(m.ToolCalls()) > 0 || len(m.ToolResults()) > 0:
		return nil, Errorf(InvalidArgument, "input message holds tool calls or results").
			WithHint("only a model calls tools")
	case !validMessageID(m.ID):
		return nil, Errorf(InvalidArgument, "input message has an id of %d bytes that no store takes", len(m.ID)).
			WithHint("use at most %d bytes of UTF-8 without control characters, or leave it out", maxMessageID)
	default:
		m = m.WithIdentity()
	}
	if err := m.CheckUTF8(); err != nil {
		return nil, err
	}
	raw := m.AppendJSON(nil)
	if n := len(raw); n > limits.InputBytes {
		return nil, Errorf(ResourceExhausted, "input is %d bytes, more than the limit InputBytes of %d", n, limits.InputBytes).
			WithHint("send less, or give the agent a tool that reads it in pieces")
	}
	if err := jsondoc.Check(raw); err != nil { // raw members made by a program
		return nil, Errorf(InvalidArgument, "input message: %w", err)
	}
	return m, nil
}

// execute is a run from beginning to end. Its error is an [*Error].
func (r *run) execute(ctx context.Context) error {
	defer r.services.callAfterCommit(false)
	rec, err := r.resumedRun(ctx)
	if err != nil {
		return err
	}
	unlock, branches, err := r.thread.acquire(ctx)
	if err != nil {
		return wrapError(err, "wait for thread %q", r.scope.Thread)
	}
	defer func() { unlock() }()
	switch stored, err := r.thread.readStoredTurn(ctx); {
	case err != nil:
		return r.finish(ctx, "", withContextCode(ctx, err))
	case stored != nil:
		return r.replay(ctx, stored)
	}
	if !r.thread.branched { // other turns may have used up the quota while this one waited
		if err := r.admit(ctx); err != nil {
			return err
		}
	}
	if branches { // and not before it is known that the turn has to run
		if unlock, err = r.thread.acquireBranch(ctx); err != nil {
			return wrapError(err, "wait for thread %q", r.scope.Thread)
		}
	}
	r.services.usage = r.ledger.Open(r.host.opts.Ledger, r.ownScope(), cmp.Or(r.req.Key, replay.KeyOf(rec)))
	defer r.ledger.Close(false)
	if rec != nil {
		if err := r.reopen(ctx); err != nil {
			return withContextCode(ctx, err)
		}
	} else if err := r.open(ctx); err != nil {
		return r.finish(ctx, "", withContextCode(ctx, err))
	}
	reason, err := r.runAgents(ctx)
	if err := r.journal.recordEnd(ctx, reason, err); err != nil { // the run is not over: it can be resumed, or another host has it
		return r.finish(ctx, "", err)
	}
	if commitErr := r.commit(ctx, reason, err); commitErr != nil {
		err = errors.Join(err, commitErr)
	} else {
		r.services.callAfterCommit(err == nil || !r.net.opts.DiscardOnFailure)
	}
	if err == nil && reason == chat.FinishInterrupted {
		err = r.storeQuestions(ctx)
	} else {
		r.journal.endRun(ctx)
	}
	return r.finish(ctx, reason, err)
}

// loop asks the router and runs agents until no agent is left to run. At most n
// iterations mean at most n questions and n agent runs: the router's decision after
// the last one is not known, so the run ends with the limit's name.
func (r *run) loop(ctx context.Context) (FinishReason, error) {
	for {
		if ctx.Err() != nil {
			return "", fault.ContextError(ctx)
		}
		saved := r.journal.saved
		if r.journal.saved = nil; saved == nil {
			if reason, err := r.routes.pickAgent(ctx, r.state); reason != "" || err != nil {
				return reason, err
			}
			saved = &replay.SavedTurn{Agent: r.routes.stack[0]}
			r.routes.stack = r.routes.stack[1:]
		}
		result, err := r.runAgent(ctx, r.routes.agentNamed(saved.Agent), saved)
		r.routes.iterations++
		if result != nil {
			r.conv.results = append(r.conv.results, result)
			r.ledger.Usage = r.ledger.Usage.Add(result.Usage)
		}
		if err != nil {
			return "", err
		}
		if err := r.journal.recorder.Err(); err != nil {
			return "", err
		}
		if result.FinishReason == chat.FinishInterrupted {
			return chat.FinishInterrupted, nil
		}
	}
}

// maxDelegations bounds a chain of routers that delegate to each other.
const maxDelegations = 4

func statusOf(err error) FinishReason {
	if CodeOf(err) == Canceled {
		return chat.FinishCanceled
	}
	return chat.FinishFailed
}

// runTimeout is the cause of a run's context that ended at the host's limit. It is
// made for each run, so its text is made only when it is read.
type runTimeout time.Duration

func (d runTimeout) Error() string {
	return fmt.Sprintf("run exceeds the limit RunTimeout of %s", time.Duration(d))
}

// Is makes it a context.DeadlineExceeded.
func (runTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// OwnText lets clients read the text.
func (runTimeout) OwnText() {}

var _ fault.OwnText = runTimeout(0)

// withContextCode sets err's code to that of ctx's end, if err is a consequence of
// it, and names the host's limit that set the deadline.
func withContextCode(ctx context.Context, err error) error {
	if !foreign.EndedBy(ctx, err) {
		return err
	}
	cause := context.Cause(ctx)
	message := err.Error()
	if _, ok := cause.(runTimeout); ok && err != cause {
		message = cause.Error() + ": " + message
	}
	return &Error{Code: CodeOf(fault.ContextError(ctx)), Message: message, Err: err}
}

// finish sends the last event and returns the run's error.
func (r *run) finish(ctx context.Context, reason FinishReason, err error) error {
	if err != nil {
		reason = statusOf(err)
	}
	result := &RunResult{
		Run: r.scope.Run, Thread: r.scope.Thread, Branch: r.thread.branch, FinishReason: reason, Results: append([]*Result{}, r.conv.results...), Artifacts: r.ledger.Artifacts,
		Usage: r.ledger.Usage, Cost: r.ledger.Cost, Error: fault.AsError(err), Replayed: r.events.Replayed,
	}
	if r.state != nil {
		result.State = r.state.JSON()
	}
	if r.thread.history == nil && r.thread.providers != nil {
		result.Providers = r.thread.providers.JSON(err != nil)
	}
	if reason == chat.FinishInterrupted {
		result.Questions, result.Checkpoint = replay.QuestionsOf(r.journal.openCalls), r.journal.checkpoint
	}
	if op := r.operation; op != nil {
		op.FinishReason, op.Usage, op.Cost, op.Replayed = reason, r.ledger.Usage, r.ledger.Cost, r.events.Replayed
	}
	r.sendStarted()
	r.events.LogMasked(ctx, "run failed", err)
	r.events.Emit(&runevent.RunFinished{
		FinishReason: reason, Thread: r.scope.Thread, Usage: r.ledger.Usage, Cost: r.ledger.Cost,
		DurationUS: time.Since(r.started).Microseconds(), Error: result.Error, Result: result,
	})
	if err == nil {
		return nil
	}
	return result.Error
}

// sendStarted sends the first event, once.
func (r *run) sendStarted() {
	if r.opened {
		return
	}
	r.opened = true
	started := &runevent.RunStarted{Tenant: r.scope.Tenant, Thread: r.scope.Thread, Branch: r.thread.branch, Resumes: r.journal.resumes, Replayed: r.events.Replayed}
	if r.conv.input != nil {
		started.Message = r.conv.input.ID
	}
	r.events.Emit(started)
}
