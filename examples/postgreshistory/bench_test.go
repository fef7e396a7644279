package postgreshistory_test

import (
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
)

// BenchmarkTurn is what one turn costs: the user's message, the thread, and an
// answer with a tool's result. Beside it, on the same server in the same run, is
// the least that it can be: the same rows written by hand in as many
// transactions, without a head, an index of ids or a snapshot.
func BenchmarkTurn(b *testing.B) {
	for _, length := range []int{0, 200} {
		b.Run(fmt.Sprintf("messages=%d", length), func(b *testing.B) {
			s := open(b, newSchema(b), postgreshistory.Options{Window: 200})
			for i := range length {
				say(b, s, "t", "r", text(fmt.Sprint("old", i), "What was said before, in a sentence of some length."))
			}
			n := 0
			for b.Loop() {
				n++
				user, run := host.UserText("where is order 1042?"), fmt.Sprint("r", n)
				turn := turnOf(say(b, s, "t", run, user), host.AssistantText("It is on its way."), host.AssistantText("It comes tomorrow."))
				get(b, s, "t")
				if err := s.AppendResults(b.Context(), request("t", run, user), turn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("by hand", func(b *testing.B) {
		schema := newSchema(b)
		exec(b, dsnOf(b), "create schema "+schema+"; create table "+schema+".messages (thread text, seq bigint, body json, primary key (thread, seq))")
		conn := connect(b, dsnOf(b))
		insert := "insert into " + schema + ".messages values ('t', $1, $2)"
		n := 0
		write := func(messages ...*host.Message) {
			tx, err := conn.Begin(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, m := range messages {
				n++
				if _, err := tx.Exec(b.Context(), insert, n, string(m.AppendJSON(nil))); err != nil {
					b.Fatal(err)
				}
			}
			if err := tx.Commit(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			write(host.UserText("where is order 1042?"))
			rows, err := conn.Query(b.Context(), "select body::text from "+schema+".messages where thread = 't' order by seq desc limit 1")
			if err != nil {
				b.Fatal(err)
			}
			rows.Close()
			write(host.AssistantText("It is on its way."), host.AssistantText("It comes tomorrow."))
		}
	})
}
