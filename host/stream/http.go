package stream

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
)

// The defaults of [ServeOptions].
const (
	DefaultWriteTimeout = 30 * time.Second
	DefaultKeepAlive    = 15 * time.Second
)

// ServeOptions are the optional parts of [Serve].
type ServeOptions struct {
	Encoder Encoder // of this run; default: Own

	// WriteTimeout is how long a client may read nothing. Then its connection is
	// closed, and the run ends (30 s).
	WriteTimeout time.Duration

	// KeepAlive is the silence after which an event stream sends a comment, so
	// that no proxy takes it for dead (15 s). Negative sends none.
	KeepAlive time.Duration
}

// failureEncoder is an encoder whose protocol has a form of errors of its own, which is also
// the data of a last frame without a name.
type failureEncoder interface {
	encodeFailure(e *fault.Error) json.RawMessage
}

// Serve answers a request with the events of a run: as server-sent events, or as
// lines of JSON if the request accepts application/x-ndjson. Every event is sent
// when it happens, together with those that are ready by then. A run that cannot
// begin is answered with its error's HTTP status and
// {"error":{"code","message","hint"?}}, which is also the last frame, named error, of
// a stream that ends before its run; a run's own failure is in its last event. Clients read errors as [fault.ForClient] has them; Serve returns the
// whole one, for the log. It returns when the run has ended, or with code canceled
// when the client has disconnected or has read nothing for WriteTimeout: leaving
// the loop over events ends the run that yields them, unless a runs.Registry
// has it.
func Serve(w http.ResponseWriter, r *http.Request, events iter.Seq2[host.Event, error], opts *ServeOptions) (err error) {
	s := newResponse(w, r, opts)
	defer func() { err = cmp.Or(err, s.close()) }()
	return s.serve(events)
}

// serve sends the events until they end.
func (s *response) serve(events iter.Seq2[host.Event, error]) error {
	for ev, err := range events {
		if err != nil {
			return s.fail(err)
		}
		if err := s.event(ev); err != nil {
			return err
		}
	}
	return nil
}

// maxPendingBytes bounds the frames that wait for a slow client, beyond the one that is
// being written: then the loop over the events waits.
const maxPendingBytes = 64 << 10

// pendingBytes is the first size of a buffer for pending frames, in which those of a short run
// have room.
const pendingBytes = 4 << 10

// response writes the answer to a client. Frames are written and flushed by a goroutine of
// its own, so that those that become ready meanwhile are sent together.
type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	opts    ServeOptions
	lines   bool   // NDJSON
	direct  framer // the encoder, if it is one
	frames  []Frame
	over    bool   // the run's last event has come
	run     string // of the last event
	begun   bool
	flusher sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // something of what follows has
	pending []byte    // frames that are not yet written
	err     error     // of writing
	closed  bool
	idle    *time.Timer
}

func newResponse(w http.ResponseWriter, r *http.Request, opts *ServeOptions) *response {
	s := &response{w: w, control: http.NewResponseController(w), lines: strings.Contains(r.Header.Get("Accept"), "application/x-ndjson")}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Encoder == nil {
		s.opts.Encoder = Own()
	}
	s.direct, _ = s.opts.Encoder.(framer)
	if s.opts.WriteTimeout <= 0 {
		s.opts.WriteTimeout = DefaultWriteTimeout
	}
	if s.opts.KeepAlive == 0 {
		s.opts.KeepAlive = DefaultKeepAlive
	}
	s.changed.L = &s.mu
	return s
}

func (s *response) event(ev host.Event) error {
	_, s.over = ev.Data.(*runevent.RunFinished)
	s.run = ev.Run
	if s.direct == nil {
		var err error
		if s.frames, err = s.opts.Encoder.Encode(s.frames[:0], ev); err != nil {
			return err
		}
	}
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) > maxPendingBytes && s.err == nil {
		s.changed.Wait()
	}
	if s.err != nil {
		return s.err
	}
	if err := s.addFrames(ev); err != nil {
		return err
	}
	s.changed.Broadcast()
	return nil
}

