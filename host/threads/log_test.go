package threads_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

func TestWindow(t *testing.T) {
	both := host.NewMessage(host.Assistant, &host.Text{Text: "t"}, &host.ToolCall{ID: "2", Name: "lookup"}, &host.ToolResult{ID: "2", Name: "lookup"})
	say := func(texts ...string) []*host.Message {
		var out []*host.Message
		for _, text := range texts {
			switch kind, id, _ := strings.Cut(text, ":"); kind {
			case "call":
				out = append(out, threadtest.Calls("", strings.Split(id, "+")...))
			case "result":
				out = append(out, threadtest.Result(id))
			default:
				out = append(out, host.UserText(text))
			}
		}
		return out
	}
	for _, tt := range []struct {
		name   string
		log    []*host.Message
		window int
		want   string
	}{
		{"of everything is everything", say("a", "b", "c"), 3, "a|b|c"},
		{"is the end", say("a", "b", "c"), 2, "b|c"},
		{"begins after a result whose call is out", say("a", "call:1", "result:1", "b", "c"), 3, "b|c"},
		{"begins with a call whose results are in", say("a", "call:1", "result:1", "b"), 3, "call 1|result 1|b"},
		{"begins after all results of a cut call", say("call:1+2+3", "result:1", "result:2", "result:3", "b", "c"), 4, "b|c"},
		{"begins after crossed pairs", say("call:1", "call:2", "result:1", "result:2", "b"), 4, "b"},
		{"begins with the second of two pairs", say("call:1", "result:1", "call:2", "result:2", "b"), 3, "call 2|result 2|b"},
		{"keeps an open call", say("a", "b", "call:1"), 1, "call 1"},
		{"pairs an id that is used again with its own call", say("call:1", "result:1", "call:1", "result:1", "b"), 3, "call 1|result 1|b"},
		{"keeps a call and its result in one message", append(say("a"), append([]*host.Message{both}, say("b")...)...), 2, "tcall 2result 2|b"},
		{"keeps an orphan at the beginning of the thread", say("result:1", "b"), 2, "result 1|b"},
		{"keeps what it must when all are results", say("call:1+2", "result:1", "result:2"), 2, "result 1|result 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, &threads.Options{Window: tt.window})
			for i, m := range tt.log {
				m = m.Clone()
				m.ID = fmt.Sprint(i)
				threadtest.Answer(t, s, "t1", fmt.Sprint("r", i), "", m)
			}
			threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, strings.Split(tt.want, "|")...)
		})
	}
}

func TestWindowSeparatesNoPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// A history as a host makes them: answers with calls, each followed by its
		// results.
		var log []*host.Message
		for len(log) < rapid.IntRange(0, 60).Draw(t, "length") {
			log = append(log, host.UserText("q"))
			var callIDs []string
			for i := range rapid.IntRange(0, 5).Draw(t, "calls") {
				callIDs = append(callIDs, fmt.Sprint(i))
			}
			if len(callIDs) > 0 {
				log = append(log, threadtest.Calls("", callIDs...))
			}
			for _, c := range callIDs {
				log = append(log, threadtest.Result(c))
			}
		}
		limit := rapid.IntRange(1, 70).Draw(t, "limit")
		read := rapid.IntRange(0, len(log)).Draw(t, "first read") // what was read reaches back to here
		if len(log)-read < limit {
			read = max(len(log)-limit, 0)
		}
		start := threads.WindowStart(log[read:], limit, read > 0)
		got := log[read+start:]
		if len(got) > limit {
			t.Fatalf("window of %d has %d messages", limit, len(got))
		}
		if limit > 6 && len(got) < min(limit-6, len(log)) {
			t.Fatalf("window of %d has only %d of %d messages", limit, len(got), len(log))
		}
		open := map[string]bool{}
		for i, m := range got {
			for _, c := range m.ToolCalls() {
				open[c.ID] = true
			}
			for _, r := range m.ToolResults() {
				if !open[r.ID] && limit > 6 {
					t.Fatalf("message %d of the window is a result without its call", i)
				}
			}
		}
	})
}

