// Package pgkvtest gives the tests of other packages stores in a PostgreSQL database.
//
// Tests that use it are skipped unless AGENTHOST_TEST_POSTGRES has the address of a
// server that they may write to, as .ci/postgres start prints it.
package pgkvtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/pgkv"
)

// Variable is the environment variable with the address of the tests' server.
const Variable = "AGENTHOST_TEST_POSTGRES"

// Server returns the address of the tests' server, or skips the test.
func Server(t testing.TB) string {
	t.Helper()
	address := os.Getenv(Variable)
	if address == "" {
		t.Skipf("set %s to the address of a PostgreSQL server that may be written to, as .ci/postgres start prints it", Variable)
	}
	return address
}

var schemas atomic.Int64

// connectTimeout is how many seconds a busy machine has to connect to the server.
const connectTimeout = "60"

// Address returns the address of a store of the test's own, in a schema that is dropped
// when the test ends.
func Address(t testing.TB) string {
	t.Helper()
	server := Server(t)
	schema := fmt.Sprintf("test_kv_%d_%d", os.Getpid(), schemas.Add(1))
	t.Cleanup(func() { drop(t, schema) })
	if pgkv.IsAddress(server) {
		u, err := url.Parse(server)
		if err != nil {
			t.Fatalf("%s is not an address", Variable)
		}
		q := u.Query()
		q.Set("schema", schema)
		q.Set("application_name", schema)
		q.Set("connect_timeout", connectTimeout)
		u.RawQuery = q.Encode()
		return u.String()
	}
	return strings.TrimSpace(server) + " schema=" + schema + " application_name=" + schema + " connect_timeout=" + connectTimeout
}

// Open returns a store of the test's own, which is closed when the test ends.
func Open(t testing.TB, opts *pgkv.Options) *pgkv.Store {
	t.Helper()
	s, err := OpenAt(t.Context(), Address(t), opts)
	if err != nil {
		t.Fatalf("open a store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

// OpenAt opens a store. On a busy machine a connection may take longer than the options have
// a store wait for it: it is tried again for a minute.
func OpenAt(ctx context.Context, address string, opts *pgkv.Options) (*pgkv.Store, error) {
	for limit := time.Now().Add(time.Minute); ; {
		s, err := pgkv.Open(ctx, address, opts)
		if !errors.Is(err, kv.ErrUnavailable) || time.Now().After(limit) {
			return s, err
		}
	}
}

// Exec runs a statement on the tests' server, in a cleanup too.
func Exec(t testing.TB, sql string) {
	t.Helper()
	if err := exec(t, sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

func exec(t testing.TB, sql string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, Server(t))
	if err == nil {
		_, err = conn.Exec(ctx, sql)
		_ = conn.Close(ctx)
	}
	return err
}

// maxDrops bounds how often a schema is dropped again.
const maxDrops = 10

// drop drops the schema of a test. The server may still be executing statements of
// processes that the test has killed, and ends one of two that wait for each other.
func drop(t testing.TB, schema string) {
	sql := "drop schema if exists " + schema + " cascade"
	for attempt := 1; ; attempt++ {
		err := exec(t, sql)
		var failed *pgconn.PgError
		if errors.As(err, &failed) && failed.Code == "40P01" && attempt < maxDrops {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
		return
	}
}

// URL returns [Address] as a URL, which is how people write the address of a store.
func URL(t testing.TB) string {
	t.Helper()
	config, err := pgx.ParseConfig(Address(t))
	if err != nil {
		t.Fatalf("%s is not an address", Variable)
	}
	q := url.Values{"connect_timeout": {connectTimeout}}
	for key, value := range config.RuntimeParams {
		q.Set(key, value)
	}
	u := url.URL{Scheme: "postgres", Path: "/" + config.Database, User: url.UserPassword(config.User, config.Password)}
	if strings.HasPrefix(config.Host, "/") {
		q.Set("host", config.Host)
		q.Set("port", fmt.Sprint(config.Port))
	} else {
		u.Host = net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Use is what a store has in its server. LogBytes is how much the server has ever
// written to its write-ahead log, for all that use it.
type Use struct{ Rows, Bytes, LogBytes int64 }

// MeasureUse returns the use of the store with an address of [Address].
func MeasureUse(t testing.TB, address string) (u Use) {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatalf("read the address of a store: %v", err)
	}
	schema := config.RuntimeParams["schema"]
	conn, err := pgx.Connect(t.Context(), Server(t))
	if err != nil {
		t.Fatalf("measure a store: %v", err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	err = conn.QueryRow(t.Context(), `select (select count(*) from `+pgx.Identifier{schema, "entries"}.Sanitize()+`),
		(select sum(pg_total_relation_size(c.oid))::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r'),
		pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`, schema).Scan(&u.Rows, &u.Bytes, &u.LogBytes)
	if err != nil {
		t.Fatalf("measure a store: %v", err)
	}
	return u
}
