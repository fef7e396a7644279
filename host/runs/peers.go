package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of requests between hosts.
const (
	peerTimeout    = 5 * time.Second  // of a request that is no stream
	peerSilence    = 10 * time.Second // after which a stream sends an empty line
	peerIdle       = 30 * time.Second // without a byte, after which a stream is broken
	maxPeerCalls   = 1000             // that one host answers at one time
	maxPeerAsks    = 16               // hosts that are asked at one time
	maxPeerMessage = 64 << 20         // bytes of an answer, or of one event
	maxPeerRequest = 1 << 20          // bytes of a request
)

// hostTagBytes is how much of the id of a host is in the ids of its runs.
const hostTagBytes = 8

// peers asks other hosts for their runs.
type peers struct {
	member *cluster.Member
	client *http.Client
}

func newPeers(member *cluster.Member) *peers {
	p := &peers{member: member}
	p.client = &http.Client{Transport: &http.Transport{DialTLSContext: p.dial, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute}}
	return p
}

// dial connects to the member whose id is the host of the URL.
func (p *peers) dial(ctx context.Context, network, address string) (net.Conn, error) {
	id, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for _, peer := range p.member.Peers() {
		config := p.member.ClientTLS(peer)
		if peer.ID != id || peer.Address == "" || config == nil {
			continue
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: peerTimeout}, Config: config}
		return dialer.DialContext(ctx, network, peer.Address)
	}
	return nil, host.Errorf(host.Unavailable, "host %s is gone", id)
}

func (p *peers) close() { p.client.CloseIdleConnections() }

// reachable returns the peers that can be asked; those that the id of a run names come
// first.
func (p *peers) reachable(run string) []cluster.Peer {
	all := slices.DeleteFunc(p.member.Peers(), func(peer cluster.Peer) bool { return peer.Address == "" })
	_, tag, _ := strings.Cut(run, ".")
	slices.SortStableFunc(all, func(a, b cluster.Peer) int { return cmp.Compare(rank(b, tag), rank(a, tag)) })
	return all
}

func rank(p cluster.Peer, tag string) int {
	if tag != "" && strings.HasPrefix(p.ID, tag) {
		return 1
	}
	return 0
}

// call asks a peer and decodes its answer. The error of the peer has its code.
func (p *peers) call(ctx context.Context, peer cluster.Peer, method, path string, query url.Values, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	resp, err := p.do(ctx, peer, method, path, query, in)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPeerMessage)).Decode(out); err != nil {
		return host.Errorf(host.Unavailable, "ask host %s: %w", peer.ID, err)
	}
	return nil
}

// do sends a request. An answer without success is an error.
func (p *peers) do(ctx context.Context, peer cluster.Peer, method, path string, query url.Values, in any) (*http.Response, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, host.Errorf(host.Internal, "ask host %s: %w", peer.ID, err)
	}
	u := url.URL{Scheme: "https", Host: peer.ID, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(raw))
	if err != nil {
		return nil, host.Errorf(host.Internal, "ask host %s: %w", peer.ID, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, host.Errorf(host.Unavailable, "ask host %s: %w", peer.ID, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var answer line
	if json.NewDecoder(io.LimitReader(resp.Body, maxPeerRequest)).Decode(&answer) != nil || answer.Error == nil {
		return nil, host.Errorf(host.Unavailable, "ask host %s: it answers %s", peer.ID, resp.Status)
	}
	return nil, answer.Error
}

// each calls fn for peers, some at a time, and waits.
func (p *peers) each(all []cluster.Peer, fn func(cluster.Peer)) {
	for some := range slices.Chunk(all, maxPeerAsks) {
		var wg sync.WaitGroup
		for _, peer := range some {
			wg.Go(func() { fn(peer) })
		}
		wg.Wait()
	}
}

// run sends a request about one run to the host that has it. Code not_found if none
// has.
func (p *peers) run(ctx context.Context, method, path, tenant, id string) (*Run, cluster.Peer, error) {
	query := url.Values{"tenant": {tenant}, "run": {id}}
	all := p.reachable(id)
	ask := func(peer cluster.Peer) (*Run, error) {
		info := &Run{}
		err := p.call(ctx, peer, method, path, query, nil, info)
		return info, err
	}
	if _, tag, ok := strings.Cut(id, "."); ok && len(all) > 0 && rank(all[0], tag) == 1 {
		info, err := ask(all[0])
		if err == nil || host.CodeOf(err) != host.NotFound {
			return info, all[0], err
		}
		all = all[1:]
	}
	var mu sync.Mutex
	var found *Run
	var owner cluster.Peer
	var failed error
	p.each(all, func(peer cluster.Peer) {
		info, err := ask(peer)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && (found == nil || found.Status.Ended()): // one that runs is the owner
			found, owner = info, peer
		case err != nil && host.CodeOf(err) != host.NotFound:
			failed = err
		}
	})
	switch {
	case found != nil:
		return found, owner, nil
	case failed != nil:
		return nil, owner, failed
	}
	return nil, owner, errNoRun(id)
}

// list returns the first runs of each peer, in no order; more says that a peer has more
// than req.Limit. A peer that cannot be asked has none.
func (p *peers) list(ctx context.Context, req *ListRequest) (out []*Run, more bool) {
	var mu sync.Mutex
	p.each(p.reachable(""), func(peer cluster.Peer) {
		page := &Page{}
		if p.call(ctx, peer, http.MethodPost, "/list", nil, req, page) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		out, more = append(out, page.Runs...), more || page.Next != ""
	})
	return out, more
}

// line is a line of a stream of events, and the body of a failed answer.
type line struct {
	Event *host.Event `json:"event,omitempty"`
	Error *host.Error `json:"error,omitempty"`
}

// events yields the events of a run on a peer.
func (p *peers) events(ctx context.Context, peer cluster.Peer, tenant, id string, from int64) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		query := url.Values{"tenant": {tenant}, "run": {id}, "from": {strconv.FormatInt(from, 10)}}
		resp, err := p.do(ctx, peer, http.MethodGet, "/events", query, nil)
		if err != nil {
			yield(host.Event{}, err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		silence := time.AfterFunc(peerIdle, cancel)
		defer silence.Stop()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, maxPeerMessage)
		next := from
		for lines.Scan() {
			silence.Reset(peerIdle)
			if len(lines.Bytes()) == 0 {
				continue
			}
			var got line
			if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
				yield(host.Event{}, host.Errorf(host.Unavailable, "read the events of run %.100q from host %s: %w", id, peer.ID, err))
				return
			}
			switch {
			case got.Error != nil:
				yield(host.Event{}, got.Error)
				return
			case got.Event == nil: // the end
				return
			}
			next = got.Event.Seq + 1
			if !yield(*got.Event, nil) {
				return
			}
		}
		yield(host.Event{}, p.broken(ctx, peer, id, next, lines.Err()))
	}
}

// broken returns the error of a stream that ended before its run.
func (p *peers) broken(ctx context.Context, peer cluster.Peer, id string, next int64, err error) error {
	if ctx.Err() != nil && context.Cause(ctx) != nil && errors.Is(err, ctx.Err()) && p.member.Lives(peer.ID) {
		return fault.AsError(fault.ContextError(ctx))
	}
	e := host.Errorf(host.Unavailable, "the host of run %.100q does not answer", id).WithHint("read its events again from number %d: another host may have it", next)
	e.Retryable = true
	return e
}

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
