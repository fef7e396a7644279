package sessions

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
)

// FinishDetached ends the stream of a turn that continues in the background.
const FinishDetached host.FinishReason = "detached"

// Output is how a turn ended. A turn that failed has an Error, and leaves the
// session unchanged: the next turn continues from Snapshot, or from State.
type Output struct {
	Session string `json:"session"`
	// Snapshot is where the session continues, if a store keeps it: at this turn, or
	// if it did not complete at the last one that did.
	Snapshot string `json:"snapshot,omitempty"`
	// Turn is this turn's own snapshot, also if it failed: a request that names it
	// continues from the finished part of the turn. Parent is the one before.
	Turn   string `json:"turn,omitempty"`
	Parent string `json:"parent,omitempty"`

	// State is the session as its client may see it, where clients keep sessions.
	// Sealed is to be sent back in its place if it is sealed.
	State  *Session        `json:"state,omitempty"`
	Sealed json.RawMessage `json:"sealed,omitempty"`

	// Messages are the messages that the turn added, the user's first, in the form
	// that clients may see.
	Messages     []*host.Message   `json:"messages,omitempty"`
	FinishReason host.FinishReason `json:"finish_reason"`
	Questions    []*host.Question  `json:"questions,omitempty"` // of an interrupted one
	Usage        host.Usage        `json:"usage"`
	Error        *host.Error       `json:"error,omitempty"`

	// Replayed says that the message was answered before, and that this is the stored
	// turn: see [Request].Input.
	Replayed bool `json:"replayed,omitempty"`
}

// Text returns the text of the turn's last answer.
func (o *Output) Text() string {
	for i := len(o.Messages) - 1; i >= 0; i-- {
		if o.Messages[i].Role == host.Assistant {
			return o.Messages[i].Text()
		}
	}
	return ""
}

// TurnEnded closes every turn, after its run has ended and is stored.
type TurnEnded struct{ Output }

// ForClient implements [runevent.ClientData].
func (e *TurnEnded) ForClient(run string) host.EventData {
	return &TurnEnded{*e.Output.forClient(run)}
}

// forClient returns the output with its error as a client may read it.
func (o *Output) forClient(run string) *Output {
	if o == nil || o.Error == nil {
		return o
	}
	c := *o
	c.Error = fault.ForClient(o.Error, run)
	return &c
}

// Type returns "turn.ended".
func (*TurnEnded) Type() string { return turnEnded }

const turnEnded = "turn.ended"

// Turn runs one turn of a session and yields its events, as clients may see them,
// and a [TurnEnded] last. The turn runs in the caller's goroutine; leaving the loop
// cancels it, and the finished part is stored as a snapshot of its own. A turn that
// fails says so in its Output: a yielded error is of a request that cannot be run at
// all. Codes:
//
//	failed_precondition  state where a store keeps sessions, or ids where clients do; another agent's session;
//	                     answers with something new; a snapshot that is still running
//	invalid_argument     a snapshot of another session; a custom state that does not fit; nothing to answer
//	not_found            there is no such snapshot
//	permission_denied    a sealed session that was changed
//	unauthenticated      no tenant, where the host has several ([host.Host.Tenant])
//	resource_exhausted   a session that is too large; too many turns wait
//
// A turn with Detachable runs like a background turn with a reader: leaving the loop
// cancels it, unless [Service.Detach] has ended the stream before.
//
// A request with Detach is answered at once, with a TurnEnded whose Snapshot is
// pending: the turn runs in the background without a reader, and survives the process
// (see [Service.Recover]). It has its place from then on: it comes before every turn
// of the session that is asked for later.
func (s *Service) Turn(ctx context.Context, req *Request) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		if err := s.turn(ctx, req, yield); err != nil {
			yield(host.Event{}, fault.AsError(err))
		}
	}
}

