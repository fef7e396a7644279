package sockkv

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
)

// Client is the driver of another process. Safe for concurrent use. When the other
// process ends, reads return [kv.ErrClosed], and commits in progress return
// [kv.ErrInDoubt].
type Client struct {
	conn    net.Conn
	reading sync.WaitGroup
	writing sync.Mutex

	calls sync.RWMutex // held for reading during a call, for writing by Close

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *response
	closed  bool
	gone    bool // no more answers arrive
}

var (
	_ kv.Driver = (*Client)(nil)
	_ kv.Locker = (*Client)(nil)
)

// Dial connects to a process that serves a driver at an address as of [net.Dial].
func Dial(ctx context.Context, network, address string) (*Client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connect to the process that has the store: %w", err)
	}
	return NewClient(conn), nil
}

// NewClient returns a client on a connection, which the client then owns.
func NewClient(conn net.Conn) *Client {
	c := &Client{conn: conn, waiting: map[uint64]chan *response{}}
	c.reading.Go(c.read)
	return c
}

// read hands answers to their waiting calls.
func (c *Client) read() {
	in := bufio.NewReader(c.conn)
	for {
		var r response
		if receive(in, &r) != nil {
			break
		}
		c.mu.Lock()
		answer := c.waiting[r.ID]
		delete(c.waiting, r.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- &r
		}
	}
	_ = c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for id, answer := range c.waiting {
		close(answer)
		delete(c.waiting, id)
	}
}

// begin starts a call, which ends with c.calls.RUnlock if begin returned nil.
func (c *Client) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.calls.RLock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.gone {
		c.calls.RUnlock()
		return kv.ErrClosed
	}
	return nil
}

// errGone says that the other process ended before it answered.
var errGone = &remoteError{"the process that has the store is gone", kv.ErrClosed}

// ask sends a request and waits for its answer. When ctx ends, it notifies the other
// process; with stay it then still waits for the answer. sent is the id of the request,
// 0 if the other process never received it whole.
func (c *Client) ask(ctx context.Context, req *request, stay bool) (r *response, sent uint64, err error) {
	answer := make(chan *response, 1)
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return nil, 0, errGone
	}
	c.last++
	req.ID = c.last
	c.waiting[req.ID] = answer
	c.mu.Unlock()
	if err := c.send(req); err != nil {
		c.lose(req.ID)
		return nil, 0, errGone
	}
	select {
	case r := <-answer:
		return answered(r, req.ID)
	case <-ctx.Done():
		_ = c.send(&request{Op: opCancel, Of: req.ID})
	}
	if stay {
		return answered(<-answer, req.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, req.ID)
	return nil, req.ID, ctx.Err()
}

// lose ends the connection after a request that could not be sent whole: the other
// process could read no later request.
func (c *Client) lose(id uint64) {
	_ = c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	delete(c.waiting, id)
}

func answered(r *response, id uint64) (*response, uint64, error) {
	if r == nil {
		return nil, id, errGone
	}
	return r, id, nil
}

func (c *Client) send(req *request) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return send(c.conn, req)
}

// Get implements [kv.Driver].
func (c *Client) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	if err := kv.ValidateKey(partition, key); err != nil {
		return kv.Entry{}, fmt.Errorf("get: %w", err)
	}
	if err := c.begin(ctx); err != nil {
		return kv.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	defer c.calls.RUnlock()
	r, _, err := c.ask(ctx, &request{Op: opGet, Partition: []byte(partition), Key: []byte(key)}, false)
	switch {
	case err != nil:
		return kv.Entry{}, fmt.Errorf("get %s: %w", key, err)
	case r.Error != nil:
		return kv.Entry{}, c.failed(ctx, r.Error)
	case len(r.Entries) != 1:
		return kv.Entry{}, fmt.Errorf("get %s: %w: %d entries came", key, kv.ErrCorrupt, len(r.Entries))
	}
	return r.Entries[0].kv(), nil
}

// failed returns an error of the other process, or that of ctx if ctx has ended.
func (c *Client) failed(ctx context.Context, e *wireError) error {
	err := fromWire(e, nil)
	if ctx.Err() != nil && (e.Name == "canceled" || e.Name == "deadline") {
		return &remoteError{e.Text, ctx.Err()}
	}
	return err
}

