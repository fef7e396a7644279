package threads_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestUserMessage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		say   []*host.Message
		want  []string
		title string
	}{
		{"is kept", []*host.Message{threadtest.WithID("a", "hello")}, []string{"hello"}, "hello"},
		{"of the same id is kept once", []*host.Message{threadtest.WithID("a", "yes"), threadtest.WithID("a", "yes")}, []string{"yes"}, "yes"},
		{"of equal text under another id is another message", []*host.Message{threadtest.WithID("a", "yes"), threadtest.WithID("b", "yes")}, []string{"yes", "yes"}, "yes"},
		{"gives its first 50 characters as title", []*host.Message{threadtest.WithID("a", strings.Repeat("ü", 60))},
			[]string{strings.Repeat("ü", 60)}, strings.Repeat("ü", 50)},
		{"without text leaves the title to the next",
			[]*host.Message{{ID: "a", Role: host.User, Parts: []host.Part{&host.Media{MediaType: "image/png", URL: "https://example.com/x.png"}}}, threadtest.WithID("b", "what is it?")},
			[]string{"", "what is it?"}, "what is it?"},
		{"id may hold anything", []*host.Message{threadtest.WithID("../x/\u00a0", "one"), threadtest.WithID("../x", "two")}, []string{"one", "two"}, "one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, nil)
			for _, m := range tt.say {
				threadtest.Say(t, s, "t1", "r1", m)
			}
			threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, tt.want...)
			info, err := s.For("").Thread(t.Context(), "t1")
			if err != nil || info.Title != tt.title || info.Messages != len(tt.want) {
				t.Errorf("Thread = %+v, %v, want title %q and %d messages", info, err, tt.title, len(tt.want))
			}
		})
	}
}

// A message with the id of one that says something else is refused: it would be
// answered, and not be in the thread.
func TestUserMessageInThePlaceOfAnother(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	head := threadtest.Say(t, s, "t1", "r1", threadtest.WithID("a", "yes"))
	threadtest.Answer(t, s, "t1", "r1", head, threadtest.Assistant("b", "why?"))
	for _, m := range []*host.Message{threadtest.WithID("a", "no"), threadtest.WithID("b", "because")} {
		_, err := s.AppendUserMessage(t.Context(), threadtest.Request("t1", "r2", m))
		threadtest.WantCode(t, "AppendUserMessage of "+m.ID, err, host.Conflict)
	}
	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "yes", "why?")
}

func TestUserMessageMovesTheHeadOnce(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	first := threadtest.Say(t, s, "t1", "r1", threadtest.WithID("a", "one"))
	again := threadtest.Say(t, s, "t1", "r1", threadtest.WithID("a", "one"))
	second := threadtest.Say(t, s, "t1", "r1", threadtest.WithID("b", "two"))
	if first != again || first == second || first == "" {
		t.Errorf("heads are %q, %q again, %q after another message", first, again, second)
	}
	if got := threadtest.Load(t, s, "t1").Head; got != second {
		t.Errorf("Get has head %q, want %q", got, second)
	}
}

