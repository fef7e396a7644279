package pgkv

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/agenthost/agenthost/host/kv"
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
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if err := s.watcher.pollOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.watcher.mu.Lock()
		listening := s.watcher.listening
		s.watcher.mu.Unlock()
		if listening {
			return
		}
	}
	t.Fatal("the store does not listen")
}

// ApplicationName returns the name of a store's connections.
func ApplicationName(s *Store) string {
	return s.pool.Config().ConnConfig.RuntimeParams["application_name"]
}

// oneBatch returns the arguments of a batch, and a lane with a new number.
func oneBatch(s *Store, tx kv.Tx) (*arguments, *lane, error) {
	b := newBatch()
	b.add(0, tx)
	l := s.lanes.take()
	l.n++
	a, err := s.arguments(context.Background(), b)
	return a, l, err
}

// ClaimThenSend asks for the outcome of a batch and then sends it.
func ClaimThenSend(s *Store, tx kv.Tx) (committed, late bool, err error) {
	a, l, err := oneBatch(s, tx)
	if err != nil {
		return false, false, err
	}
	outcome, err := s.resolve(l)
	if err != nil {
		return false, false, err
	}
	rows, err := collect(s.pool.Query(context.Background(), s.sql.commit, a.values(l)...))
	for row := range slices.Chunk(rows, 4) {
		if row[0] == rowRefused {
			return outcome != nil, false, err
		}
	}
	return outcome != nil, true, err
}

// SendThenClaim sends a batch and then asks for its outcome.
func SendThenClaim(s *Store, tx kv.Tx) (committed bool, err error) {
	a, l, err := oneBatch(s, tx)
	if err != nil {
		return false, err
	}
	rows, err := collect(s.pool.Query(context.Background(), s.sql.commit, a.values(l)...))
	if err != nil {
		return false, err
	}
	outcome, err := s.resolve(l)
	return slices.Equal(outcome, rows), err
}

// SetReadOnly has every connection of a store refuse writes.
func SetReadOnly(s *Store) error {
	s.pool.Config().ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	var all []*pgxpool.Conn
	for range s.pool.Config().MaxConns {
		conn, err := s.pool.Acquire(context.Background())
		if err != nil {
			return err
		}
		all = append(all, conn)
		if _, err := conn.Exec(context.Background(), "set default_transaction_read_only = on"); err != nil {
			return err
		}
	}
	for _, conn := range all {
		conn.Release()
	}
	return nil
}
