package openaimodel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host"
)

// finishGrace is how long a server may be silent after the finish reason: only
// usage and [DONE] are still to come.
const finishGrace = 5 * time.Second

// After [DONE] the rest of the body is read, so that the connection can be used
// again: this much at most, for this long at most.
const (
	drainBytes = 4 << 10
	drainGrace = 50 * time.Millisecond
)

// attempt is one exchange with the server. It stands between go-openai's client
// and the network: go-openai writes the request and reads the stream, the
// attempt sees the status, the headers and the silences, which go-openai does
// not pass on.
type attempt struct {
	model  *Model
	ctx    context.Context // of the exchange; kept because the attempt is nothing else
	cancel context.CancelCauseFunc
	watch  *watchdog
	body   io.ReadCloser
	events *events
}

var _ openai.HTTPDoer = (*attempt)(nil)

// errSilent is why an exchange was cancelled that nobody cancelled.
var errSilent = errors.New("silent")

func newAttempt(ctx context.Context, m *Model) *attempt {
	a := &attempt{model: m}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.watch = newWatchdog(m.opts.Timeout, func() { a.cancel(errSilent) })
	return a
}

func (a *attempt) close() {
	a.watch.rest()
	a.cancel(nil)
}

// open sends the request.
func (a *attempt) open(wire openai.ChatCompletionRequest) (*openai.ChatCompletionStream, error) {
	config := openai.DefaultConfig(a.model.opts.APIKey)
	config.BaseURL, config.HTTPClient, config.EmptyMessagesLimit = a.model.opts.BaseURL, a, emptyLinesLimit
	return openai.NewClientWithConfig(config).CreateChatCompletionStream(a.ctx, wire)
}

// Do implements openai.HTTPDoer. Its errors are faults.
func (a *attempt) Do(req *http.Request) (*http.Response, error) {
	for name, values := range a.model.opts.Headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	a.watch.look()
	resp, err := a.model.client.Do(req)
	a.watch.rest()
	if err != nil {
		return nil, a.networkFault(err)
	}
	a.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(watched{a}, maxErrorBytes))
		return nil, a.model.statusFault(resp, text)
	}
	a.events = newEvents(watched{a})
	resp.Body = struct {
		io.Reader
		io.Closer
	}{a.events, a.body}
	return resp, nil
}

// watched is the response body with somebody watching for silence.
type watched struct{ a *attempt }

func (w watched) Read(p []byte) (int, error) {
	w.a.watch.look()
	defer w.a.watch.rest()
	return w.a.body.Read(p)
}

// drain reads the little that may follow the answer.
func (a *attempt) drain() {
	a.watch.hurry(drainGrace)
	io.CopyN(io.Discard, watched{a}, drainBytes)
}

// verdict judges an answer whose stream has ended.
func (a *attempt) verdict(got *answer) *fault {
	switch {
	case got.gaveUp():
		return a.model.upstreamFault("gave up its answer (finish reason %q)", got.finish)
	case got.finish == "" && !a.events.done && a.ctx.Err() != nil:
		return a.endedFault()
	case got.finish == "" && !a.events.done:
		return a.brokenOff()
	case !got.chosen:
		return a.model.upstreamFault("sent no answer")
	}
	return nil
}

func (a *attempt) brokenOff() *fault {
	f := a.model.upstreamFault("broke off its answer")
	f.err.Hint = "try again"
	return f
}

// fault says what an error on the way was.
func (a *attempt) fault(err error) *fault {
	var f *fault
	var long *errTooLong
	known := errors.As(err, &f)
	silent := errors.Is(context.Cause(a.ctx), errSilent)
	switch {
	case known && (silent || f.err.Code != host.Unavailable):
		return f
	case a.ctx.Err() != nil:
		return a.endedFault()
	case known:
		return f
	case errors.Is(err, errNotProtocol):
		return a.nonsense(a.events.seen)
	case errors.As(err, &long):
		return a.model.refused("sent %s", long.what)
	case a.events == nil: // go-openai did not send it
		return &fault{err: host.Errorf(host.InvalidArgument, "write request to model %q: %w", a.model.name, err)}
	}
	return a.brokenOff()
}

// lineFault says why an event could not be read.
func (a *attempt) lineFault(line []byte, err error) error {
	var long *errTooLong
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &long):
		return err
	case a.events.eof && errors.As(err, &syntax) && int(syntax.Offset) >= len(line):
		return a.brokenOff()
	}
	return a.nonsense(line)
}

// endedFault is for an exchange that was cancelled.
func (a *attempt) endedFault() *fault {
	cause := context.Cause(a.ctx)
	if !errors.Is(cause, errSilent) {
		return &fault{err: a.model.ended(cause)}
	}
	e := host.Errorf(host.DeadlineExceeded, "ask %s: nothing came for %s", a.model.where, a.watch.limit).
		WithHint("the server is slow or stuck; raise the model's timeout or try again")
	e.Retryable = true
	return &fault{err: e}
}

// watchdog bites when it has looked for longer than its limit.
type watchdog struct {
	limit time.Duration
	timer *time.Timer
}

func newWatchdog(limit time.Duration, bite func()) *watchdog {
	w := &watchdog{limit: limit, timer: time.AfterFunc(limit, bite)}
	w.rest()
	return w
}

// look begins to wait for bytes, rest ends it: the time that the reader of the
// answer takes is not the server's silence.
func (w *watchdog) look() { w.timer.Reset(w.limit) }
func (w *watchdog) rest() { w.timer.Stop() }

// hurry makes the limit shorter.
func (w *watchdog) hurry(limit time.Duration) { w.limit = min(w.limit, limit) }
