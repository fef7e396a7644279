package sockkv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
	"github.com/agenthost/agenthost/host/kv/sockkv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socket is a path for a socket, short enough for every system.
func socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// serve shares a driver until the test ends, and returns how to reach it.
func serve(t testing.TB, d kv.Driver) (*sockkv.Shared, string) {
	t.Helper()
	path := socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := sockkv.Share(d)
	s.Serve(l)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, path
}

func dial(t testing.TB, path string) *sockkv.Client {
	t.Helper()
	c, err := sockkv.Dial(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestClient(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		_, path := serve(t, kv.Group(kv.NewMemory()))
		return kvtest.Store{Open: func() (kv.Driver, error) { return sockkv.Dial(t.Context(), "unix", path) }}
	})
}

func TestShared(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kvtest.Store {
		return kvtest.Store{Open: func() (kv.Driver, error) { return sockkv.Share(kv.Group(kv.NewMemory())), nil }}
	})
}

func put(t testing.TB, d kv.Driver, key kv.Key) error {
	t.Helper()
	_, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "p", Writes: []kv.Write{kv.Put(key, []byte("v"))}})
	return err
}

// What several clients write is one store, each of whose writes is seen by all.
func TestClientsShareOneStore(t *testing.T) {
	shared, path := serve(t, kv.Group(kv.NewMemory()))
	var clients sync.WaitGroup
	for i := range 8 {
		c := dial(t, path)
		clients.Go(func() {
			for n := range 50 {
				if err := put(t, c, kv.NewKey("k").WithUint(uint64(i)).WithUint(uint64(n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	for _, d := range []kv.Driver{shared, dial(t, path)} {
		n := 0
		for _, err := range kv.All(t.Context(), d, "p", kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 8*50 {
			t.Errorf("%d entries are there, want %d", n, 8*50)
		}
	}
}

func TestLocksAreSharedInOrder(t *testing.T) {
	shared, path := serve(t, kv.NewMemory())
	a, b := dial(t, path), dial(t, path)
	unlock, err := a.Lock(t.Context(), "p", "name", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []kv.Locker{a, b, shared} {
		if _, err := l.Lock(t.Context(), "p", "name", false); !errors.Is(err, kv.ErrBusy) {
			t.Errorf("Lock of what somebody has = %v, want ErrBusy", err)
		}
		free, err := l.Lock(t.Context(), "other", "name", true) // as soon as the one before has let go
		if err != nil {
			t.Fatalf("Lock in another partition = %v", err)
		}
		free()
	}
	got := make(chan string)
	go func() {
		unlock, err := b.Lock(context.Background(), "p", "name", true)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- "b"
		unlock()
		unlock()
		got <- "done"
	}()
	unlock()
	if first := <-got; first != "b" {
		t.Errorf("the lock goes to %q", first)
	}
	<-got
	ctx, cancel := context.WithCancel(t.Context())
	unlock, err = a.Lock(ctx, "p", "name", true)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	cancel()
	if _, err := b.Lock(ctx, "p", "name", true); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock with a context that has ended = %v", err)
	}
}

// Requests for a lock that wait hold up no other: its holder works, and releases it.
func TestManyWaitForALockOfTheirClient(t *testing.T) {
	_, path := serve(t, kv.NewMemory())
	c := dial(t, path)
	unlock, err := c.Lock(t.Context(), "p", "n", true)
	if err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	for range sockkv.MaxRequests + 10 {
		waiting.Go(func() {
			unlock, err := c.Lock(t.Context(), "p", "n", true)
			if err != nil {
				t.Error(err)
				return
			}
			unlock()
		})
	}
	for range 100 { // beside the requests that come, and behind them
		if err := put(t, c, "k"); err != nil {
			t.Fatal(err)
		}
	}
	unlock()
	waiting.Wait()
}

func TestALockWaitedForCanBeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockkv.Share(kv.NewMemory())
		unlock, err := s.Lock(t.Context(), "p", "n", true)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { _, err := s.Lock(ctx, "p", "n", true); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v", err)
		}
		unlock()
		unlock, err = s.Lock(t.Context(), "p", "n", false)
		if err != nil {
			t.Errorf("Lock of what is free = %v", err)
		}
		unlock()
	})
}

// The locks of a client that is gone are free, and so is its place in a queue.
func TestLocksEndWithTheirClient(t *testing.T) {
	shared, path := serve(t, kv.NewMemory())
	c := dial(t, path)
	if _, err := c.Lock(t.Context(), "p", "n", true); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	unlock, err := shared.Lock(t.Context(), "p", "n", true) // waits until the server has noticed
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// stuck is a driver whose commits wait until they are let.
type stuck struct {
	kv.Driver
	begun, next chan struct{}
}

func (s *stuck) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	s.begun <- struct{}{}
	select {
	case <-s.next:
	case <-ctx.Done():
		results := make([]kv.Result, len(txs))
		for i := range results {
			results[i].Err = fmt.Errorf("commit: %w", ctx.Err())
		}
		return results
	}
	return s.Driver.Commit(ctx, txs...)
}

func TestTheOtherProcessEnds(t *testing.T) {
	d := &stuck{kv.NewMemory(), make(chan struct{}), make(chan struct{})}
	shared, path := serve(t, d)
	c := dial(t, path)
	outcome := make(chan error, 1)
	go func() { outcome <- put(t, c, "k") }()
	<-d.begun
	if err := shared.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; !errors.Is(err, kv.ErrInDoubt) && !errors.Is(err, context.Canceled) {
		t.Errorf("a commit that was on its way = %v, want ErrInDoubt", err)
	}
	if _, err := c.Get(t.Context(), "p", "k"); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Get = %v, want ErrClosed", err)
	}
	if err := put(t, c, "k"); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("commit = %v, want ErrClosed", err)
	}
	if _, err := sockkv.Dial(t.Context(), "unix", path); err == nil {
		t.Error("Dial of a process that is gone succeeds")
	}
}

func TestACommitThatWaitsCanBeGivenUp(t *testing.T) {
	d := &stuck{kv.NewMemory(), make(chan struct{}), make(chan struct{})}
	_, path := serve(t, d)
	c := dial(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() {
		_, err := kv.Apply(ctx, c, kv.Tx{Partition: "p", Writes: []kv.Write{kv.Put("k", nil)}})
		outcome <- err
	}()
	<-d.begun
	cancel()
	if err := <-outcome; !errors.Is(err, context.Canceled) {
		t.Errorf("commit = %v, want canceled", err)
	}
}

// Too many connections are closed at once, and leave room when they end.
func TestConnectionsAreBounded(t *testing.T) {
	_, path := serve(t, kv.NewMemory())
	var clients []*sockkv.Client
	for range sockkv.MaxConnections {
		c := dial(t, path)
		if err := put(t, c, "k"); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	if err := put(t, dial(t, path), "k"); !errors.Is(err, kv.ErrClosed) && !errors.Is(err, kv.ErrInDoubt) {
		t.Errorf("commit over one connection too many = %v", err)
	}
	for _, c := range clients {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for put(t, dial(t, path), "k") != nil { // until the server has noticed
	}
}

// FuzzServer: whatever comes over the socket is answered or ends the connection,
// and the next client is served.
func FuzzServer(f *testing.F) {
	frame := func(body string) []byte {
		return append([]byte{byte(len(body) >> 24), byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
	}
	f.Add(frame(`{"id":1,"op":"get","partition":"cA==","key":"aw=="}`))
	f.Add(frame(`{"id":1,"op":"scan"}`))
	f.Add(frame(`{"id":1,"op":"commit","txs":[{"partition":"cA==","writes":[{"key":"aw=="}]},{}]}`))
	f.Add(append(frame(`{"id":1,"op":"lock","partition":"cA==","key":"aw=="}`), frame(`{"id":1,"op":"lock","partition":"cA==","key":"aw=="}`)...))
	f.Add(append(frame(`{"id":1,"op":"lock"}`), frame(`{"op":"unlock","of":1}`)...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	_, path := serve(f, kv.Group(kv.NewMemory()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(raw)
		_ = conn.Close()
		c := dial(t, path)
		defer c.Close()
		if err := put(t, c, "k"); err != nil {
			t.Fatalf("the next client: %v", err)
		}
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")

	// One process has the store and shares it.
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	shared := sockkv.Share(kv.Group(kv.NewMemory()))
	shared.Serve(l)
	defer shared.Close()

	// Another uses it.
	ctx := context.Background()
	d, err := sockkv.Dial(ctx, "unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	if _, err := kv.Apply(ctx, d, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", []byte("v"))}}); err != nil {
		fmt.Println(err)
	}
	e, err := shared.Get(ctx, "acme", "k")
	fmt.Println(string(e.Value), err)
	// Output: v <nil>
}
