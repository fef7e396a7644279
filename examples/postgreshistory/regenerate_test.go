package postgreshistory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
)

// What is taken back stays in a table, and artifacts of its turns go.
func TestWhatRegenerateTakesBackIsKept(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema, postgreshistory.Options{})
	twoTurns(t, s)
	if _, err := s.Regenerate(t.Context(), request("t1", "r2", nil), "u0"); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "t1"); ids(got.Messages) != "u0" || got.State != nil {
		t.Errorf("thread has %s and state %s", ids(got.Messages), got.State)
	}
	conn := connect(t, dsnOf(t))
	for sql, want := range map[string]string{
		"select string_agg(id, ' ' order by seq) from @.taken_back":       "a0 u1 a1",
		"select count(*)::text from @.artifacts":                          "0",
		"select count(*)::text from @.turns where taken_back is not null": "2",
		"select messages || ' ' || status from @.threads":                 "1 ",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), strings.ReplaceAll(sql, "@", schema)).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", sql, got, err, want)
		}
	}
}

// A turn of before its state was kept leaves the thread's as it is.
func TestRegenerateAfterAnOldTurn(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema, postgreshistory.Options{})
	twoTurns(t, s)
	exec(t, dsnOf(t), strings.ReplaceAll("update @.turns set state_after = null", "@", schema))
	if _, err := s.Regenerate(t.Context(), request("t1", "r2", nil), "u1"); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "t1"); ids(got.Messages) != "u0 a0 u1" || string(got.State) != `{"n":1}` {
		t.Errorf("thread has %s and state %s", ids(got.Messages), got.State)
	}
}

func twoTurns(t *testing.T, s *postgreshistory.Store) {
	t.Helper()
	for i := range 2 {
		run, user := fmt.Sprintf("r%d", i), text(fmt.Sprintf("u%d", i), "hello")
		turn := turnOf(say(t, s, "t1", run, user), withID(fmt.Sprintf("a%d", i), host.Assistant, &host.Text{Text: "hi"}))
		turn.State = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
		turn.Artifacts = []host.Artifact{{Name: "x", Parts: []host.Part{&host.Text{Text: run}}}}
		if err := s.AppendResults(t.Context(), request("t1", run, user), turn); err != nil {
			t.Fatal(err)
		}
	}
}