func TestTurnIsKeptWhole(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	req := threadtest.Request("t1", "r1", threadtest.WithID("q", "where is it?"))
	req.Network = "support"
	turn := threadtest.TurnOf(threadtest.Say(t, s, "t1", "r1", req.Input), threadtest.Calls("c", "1", "2"), threadtest.Result("1"), threadtest.Result("2"), host.AssistantText("in Lyon"))
	turn.State = json.RawMessage(`{"big":12345678901234567890}`)
	turn.Artifacts = []host.Artifact{{Name: "label", Parts: []host.Part{&host.Text{Text: "Lyon"}}}}
	turn.Usage = host.Usage{InputTokens: 3, OutputTokens: 4}
	if err := s.AppendResults(t.Context(), req, turn); err != nil {
		t.Fatalf("AppendResults = %v", err)
	}

	show, err := s.For("").Show(t.Context(), "t1", 0)
	if err != nil {
		t.Fatalf("Show = %v", err)
	}
	threadtest.WantTexts(t, show.Messages, "where is it?", "call 1call 2", "result 1", "result 2", "in Lyon")
	if string(show.State) != `{"big":12345678901234567890}` || len(show.Artifacts) != 1 || show.Artifacts[0].Name != "label" {
		t.Errorf("Show has state %s and artifacts %+v", show.State, show.Artifacts)
	}
	if show.SnapshotOf(0) != nil {
		t.Error("SnapshotOf(0), the user's message, is a turn's")
	}
	got := show.SnapshotOf(4)
	want := &threads.Snapshot{
		ID: "r1", Turn: 1, Input: "q", Network: "support", From: 1, To: 5, Status: threads.Completed, FinishReason: chat.FinishStop,
		Usage: turn.Usage, Artifacts: 1, State: got.State, Time: got.Time,
		Results: []threads.ResultInfo{{Agent: "clerk", Messages: 4, FinishReason: chat.FinishStop, Rounds: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	a, err := s.For("").Artifact(t.Context(), "t1", show.Artifacts[0].Digest)
	if err != nil || a.Name != "label" || a.Parts[0].(*host.Text).Text != "Lyon" {
		t.Errorf("Artifact = %+v, %v", a, err)
	}
}

func TestTurn(t *testing.T) {
	// Each row is done to a thread with one turn, r0, and a question after it.
	for _, tt := range []struct {
		name   string
		turn   func(head string) (run string, turn *host.Turn)
		code   host.Code
		want   []string
		status threads.Status
	}{
		{"at the head is kept", func(head string) (string, *host.Turn) {
			return "r1", threadtest.TurnOf(head, host.AssistantText("b"))
		}, "", []string{"question 0", "answer 0", "q", "b"}, threads.Completed},
		{"at a head that has moved is a conflict", func(string) (string, *host.Turn) {
			return "r1", threadtest.TurnOf("another", host.AssistantText("b"))
		}, host.Conflict, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"without a head is kept", func(string) (string, *host.Turn) {
			return "r1", threadtest.TurnOf("", host.AssistantText("b"))
		}, "", []string{"question 0", "answer 0", "q", "b"}, threads.Completed},
		{"that was committed is not committed again", func(string) (string, *host.Turn) {
			return "t1-r0", threadtest.TurnOf("whatever", threadtest.Assistant("t1-r0-answer", "answer 0"))
		}, "", []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"that was committed is not committed again at the head of now", func(head string) (string, *host.Turn) {
			return "t1-r0", threadtest.TurnOf(head, threadtest.Assistant("t1-r0-answer", "answer 0"))
		}, "", []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"that was committed is not committed again without a head", func(string) (string, *host.Turn) {
			return "t1-r0", threadtest.TurnOf("", threadtest.Assistant("t1-r0-answer", "answer 0"))
		}, "", []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"of a run that has another is refused", func(string) (string, *host.Turn) {
			return "t1-r0", threadtest.TurnOf("whatever", host.AssistantText("b"))
		}, host.AlreadyExists, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"of a run that has another is refused at the head of now", func(head string) (string, *host.Turn) {
			return "t1-r0", threadtest.TurnOf(head, host.AssistantText("b"))
		}, host.AlreadyExists, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"of a run that has another is refused without a head", func(string) (string, *host.Turn) {
			return "t1-r0", threadtest.TurnOf("", host.AssistantText("b"))
		}, host.AlreadyExists, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"of a run that has another is refused if it begins alike", func(head string) (string, *host.Turn) {
			return "t1-r0", threadtest.TurnOf(head, threadtest.Assistant("t1-r0-answer", "answer 0"), host.AssistantText("b"))
		}, host.AlreadyExists, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"that failed is kept and marked", func(head string) (string, *host.Turn) {
			turn := threadtest.TurnOf(head, host.AssistantText("half"))
			turn.Status, turn.Error = chat.FinishFailed, host.Errorf(host.Unavailable, "model is down")
			return "r1", turn
		}, "", []string{"question 0", "answer 0", "q", "half"}, threads.Failed},
		{"that failed without a word is marked", func(head string) (string, *host.Turn) {
			return "r1", &host.Turn{Head: head, Status: chat.FinishCanceled, Error: host.Errorf(host.Canceled, "stopped")}
		}, "", []string{"question 0", "answer 0", "q"}, threads.Canceled},
		{"that waits for a person is marked", func(head string) (string, *host.Turn) {
			turn := threadtest.TurnOf(head, threadtest.Calls("c", "1"))
			turn.Status = chat.FinishInterrupted
			return "r1", turn
		}, "", []string{"question 0", "answer 0", "q", "call 1"}, threads.Interrupted},
		{"with a message twice keeps it once", func(head string) (string, *host.Turn) {
			return "r1", threadtest.TurnOf(head, threadtest.WithID("m", "b"), threadtest.WithID("m", "b"))
		}, "", []string{"question 0", "answer 0", "q", "b"}, threads.Completed},
		{"with a message of an earlier turn keeps it once", func(head string) (string, *host.Turn) {
			return "r1", threadtest.TurnOf(head, threadtest.WithID("q", "q"), threadtest.WithID("m", "b"))
		}, "", []string{"question 0", "answer 0", "q", "b"}, threads.Completed},
		{"without a run is refused", func(head string) (string, *host.Turn) {
			return "", threadtest.TurnOf(head, host.AssistantText("b"))
		}, host.InvalidArgument, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"with a message that is not JSON is refused", func(head string) (string, *host.Turn) {
			return "r1", threadtest.TurnOf(head, host.NewMessage(host.ToolRole, &host.ToolResult{ID: "1", Name: "x", Content: json.RawMessage(`{`)}))
		}, host.InvalidArgument, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"with a message without an id is refused", func(head string) (string, *host.Turn) {
			return "r1", threadtest.TurnOf(head, threadtest.WithID("", "b"))
		}, host.InvalidArgument, []string{"question 0", "answer 0", "q"}, threads.Completed},
		{"with state that is not JSON is refused", func(head string) (string, *host.Turn) {
			turn := threadtest.TurnOf(head, host.AssistantText("b"))
			turn.State = json.RawMessage(`{`)
			return "r1", turn
		}, host.InvalidArgument, []string{"question 0", "answer 0", "q"}, threads.Completed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, nil)
			threadtest.Talk(t, s, "t1", 1)
			run, turn := tt.turn(threadtest.Say(t, s, "t1", "r1", threadtest.WithID("q", "q")))
			err := s.AppendResults(t.Context(), threadtest.Request("t1", run, nil), turn)
			threadtest.WantCode(t, "AppendResults", err, tt.code)
			threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, tt.want...)
			info, err := s.For("").Thread(t.Context(), "t1")
			if err != nil || info.Status != tt.status {
				t.Errorf("Thread = %+v, %v, want status %q", info, err, tt.status)
			}
		})
	}
}

