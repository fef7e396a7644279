package pgkv_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/internal/pgkvtest"
)

func TestOpenRemovesTheLanesOfProcessesThatEndedLongAgo(t *testing.T) {
	address := pgkvtest.Address(t)
	s := mustOpen(t, address, nil)
	mustPut(t, s, "acme", "k", "1")
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	lanes := pgx.Identifier{config.RuntimeParams["schema"], "lanes"}.Sanitize()
	pgkvtest.Exec(t, "insert into "+lanes+" (id, n, at) select int4send(i), 1, now() - interval '31 days' from generate_series(1, 30) i")
	pgkvtest.Exec(t, "insert into "+lanes+" (id, n, at) select int4send(i), 1, now() - interval '29 days' from generate_series(31, 33) i")
	mustOpen(t, address, nil)
	conn, err := pgx.Connect(t.Context(), pgkvtest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var old, all int
	if err := conn.QueryRow(t.Context(), "select count(*) filter (where at < now() - interval '30 days'), count(*) from "+lanes).Scan(&old, &all); err != nil {
		t.Fatal(err)
	}
	if old != 0 || all != 4 {
		t.Errorf("%d old rows of %d are left, want 0 of 4: one of the first store, three that are younger", old, all)
	}
	mustPut(t, s, "acme", "k", "2") // with its own lane, which is still there
}
