package sessions

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/agenthost/agenthost/host"
)

// FinishDetached ends a turn that goes on in the background.
const FinishDetached host.FinishReason = "detached"

// Output is how a turn ended. A turn that failed has an Error, and leaves the
// session as it was before: Snapshot, or State, is what the next one goes on
// from.
type Output struct {
	Session string `json:"session"`
	// Snapshot is what the session goes on from, where a store keeps it: this turn,
	// or if it did not complete the last one that did.
	Snapshot string `json:"snapshot,omitempty"`
	// Turn is this turn's own snapshot, also if it failed: who names it goes on
	// from what was finished of it. Parent is the one before.
	Turn   string `json:"turn,omitempty"`
	Parent string `json:"parent,omitempty"`

	// State is the session as its client may see it, and Sealed what to send back
	// in its place if it is sealed: where clients keep theirs.
	State  *Session        `json:"state,omitempty"`
	Sealed json.RawMessage `json:"sealed,omitempty"`

	// Messages are what the turn added, the user's first, as clients may see them.
	Messages     []*host.Message   `json:"messages,omitempty"`
	FinishReason host.FinishReason `json:"finish_reason"`
	Questions    []*host.Question  `json:"questions,omitempty"` // of an interrupted one
	Usage        host.Usage        `json:"usage"`
	Error        *host.Error       `json:"error,omitempty"`

	// Replayed tells that the message was answered before, and that this is the
	// stored turn: see [Request].Input.
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

// ForClient implements [host.ClientEvent].
func (e *TurnEnded) ForClient(run string) host.EventData {
	return &TurnEnded{*e.Output.forClient(run)}
}

// forClient returns the output with its error as a client may read it.
func (o *Output) forClient(run string) *Output {
	if o == nil || o.Error == nil {
		return o
	}
	c := *o
	c.Error = host.ClientError(o.Error, run)
	return &c
}

// Type returns "turn.ended".
func (*TurnEnded) Type() string { return turnEnded }

const turnEnded = "turn.ended"

// Turn runs one turn of a session and yields what happens, as clients may see it,
// and a [TurnEnded] last. The turn happens in the caller's goroutine; leaving the
// loop cancels it, and what it finished is kept as a snapshot of its own. A turn
// that fails says so in its Output: the error that is yielded instead is of a
// request that cannot be run at all. Codes:
//
//	failed_precondition  state where a store keeps sessions, or ids where clients do; another agent's session;
//	                     answers with something new; a snapshot that is still running
//	invalid_argument     a snapshot of another session; a custom state that does not fit; nothing to answer
//	not_found            there is no such snapshot
//	permission_denied    a sealed session that was changed
//	unauthenticated      no tenant, where the host has several ([host.Host.Tenant])
//	resource_exhausted   a session that is too large; too many turns wait
//
// A turn with Detachable runs like one in the background, and is listened to: leaving
// the loop cancels it, unless [Service.Detach] has ended the stream before.
//
// A request with Detach is answered at once, with a TurnEnded whose Snapshot is
// pending: the turn runs in the background, whoever listens, and survives the
// process (see [Service.Recover]). It has its place from then on: it comes before
// every turn of the session that is asked for later.
func (s *Service) Turn(ctx context.Context, req *Request) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		t, err := s.newTurn(ctx, req)
		if err != nil {
			yield(host.Event{}, host.AsError(err))
			return
		}
		again, err := s.acknowledged(ctx, t, req)
		if err != nil {
			yield(host.Event{}, host.AsError(err))
			return
		}
		var d *detached
		var out *Output
		if (req.Detach || req.Detachable) && again == nil {
			if err = s.host.Admit(ctx, s.target, t.tenant); err == nil {
				d, out, again, err = s.detach(ctx, t, req)
			}
			if err != nil {
				yield(host.Event{}, host.AsError(err))
				return
			}
		}
		switch {
		case again != nil && req.Detach:
			t.run = again.run
			yield(t.ended(again.out), nil)
		case req.Detach:
			yield(t.ended(out), nil)
		case d != nil:
			t.streamFollowed(ctx, d, out, yield)
		default: // also of what is answered already, which is not detached
			t.stream(ctx, t.answeredOr(s.host.Stream(t.context(ctx), s.target, &t.req)), yield)
		}
	}
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

