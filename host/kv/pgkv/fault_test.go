package pgkv_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// cutter is a proxy before a server that cuts connections.
type cutter struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	running  sync.WaitGroup

	mu     sync.Mutex
	refuse bool
	pairs  map[*pair]bool
}

// pair is one connection through the proxy.
type pair struct {
	client, server net.Conn
}

// newCutter returns a proxy before the server of an address, and the address of a store
// behind it.
func newCutter(t *testing.T, address string) (*cutter, string) {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	network, at := pgconnAddress(config)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{listener: l, dial: func() (net.Conn, error) { return net.Dial(network, at) }, pairs: map[*pair]bool{}}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(1)
		p.running.Wait()
	})
	return p, fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable schema=%s application_name=%[4]s",
		l.Addr().(*net.TCPAddr).Port, config.User, config.Database, config.RuntimeParams["schema"])
}

func pgconnAddress(config *pgx.ConnConfig) (network, at string) {
	if strings.HasPrefix(config.Host, "/") {
		return "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}
	return "tcp", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

func (p *cutter) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client: client, server: server}
		p.mu.Lock()
		if p.refuse {
			p.mu.Unlock()
			_, _ = client.Close(), server.Close()
			continue
		}
		p.pairs[c] = true
		p.mu.Unlock()
		p.running.Go(func() { _, _ = io.Copy(server, client); p.end(c) })
		p.running.Go(func() { _, _ = io.Copy(client, server); p.end(c) })
	}
}

func (p *cutter) end(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
	_, _ = c.client.Close(), c.server.Close()
}

// cut cuts each connection with a probability.
func (p *cutter) cut(probability float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		if rand.Float64() < probability {
			_, _ = c.client.Close(), c.server.Close()
		}
	}
}

// setRefuse has the proxy refuse connections.
func (p *cutter) setRefuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// appendChain appends to a log under the revision of its head until ctx ends, tells of
// each entry, and returns the last number. Every commit must have an outcome: a head that is elsewhere
// than the last answer said was lost or doubled.
func appendChain(ctx context.Context, d kv.Driver, partition string, chain uint64, appended func()) (n uint64, err error) {
	key := kv.NewKey("chain").WithUint(chain)
	revision := uint64(0)
	for ctx.Err() == nil {
		revision, err = kv.Apply(context.WithoutCancel(ctx), d, kv.Tx{
			Partition: partition,
			Conds:     []kv.Cond{kv.AtRevision(key, revision)},
			Writes:    []kv.Write{kv.Put(key, strconv.AppendUint(nil, n+1, 10)), kv.Put(key.WithUint(n+1), []byte("v"))},
		})
		if err != nil {
			return n, fmt.Errorf("append %d: %w", n+1, err)
		}
		n++
		appended()
	}
	return n, nil
}

// wantChain checks that a log has every entry up to n once.
func wantChain(t *testing.T, d kv.Driver, partition string, chain, n uint64) {
	t.Helper()
	key := kv.NewKey("chain").WithUint(chain)
	head, err := d.Get(t.Context(), partition, key)
	if err != nil || string(head.Value) != fmt.Sprint(n) {
		t.Errorf("chain %d: head %q, %v, want %d", chain, head.Value, err, n)
	}
	found := uint64(0)
	for e, err := range kv.All(t.Context(), d, partition, kv.Range{After: key, Prefix: key}) {
		if found++; err != nil || e.Key != key.WithUint(found) {
			t.Fatalf("chain %d: entry %d is %s, %v", chain, found, e.Key, err)
		}
	}
	if found != n {
		t.Errorf("chain %d has %d entries, want %d", chain, found, n)
	}
}

// enduring are the options of a store that a busy machine may keep from its database for
// longer than the default patience.
func enduring() *pgkv.Options { return &pgkv.Options{Patience: 5 * time.Minute} }

// runChains appends to several logs of several stores while harm is done, for a time and
// until each log has an entry, and checks the logs. Harm is not done again before as many
// entries were appended as there are logs, so that a slow machine gets on.
func runChains(t *testing.T, stores []*pgkv.Store, checked *pgkv.Store, forHowLong time.Duration, harm func()) {
	t.Helper()
	const chains = 4
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ends := make([]uint64, len(stores)*chains)
	var writers, harming, begun sync.WaitGroup
	var appended atomic.Int64
	for i := range ends {
		d := kv.Driver(stores[i/chains])
		if i%2 == 0 {
			d = kv.Group(d)
		}
		begun.Add(1)
		writers.Go(func() {
			begin := sync.OnceFunc(begun.Done)
			defer begin()
			var err error
			if ends[i], err = appendChain(ctx, d, fmt.Sprint("tenant ", i%2), uint64(i), func() { begin(); appended.Add(1) }); err != nil {
				t.Errorf("chain %d: %v", i, err)
			}
		})
	}
	harming.Go(func() {
		for next := int64(0); ctx.Err() == nil; {
			if appended.Load() < next {
				time.Sleep(time.Millisecond)
				continue
			}
			harm()
			next = appended.Load() + int64(len(ends))
		}
	})
	<-time.After(forHowLong)
	begun.Wait()
	cancel()
	writers.Wait()
	harming.Wait()
	total := uint64(0)
	for i, n := range ends {
		wantChain(t, checked, fmt.Sprint("tenant ", i%2), uint64(i), n)
		total += n
	}
	t.Logf("%d commits", total)
}

