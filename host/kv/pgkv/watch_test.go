package pgkv_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// mustOpen opens a store until the test ends.
func mustOpen(t testing.TB, address string, opts *pgkv.Options) *pgkv.Store {
	t.Helper()
	s, err := pgkvtest.OpenAt(t.Context(), address, opts)
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

func mustPut(t testing.TB, d kv.Driver, partition string, key kv.Key, value string) uint64 {
	t.Helper()
	revision, err := kv.Apply(t.Context(), d, kv.Tx{Partition: partition, Writes: []kv.Write{kv.Put(key, []byte(value))}})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return revision
}

func mustWatch(t testing.TB, s *pgkv.Store, partition string) <-chan struct{} {
	t.Helper()
	changed, stop, err := s.Watch(partition)
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	t.Cleanup(stop)
	return changed
}

// wantWoken waits for a value.
func wantWoken(t testing.TB, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("no wake-up within a minute")
	}
}

func TestWatchWakesForCommitsOfOtherStores(t *testing.T) {
	address := pgkvtest.Address(t)
	for name, c := range map[string]struct {
		announces bool
		interval  time.Duration
	}{
		"by polling, of a store that watches nothing": {false, 20 * time.Millisecond},
		"by a notification, long before polling":      {true, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			reader := mustOpen(t, address, &pgkv.Options{PollInterval: c.interval})
			writer := mustOpen(t, address, nil)
			if c.announces {
				mustWatch(t, writer, "any")
			}
			mustPut(t, writer, "acme", "k", "before")
			changed := mustWatch(t, reader, "acme")
			pgkv.AwaitListening(t, reader)
			if c.announces {
				pgkv.AwaitListening(t, writer)
			}
			for range 3 {
				select {
				case <-changed: // of the first poll, which finds a revision that it did not know
				default:
				}
				mustPut(t, writer, "other", "k", "v")
				mustPut(t, writer, "acme", "k", "v")
				wantWoken(t, changed)
			}
		})
	}
}

func TestWatchWakesForItsOwnStoreAndNotForOthersPartitions(t *testing.T) {
	s := mustOpen(t, pgkvtest.Address(t), &pgkv.Options{PollInterval: 10 * time.Millisecond})
	acme, other := mustWatch(t, s, "acme"), mustWatch(t, s, "other")
	mustPut(t, s, "acme", "k", "v")
	select {
	case <-acme:
	default:
		t.Error("the store's own commit did not wake the watch before Commit returned")
	}
	select {
	case <-other:
		t.Error("a commit to another partition woke the watch")
	case <-time.After(100 * time.Millisecond):
	}
}

func TestWatchSurvivesBrokenConnections(t *testing.T) {
	address := pgkvtest.Address(t)
	reader := mustOpen(t, address, &pgkv.Options{PollInterval: 20 * time.Millisecond})
	writer := mustOpen(t, address, nil)
	changed := mustWatch(t, reader, "acme")
	pgkv.AwaitListening(t, reader)
	pgkvtest.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '"+pgkv.ApplicationName(reader)+"'")
	mustPut(t, writer, "acme", "k", "v")
	wantWoken(t, changed)
}

func TestStopEndsAWatch(t *testing.T) {
	s := mustOpen(t, pgkvtest.Address(t), nil)
	changed, stop, err := s.Watch("acme")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	stop()
	mustPut(t, s, "acme", "k", "v")
	select {
	case <-changed:
		t.Error("a watch that was stopped was woken")
	default:
	}
}

func TestAQuietCommitSendsNoNotification(t *testing.T) {
	address := pgkvtest.Address(t)
	var sent atomic.Int32
	writer := mustOpen(t, address, &pgkv.Options{OnStatement: func(sql string) {
		if strings.Contains(sql, "pg_notify") {
			sent.Add(1)
		}
	}})
	changed := mustWatch(t, writer, "acme")
	for range 20 {
		if _, err := kv.Apply(t.Context(), writer, kv.Tx{Partition: "acme", Quiet: true, Writes: []kv.Write{kv.Put("k", []byte("v"))}}); err != nil {
			t.Fatal(err)
		}
		wantWoken(t, changed) // of its own store
	}
	time.Sleep(20 * time.Millisecond)
	if n := sent.Load(); n != 0 {
		t.Errorf("%d notifications of quiet commits", n)
	}
	mustPut(t, writer, "acme", "k", "loud")
	for limit := time.Now().Add(time.Minute); sent.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("no notification of a commit that is not quiet")
		}
	}
}
