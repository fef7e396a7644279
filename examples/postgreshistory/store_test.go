package postgreshistory_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

func TestHostsThatStartAtOnceMakeTheTablesOnce(t *testing.T) {
	schema := newSchema(t)
	dsn := dsnOf(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := postgreshistory.Open(t.Context(), dsn, &postgreshistory.Options{Schema: schema})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			s.Close()
			s.Close()
		})
	}
	wg.Wait()
	files, err := os.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	var steps int
	if err := connect(t, dsn).QueryRow(t.Context(), "select count(*) from "+schema+".migrations").Scan(&steps); err != nil || steps != len(files) {
		t.Errorf("%d steps were taken, %v; want %d", steps, err, len(files))
	}
}

func TestOpenRefuses(t *testing.T) {
	dsn := dsnOf(t)
	newer, missing := newSchema(t), newSchema(t)
	open(t, newer, postgreshistory.Options{})
	exec(t, dsn, "insert into "+newer+".migrations (version) values (99)")
	ascii := "enc_" + newer
	exec(t, dsn, "create database "+ascii+" encoding SQL_ASCII template template0")
	t.Cleanup(func() { exec(t, dsn, "drop database "+ascii) })
	for name, c := range map[string]struct {
		dsn  string
		opts postgreshistory.Options
		code host.Code
		says string
	}{
		"an address that is none":  {"postgres://u:geheim@h:x/", postgreshistory.Options{}, host.InvalidArgument, "postgres://"},
		"nobody there":             {"host=/nonexistent user=x", postgreshistory.Options{}, host.Unavailable, "connect to the database at /nonexistent: connect: no such file or directory"},
		"a closed port":            {"postgres://u:geheim@127.0.0.1:1/db", postgreshistory.Options{}, host.Unavailable, "connect to the database at 127.0.0.1:1: connection refused"},
		"an unknown host":          {"postgres://u:geheim@nobody.invalid:5433/db", postgreshistory.Options{}, host.Unavailable, "connect to the database at nobody.invalid:5433: no such host"},
		"no such database":         {dsn + " dbname=missing", postgreshistory.Options{}, host.FailedPrecondition, "no such database"},
		"no such role":             {dsn + " user=stranger", postgreshistory.Options{}, host.Unauthenticated, "refuses the role"},
		"another encoding":         {dsn + " dbname=" + ascii, postgreshistory.Options{}, host.FailedPrecondition, "SQL_ASCII"},
		"a schema with quotes":     {dsn, postgreshistory.Options{Schema: `a"b`}, host.InvalidArgument, "lower-case"},
		"tables of a newer":        {dsn, postgreshistory.Options{Schema: newer}, host.FailedPrecondition, "version 99"},
		"no tables, no migrations": {dsn, postgreshistory.Options{Schema: missing, MigrationsDisabled: true}, host.FailedPrecondition, "version 0"},
		"no tables, no writes": {dsn + " default_transaction_read_only=on", postgreshistory.Options{Schema: missing},
			host.FailedPrecondition, "takes no writes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := postgreshistory.Open(t.Context(), c.dsn, &c.opts)
			if err == nil {
				s.Close()
			}
			full := ""
			if e := fault.AsError(err); e != nil {
				full = e.Error() + e.Hint
			}
			if host.CodeOf(err) != c.code || !strings.Contains(full, c.says) || strings.Contains(full, "geheim") {
				t.Errorf("Open: %v; want code %s and %q", err, c.code, c.says)
			}
		})
	}
}

// A role without rights to change tables can use them once they are there.
func TestTablesThatAreUpToDateAreOnlyLookedAt(t *testing.T) {
	schema := newSchema(t)
	open(t, schema, postgreshistory.Options{})
	for _, disabled := range []bool{false, true} {
		s, err := postgreshistory.Open(t.Context(), dsnOf(t)+" default_transaction_read_only=on",
			&postgreshistory.Options{Schema: schema, MigrationsDisabled: disabled})
		if err != nil {
			t.Fatalf("Open with migrations disabled %t: %v", disabled, err)
		}
		if _, err := s.Get(t.Context(), request("t1", "r", nil)); err != nil {
			t.Errorf("Get: %v", err)
		}
		if _, err := s.AppendUserMessage(t.Context(), request("t1", "r", text("u", "x"))); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("AppendUserMessage: %v, want code %s", err, host.FailedPrecondition)
		}
		s.Close()
	}
}

func TestAPoolOfTheCallersStaysOpen(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), dsnOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgreshistory.New(t.Context(), pool, &postgreshistory.Options{Schema: newSchema(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("after Close the pool says %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("New without a pool does not panic")
		}
	}()
	_, _ = postgreshistory.New(t.Context(), nil, nil)
}

// A connection that breaks is an error that may be tried again, and the next
// call has another one.
func TestAConnectionThatBreaks(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema, postgreshistory.Options{})
	say(t, s, "t1", "r1", text("u1", "hello"))
	conn := connect(t, dsnOf(t))
	// The thread's row is held, so the append waits; then its connection is killed.
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "select from "+schema+".threads for update"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := s.AppendUserMessage(t.Context(), request("t1", "r2", text("u2", "again")))
		failed <- err
	}()
	killer := connect(t, dsnOf(t))
	for killed := 0; killed == 0; {
		if err := killer.QueryRow(t.Context(), `select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
			where query like '%for update%' and query like '%' || $1 || '%' and wait_event_type = 'Lock'`, schema).Scan(&killed); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-failed; host.CodeOf(err) != host.Unavailable || !fault.AsError(err).Retryable {
		t.Errorf("AppendUserMessage: %v, want code %s, retryable", err, host.Unavailable)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	say(t, s, "t1", "r2", text("u2", "again"))
	if got := ids(get(t, s, "t1").Messages); got != "u1 u2" {
		t.Errorf("the thread holds %q", got)
	}
}

func TestACancelledCallSaysSo(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"Get":  func() error { _, err := s.Get(ctx, request("t1", "r", nil)); return err }(),
		"lock": func() error { _, err := s.LockThread(ctx, request("t1", "r", nil)); return err }(),
		"say":  func() error { _, err := s.AppendUserMessage(ctx, request("t1", "r", text("u", "x"))); return err }(),
	} {
		if host.CodeOf(err) != host.Canceled || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want code %s", name, err, host.Canceled)
		}
	}
}