// turn is one turn being run.
type turn struct {
	service *Service
	tenant  string
	session string
	run     string
	req     host.Request
	input   *host.Message   // the user's; nil if there is none
	plan    *plan           // where a store keeps the session
	state   *Session        // where the client does: as it was
	answer  []*host.Message // to the input, if that session has one
	attempt int             // of one in the background: how often it was begun
	made    time.Time       // of one in the background: when its session's thread was, as in its record

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
	tenant, err := s.host.Tenant(req.Tenant)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Tenant = tenant
	req = &own
	t := &turn{service: s, tenant: tenant, run: host.NewID()}
	t.input = req.Input
	if req.Text != "" {
		t.input = host.UserText(req.Text)
	}
	if t.input != nil && t.input.ID == "" {
		t.input = t.input.Clone()
		t.input.ID = host.NewID()
	}
	if s.store == nil {
		return t, t.fromClient(req)
	}
	return t, t.fromStore(ctx, req)
}

// stream runs the turn and passes its events on, numbered on their own.
func (t *turn) stream(ctx context.Context, events iter.Seq2[host.Event, error], yield func(host.Event, error) bool) {
	misuse, left := t.pass(ctx, t.events(ctx, events), yield)
	switch {
	case left:
		return
	case misuse != nil && t.seq == 0 && t.result == nil:
		yield(host.Event{}, host.AsError(misuse))
		return
	case misuse != nil: // the view failed
		t.service.log("the view of a turn failed", t.run, misuse)
		t.err = misuse
	}
	t.yieldEnd(ctx, yield)
}

// pass passes events on as clients may see them. misuse is the error that ended
// them, left says that the reader has.
func (t *turn) pass(ctx context.Context, events iter.Seq2[host.Event, error], yield func(host.Event, error) bool) (misuse error, left bool) {
	for ev, err := range t.service.opts.View.Events(ctx, events) {
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

// yieldEnd yields how the turn ended.
func (t *turn) yieldEnd(ctx context.Context, yield func(host.Event, error) bool) {
	out, err := t.output(context.WithoutCancel(ctx))
	if err != nil {
		yield(host.Event{}, host.AsError(err))
		return
	}
	yield(t.ended(out), nil)
}

func (t *turn) ended(out *Output) host.Event {
	return host.Event{Seq: t.seq, Time: time.Now().UTC(), Run: t.run, Network: t.service.Name(), Data: &TurnEnded{*out}}
}

// events notes how the run ends, before a view hides it. The error of a run that
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
			if d, ok := ev.Data.(*host.RunFinished); ok {
				t.result = d.Result
				if d.Result.Run != t.run { // it goes on from answers, or was answered before; in the background neither
					t.run = d.Result.Run
				}
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// context has what the history needs to know of the turn.
func (t *turn) context(ctx context.Context) context.Context {
	if t.plan == nil {
		return ctx
	}
	return context.WithValue(ctx, planKey{}, t.plan)
}

// output is what the turn answers with.
func (t *turn) output(ctx context.Context) (*Output, error) {
	out := &Output{Session: t.session, Error: t.failure(), FinishReason: host.FinishFailed}
	if t.result != nil {
		out.FinishReason, out.Usage, out.Questions, out.Replayed = t.result.FinishReason, t.result.Usage, t.result.Questions, t.result.Replayed
	}
	if out.Error != nil && out.FinishReason != host.FinishCanceled {
		out.FinishReason = host.FinishFailed
	}
	if out.Error == nil {
		out.Messages = t.added()
	}
	end := t.forClient
	if t.plan != nil {
		end = t.stored
	}
	if err := end(ctx, out); err != nil {
		return out, err
	}
	var err error
	if out.Messages, err = t.service.opts.View.Messages(ctx, out.Messages); err != nil { // nothing is shown, and nothing is lost
		out.Messages, out.Questions = nil, nil
		out.FinishReason, out.Error = host.FinishFailed, host.AsError(err)
	}
	return out, nil
}

func (t *turn) failure() *host.Error {
	if t.err != nil {
		return host.AsError(t.err)
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