func TestDamage(t *testing.T) {
	// Each row changes one entry of a thread with two turns.
	content := func(kind string, n uint64) func(kv.Key) bool {
		return func(k kv.Key) bool {
			rest, ok := k.CutPrefix(threads.ContentPrefix)
			if !ok {
				return false
			}
			_, rest, _ = rest.CutString()
			got, rest, _ := rest.CutString()
			at, _, isNumber := rest.CutUint()
			return got == kind && (!isNumber || at == n)
		}
	}
	record := func(k kv.Key) bool { _, ok := k.CutPrefix(threads.ThreadPrefix); return ok }
	for _, tt := range []struct {
		name  string
		entry func(kv.Key) bool
		value string // "delete" deletes
		want  host.Code
		says  string
	}{
		{"a record that is cut off", record, "\x01{\"v\":1", host.DataLoss, `"t1"`},
		{"an empty record", record, "", host.DataLoss, `"t1"`},
		{"a record of another type", record, "\x01[]", host.DataLoss, `"t1"`},
		{"a record of a newer format", record, "\x07whatever", host.FailedPrecondition, "format 7"},
		{"a record of a newer version", record, "\x01{\"v\":9,\"id\":\"t1\"}", host.FailedPrecondition, "format 9"},
		{"a message that is cut off", content("log", 1), "\x01[{\"id\":", host.DataLoss, `message 1 of thread "t1"`},
		{"a message that is none", content("log", 1), "\x01[7]", host.DataLoss, `message 1 of thread "t1"`},
		{"an entry without a message", content("log", 1), "\x01[]", host.DataLoss, `message 1 of thread "t1"`},
		{"a message of a newer format", content("log", 1), "\x07x", host.FailedPrecondition, "format 7"},
		{"a reference of a newer version", content("log", 1), "\x01{\"v\":2}", host.FailedPrecondition, "format 2"},
		{"a reference to nothing", content("log", 1), "\x01{\"v\":1}", host.DataLoss, `"t1"`},
		{"a reference to what is not there", content("log", 1), `` + "\x01" + `{"v":1,"blob":{"digest":"00","size":99}}`, host.DataLoss, "missing"},
		{"a reference to something huge", content("log", 1), `` + "\x01" + `{"v":1,"blob":{"digest":"00","size":9223372036854775807}}`, host.DataLoss, "missing"},
		{"a reference of negative size", content("log", 1), `` + "\x01" + `{"v":1,"blob":{"digest":"00","size":-1}}`, host.DataLoss, `"t1"`},
		{"a missing message", content("log", 1), "delete", host.DataLoss, "message 1"},
		{"a missing first message", content("log", 0), "delete", host.DataLoss, "message 0"},
		{"a missing last message", content("log", 3), "delete", host.DataLoss, "message 3"},
		{"state that is missing", content("chunk", 0), "delete", host.DataLoss, "state"},
		{"state that is another", content("chunk", 0), `{"n":2}`, host.DataLoss, "state"},
		{"a snapshot that is damaged", content("turn", 2), "\x01nonsense", host.DataLoss, "snapshot"},
		{"a list of artifacts that is damaged", content("artifacts", 1), "\x01[{\"size\":-1}]", host.DataLoss, "artifacts"},
		{"a list of artifacts that is none", content("artifacts", 1), "\x01[7]", host.DataLoss, "artifacts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, d := threadtest.NewStore(t, nil)
			head := threadtest.Say(t, s, "t1", "r0", host.UserText("q"))
			turn := threadtest.TurnOf(head, host.AssistantText("a"))
			turn.State = []byte(`{"n":1}`)
			if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r0", nil), turn); err != nil {
				t.Fatal(err)
			}
			turn = threadtest.TurnOf(threadtest.Say(t, s, "t1", "r1", host.UserText("q2")), host.AssistantText("a2"))
			if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r1", nil), turn); err != nil {
				t.Fatal(err)
			}
			damage(t, d, tt.entry, tt.value)
			before := keysAndValues(t, d)

			_, err := s.For("").Show(t.Context(), "t1", 0)
			threadtest.WantCode(t, "Show", err, tt.want)
			if err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Show = %q, want it to say %q", err, tt.says)
			}
			threadtest.WantCode(t, "Export", transfer.Export(t.Context(), s.For(""), "t1", "", new(strings.Builder)), tt.want)
			if after := keysAndValues(t, d); after != before {
				t.Error("reading damaged data changed it")
			}
		})
	}
}