func TestCutConnectionsLoseAndDoubleNothing(t *testing.T) {
	address := pgkvtest.Address(t)
	proxy, behind := newCutter(t, address)
	stores := []*pgkv.Store{mustOpen(t, behind, enduring()), mustOpen(t, behind, enduring())}
	cuts := 0
	runChains(t, stores, mustOpen(t, address, nil), 4*time.Second, func() {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		proxy.cut(0.5)
		cuts++
	})
	t.Logf("%d times cut", cuts)
}

func TestEndedBackendsLoseAndDoubleNothing(t *testing.T) {
	address := pgkvtest.Address(t)
	stores := []*pgkv.Store{mustOpen(t, address, enduring()), mustOpen(t, address, enduring())}
	conn, err := pgx.Connect(t.Context(), pgkvtest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	name := pgkv.ApplicationName(stores[0])
	runChains(t, stores, mustOpen(t, address, nil), 4*time.Second, func() {
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		_, err := conn.Exec(context.Background(), "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and random() < 0.5", name)
		if err != nil {
			t.Errorf("end backends: %v", err)
		}
	})
}

func TestACommitWaitsForADatabaseThatReturns(t *testing.T) {
	proxy, behind := newCutter(t, pgkvtest.Address(t))
	s := mustOpen(t, behind, enduring())
	mustPut(t, s, "acme", "k", "1")
	proxy.setRefuse(true)
	proxy.cut(1)
	time.AfterFunc(300*time.Millisecond, func() { proxy.setRefuse(false) })
	mustPut(t, s, "acme", "k", "2")
	if e, err := s.Get(t.Context(), "acme", "k"); err != nil || string(e.Value) != "2" {
		t.Errorf("Get = %q, %v", e.Value, err)
	}
}

func TestADatabaseThatStaysAwayIsUnavailable(t *testing.T) {
	proxy, behind := newCutter(t, pgkvtest.Address(t))
	patient := mustOpen(t, behind, enduring())
	s := mustOpen(t, behind, &pgkv.Options{Patience: 300 * time.Millisecond})
	for limit := time.Now().Add(time.Minute); ; { // a busy machine may need longer
		_, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", []byte("1"))}})
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("Commit: %v", err)
		}
	}
	proxy.setRefuse(true)
	proxy.cut(1)
	begun := time.Now()
	_, err := kv.Apply(t.Context(), s, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", nil)}})
	if !errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrInDoubt) {
		t.Errorf("Commit = %v, want ErrUnavailable, or ErrInDoubt for one that was sent", err)
	}
	if _, err := s.Get(t.Context(), "acme", "k"); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Get = %v, want ErrUnavailable", err)
	}
	if _, err := s.Scan(t.Context(), "acme", kv.Range{}); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Scan = %v, want ErrUnavailable", err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("three calls took %s with a patience of 0.3 s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := patient.Get(ctx, "acme", "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get with a context that ends = %v", err)
	}
}

func TestOpenTriesForTheConnectTimeoutOfTheAddress(t *testing.T) {
	longtest.Need(t, "the database is away for longer than OpenPatience")
	proxy, behind := newCutter(t, pgkvtest.Address(t))
	proxy.setRefuse(true)
	time.AfterFunc(pgkv.OpenPatience+time.Second, func() { proxy.setRefuse(false) })
	s, err := pgkv.Open(t.Context(), behind+" connect_timeout=60", nil)
	if err != nil {
		t.Fatalf("Open = %v, want that it waits for the database", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A statement that the server gets after its sender has asked for the outcome writes
// nothing.
func TestALateStatementWritesNothing(t *testing.T) {
	s := mustOpen(t, pgkvtest.Address(t), nil)
	mustPut(t, s, "acme", "k", "1")
	tx := kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put("k", []byte("late"))}}
	committed, late, err := pgkv.ClaimThenSend(s, tx)
	if err != nil || committed {
		t.Fatalf("outcome of a batch that was not sent: %v, %v, want not committed", committed, err)
	}
	if late {
		t.Error("a statement whose number was claimed says that it has committed")
	}
	if e, err := s.Get(t.Context(), "acme", "k"); err != nil || string(e.Value) != "1" {
		t.Errorf("Get = %q, %v, want the value before", e.Value, err)
	}
	committed, err = pgkv.SendThenClaim(s, tx)
	if err != nil || !committed {
		t.Errorf("outcome of a batch that was sent: %v, %v, want committed", committed, err)
	}
}
