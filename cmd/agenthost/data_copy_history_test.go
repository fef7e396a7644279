package main

// Scenario: conversations that an earlier version kept in tables of PostgreSQL are copied
// to where the host keeps all of its data, and go on there.

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

func TestTablesOfAHistoryAreCopied(t *testing.T) {
	tables := pgkvtest.URL(t)
	store, err := postgreshistory.Open(t.Context(), tables, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, tenant := range []string{"default", "acme"} {
		storeTurn(t, store, tenant, "t1", "r1", chat.FinishStop, "one", "two")
		storeTurn(t, store, tenant, "t1", "r2", chat.FinishFailed, "three")
	}
	dir, exits := dataProject(t, "")
	for name, to := range map[string]string{"a directory": filepath.Join(dir, "data"), "a database": pgkvtest.URL(t)} {
		t.Run(name, func(t *testing.T) {
			exits(cli.ExitOK, "Copied 2 threads of 2 tenants with 6 messages", "data", "copy", tables, to, "--history")
			out := exits(cli.ExitOK, "", "thread", "show", "t1", "--data", to, "--tenant", "acme", "--json")
			for _, want := range []string{`"text":"one"`, `"text":"three"`, `"failed"`, `"messages":3`} {
				if !strings.Contains(strings.ReplaceAll(out, ": ", ":"), want) {
					t.Errorf("thread show has no %s:\n%s", want, out)
				}
			}
			exits(cli.ExitOK, "0 messages had not been copied before", "data", "copy", tables, to, "--history")
			exits(cli.ExitOK, "zebrafinch", "run", dir, "--data", to, "--thread", "t1", "--tenant", "acme", "the secret")
			exits(cli.ExitOK, "Copied 2 threads", "data", "copy", tables, to, "--history")
			exits(cli.ExitOK, "5 messages", "thread", "show", "t1", "--data", to, "--tenant", "acme")
			exits(cli.ExitOK, "All of it is what was stored", "data", "verify", "--data", to)
		})
	}
	exits(cli.ExitUsage, "FROM is the directory", "data", "copy", dir, filepath.Join(dir, "x"), "--history")
	exits(host.FailedPrecondition.ExitCode(), "of version 0", "data", "copy", pgkvtest.URL(t), filepath.Join(dir, "x"), "--history")
}

// storeTurn stores a user's messages and a turn behind them, as a run does.
func storeTurn(t *testing.T, store *postgreshistory.Store, tenant, thread, run string, end host.FinishReason, texts ...string) {
	t.Helper()
	req := &host.HistoryRequest{Tenant: tenant, Thread: thread, Run: run}
	if _, _, err := store.CreateThread(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	head := ""
	for _, text := range texts {
		var err error
		req.Input = &host.Message{ID: run + text, Role: host.User, Parts: []host.Part{&host.Text{Text: text}}}
		if head, err = store.AppendUserMessage(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	turn := &host.Turn{Head: head, Status: end, State: json.RawMessage(`{"runs":"` + run + `"}`),
		Artifacts: []host.Artifact{{Name: "note-" + run, Parts: []host.Part{&host.Text{Text: "kept"}}}}}
	if err := store.AppendResults(t.Context(), req, turn); err != nil {
		t.Fatal(err)
	}
}
