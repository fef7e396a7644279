package threads_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// A reader sees a thread as it was when it began, whatever is committed while it
// reads.
func TestReadersSeeOneMoment(t *testing.T) {
	turnWith := func(head, name string) *host.Turn {
		turn := threadtest.TurnOf(head, threadtest.WithID("answer "+name, "answer "+name))
		turn.State = fmt.Appendf(nil, `{"is":%q}`, name)
		turn.Artifacts = []host.Artifact{{Name: name, Parts: []host.Part{&host.Text{Text: name}}}}
		return turn
	}
	for _, tt := range []struct {
		name string
		read func(t *testing.T, s *threads.Store) string
	}{
		{"show", func(t *testing.T, s *threads.Store) string {
			show, err := s.For("").Show(t.Context(), "t1", 0)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(threadtest.Texts(show.Messages), len(show.Snapshots), string(show.State), len(show.Artifacts))
		}},
		{"get", func(t *testing.T, s *threads.Store) string {
			loaded := threadtest.Load(t, s, "t1")
			return fmt.Sprint(threadtest.Texts(loaded.Messages), 1, string(loaded.State), 1)
		}},
		{"export", func(t *testing.T, s *threads.Store) string {
			var b strings.Builder
			if err := transfer.Export(t.Context(), s.For(""), "t1", "", &b); err != nil {
				t.Fatal(err)
			}
			for _, later := range []string{"question 2", "answer two", `"is":"two"`} {
				if strings.Contains(b.String(), later) {
					t.Errorf("export has %s, which came later", later)
				}
			}
			return fmt.Sprint([]string{"question 1", "answer one"}, 1, `{"is":"one"}`, 1)
		}},
		{"snapshots", func(t *testing.T, s *threads.Store) string {
			n := 0
			for _, err := range s.For("").Snapshots(t.Context(), "t1") {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return fmt.Sprint([]string{"question 1", "answer one"}, n, `{"is":"one"}`, 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &spy{Driver: testdriver.New(t)}
			s := threads.New(d, nil)
			head := threadtest.Say(t, s, "t1", "r1", threadtest.WithID("q1", "question 1"))
			if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r1", nil), turnWith(head, "one")); err != nil {
				t.Fatal(err)
			}
			d.afterGet = func() { // the reader has the record
				head := threadtest.Say(t, s, "t1", "r2", threadtest.WithID("q2", "question 2"))
				if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r2", nil), turnWith(head, "two")); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := tt.read(t, s), `[question 1 answer one] 1{"is":"one"}1`; got != want {
				t.Errorf("read %s, want %s", got, want)
			}
		})
	}
}

// A large turn writes its index ahead. If the turn itself is then not written,
// the index points to nothing and must not hide the messages.
func TestIndexWithoutItsTurnHidesNothing(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, &threads.Options{Window: 10_000})
	head := threadtest.Say(t, s, "t1", "r", threadtest.WithID("q", "question"))
	turn := threadtest.TurnOf(head, manyMessages(600)...)
	d.before = func(tx kv.Tx) error {
		if len(tx.Conds) > 0 { // the turn; what is written ahead has none
			return kv.ErrNoSpace
		}
		return nil
	}
	threadtest.WantCode(t, "AppendResults", s.AppendResults(t.Context(), threadtest.Request("t1", "r", nil), turn), host.ResourceExhausted)
	d.before = nil
	if head2 := threadtest.Say(t, s, "t1", "r2", threadtest.WithID("m0", "a question of that id")); head2 == head {
		t.Error("a message is taken for stored that is not")
	}
	head = threadtest.Say(t, s, "t1", "r2", threadtest.WithID("m599", "another"))
	threadtest.Answer(t, s, "t1", "r", head, turn.Messages()...)
	loaded := threadtest.Load(t, s, "t1")
	if n := len(loaded.Messages); n != 1+600 {
		t.Errorf("%d messages are stored, want the question and 600", n)
	}
	threadtest.WantTexts(t, loaded.Messages[:4], "question", "a question of that id", "another", "1")
}

func TestWriterThatAlwaysLosesGivesUp(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	threadtest.Say(t, s, "t1", "r", threadtest.WithID("q", "question"))
	d.before = func(kv.Tx) error { return &kv.PreconditionError{} }
	_, err := s.AppendUserMessage(t.Context(), threadtest.Request("t1", "r", threadtest.WithID("m", "x")))
	threadtest.WantCode(t, "AppendUserMessage", err, host.Conflict)
	threadtest.WantCode(t, "Delete", s.For("").Delete(t.Context(), "t1"), host.Conflict)
}

func TestReadersOfAFailingDriver(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	threadtest.Talk(t, s, "t1", 2)
	d.failScan = kv.ErrCorrupt
	_, err := s.Get(t.Context(), threadtest.Request("t1", "", nil))
	threadtest.WantCode(t, "Get", err, host.DataLoss)
	_, err = s.For("").Show(t.Context(), "t1", 0)
	threadtest.WantCode(t, "Show", err, host.DataLoss)
	_, err = s.For("").Artifacts(t.Context(), "t1")
	threadtest.WantCode(t, "Artifacts", err, host.DataLoss)
	_, err = s.For("").List(t.Context(), nil)
	threadtest.WantCode(t, "List", err, host.DataLoss)
	for _, format := range transfer.Formats() {
		threadtest.WantCode(t, "Export", transfer.Export(t.Context(), s.For(""), "t1", format, new(strings.Builder)), host.DataLoss)
	}
	for _, err := range s.For("").Snapshots(t.Context(), "t1") {
		threadtest.WantCode(t, "Snapshots", err, host.DataLoss)
	}
	threadtest.WantCode(t, "Delete", s.For("").Delete(t.Context(), "t1"), host.DataLoss)
}

func TestArtifactThatCannotBeReadIsRefused(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	turn := threadtest.TurnOf("")
	turn.Artifacts = []host.Artifact{{Name: "a", Parts: []host.Part{&host.Data{Value: []byte(`{`)}}}}
	threadtest.WantCode(t, "AppendResults", s.AppendResults(t.Context(), threadtest.Request("t1", "r", nil), turn), host.InvalidArgument)
	_, err := s.For("").Thread(t.Context(), "t1")
	threadtest.WantCode(t, "Thread", err, host.NotFound)
}