func TestFailedTurnTellsWhy(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	long := strings.Repeat("ä", 10_000)
	for i, message := range []string{"model is down", long} {
		turn := threadtest.TurnOf("")
		turn.Status, turn.Error = chat.FinishFailed, host.Errorf(host.Unavailable, "%s", message).WithHint("start it")
		if err := s.AppendResults(t.Context(), threadtest.Request("t1", fmt.Sprint("r", i), nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
	}
	var got []*threads.Snapshot
	for snap, err := range s.For("").Snapshots(t.Context(), "t1") {
		if err != nil {
			t.Fatalf("Snapshots = %v", err)
		}
		got = append(got, snap)
	}
	if len(got) != 2 || got[1].Parent != "r0" || got[0].Parent != "" {
		t.Fatalf("Snapshots = %+v", got)
	}
	if e := got[0].Error; e.Code != host.Unavailable || e.Message != "model is down" || e.Hint != "start it" || !e.Retryable {
		t.Errorf("error of the turn = %+v", e)
	}
	if e := got[1].Error; e.Code != host.Unavailable || len(e.Message) > 4200 || !strings.HasPrefix(e.Message, "äää") {
		t.Errorf("long error is kept with %d bytes", len(e.Message))
	}
}

func TestStateStaysUntilATurnBringsAnother(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	for i, tt := range []struct{ state, want string }{
		{"", ""}, {`{"n":1}`, `{"n":1}`}, {"", `{"n":1}`}, {`{"n":2}`, `{"n":2}`}, {`{"n":1}`, `{"n":1}`},
	} {
		turn := threadtest.TurnOf("", host.AssistantText("x"))
		if tt.state != "" {
			turn.State = json.RawMessage(tt.state)
		}
		if err := s.AppendResults(t.Context(), threadtest.Request("t1", fmt.Sprint("r", i), nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
		if got := threadtest.Load(t, s, "t1").State; string(got) != tt.want {
			t.Errorf("after turn %d: state %s, want %s", i, got, tt.want)
		}
	}
}

func TestArtifacts(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	text := func(name, text string) host.Artifact {
		return host.Artifact{Name: name, Parts: []host.Part{&host.Text{Text: text}}}
	}
	big := strings.Repeat("0123456789", 70_000) // three chunks
	for i, put := range [][]host.Artifact{
		{text("a", "1"), text("", "x"), text("b", "1")},
		{text("a", "2"), text("", "x")},
		{text("big", big)},
		{text("b", "1"), text("big", big)},
	} {
		turn := threadtest.TurnOf("")
		turn.Artifacts = put
		if err := s.AppendResults(t.Context(), threadtest.Request("t1", fmt.Sprint("r", i), nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
	}
	list, err := s.For("").Artifacts(t.Context(), "t1")
	if err != nil {
		t.Fatalf("Artifacts = %v", err)
	}
	var got []string
	for _, info := range list {
		a, err := s.For("").Artifact(t.Context(), "t1", info.Digest)
		if err != nil {
			t.Fatalf("Artifact(%s) = %v", info.Digest, err)
		}
		got = append(got, fmt.Sprintf("%s=%.1s", a.Name, a.Parts[0].(*host.Text).Text))
	}
	want := []string{"a=2", "=x", "b=1", "=x", "big=0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	stored := 0
	for e, err := range kv.All(t.Context(), d, threads.DefaultTenant, kv.Range{Prefix: threads.ContentPrefix}) {
		if err != nil {
			t.Fatal(err)
		}
		stored += len(e.Value)
	}
	if stored > len(big)+10_000 {
		t.Errorf("%d bytes are stored; a big artifact of %d was stored twice", stored, len(big))
	}
	_, err = s.For("").Artifact(t.Context(), "t1", strings.Repeat("0", 64))
	threadtest.WantCode(t, "Artifact of an unknown digest", err, host.NotFound)
}

func TestLargeContentSurvives(t *testing.T) {
	source := rand.NewChaCha8([32]byte{1})
	random := func(n int) string { // text that is never the same
		b := make([]byte, n)
		_, _ = source.Read(b)
		return base64.StdEncoding.EncodeToString(b)[:n]
	}
	many := func(n, size int) []*host.Message {
		var out []*host.Message
		for i := range n {
			out = append(out, threadtest.WithID(fmt.Sprintf("m%d", i), fmt.Sprint(i, random(size))))
		}
		return out
	}
	cases := []struct {
		name     string
		messages []*host.Message
	}{
		{"one message of 2 MB", many(1, 2<<20)},
		{"messages of one chunk and one byte more", append(many(1, threads.ChunkBytes), threadtest.WithID("x", random(threads.ChunkBytes+1)))},
		{"more bytes than one commit takes", many(25, 100_000)},
		{"as many messages as entries", many(threads.MaxTurnEntries, 10)},
		{"more messages than entries", many(threads.MaxTurnEntries+1, 10)},
		{"more messages than one commit takes", many(3500, 100)},
		{"more messages and more bytes", many(1000, 3000)},
	}
	for _, tt := range cases[:longtest.Alone(4, len(cases))] {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, &threads.Options{Window: 10_000})
			head := threadtest.Say(t, s, "t1", "r1", threadtest.WithID("q", "q"))
			turn := threadtest.TurnOf(head, tt.messages...)
			turn.State = json.RawMessage(`{"blob":"` + random(200_000) + `"}`)
			turn.Artifacts = []host.Artifact{{Name: "a", Parts: []host.Part{&host.Text{Text: random(900_000)}}}}
			if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r1", nil), turn); err != nil {
				t.Fatalf("AppendResults = %v", err)
			}
			loaded := threadtest.Load(t, s, "t1")
			if !slices.Equal(threadtest.Texts(turn.Messages()), threadtest.Texts(loaded.Messages[1:])) {
				t.Error("messages differ from what was stored")
			}
			if string(loaded.State) != string(turn.State) {
				t.Error("state differs from what was stored")
			}
			// What is indexed is known again, wherever it lies.
			for _, m := range []*host.Message{tt.messages[0], tt.messages[len(tt.messages)-1]} {
				if again := threadtest.Say(t, s, "t1", "r2", m); again != loaded.Head {
					t.Errorf("message %q is stored again", m.ID)
				}
			}
			if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r2", nil), threadtest.TurnOf(loaded.Head, tt.messages...)); err != nil {
				t.Fatalf("AppendResults again = %v", err)
			}
			if n := len(threadtest.Load(t, s, "t1").Messages); n != 1+len(tt.messages) {
				t.Errorf("after the same messages again there are %d, want %d", n, 1+len(tt.messages))
			}
		})
	}
}

func TestIDs(t *testing.T) {
	good := []string{"a", "ab", "a/b", "../x", "a\u00a0", "ü", " ", "threads", strings.Repeat("x", 256), strings.Repeat("%", 256)}
	s, _ := threadtest.NewStore(t, nil)
	for i, id := range good {
		head := threadtest.Say(t, s, id, "r", threadtest.WithID("m", fmt.Sprint(i)))
		threadtest.Answer(t, s, id, "r", head, threadtest.WithID("n", fmt.Sprint(i)))
	}
	for i, id := range good {
		threadtest.WantTexts(t, threadtest.Load(t, s, id).Messages, fmt.Sprint(i), fmt.Sprint(i))
	}
	if err := s.For("").Delete(t.Context(), "a"); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	for i, id := range good[1:] {
		threadtest.WantTexts(t, threadtest.Load(t, s, id).Messages, fmt.Sprint(i+1), fmt.Sprint(i+1))
	}
	for _, id := range []string{"", "a\x00b", "a\tb", "a\xff", strings.Repeat("x", 257)} {
		_, err := s.Get(t.Context(), threadtest.Request(id, "", nil))
		threadtest.WantCode(t, fmt.Sprintf("Get(%q)", id), err, host.InvalidArgument)
		_, err = s.AppendUserMessage(t.Context(), threadtest.Request(id, "", threadtest.WithID("m", "x")))
		threadtest.WantCode(t, fmt.Sprintf("AppendUserMessage(%q)", id), err, host.InvalidArgument)
		if id != "" {
			_, _, err = s.CreateThread(t.Context(), threadtest.Request(id, "", nil))
			threadtest.WantCode(t, fmt.Sprintf("CreateThread(%q)", id), err, host.InvalidArgument)
		}
	}
	for _, id := range []string{"", "a\x00b", "a\xff", strings.Repeat("x", 257)} {
		_, err := s.AppendUserMessage(t.Context(), threadtest.Request("t", "", threadtest.WithID(id, "x")))
		threadtest.WantCode(t, fmt.Sprintf("AppendUserMessage of message %q", id), err, host.InvalidArgument)
	}
	_, err := s.AppendUserMessage(t.Context(), threadtest.Request("t", "", nil))
	threadtest.WantCode(t, "AppendUserMessage of nothing", err, host.InvalidArgument)
}

func TestTenantsSeeOnlyTheirOwn(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	for _, tenant := range []string{"", "acme", "acme2"} {
		req := &host.HistoryRequest{Tenant: tenant, Thread: "t1", Input: threadtest.WithID("m", "of "+tenant)}
		if _, err := s.AppendUserMessage(t.Context(), req); err != nil {
			t.Fatalf("AppendUserMessage = %v", err)
		}
	}
	for tenant, want := range map[string]string{"": "of ", "default": "of ", "acme": "of acme", "acme2": "of acme2"} {
		loaded, err := s.Get(t.Context(), &host.HistoryRequest{Tenant: tenant, Thread: "t1"})
		if err != nil {
			t.Fatalf("Get = %v", err)
		}
		threadtest.WantTexts(t, loaded.Messages, want)
		page, err := s.For(tenant).List(t.Context(), nil)
		if err != nil || len(page.Threads) != 1 {
			t.Errorf("List(%q) = %+v, %v", tenant, page, err)
		}
	}
	if err := s.For("acme").Delete(t.Context(), "t1"); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	if _, err := s.For("acme2").Thread(t.Context(), "t1"); err != nil {
		t.Errorf("Thread of another tenant after Delete = %v", err)
	}
	_, err := s.For(strings.Repeat("x", 256)).List(t.Context(), nil)
	threadtest.WantCode(t, "List of a tenant with a name too long", err, host.InvalidArgument)
}

func TestUnknownThread(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	if loaded := threadtest.Load(t, s, "nobody"); len(loaded.Messages) != 0 || loaded.State != nil || loaded.Head != "" {
		t.Errorf("Get = %+v, want an empty history", loaded)
	}
	_, err := s.For("").Thread(t.Context(), "nobody")
	threadtest.WantCode(t, "Thread", err, host.NotFound)
	_, err = s.For("").Show(t.Context(), "nobody", 0)
	threadtest.WantCode(t, "Show", err, host.NotFound)
	_, err = s.For("").Artifacts(t.Context(), "nobody")
	threadtest.WantCode(t, "Artifacts", err, host.NotFound)
	_, err = s.For("").Artifact(t.Context(), "nobody", "x")
	threadtest.WantCode(t, "Artifact", err, host.NotFound)
	_, err = s.For("").Update(t.Context(), "nobody", threads.Change{})
	threadtest.WantCode(t, "Update", err, host.NotFound)
	threadtest.WantCode(t, "Delete", s.For("").Delete(t.Context(), "nobody"), host.NotFound)
	threadtest.WantCode(t, "Export", transfer.Export(t.Context(), s.For(""), "nobody", "", nil), host.NotFound)
	for _, err := range s.For("").Snapshots(t.Context(), "nobody") {
		threadtest.WantCode(t, "Snapshots", err, host.NotFound)
	}
	err = s.AppendResults(t.Context(), threadtest.Request("nobody", "r", nil), threadtest.TurnOf("a head", host.AssistantText("x")))
	threadtest.WantCode(t, "AppendResults of a turn on a thread that is gone", err, host.Conflict)
	if err := s.AppendResults(t.Context(), threadtest.Request("nobody", "r", nil), threadtest.TurnOf("", host.AssistantText("x"))); err != nil {
		t.Errorf("AppendResults of a turn that answers nothing = %v, want a new thread", err)
	}
	threadtest.WantTexts(t, threadtest.Load(t, s, "nobody").Messages, "x")
}

func TestCreate(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	made, created, err := s.For("").Create(t.Context(), &threads.CreateOptions{ID: "t1", Title: "mine", Metadata: threads.Metadata{"k": json.RawMessage(`1`)}})
	if err != nil || !created || made.ID != "t1" || made.Title != "mine" || made.Head == "" || made.Tenant != threads.DefaultTenant {
		t.Fatalf("Create = %+v, %v, %v", made, created, err)
	}
	again, created, err := s.For("").Create(t.Context(), &threads.CreateOptions{ID: "t1", Title: "yours"})
	if err != nil || created {
		t.Fatalf("Create again = %v, %v", created, err)
	}
	if diff := cmp.Diff(made, again); diff != "" {
		t.Errorf("Create again changed the thread:\n%s", diff)
	}
	threadtest.Say(t, s, "t1", "r", threadtest.WithID("m", "hello"))
	if info, _ := s.For("").Thread(t.Context(), "t1"); info.Title != "mine" {
		t.Errorf("title is %q after the first input, want what it was set to", info.Title)
	}
	id, created, err := s.CreateThread(t.Context(), threadtest.Request("", "", nil))
	if err != nil || !created || len(id) != 36 {
		t.Errorf("CreateThread without an id = %q, %v, %v", id, created, err)
	}
	if id2, created, err := s.CreateThread(t.Context(), threadtest.Request(id, "", nil)); err != nil || created || id2 != id {
		t.Errorf("CreateThread again = %q, %v, %v", id2, created, err)
	}
	for _, m := range []threads.Metadata{{"k": json.RawMessage(`{`)}, {"\xff": json.RawMessage(`1`)}} {
		_, _, err = s.For("").Create(t.Context(), &threads.CreateOptions{ID: "t3", Metadata: m})
		threadtest.WantCode(t, "Create with bad metadata", err, host.InvalidArgument)
	}
}

func TestUpdate(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	head := threadtest.Say(t, s, "t1", "r", threadtest.WithID("m", "hello"))
	before, _ := s.For("").Thread(t.Context(), "t1")
	title := "orders"
	for _, change := range []threads.Change{
		{Title: &title, Metadata: threads.Metadata{"a": json.RawMessage(`1`), "b": json.RawMessage(`2`)}},
		{Metadata: threads.Metadata{"a": json.RawMessage(`null`), "c": json.RawMessage(`[3]`)}},
	} {
		if _, err := s.For("").Update(t.Context(), "t1", change); err != nil {
			t.Fatalf("Update = %v", err)
		}
	}
	got, err := s.For("").Thread(t.Context(), "t1")
	want := *before
	want.Title, want.Metadata = "orders", threads.Metadata{"b": json.RawMessage(`2`), "c": json.RawMessage(`[3]`)}
	if diff := cmp.Diff(&want, got); diff != "" || err != nil {
		t.Errorf("thread (-want +got):\n%s%v", diff, err)
	}
	threadtest.Answer(t, s, "t1", "r", head, host.AssistantText("hi")) // a turn that runs meanwhile is not disturbed
	title = strings.Repeat("x", threads.MaxTitleBytes+1)
	_, err = s.For("").Update(t.Context(), "t1", threads.Change{Title: &title})
	threadtest.WantCode(t, "Update with a title too long", err, host.InvalidArgument)
	_, err = s.For("").Update(t.Context(), "t1", threads.Change{Metadata: threads.Metadata{"x": json.RawMessage(`"` + strings.Repeat("x", threads.MaxMetadataBytes) + `"`)}})
	threadtest.WantCode(t, "Update with too much metadata", err, host.ResourceExhausted)
}

func TestClockThatGoesBack(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.SetNow(func() time.Time { return now })
	threadtest.Say(t, s, "t1", "r", threadtest.WithID("a", "first"))
	now = now.Add(-48 * time.Hour)
	threadtest.Say(t, s, "t2", "r", threadtest.WithID("a", "other"))
	head := threadtest.Say(t, s, "t1", "r", threadtest.WithID("b", "second"))
	threadtest.Answer(t, s, "t1", "r", head, threadtest.WithID("c", "third"))
	now = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	threadtest.Say(t, s, "t3", "r", threadtest.WithID("a", "long ago"))

	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "first", "second", "third")
	page, err := s.For("").List(t.Context(), nil)
	if err != nil {
		t.Fatalf("List = %v", err)
	}
	var order []string
	for _, info := range page.Threads {
		order = append(order, info.ID)
		if info.Updated.Before(info.Created) {
			t.Errorf("thread %s was updated at %s, before it was created at %s", info.ID, info.Updated, info.Created)
		}
	}
	if diff := cmp.Diff([]string{"t1", "t2", "t3"}, order); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func TestNewPanicsWithoutADriver(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(p.(string), "kv.NewMemory") {
			t.Errorf("New(nil) panics with %v, want the words of the fix", p)
		}
	}()
	threads.New(nil, nil)
}

func TestDriverErrorsHaveCodes(t *testing.T) {
	for _, tt := range []struct {
		err       error
		code      host.Code
		retryable bool
	}{
		{kv.ErrClosed, host.Unavailable, true},
		{kv.ErrInDoubt, host.Unavailable, true},
		{kv.ErrReadOnly, host.FailedPrecondition, false},
		{kv.ErrLocked, host.FailedPrecondition, false},
		{kv.ErrNoSpace, host.ResourceExhausted, false},
		{kv.ErrCorrupt, host.DataLoss, false},
		{kv.ErrFormat, host.FailedPrecondition, false},
		{&kv.LimitError{What: "transaction", Got: 2, Max: 1, Unit: "bytes"}, host.ResourceExhausted, false},
		{errDisk, host.Internal, false},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			d := &spy{Driver: testdriver.New(t)}
			s := threads.New(d, nil)
			threadtest.Say(t, s, "t1", "r", threadtest.WithID("a", "kept"))
			failing := fmt.Errorf("commit /var/lib/secret: %w", tt.err)
			d.before = func(kv.Tx) error { return failing }
			_, err := s.AppendUserMessage(t.Context(), threadtest.Request("t1", "r", threadtest.WithID("b", "lost")))
			checkDriverError(t, err, tt.err, tt.code, tt.retryable)
			threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "kept")
			d.failGet = failing
			_, err = s.Get(t.Context(), threadtest.Request("t1", "r", nil))
			checkDriverError(t, err, tt.err, tt.code, tt.retryable)
		})
	}
}

