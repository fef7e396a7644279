package host

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runlimit"
)

// Host runs agents and networks. It holds the defaults and limits of every run
// and nothing that changes: any number of runs may share one.
type Host struct {
	opts       Options
	instrument *instrument.Guard // nil is none
}

// Options are the optional parts of a host.
type Options struct {
	Model   Model        // for agents and networks without one
	History *History     // for agents and networks without one
	Tokens  TokenCounter // default: tokens are not counted
	Limits  Limits
	Ledger  Ledger // bounds and records what tenants use; default: none
	Meter   Meter  // receives every event of every run; default: none
	Trace   Tracer // is given every event that runs' readers get; default: none

	// Instrument is called around runs and the operations in them; default: none.
	Instrument Instrument

	Logger *slog.Logger // nil discards

	// SingleTenant lets requests leave their tenant out: they act for
	// [DefaultTenant], whose name requests may also give. Without it a request of no
	// tenant has code unauthenticated, so that a program that forgets the tenant
	// serves no data at all; see [Host.Tenant].
	SingleTenant bool

	// TenantLimits returns the limits of a tenant's runs, of which each counts where it is
	// smaller than that of Limits; nil, or a zero field, is the host's. A run has those of
	// its beginning. It is called for each run, by many goroutines at once.
	TenantLimits func(tenant string) Limits

	// Approve says which calls of any tool a person must agree to; nil is none.
	Approve ApprovalRule
	// Terms gives the terms of questions about calls of any tool; nil is none.
	Terms TermsRule

	// Journal keeps the records from which runs are resumed. Default: the history,
	// if it can.
	Journal Journal

	// Queue takes the jobs that runs enqueue for after their turns: see [Enqueue].
	// Default: none.
	Queue Enqueuer
}

// Limits bounds a run: see [runlimit.Limits].
type Limits = runlimit.Limits

// DefaultLimits returns the limits of a host whose options name none.
func DefaultLimits() Limits { return runlimit.Default() }

// New returns a host. Code invalid_argument for a negative limit.
func New(opts *Options) (*Host, error) {
	if opts == nil {
		opts = &Options{}
	}
	h := &Host{opts: *opts}
	if err := opts.Limits.Check(); err != nil {
		return nil, err
	}
	h.opts.Limits = opts.Limits.WithDefaults()
	if h.opts.Logger == nil {
		h.opts.Logger = slog.New(slog.DiscardHandler)
	}
	h.instrument = newGuard(&h.opts)
	return h, nil
}

// Check reports the faults that would keep every run of target from beginning: an
// agent, or a router that is a model, without a model; a history whose rounds
// cannot be discarded. A program that calls it at its start finds them before its
// first user does; a request that brings a model of its own can run all the same.
// Code invalid_argument.
func (h *Host) Check(target Target) error {
	n := target.network()
	if err := h.historyOf(n).checkDiscard(n); err != nil {
		return err
	}
	models := modelsOf(h, n, &Request{})
	return models.checkNetwork(n, n.router)
}

// historyOf returns the history of a network's runs.
func (h *Host) historyOf(n *Network) *History {
	if n.opts.History != nil {
		return n.opts.History
	}
	return h.opts.History
}