// damage replaces the value of the entries of the default tenant that match, or
// makes one for a list of artifacts, which the thread has none of.
func damage(t *testing.T, d kv.Driver, match func(kv.Key) bool, value string) {
	t.Helper()
	tx := kv.Tx{Partition: threads.DefaultTenant}
	var content kv.Key
	for _, k := range threadtest.KeysUnder(t, d, tx.Partition, "") {
		if rest, ok := k.CutPrefix(threads.ContentPrefix); ok {
			id, _, _ := rest.CutString()
			content = threads.ContentPrefix.With(id)
		}
		switch {
		case !match(k):
		case value == "delete":
			tx.Writes = append(tx.Writes, kv.Delete(k))
		default:
			tx.Writes = append(tx.Writes, kv.Put(k, []byte(value)))
		}
	}
	if artifacts := content.With("artifacts").WithUint(1); match(artifacts) {
		tx.Writes = append(tx.Writes, kv.Put(artifacts, []byte(value)))
	}
	if len(tx.Writes) == 0 {
		t.Fatal("there is nothing to damage")
	}
	if _, err := kv.Apply(t.Context(), d, tx); err != nil {
		t.Fatal(err)
	}
}

func keysAndValues(t *testing.T, d kv.Driver) string {
	t.Helper()
	var b strings.Builder
	for e, err := range kv.All(t.Context(), d, threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s=%q@%d\n", e.Key, e.Value, e.Revision)
	}
	return b.String()
}

// What follows a format byte is read by this package alone, so it must be that
// of every record.
func TestFormatByteIsThatOfRecords(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.Say(t, s, "t1", "r", host.UserText("x"))
	record, err := kv.EncodeRecord(1)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range kv.All(t.Context(), kv.Checked(d), threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Value) > 0 && e.Value[0] != record[0] {
			t.Errorf("%s begins with format %d, records with %d", e.Key, e.Value[0], record[0])
		}
	}
}

// FuzzStored gives the store bytes of somebody else as a message, a record and a
// snapshot: it reads them or says what is wrong with a code.
func FuzzStored(f *testing.F) {
	f.Add([]byte("\x01[{\"id\":\"a\",\"role\":\"user\",\"parts\":[]}]"))
	f.Add([]byte("\x01{\"v\":1,\"blob\":{\"digest\":\"x\",\"size\":1}}"))
	f.Add([]byte("\x01{\"v\":1,\"id\":\"t1\",\"messages\":3,\"turns\":9,\"content\":\"x\"}"))
	f.Add([]byte("\x01{\"v\":1,\"turn\":1,\"from\":-1,\"to\":9999999}"))
	f.Add([]byte("\x02"))
	f.Fuzz(func(t *testing.T, value []byte) {
		s, d := threadtest.NewStore(t, nil)
		threadtest.Talk(t, s, "t1", 2)
		for i, k := range threadtest.KeysUnder(t, d, threads.DefaultTenant, "") {
			if i > 20 {
				break
			}
			old, err := d.Get(t.Context(), threads.DefaultTenant, k)
			if err != nil {
				t.Fatal(err)
			}
			put := func(v []byte) {
				if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{kv.Put(k, v)}}); err != nil {
					t.Skip(err)
				}
			}
			put(value)
			for _, err := range []error{
				onlyError(s.For("").Show(t.Context(), "t1", 0)), transfer.Export(t.Context(), s.For(""), "t1", "", new(strings.Builder)),
				onlyError(s.For("").List(t.Context(), nil)),
			} {
				if code := host.CodeOf(err); code == host.Internal {
					t.Errorf("with %q at %s: %v has code internal", value, k, err)
				}
			}
			put(old.Value)
		}
	})
}

func onlyError[T any](_ T, err error) error { return err }