func checkDriverError(t *testing.T, err, cause error, code host.Code, retryable bool) {
	t.Helper()
	var e *host.Error
	if !errors.As(err, &e) || e.Code != code || e.Retryable != retryable {
		t.Fatalf("error = %+v, want code %s, retryable %v", err, code, retryable)
	}
	if !errors.Is(err, cause) {
		t.Errorf("error %v does not lead to its cause", err)
	}
	if strings.Contains(e.Error(), "secret") || !strings.Contains(e.Error(), `"t1"`) {
		t.Errorf("error says %q: want the thread and no path", e)
	}
}

func TestClosedDriver(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.Say(t, s, "t1", "r", threadtest.WithID("a", "x"))
	_ = d.Close()
	_, err := s.Get(t.Context(), threadtest.Request("t1", "", nil))
	threadtest.WantCode(t, "Get", err, host.Unavailable)
	_, err = s.For("").List(t.Context(), nil)
	threadtest.WantCode(t, "List", err, host.Unavailable)
	threadtest.WantCode(t, "Delete", s.For("").Delete(t.Context(), "t1"), host.Unavailable)
}

func TestUnwrittenTurnIsWrittenByTheNextTry(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	head := threadtest.Say(t, s, "t1", "r", threadtest.WithID("a", "question"))
	turn := threadtest.TurnOf(head, threadtest.WithID("b", "answer"))
	turn.Artifacts = []host.Artifact{{Parts: []host.Part{&host.Text{Text: strings.Repeat("x", 3_000_000)}}}}
	for after := range 4 { // fails before, between and after the pieces
		n := 0
		d.before = func(kv.Tx) error {
			if n++; n > after {
				return kv.ErrNoSpace
			}
			return nil
		}
		threadtest.WantCode(t, "AppendResults", s.AppendResults(t.Context(), threadtest.Request("t1", "r", nil), turn), host.ResourceExhausted)
		d.before = nil
		threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "question")
	}
	for range 2 {
		if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r", nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
	}
	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "question", "answer")
	if list, err := s.For("").Artifacts(t.Context(), "t1"); err != nil || len(list) != 1 {
		t.Errorf("Artifacts = %+v, %v", list, err)
	}
}