// turn is Turn with the error of a request that cannot be run.
func (s *Service) turn(ctx context.Context, req *Request, yield func(host.Event, error) bool) error {
	t, err := s.newTurn(ctx, req)
	if err != nil {
		return err
	}
	if req != nil && (req.Detach || req.Detachable) {
		return s.background.turn(ctx, t, req, yield)
	}
	t.streamRun(ctx, yield)
	return nil
}

// turn streams a turn that begins in the background: its acknowledgement, and with
// Detachable its events before that. A message that was answered before is not
// detached.
func (b *background) turn(ctx context.Context, t *turn, req *Request, yield func(host.Event, error) bool) error {
	again, err := b.acknowledged(ctx, t, req)
	if err != nil {
		return err
	}
	var d *backgroundTurn
	var out *Output
	if again == nil {
		if err = b.served.host.Admit(ctx, b.served.target, t.tenant); err == nil {
			d, out, again, err = b.start(ctx, t, req)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case again != nil && req.Detach:
		t.run = again.run
		yield(t.ended(again.out), nil)
	case req.Detach:
		yield(t.ended(out), nil)
	case d != nil:
		t.streamDetachable(ctx, d, out, yield)
	default:
		t.streamRun(ctx, yield)
	}
	return nil
}

// Run is [Service.Turn] without the events. A turn that failed returns its output
// beside its error; a request that cannot be run returns no output.
func (s *Service) Run(ctx context.Context, req *Request) (*Output, error) {
	out, _, err := s.runTurn(ctx, req)
	return out, err
}

// runTurn is Run with the id of the run.
func (s *Service) runTurn(ctx context.Context, req *Request) (out *Output, run string, err error) {
	for ev, err := range s.Turn(ctx, req) {
		if err != nil {
			return nil, "", err
		}
		if d, ok := ev.Data.(*TurnEnded); ok {
			if d.Error != nil {
				return &d.Output, ev.Run, d.Error
			}
			return &d.Output, ev.Run, nil
		}
	}
	return nil, "", host.Errorf(host.Internal, "turn ended without an output")
}

// sessionKeeper knows where a turn's session comes from and where it is left:
// [storeManaged] or [clientManaged].
type sessionKeeper interface {
	// begin sets the session of a turn and the request of its run.
	begin(ctx context.Context, t *turn, req *Request) error
	// finish sets where the session continues after a turn.
	finish(ctx context.Context, t *turn, out *Output) error
}

var (
	_ sessionKeeper = (*storeManaged)(nil)
	_ sessionKeeper = (*clientManaged)(nil)
)

// turn is one turn being run.
type turn struct {
	served  *served
	keeper  sessionKeeper
	tenant  string
	session string
	run     string
	req     host.Request
	input   *host.Message // the user's; nil without one

	plan *plan // of a stored session

	clientSession *Session        // of a session that its client keeps, as the client sent it
	answer        []*host.Message // the answer to the input that clientSession has already

	attempt    int       // of a background turn: how often it was begun
	threadMade time.Time // of a background turn: when its session's thread was made

	seq    int64
	result *host.RunResult
	err    error
}

func (s *Service) newTurn(ctx context.Context, req *Request) (*turn, error) {
	if req == nil {
		req = &Request{}
	}
	if err := s.checkRequest(req); err != nil {
		return nil, err
	}
	tenant, err := s.served.host.Tenant(req.Tenant)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Tenant = tenant
	t := &turn{served: s.served, keeper: s.keeper(), tenant: tenant, run: host.NewID(), input: req.Input}
	if req.Text != "" {
		t.input = host.UserText(req.Text)
	}
	if t.input != nil && t.input.ID == "" {
		t.input = t.input.Clone()
		t.input.ID = host.NewID()
	}
	err = t.keeper.begin(ctx, t, &own)
	t.req.Key = req.Key
	if err == nil && len(t.req.Answers) > 0 && req.Answering != nil {
		err = req.Answering(ctx, t.answers())
	}
	return t, err
}

// answers returns the id of the run whose questions the turn answers.
func (t *turn) answers() string {
	if t.req.Resume == "" && t.req.Checkpoint != nil {
		return t.req.Checkpoint.Run()
	}
	return t.req.Resume
}

// streamRun runs the turn and yields its events, numbered on their own.
func (t *turn) streamRun(ctx context.Context, yield func(host.Event, error) bool) {
	events := t.answeredOr(t.served.host.Stream(t.context(ctx), t.served.target, &t.req))
	misuse, left := t.pass(ctx, t.events(ctx, events), yield)
	switch {
	case left:
		return
	case misuse != nil && t.seq == 0 && t.result == nil:
		yield(host.Event{}, fault.AsError(misuse))
		return
	case misuse != nil: // the view failed
		t.served.logError("the view of a turn failed", t.run, misuse)
		t.err = misuse
	}
	t.yieldEnd(ctx, yield)
}

// pass yields events as clients may see them. misuse is the error that ended them;
// left says that the reader has left.
func (t *turn) pass(ctx context.Context, events iter.Seq2[host.Event, error], yield func(host.Event, error) bool) (misuse error, left bool) {
	for ev, err := range t.served.view.Events(ctx, events) {
		if err != nil {
			return err, false
		}
		t.seq = ev.Seq + 1
		if !yield(ev, nil) {
			return nil, true
		}
	}
	return nil, false
}

// yieldEnd yields the end of the turn.
func (t *turn) yieldEnd(ctx context.Context, yield func(host.Event, error) bool) {
	out, err := t.output(context.WithoutCancel(ctx))
	if err != nil {
		yield(host.Event{}, fault.AsError(err))
		return
	}
	yield(t.ended(out), nil)
}

func (t *turn) ended(out *Output) host.Event {
	return host.Event{Seq: t.seq, Time: time.Now().UTC(), Run: t.run, Network: t.served.name(), Data: &TurnEnded{*out}}
}

// events records how the run ends, before a view hides it. The error of a run that
// has ended is in its result.
func (t *turn) events(_ context.Context, events iter.Seq2[host.Event, error]) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		for ev, err := range events {
			if err != nil {
				if t.result == nil {
					yield(ev, err)
				}
				return
			}
			if d, ok := ev.Data.(*runevent.RunFinished); ok {
				t.result = d.Result
				if d.Result.Run != t.run { // it resumes from answers, or was answered before; a background run does neither
					t.run = d.Result.Run
				}
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// context returns the context of the run, with the turn's plan for the history.
func (t *turn) context(ctx context.Context) context.Context {
	if t.plan == nil {
		return ctx
	}
	return withPlan(ctx, t.plan)
}

// output returns the turn's output.
func (t *turn) output(ctx context.Context) (*Output, error) {
	out := &Output{Session: t.session, Error: t.failure(), FinishReason: chat.FinishFailed}
	if t.result != nil {
		out.FinishReason, out.Usage, out.Questions, out.Replayed = t.result.FinishReason, t.result.Usage, t.result.Questions, t.result.Replayed
	}
	if out.Error != nil && out.FinishReason != chat.FinishCanceled {
		out.FinishReason = chat.FinishFailed
	}
	if out.Error == nil {
		out.Messages = t.added()
	}
	if err := t.keeper.finish(ctx, t, out); err != nil {
		return out, err
	}
	var err error
	if out.Messages, err = t.served.view.Messages(ctx, out.Messages); err != nil { // nothing is shown, and nothing is lost
		out.Messages, out.Questions = nil, nil
		out.FinishReason, out.Error = chat.FinishFailed, fault.AsError(err)
	}
	return out, nil
}

func (t *turn) failure() *host.Error {
	if t.err != nil {
		return fault.AsError(t.err)
	}
	if t.result == nil {
		return host.Errorf(host.Internal, "the turn ended without a result")
	}
	return t.result.Error
}

// added returns the messages that the turn added.
func (t *turn) added() []*host.Message {
	var out []*host.Message
	if t.input != nil {
		out = append(out, t.input)
	}
	for _, r := range t.result.Results {
		out = append(out, r.Messages...)
	}
	return out
}
