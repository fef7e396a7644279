package postgreshistory_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dsnVariable = "AGENTHOST_TEST_POSTGRES"

// dsnOf returns the address of the tests' server.
func dsnOf(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv(dsnVariable)
	if dsn == "" {
		t.Skipf("set %s to the address of a PostgreSQL server that may be written to, as .ci/postgres start prints it", dsnVariable)
	}
	return dsn
}

// connect returns a connection beside the store's.
func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// exec runs a statement, in a cleanup too.
func exec(t testing.TB, dsn, sql string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err == nil {
		_, err = conn.Exec(ctx, sql)
		_ = conn.Close(ctx)
	}
	if err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

var schemas atomic.Int64

// newSchema returns the name of a schema that is the test's own.
func newSchema(t testing.TB) string {
	t.Helper()
	dsn := dsnOf(t)
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	t.Cleanup(func() { exec(t, dsn, "drop schema if exists "+name+" cascade") })
	return name
}

// open returns a store over a schema.
func open(t testing.TB, schema string, opts postgreshistory.Options) *postgreshistory.Store {
	t.Helper()
	opts.Schema = schema
	s, err := postgreshistory.Open(t.Context(), dsnOf(t), &opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func newStore(t testing.TB) *postgreshistory.Store {
	t.Helper()
	return open(t, newSchema(t), postgreshistory.Options{})
}

func request(thread, run string, input *host.Message) *host.HistoryRequest {
	return &host.HistoryRequest{Tenant: "acme", Thread: thread, Run: run, Network: "test", Input: input}
}

func turnOf(head string, messages ...*host.Message) *host.Turn {
	return &host.Turn{Head: head, Status: chat.FinishStop, Results: []*host.Result{{ID: "r/0", Agent: "clerk", Messages: messages}}}
}

func say(t testing.TB, s *postgreshistory.Store, thread, run string, m *host.Message) string {
	t.Helper()
	head, err := s.AppendUserMessage(t.Context(), request(thread, run, m))
	if err != nil {
		t.Fatalf("AppendUserMessage: %v", err)
	}
	return head
}

func get(t testing.TB, s *postgreshistory.Store, thread string) *host.Loaded {
	t.Helper()
	loaded, err := s.Get(t.Context(), request(thread, "read", nil))
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return loaded
}

func ids(messages []*host.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.ID + " ")
	}
	return strings.TrimSpace(b.String())
}

func withID(id string, role host.Role, parts ...host.Part) *host.Message {
	m := host.NewMessage(role, parts...)
	m.ID = id
	return m
}

func text(id, words string) *host.Message { return withID(id, host.User, &host.Text{Text: words}) }
