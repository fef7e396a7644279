package pgkv

import (
	"context"
	"testing"
	"time"
)

// OtherBackends returns the number of the server's processes for other stores of the
// same application_name.
func OtherBackends(s *Store) (n int, err error) {
	conn, err := s.pool.Acquire(context.Background())
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	err = conn.QueryRow(context.Background(), `select count(*) from pg_stat_activity
		where application_name = current_setting('application_name') and pid <> pg_backend_pid()`).Scan(&n)
	return n, err
}

// AwaitListening waits until a store that watches receives notifications and knows the
// partitions that it watches.
func AwaitListening(t testing.TB, s *Store) {
	t.Helper()
	for range 2000 {
		if err := s.watcher.pollOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.watcher.mu.Lock()
		listening := s.watcher.listening
		s.watcher.mu.Unlock()
		if listening {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the store does not listen")
}

// ApplicationName returns the name of a store's connections.
func ApplicationName(s *Store) string {
	return s.pool.Config().ConnConfig.RuntimeParams["application_name"]
}
