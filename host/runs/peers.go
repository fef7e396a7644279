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