// A lost answer: the store wrote and could not say so.
func TestTurnInDoubtIsWrittenOnce(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	doubt := func(tx kv.Tx) error {
		if _, err := kv.Apply(t.Context(), d.Driver, tx); err != nil {
			return err
		}
		return kv.ErrInDoubt
	}
	d.before = doubt
	_, err := s.AppendUserMessage(t.Context(), threadtest.Request("t1", "r", threadtest.WithID("a", "question")))
	threadtest.WantCode(t, "AppendUserMessage", err, host.Unavailable)
	d.before = nil
	head := threadtest.Say(t, s, "t1", "r", threadtest.WithID("a", "question"))
	turn := threadtest.TurnOf(head, threadtest.WithID("b", "answer"))
	d.before = doubt
	threadtest.WantCode(t, "AppendResults", s.AppendResults(t.Context(), threadtest.Request("t1", "r", nil), turn), host.Unavailable)
	d.before = nil
	if err := s.AppendResults(t.Context(), threadtest.Request("t1", "r", nil), turn); err != nil {
		t.Errorf("AppendResults again = %v", err)
	}
	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "question", "answer")
}

// The store remembers the record that a commit has written. Metadata that a caller gave or
// got is the caller's all the same.
func TestMetadataIsTheCallers(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	one := func() threads.Metadata { return threads.Metadata{"a": json.RawMessage(`"one"`)} }
	scribble := func(all ...threads.Metadata) {
		for _, m := range all {
			copy(m["a"], `"two"`)
			m["b"] = json.RawMessage(`1`)
		}
	}
	given, changed, forked := one(), one(), one()
	made, _, err := s.For("").Create(t.Context(), &threads.CreateOptions{ID: "t1", Metadata: given})
	if err != nil {
		t.Fatal(err)
	}
	updated, err := s.For("").Update(t.Context(), "t1", threads.Change{Metadata: changed})
	if err != nil {
		t.Fatal(err)
	}
	fork, err := s.For("").Fork(t.Context(), "t1", &threads.ForkOptions{ID: "t2", Metadata: forked})
	if err != nil {
		t.Fatal(err)
	}
	fork.Parent.Thread = "another"
	scribble(given, changed, forked, made.Metadata, updated.Metadata, fork.Metadata)
	for _, id := range []string{"t1", "t2"} {
		threadtest.Say(t, s, id, "r", host.UserText("a question"))
		now, err := threads.New(d, nil).For("").Thread(t.Context(), id)
		if diff := cmp.Diff(one(), now.Metadata); err != nil || diff != "" {
			t.Errorf("metadata of %s: %v (-want +got):\n%s", id, err, diff)
		}
		if now.Parent != nil && now.Parent.Thread != "t1" {
			t.Errorf("%s was forked from %+v", id, now.Parent)
		}
	}
}
