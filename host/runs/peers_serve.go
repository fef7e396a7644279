package runs

import (
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// ServePeers answers requests of other hosts about the runs of this registry until Drain
// and Close, on a listener whose address is that of the journal's member; it returns at
// once and closes the listener. Connections are encrypted, and members alone can make
// them: see cluster.Identity. Code failed_precondition without a [Journal] whose member
// has an identity.
func (r *Registry) ServePeers(listener net.Listener) error {
	var config *tls.Config
	if r.shared != nil {
		config = r.shared.member.ServerTLS()
	}
	if config == nil {
		return host.Errorf(host.FailedPrecondition, "serve other hosts: the registry has no journal of a member with an identity")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil || r.draining {
		return host.Errorf(host.FailedPrecondition, "serve other hosts: the registry does already, or is being stopped")
	}
	r.server = &http.Server{Handler: r.peerHandler(), ReadHeaderTimeout: peerTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(r.opts.Logger.Handler(), slog.LevelDebug)}
	server := r.server
	r.serving.Go(func() { _ = server.Serve(tls.NewListener(listener, config)) })
	return nil
}

func (r *Registry) peerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /run", r.answerPeer(func(req *http.Request, l *liveRun) (any, error) { return l.snapshot(), nil }))
	mux.HandleFunc("POST /cancel", r.answerPeer(func(req *http.Request, l *liveRun) (any, error) {
		l.cancel(errCanceled())
		return l.snapshot(), nil
	}))
	mux.HandleFunc("POST /list", func(w http.ResponseWriter, req *http.Request) {
		var own ListRequest
		err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxPeerRequest)).Decode(&own)
		var after position
		if err == nil {
			after, err = own.check()
		}
		if err != nil {
			failPeer(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(pageOf(r.runs.list(&own, after), own.Limit, false))
	})
	mux.HandleFunc("GET /events", r.streamToPeer)
	calls := make(chan struct{}, maxPeerCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case calls <- struct{}{}:
			defer func() { <-calls }()
			mux.ServeHTTP(w, req)
		default:
			failPeer(w, host.Errorf(host.ResourceExhausted, "the host answers %d other hosts' requests already", maxPeerCalls))
		}
	})
}

// ofPeer returns the run that a request of another host names.
func (r *Registry) ofPeer(req *http.Request) (*liveRun, error) {
	query := req.URL.Query()
	return r.find(query.Get("tenant"), query.Get("run"))
}

func (r *Registry) answerPeer(fn func(*http.Request, *liveRun) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		l, err := r.ofPeer(req)
		var out any
		if err == nil {
			out, err = fn(req, l)
		}
		if err != nil {
			failPeer(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	}
}

// failPeer answers with an error as clients may read it: its whole text is in the log of
// this host.
func failPeer(w http.ResponseWriter, err error) {
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(line{Error: fault.ForClient(err, "")})
}

// streamToPeer writes the events of a run, a line each, an empty line after a silence,
// and {} or the run's error at the end.
func (r *Registry) streamToPeer(w http.ResponseWriter, req *http.Request) {
	l, err := r.ofPeer(req)
	from, numberErr := strconv.ParseInt(req.URL.Query().Get("from"), 10, 64)
	if err == nil && numberErr != nil {
		err = host.Errorf(host.InvalidArgument, "the number of the first event is no number")
	}
	if err != nil {
		failPeer(w, err)
		return
	}
	l.enter()
	defer l.leave()
	out := &peerStream{w: w, control: http.NewResponseController(w)}
	stop := out.keepAlive()
	defer stop()
	for ev, err := range l.events.read(req.Context(), from) {
		if err != nil {
			_ = out.send(line{Error: fault.ForClient(err, l.info.ID)})
			return
		}
		if out.send(line{Event: &ev}) != nil {
			return
		}
	}
	_ = out.send(line{})
}

// peerStream writes lines to another host.
type peerStream struct {
	w       http.ResponseWriter
	control *http.ResponseController

	mu   sync.Mutex
	idle *time.Timer
}

func (s *peerStream) send(l line) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return s.write(append(raw, '\n'))
}

func (s *peerStream) write(raw []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.control.SetWriteDeadline(time.Now().Add(peerIdle))
	if _, err := s.w.Write(raw); err != nil {
		return err
	}
	s.idle.Reset(peerSilence)
	return s.control.Flush()
}

// keepAlive writes empty lines in silences until stop, which waits for the last one.
func (s *peerStream) keepAlive() (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := false
	s.idle = time.AfterFunc(peerSilence, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !over {
			_ = s.control.SetWriteDeadline(time.Now().Add(peerIdle))
			_, _ = s.w.Write([]byte("\n"))
			_ = s.control.Flush()
			s.idle.Reset(peerSilence)
		}
	})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		over = true
		s.idle.Stop()
	}
}
