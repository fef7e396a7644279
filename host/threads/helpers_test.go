package threads_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/testdir"
)

func TestMain(m *testing.M) {
	testdir.InMemory()
	for variable, child := range map[string]func(dir string) error{crashDir: crashChild, turnsDir: turnsChild} {
		dir := os.Getenv(variable)
		if dir == "" {
			continue
		}
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // started by an import of Badger's
}

// spy is a driver that counts commits and fails on demand.
type spy struct {
	kv.Driver
	mu       sync.Mutex
	bytes    int
	commits  int
	reads    int
	before   func(kv.Tx) error // runs before each Tx; its error is the Tx's
	failGet  error
	failScan error
	afterGet func() // runs once after the next Get
}

func (s *spy) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	var results []kv.Result
	for _, tx := range txs {
		s.mu.Lock()
		s.commits++
		s.bytes += tx.Size()
		before := s.before
		s.mu.Unlock()
		if before != nil {
			if err := before(tx); err != nil {
				results = append(results, kv.Result{Err: err})
				continue
			}
		}
		results = append(results, s.Driver.Commit(ctx, tx)...)
	}
	return results
}

func (s *spy) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	s.mu.Lock()
	s.reads++
	err, after := s.failGet, s.afterGet
	s.afterGet = nil
	s.mu.Unlock()
	if err != nil {
		return kv.Entry{}, err
	}
	if after != nil {
		defer after()
	}
	return s.Driver.Get(ctx, partition, key)
}

func (s *spy) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	s.mu.Lock()
	s.reads++
	err := s.failScan
	s.mu.Unlock()
	if err != nil {
		return kv.Page{}, err
	}
	return s.Driver.Scan(ctx, partition, r)
}

// measure returns what fn makes the driver commit and how often it reads.
func (s *spy) measure(fn func()) (bytes, commits, reads int) {
	s.mu.Lock()
	s.bytes, s.commits, s.reads = 0, 0, 0
	s.mu.Unlock()
	fn()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.commits, s.reads
}

var errDisk = errors.New("open /var/lib/secret/000001.vlog: input/output error")