// Scan implements [kv.Driver].
func (c *Client) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if err := r.Validate(partition); err != nil {
		return kv.Page{}, fmt.Errorf("scan: %w", err)
	}
	if err := c.begin(ctx); err != nil {
		return kv.Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	defer c.calls.RUnlock()
	res, _, err := c.ask(ctx, &request{Op: opScan, Partition: []byte(partition), Range: scanOf(r)}, false)
	if err != nil {
		return kv.Page{}, fmt.Errorf("scan %s: %w", r.Prefix, err)
	}
	if res.Error != nil {
		return kv.Page{}, c.failed(ctx, res.Error)
	}
	page := kv.Page{More: res.More}
	for _, e := range res.Entries {
		page.Entries = append(page.Entries, e.kv())
	}
	return page, nil
}

// Commit implements [kv.Driver].
func (c *Client) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := make([]kv.Result, len(txs))
	if len(txs) > kv.MaxCommitTxs {
		return failAll(results, &kv.LimitError{What: "commit", Got: len(txs), Max: kv.MaxCommitTxs, Unit: "transactions"})
	}
	var valid []int
	for i, tx := range txs {
		if err := tx.Validate(); err != nil {
			results[i].Err = fmt.Errorf("commit: %w", err)
			continue
		}
		valid = append(valid, i)
	}
	if err := c.begin(ctx); err != nil {
		return failAll(results, err)
	}
	defer c.calls.RUnlock()
	for len(valid) > 0 {
		n := together(txs, valid)
		c.commit(ctx, txs, valid[:n], results)
		valid = valid[n:]
	}
	return results
}

func failAll(results []kv.Result, err error) []kv.Result {
	for i := range results {
		results[i] = kv.Result{Err: fmt.Errorf("commit: %w", err)}
	}
	return results
}

// together returns how many of the Txs fit into one message.
func together(txs []kv.Tx, which []int) int {
	bytes := 0
	for n, i := range which {
		if bytes += txs[i].Size(); n > 0 && bytes > maxSentBytes || n == maxSentTxs {
			return n
		}
	}
	return len(which)
}

// commit sends some of the Txs and sets their results.
func (c *Client) commit(ctx context.Context, txs []kv.Tx, which []int, results []kv.Result) {
	req := &request{Op: opCommit}
	for _, i := range which {
		req.Txs = append(req.Txs, txOf(txs[i]))
	}
	if err := ctx.Err(); err != nil {
		for _, i := range which {
			results[i].Err = fmt.Errorf("commit: %w", err)
		}
		return
	}
	r, sent, err := c.ask(ctx, req, true)
	if err != nil || len(r.Results) != len(which) {
		why := kv.ErrInDoubt
		if sent == 0 {
			why = kv.ErrClosed
		}
		for _, i := range which {
			results[i].Err = fmt.Errorf("commit: %w: the process that has the store is gone", why)
		}
		return
	}
	for n, i := range which {
		results[i] = kv.Result{Revision: r.Results[n].Revision, Err: fromWire(r.Results[n].Error, txs[i].Conds)}
		if e := r.Results[n].Error; e != nil && (e.Name == "canceled" || e.Name == "deadline") {
			results[i].Err = c.failed(ctx, e)
		}
	}
}

// Lock implements [kv.Locker], as [Shared.Lock] does.
func (c *Client) Lock(ctx context.Context, partition, name string, wait bool) (unlock func(), err error) {
	if err := c.begin(ctx); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	defer c.calls.RUnlock()
	r, id, err := c.ask(ctx, &request{Op: opLock, Partition: []byte(partition), Key: []byte(name), NoWait: !wait}, true)
	unlock = sync.OnceFunc(func() { _ = c.send(&request{Op: opUnlock, Of: id}) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case r.Error != nil:
		return nil, c.failed(ctx, r.Error)
	}
	return unlock, nil
}

// Close implements [kv.Driver]. The other process's driver stays open.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.calls.Lock() // wait for started calls
	defer c.calls.Unlock()
	_ = c.conn.Close()
	c.reading.Wait()
	return nil
}