// addFrames adds the frames of an event to those that are pending. The caller holds s.mu.
func (s *response) addFrames(ev host.Event) (err error) {
	if s.pending == nil {
		s.pending = make([]byte, 0, pendingBytes)
	}
	if s.direct != nil {
		s.pending, err = s.direct.appendFrame(s.pending, ev, s.lines)
		return err
	}
	for _, f := range s.frames {
		if s.lines {
			s.pending = AppendNDJSON(s.pending, f)
		} else {
			s.pending = AppendSSE(s.pending, f)
		}
	}
	return nil
}

// begin sends the header, once.
func (s *response) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	if s.lines {
		h.Set("Content-Type", "application/x-ndjson")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies that would wait for more
	s.w.WriteHeader(http.StatusOK)
	if !s.lines && s.opts.KeepAlive > 0 {
		s.idle = time.AfterFunc(s.opts.KeepAlive, s.keepAlive)
	}
	s.flusher.Go(s.flush)
}

// flush writes pending frames until the response is closed and none is left, or the
// client takes no more.
func (s *response) flush() {
	var taken []byte
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.pending) == 0 && !s.closed {
			s.changed.Wait()
		}
		if len(s.pending) == 0 {
			return
		}
		taken, s.pending = s.pending, taken[:0]
		if s.idle != nil && !s.closed {
			s.idle.Reset(s.opts.KeepAlive)
		}
		s.mu.Unlock()
		err := s.write(taken)
		s.mu.Lock()
		s.changed.Broadcast()
		if err != nil {
			s.err = err
			return
		}
	}
}

// write sends b at once.
func (s *response) write(b []byte) error {
	// A writer that knows no deadlines is one in memory, or its server's business.
	_ = s.control.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
	_, err := s.w.Write(b)
	if err == nil {
		err = s.control.Flush()
	}
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return host.Errorf(host.Canceled, "the client took nothing for the limit WriteTimeout of %s", s.opts.WriteTimeout)
	}
	return host.Errorf(host.Canceled, "the client has left: %w", err)
}

// send has b written behind the pending frames.
func (s *response) send(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.err == nil {
		s.pending = append(s.pending, b...)
		s.changed.Broadcast()
	}
}

// keepAlive sends a comment; the next event finds out whether the client has left.
func (s *response) keepAlive() { s.send([]byte(": \n\n")) }

// fail answers for a run that did not begin, and sends the error of a stream
// that ends before its run. The failure of a run is in the run's last event.
func (s *response) fail(err error) error {
	e := fault.ForClient(err, s.run)
	body, event := s.failureBody(e)
	switch {
	case s.over:
	case !s.begun:
		s.begun = true
		s.w.Header().Set("Content-Type", "application/json")
		e.SetRetryAfter(s.w.Header())
		s.w.WriteHeader(e.Code.HTTPStatus())
		_, _ = s.w.Write(append(body, '\n'))
	case s.lines:
		s.send(AppendNDJSON(nil, Frame{Data: body}))
	default:
		s.send(AppendSSE(nil, Frame{Event: event, Data: body}))
	}
	return fault.AsError(err)
}

// failureBody returns an error in the form of the encoder's protocol, and the name of its
// event.
func (s *response) failureBody(e *fault.Error) (body json.RawMessage, event string) {
	if own, ok := s.opts.Encoder.(failureEncoder); ok {
		return own.encodeFailure(e), ""
	}
	body, _ = json.Marshal(map[string]any{"error": e})
	return body, "error"
}

// close waits until the pending frames are written, and returns the error of writing.
func (s *response) close() error {
	s.mu.Lock()
	s.closed = true
	if s.idle != nil {
		s.idle.Stop()
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	s.flusher.Wait()
	_ = s.control.SetWriteDeadline(time.Time{}) // the connection's next request has its own
	return s.err
}
