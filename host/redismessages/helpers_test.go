package redismessages_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/redismessages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const urlVariable = "AGENTHOST_TEST_REDIS"

// urlOf returns the address of the tests' server.
func urlOf(t testing.TB) string {
	t.Helper()
	url := os.Getenv(urlVariable)
	if url == "" {
		t.Skipf("set %s to the address of a Redis or Valkey server that may be written to, as .ci/redis start prints it", urlVariable)
	}
	return url
}

// connect returns a client beside the stores'.
func connect(t testing.TB, hooks ...redis.Hook) *redis.Client {
	t.Helper()
	config, err := redis.ParseURL(urlOf(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ContextTimeoutEnabled, config.DisableIdentity, config.MaxRetries = true, true, -1
	c := redis.NewClient(config)
	for _, h := range hooks {
		c.AddHook(h)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var prefixes atomic.Int64

// prefixOf returns a prefix that is the test's own, and removes its keys in the end.
func prefixOf(t testing.TB) string {
	t.Helper()
	c := connect(t)
	prefix := fmt.Sprintf("test-%d-%d", os.Getpid(), prefixes.Add(1))
	t.Cleanup(func() {
		keys, err := c.Keys(context.Background(), prefix+"*").Result()
		if err == nil && len(keys) > 0 {
			err = c.Del(context.Background(), keys...).Err()
		}
		if err != nil {
			t.Errorf("remove the test's keys: %v", err)
		}
	})
	return prefix
}

// open returns stores on the tests' server, with a prefix of the test's own if
// opts have none.
func open(t testing.TB, opts *redismessages.Options) *redismessages.Stores {
	t.Helper()
	var o redismessages.Options
	if opts != nil {
		o = *opts
	}
	if o.KeyPrefix == "" {
		o.KeyPrefix = prefixOf(t)
	}
	s, err := redismessages.Open(t.Context(), urlOf(t), &o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func storeOf(t testing.TB, s *redismessages.Stores, thread string) host.MessageStore {
	t.Helper()
	store, err := s.OpenStore(t.Context(), &host.StoreRequest{Tenant: "acme", Thread: thread})
	if err != nil {
		t.Fatalf("OpenStore: %v", err)
	}
	return store
}

// ownServer starts a server with settings of the test's own, on a socket, and
// returns its address.
func ownServer(t testing.TB, settings ...string) string {
	t.Helper()
	urlOf(t) // the other tests of a server say how to get one
	program, err := exec.LookPath("redis-server")
	if err != nil {
		program, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		t.Skip("install redis-server or valkey-server: this test starts one of its own")
	}
	dir, err := os.MkdirTemp("", "redis") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server := exec.Command(program, append([]string{"--port", "0", "--unixsocket", dir + "/sock", "--dir", dir, "--save", ""}, settings...)...)
	output, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), "ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return "unix://" + dir + "/sock"
		}
	}
	t.Fatal("the server ended before it was ready")
	return ""
}