// Request asks for one run.
type Request struct {
	// Tenant is the tenant that the run acts for: from a credential, never from what
	// a client sent. It may be empty on a host with Options.SingleTenant.
	Tenant string

	Thread string // the conversation to continue; "" starts one if there is a history

	// Run is the id of the run, for a caller that wants to know it beforehand: one
	// that no run had before, up to 256 bytes of UTF-8 without control characters.
	// Default: a fresh one. A shipped history that has a turn of that run does not
	// take another: the run ends with code already_exists beside its results, which
	// are paid for by then, so an id that a client chose is not to get here
	// unchecked.
	Run string

	// Key names the credential of the caller, such as the id of an API key: usage is
	// recorded by it. It is the program's, never what a client sent, and no secret. A
	// run that another process continues keeps it.
	Key string

	// Text is the user's input. Input is the same as a whole message, with an id
	// of the client's. With neither the run continues from the end of the
	// conversation.
	//
	// A message that is sent again, with its id, after a turn that completed is
	// answered with the stored turn, if the history is a [TurnReader]: see
	// [RunResult].Replayed. After one that failed or was interrupted it is tried
	// again. Other content under an id that the thread has is code conflict.
	Text  string
	Input *Message

	// Messages is the conversation so far, if the client keeps it: then nothing
	// is loaded, and everything is stored as usual. The model takes it for the
	// truth: check that a client which must not speak as the system sends no message
	// of that role.
	Messages []*Message

	// Providers are the states of context providers, as the last run's result has
	// them, if the client keeps the conversation. Where a history keeps it they stay
	// empty, unless Messages are given.
	Providers map[string]json.RawMessage

	// Artifacts are those of the conversation, if the client keeps it: tools read
	// them like those of earlier turns, and they are not part of the result. They
	// may come with Answers, and stay unchanged.
	Artifacts []Artifact

	// AgentThread is the conversation to continue, if the target is an agent: see
	// [Agent.NewThread]. Its messages are where it has them, and no history is used;
	// Thread and Messages stay empty.
	AgentThread *AgentThread

	// Regenerate names a stored user's message to answer again; Text, Input and
	// Messages stay empty. The thread then shows it as its last message, and keeps
	// the later messages in its lineage. With NewBranch the thread stays unchanged,
	// and the new answer is on a branch of it, which the result names. The history
	// must be a [Regenerator], or a [Brancher]. Code not_found if the thread has no
	// such message.
	Regenerate string
	NewBranch  bool

	// Branch is the branch of the thread to continue; empty is its own line.
	Branch string

	// Racing overrides the history's concurrency policy; empty keeps that.
	Racing Racing

	// Instructions are for this run alone: they follow the instructions of every
	// agent in it, after a blank line. Nothing stores them.
	Instructions string

	// ModelParameters are for this run alone: they override those of every agent in
	// it, see [AgentOptions].ModelParameters; nil as a value removes the agent's.
	// Routers that ask a model do without.
	ModelParameters map[string]any

	// Client are the terms that a client sets for this run, beside the agents' own: tools
	// that it executes, the form of the answer, and whether anything is stored. A run that
	// resumes another has that one's.
	Client *llm.ClientTerms

	State  any    // overlays the network's and the thread's state, member by member
	Model  Model  // beats the agents' and the network's
	Router Router // beats the network's

	// Durable has the run write each step down in the journal, so that it can be
	// resumed if its process ends: see [Step] and Resume. A run that fails or is
	// canceled has ended; only one that could not come to its end is left open.
	Durable bool

	// Resume names a run that was interrupted: this one continues where that one
	// stopped, in its thread and with its state, and Answers has an answer to each
	// of its questions. A durable run whose process ended is resumed in the same
	// way, without answers and as the same run: its recorded steps are not done
	// again; the request gives Model and Router again. The target is the interrupted
	// run's; Thread, Text, Input, Messages, Instructions, ModelParameters, Client
	// and State stay empty. Nothing happens before the answers are found to fit. Codes:
	// not_found for a run that is not there (or another tenant's), permission_denied
	// for an answer to a question that was not asked, conflict if the questions were
	// answered already or the thread has moved on since, failed_precondition for
	// another target or a host without a journal, invalid_argument for the rest.
	Resume  string
	Answers []Answer

	// Checkpoint is that of the run to resume, on a host without a journal; Resume may
	// stay empty. Messages and Providers are those of the conversation, if the
	// checkpoint is without ([runevent.Checkpoint.WithoutConversation]), and State is the custom
	// state if a client had it ([runevent.Checkpoint.ForClient]). A checkpoint can be answered
	// again and again: a call of it has the same idempotency key each time, but for one
	// that a client had, whose calls are new ones.
	Checkpoint *runevent.Checkpoint

	// ClientCheckpoint says that a client will keep the checkpoint, and may change it:
	// the run asks for nothing but results of client tools and answers to a tool's own
	// question. A call that needs an approval fails, and so does one in an agent used as
	// a tool that would ask. It does nothing on a host with a journal.
	ClientCheckpoint bool
}

// Result is the result of one run of an agent: see [chat.Result].
type Result = chat.Result

// Stream runs an agent or a network and yields its events. The run happens in the
// caller's goroutine, between one event and the next: a slow reader slows its own
// run and no other. A failure is in [runevent.RunFinished] and is then yielded as the last
// error. Breaking out of the loop cancels the run; its finished messages are stored
// before the loop is left.
//
// A request that cannot be run (nothing to answer, no model), or that the quota
// refuses, yields its error alone: no event is sent, and nothing is stored. Errors
// are of type [*Error]; that of a refusal has code resource_exhausted, Limit and
// RetryAfter.
func (h *Host) Stream(ctx context.Context, target Target, req *Request) iter.Seq2[Event, error] {
	return h.stream(ctx, target, req, false)
}

// stream is Stream; whole says that the reader takes no deltas.
func (h *Host) stream(ctx context.Context, target Target, req *Request, whole bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r, err := newRun(h, target.network(), req)
		if err != nil {
			yield(Event{}, err)
			return
		}
		ctx, cancel := context.WithTimeoutCause(ctx, r.limits.RunTimeout, runTimeout(r.limits.RunTimeout))
		defer cancel()
		r.events.Yield, r.events.Cancel, r.events.Whole = yield, cancel, whole
		if err := h.perform(ctx, r); err != nil && !r.events.Broken {
			yield(Event{}, err)
		}
	}
}

// answerOrRefuse executes a run that is admitted. A turn that is stored already costs nothing.
func (h *Host) answerOrRefuse(ctx context.Context, r *run) error {
	refused := r.admit(ctx)
	if refused == nil {
		return r.execute(r.withServices(ctx))
	}
	if stored, err := r.thread.readStoredTurn(ctx); err == nil && stored != nil {
		return r.replay(ctx, stored)
	}
	return refused
}

// Run is [Host.Stream] without the stream. A run that failed returns its result
// as far as it got, beside the error. Since no reader takes its deltas, models are
// asked with [llm.Request].Whole: one that answers in one piece then sends, to
// Options.Meter and Options.Trace too, one delta for each part of its answer.
func (h *Host) Run(ctx context.Context, target Target, req *Request) (*RunResult, error) {
	var result *RunResult
	for ev, err := range h.stream(ctx, target, req, true) {
		if err != nil {
			return result, err
		}
		if done, ok := ev.Data.(*runevent.RunFinished); ok {
			result = done.Result
		}
	}
	if result == nil {
		return nil, Errorf(Internal, "run ended without a result")
	}
	return result, nil
}

// limitsOf returns the limits of a tenant's runs.
func (h *Host) limitsOf(tenant string) *Limits {
	if h.opts.TenantLimits == nil {
		return &h.opts.Limits
	}
	return h.opts.TenantLimits(tenant).Within(&h.opts.Limits)
}
