package sockkv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/kv"
)

// The bounds of a server.
const (
	// MaxConnections is how many clients may be connected; further connections are
	// closed.
	MaxConnections = 64
	// MaxRequests is how many requests of a connection are processed at a time; the
	// server reads the next after it has answered one. Requests for locks are not among
	// them: they may wait for what later requests do.
	MaxRequests = 256
	// maxLocks is how many requests of a connection may wait for locks; further ones get
	// [kv.ErrBusy].
	maxLocks = 16 << 10
	// writeTime is how long a client may take to read an answer before its
	// connection is closed.
	writeTime = time.Minute
)

// Shared is a driver that other processes can use, too. It is a [kv.Driver] for its own
// process. Safe for concurrent use.
type Shared struct {
	kv.Driver
	locks   lockTable
	ctx     context.Context // the lifetime: ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]struct{}
}

var (
	_ kv.Driver = (*Shared)(nil)
	_ kv.Locker = (*Shared)(nil)
)

// Share wraps a driver. The result owns the driver, and its Close closes it.
func Share(d kv.Driver) *Shared {
	s := &Shared{Driver: d, conns: map[net.Conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Lock implements [kv.Locker] among all processes that share the driver. It also
// returns [kv.ErrBusy] when [MaxWaiting] callers wait already, or when too many requests of one client wait.
func (s *Shared) Lock(ctx context.Context, partition, name string, wait bool) (unlock func(), err error) {
	return s.locks.lock(ctx, partition, name, wait)
}

// Serve lets the clients that connect to l use the driver, until Close. It returns at once.
func (s *Shared) Serve(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = l.Close()
		return
	}
	s.listeners = append(s.listeners, l)
	s.running.Go(func() { s.accept(l) })
}

func (s *Shared) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for example out of file descriptors: give connections time to close
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.ctx.Done():
				return
			}
		case !s.begin(conn):
			_ = conn.Close()
		}
	}
}

// begin serves a connection, if there is room and the driver is not closed.
func (s *Shared) begin(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= MaxConnections {
		return false
	}
	s.conns[conn] = struct{}{}
	s.running.Go(func() {
		c := &connection{shared: s, conn: conn, calls: map[uint64]context.CancelFunc{}, held: map[uint64]func(){}}
		c.serve(s.ctx)
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	})
	return true
}

// Close ends all connections, waits for their requests, and closes the driver.
func (s *Shared) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.cancel()
		for _, l := range s.listeners {
			_ = l.Close()
		}
		for conn := range s.conns {
			_ = conn.Close()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
	return s.Driver.Close()
}

// connection is the connection of a client.
type connection struct {
	shared *Shared
	conn   net.Conn

	writing sync.Mutex
	mu      sync.Mutex
	calls   map[uint64]context.CancelFunc // by request
	held    map[uint64]func()             // locks, by the request that took them
}

// serve answers requests until the connection ends. Then it cancels the running
// requests and frees the client's locks.
func (c *connection) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	slots, locks := make(chan struct{}, MaxRequests), make(chan struct{}, maxLocks)
	var calls sync.WaitGroup
	in := bufio.NewReader(c.conn)
	for {
		var req request
		if receive(in, &req) != nil {
			break
		}
		if c.aside(&req) {
			continue
		}
		place := slots
		if req.Op == opLock {
			req.Range, req.Txs = nil, nil // which it has no use for, while it waits
			if place = locks; len(locks) == maxLocks {
				c.reply(&response{ID: req.ID, Error: toWire(fmt.Errorf("lock: %w", kv.ErrBusy))})
				continue
			}
		}
		place <- struct{}{}
		callCtx := c.call(ctx, req.ID)
		calls.Go(func() {
			defer func() { <-place }()
			c.reply(c.answer(callCtx, &req))
			c.done(req.ID)
		})
	}
	_ = c.conn.Close()
	cancel()
	calls.Wait()
	for _, unlock := range c.held {
		unlock()
	}
}

// aside handles a request without an answer, and reports whether req is one.
func (c *connection) aside(req *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch req.Op {
	case opCancel:
		if cancel := c.calls[req.Of]; cancel != nil {
			cancel()
		}
	case opUnlock:
		if unlock := c.held[req.Of]; unlock != nil {
			delete(c.held, req.Of)
			unlock()
		}
	default:
		return false
	}
	return true
}

func (c *connection) call(ctx context.Context, id uint64) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = cancel
	return ctx
}

func (c *connection) done(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.calls[id]; cancel != nil {
		cancel()
		delete(c.calls, id)
	}
}

func (c *connection) reply(r *response) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTime))
	if send(c.conn, r) != nil {
		_ = c.conn.Close() // after half an answer the client can read no other
	}
}

func (c *connection) answer(ctx context.Context, req *request) *response {
	out := &response{ID: req.ID}
	switch req.Op {
	case opGet:
		e, err := c.shared.Driver.Get(ctx, string(req.Partition), kv.Key(req.Key))
		out.Error = toWire(err)
		if err == nil {
			out.Entries = []entry{entryOf(e)}
		}
	case opScan:
		if req.Range == nil {
			req.Range = &scanArgs{}
		}
		page, err := c.shared.Driver.Scan(ctx, string(req.Partition), req.Range.kv())
		out.Error, out.More = toWire(err), page.More
		for _, e := range page.Entries {
			out.Entries = append(out.Entries, entryOf(e))
		}
	case opCommit:
		txs := make([]kv.Tx, len(req.Txs))
		for i := range req.Txs {
			txs[i] = req.Txs[i].kv()
		}
		for _, r := range c.shared.Driver.Commit(ctx, txs...) {
			out.Results = append(out.Results, result{r.Revision, toWire(r.Err)})
		}
	case opLock:
		out.Error = toWire(c.lock(ctx, req))
	default:
		out.Error = &wireError{Name: "invalid", Text: "the process that has the store is of another version"}
	}
	return out
}

func (c *connection) lock(ctx context.Context, req *request) error {
	unlock, err := c.shared.Lock(ctx, string(req.Partition), string(req.Key), !req.NoWait)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[req.ID] != nil { // two requests of one id
		unlock()
		return kv.ErrInvalid
	}
	c.held[req.ID] = unlock
	return nil
}
