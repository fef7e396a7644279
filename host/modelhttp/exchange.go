package modelhttp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// finishGrace is how long a server may be silent after it has said everything:
// only the end of the stream is still to come.
const finishGrace = 5 * time.Second

// After the end of the answer the rest of the body is read, so that the
// connection can be used again: this much at most, for this long at most.
const (
	drainBytes = 4 << 10
	drainGrace = 50 * time.Millisecond
)

// maxErrorBytes bounds the body of an error.
const maxErrorBytes = 64 << 10

// Exchange is one attempt: a request and its streamed answer.
type Exchange struct {
	events *eventReader // of the answer; nil before there is one

	server *Server
	ctx    context.Context // the lifetime of the exchange, within that of its caller
	cancel context.CancelCauseFunc
	watch  watchdog
	whole  bool
	body   io.ReadCloser
	raw    rawEvents
}

// errSilent is the cause of an exchange that the watchdog cancelled, not the
// caller.
var errSilent = errors.New("silent")

func newExchange(ctx context.Context, s *Server) *Exchange {
	x := &Exchange{server: s, raw: rawEvents{keep: s.opts.KeepRaw}}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.watch.limit, x.watch.bite = s.opts.Timeout, func() { x.cancel(errSilent) }
	return x
}

func (x *Exchange) close() {
	x.watch.stop()
	if x.events != nil {
		x.events.close()
	}
	if x.body != nil {
		x.body.Close()
	}
	x.cancel(nil)
}

// ExpectWhole says before the request that it asks for an answer in one piece: the
// server may then be silent for as long as the whole answer takes.
func (x *Exchange) ExpectWhole() {
	x.whole = true
	x.watch.allow(x.server.opts.WholeTimeout)
}

type headerKey struct{}

// WithHeader returns a context whose requests to servers carry the header too, such as the
// context of a trace. The server's own headers win.
func WithHeader(ctx context.Context, header http.Header) context.Context {
	return context.WithValue(ctx, headerKey{}, header)
}

// do sends the request, with the server's own headers, and opens the event
// stream of the answer. An error is a [*Fault], also for an answer with another
// status than 200.
func (x *Exchange) do(req *http.Request) (*http.Response, error) {
	more, _ := x.ctx.Value(headerKey{}).(http.Header)
	for name, values := range more {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	for name, values := range x.server.opts.Headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	x.watch.look()
	resp, err := x.server.roundTrip(req)
	x.watch.rest()
	if err != nil {
		return nil, x.networkFault(err)
	}
	x.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(watched{x}, maxErrorBytes))
		return nil, x.server.statusFault(resp, text)
	}
	x.events = newEventReader(watched{x})
	return resp, nil
}

// watched is the response body, with a watchdog for silence.
type watched struct{ x *Exchange }

func (w watched) Read(p []byte) (int, error) {
	w.x.watch.look()
	defer w.x.watch.rest()
	return w.x.body.Read(p)
}

// drain reads the little that may follow the answer.
func (x *Exchange) drain() {
	if x.events.eof {
		return
	}
	x.watch.hurry(drainGrace)
	_, _ = io.CopyN(io.Discard, watched{x}, drainBytes) // the connection is lost, if this fails
}

// cancelled reports whether the caller has gone.
func (x *Exchange) cancelled() bool { return x.ctx.Err() != nil && !x.silent() }

// silent reports whether the watchdog has ended the exchange, not the caller.
func (x *Exchange) silent() bool { return errors.Is(context.Cause(x.ctx), errSilent) }

// ended is the fault of an exchange whose stream ended before the answer did.
func (x *Exchange) ended() *Fault {
	if x.ctx.Err() != nil {
		return x.endedFault()
	}
	return x.brokenOff()
}

func (x *Exchange) brokenOff() *Fault {
	f := x.server.Upstream("broke off its answer")
	f.Err.Hint = "try again"
	return f
}

// faultOf translates an error of the exchange.
func (x *Exchange) faultOf(err error) *Fault {
	var f *Fault
	var long *TooLong
	known := errors.As(err, &f)
	silent := x.silent()
	switch {
	case known && (silent || f.Err.Code != fault.Unavailable):
		return f
	case x.ctx.Err() != nil:
		return x.endedFault()
	case known:
		return f
	case errors.Is(err, errNotProtocol):
		return x.nonsense(x.events.seen)
	case errors.As(err, &long):
		return x.server.Refused("sent %s", long.What)
	case x.events == nil: // it was not sent
		return &Fault{Err: fault.Errorf(fault.InvalidArgument, "write request to model %q: %w", x.server.model, err)}
	}
	return x.brokenOff()
}

// eventFault translates the error of an answer about an event.
func (x *Exchange) eventFault(line []byte, err error) error {
	var sent *errorObject
	var long *TooLong
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &sent):
		return x.server.WireFault(sent.object)
	case errors.Is(err, io.EOF), errors.As(err, &long):
		return err
	case x.events.eof && errors.As(err, &syntax) && int(syntax.Offset) >= len(line):
		return x.brokenOff()
	}
	return x.nonsense(line)
}

func (x *Exchange) nonsense(came []byte) *Fault {
	return x.server.Refused("answers something that is not %s: %q", x.server.protocol.Answer, x.server.snippet(came))
}

// endedFault is for an exchange that was cancelled.
func (x *Exchange) endedFault() *Fault {
	if !x.silent() {
		return &Fault{Err: x.server.ended(fault.ContextError(x.ctx))}
	}
	e := fault.Errorf(fault.DeadlineExceeded, "ask %s: nothing came for %s", x.server.where, x.watch.allows()).
		WithHint("the server is slow or stuck; raise the model's timeout or try again")
	e.Retryable = true
	return &Fault{Err: e}
}
