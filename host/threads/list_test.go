package threads_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// listAll reads a list page by page.
func listAll(t *testing.T, s *threads.Store, limit int) (ids []string, pages int) {
	t.Helper()
	opts := &threads.ListOptions{Limit: limit}
	for {
		page, err := s.For("").List(t.Context(), opts)
		if err != nil {
			t.Fatalf("List = %v", err)
		}
		pages++
		if len(page.Threads) > limit {
			t.Fatalf("page of at most %d has %d threads", limit, len(page.Threads))
		}
		for _, info := range page.Threads {
			ids = append(ids, info.ID)
		}
		if page.Next == "" {
			return ids, pages
		}
		opts.Cursor = page.Next
	}
}

func TestListIsNewestFirst(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	now := time.Now()
	s.SetNow(func() time.Time { return now })
	var want []string
	for i := range 7 {
		id := fmt.Sprintf("t%d", i)
		threadtest.Say(t, s, id, "r", threadtest.WithID("m", "x"))
		want = append([]string{id}, want...)
		now = now.Add(time.Second)
	}
	for limit, pages := range map[int]int{1: 7, 2: 4, 3: 3, 7: 1, 100: 1} {
		got, n := listAll(t, s, limit)
		if diff := cmp.Diff(want, got); diff != "" || n != pages {
			t.Errorf("List by %d: %d pages, want %d (-want +got):\n%s", limit, n, pages, diff)
		}
	}
	threadtest.Say(t, s, "t2", "r", threadtest.WithID("n", "again"))
	got, _ := listAll(t, s, 3)
	if diff := cmp.Diff([]string{"t2", "t6", "t5", "t4", "t3", "t1", "t0"}, got); diff != "" {
		t.Errorf("List after a message (-want +got):\n%s", diff)
	}
}

func TestListOfThreadsOfOneMoment(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	now := time.Now()
	s.SetNow(func() time.Time { return now })
	for i := range 10 {
		id := fmt.Sprint(i)
		threadtest.Answer(t, s, id, "r", threadtest.Say(t, s, id, "r", threadtest.WithID("m", "x")), threadtest.WithID("n", "y"))
	}
	got, _ := listAll(t, s, 3)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func TestListMovesOnFromWhatIsGone(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	now := time.Now()
	s.SetNow(func() time.Time { now = now.Add(time.Second); return now })
	for i := range 5 {
		threadtest.Say(t, s, fmt.Sprint(i), "r", threadtest.WithID("m", "x"))
	}
	page, err := s.For("").List(t.Context(), &threads.ListOptions{Limit: 2})
	if err != nil {
		t.Fatalf("List = %v", err)
	}
	for _, id := range []string{"3", "2"} { // the cursor's own thread, and the next
		if err := s.For("").Delete(t.Context(), id); err != nil {
			t.Fatalf("Delete = %v", err)
		}
	}
	page, err = s.For("").List(t.Context(), &threads.ListOptions{Limit: 2, Cursor: page.Next})
	if err != nil || len(page.Threads) != 2 || page.Threads[0].ID != "1" || page.Next != "" {
		t.Errorf("List = %+v, %v, want 1 and 0", page, err)
	}
}

func TestListOfNothing(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	page, err := s.For("").List(t.Context(), nil)
	if err != nil || page.Threads == nil || len(page.Threads) != 0 || page.Next != "" {
		t.Errorf("List = %+v, %v, want an empty page", page, err)
	}
}

func TestListRefuses(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.Talk(t, s, "t1", 1)
	for _, opts := range []threads.ListOptions{
		{Limit: -1}, {Limit: threads.MaxListLimit + 1}, {Cursor: "%"}, {Cursor: "x"},
		{Cursor: base64.RawURLEncoding.EncodeToString([]byte(kv.NewKey("x")))},
		{Cursor: base64.RawURLEncoding.EncodeToString([]byte(kv.Key("").WithUint(1).With("a", "b")))},
		{Cursor: base64.RawURLEncoding.EncodeToString([]byte(kv.Key("").WithUint(1).With("a\x00")))},
	} {
		_, err := s.For("").List(t.Context(), &opts)
		threadtest.WantCode(t, fmt.Sprintf("List(%+v)", opts), err, host.InvalidArgument)
	}
	_, err := s.For("").Show(t.Context(), "t1", -1)
	threadtest.WantCode(t, "Show with a negative limit", err, host.InvalidArgument)
}

func FuzzCursor(f *testing.F) {
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(kv.Key("").WithUint(1).With("a"))))
	f.Add("x")
	f.Fuzz(func(t *testing.T, cursor string) {
		s, _ := threadtest.NewStore(t, nil)
		threadtest.Talk(t, s, "t1", 1)
		if _, err := s.For("").List(t.Context(), &threads.ListOptions{Cursor: cursor}); err != nil && host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("List = %v", err)
		}
	})
}

func TestDeleteLeavesNothing(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	for _, id := range []string{"t1", "t2"} {
		turn := threadtest.TurnOf("", manyMessages(700)...)
		turn.State = []byte(`{"a":1}`)
		turn.Artifacts = []host.Artifact{{Name: "a", Parts: []host.Part{&host.Text{Text: id}}}}
		if err := s.AppendResults(t.Context(), threadtest.Request(id, "r", nil), turn); err != nil {
			t.Fatalf("AppendResults = %v", err)
		}
		if err := s.For("").Delete(t.Context(), id); err != nil {
			t.Fatalf("Delete = %v", err)
		}
	}
	if keys := threadtest.KeysUnder(t, d, threads.DefaultTenant, ""); len(keys) != 0 {
		t.Errorf("%d keys are left, the first is %s", len(keys), keys[0])
	}
	threadtest.WantCode(t, "Delete again", s.For("").Delete(t.Context(), "t1"), host.NotFound)
	if page, err := s.For("").List(t.Context(), nil); err != nil || len(page.Threads) != 0 {
		t.Errorf("List = %+v, %v", page, err)
	}
}

func manyMessages(n int) []*host.Message {
	var out []*host.Message
	for i := range n {
		out = append(out, threadtest.WithID(fmt.Sprintf("m%d", i), fmt.Sprint(i)))
	}
	return out
}

func TestDeletedThreadMadeAnewIsEmpty(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	head := threadtest.Say(t, s, "t1", "r", threadtest.WithID("m", "old"))
	threadtest.Answer(t, s, "t1", "r", head, threadtest.WithID("n", "old answer"))
	// The deletion is interrupted after the thread is gone.
	n := 0
	d.before = func(kv.Tx) error {
		if n++; n > 1 {
			return context.Canceled
		}
		return nil
	}
	threadtest.WantCode(t, "Delete", s.For("").Delete(t.Context(), "t1"), host.Canceled)
	d.before = nil
	if loaded := threadtest.Load(t, s, "t1"); len(loaded.Messages) != 0 {
		t.Errorf("Get after Delete has %d messages", len(loaded.Messages))
	}
	threadtest.Say(t, s, "t1", "r", threadtest.WithID("m", "new")) // the same ids mean other messages now
	threadtest.WantCode(t, "AppendResults at the old head", s.AppendResults(t.Context(), threadtest.Request("t1", "r2", nil), threadtest.TurnOf(head, threadtest.WithID("x", "x"))), host.Conflict)
	threadtest.Answer(t, s, "t1", "r", "", threadtest.WithID("n", "new answer"))
	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "new", "new answer")

	// The next deletion goes on with what is left.
	threadtest.Say(t, s, "t2", "r", threadtest.WithID("m", "x"))
	if err := s.For("").Delete(t.Context(), "t2"); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	if err := s.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	if keys := threadtest.KeysUnder(t, d, threads.DefaultTenant, ""); len(keys) != 0 {
		t.Errorf("%d keys are left, the first is %s", len(keys), keys[0])
	}
}

// A thread is deleted while a turn on it is being written.
func TestDeleteDuringATurn(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	head := threadtest.Say(t, s, "t1", "r", threadtest.WithID("m", "x"))
	turn := threadtest.TurnOf(head, threadtest.WithID("n", "y"))
	turn.Artifacts = []host.Artifact{{Parts: []host.Part{&host.Data{Value: []byte(`"` + string(make600k()) + `"`)}}}}
	d.before = func(kv.Tx) error { // after the first piece, before the next
		d.before = nil
		return s.For("").Delete(t.Context(), "t1")
	}
	threadtest.WantCode(t, "AppendResults", s.AppendResults(t.Context(), threadtest.Request("t1", "r", nil), turn), host.Conflict)
	if keys := threadtest.KeysUnder(t, d, threads.DefaultTenant, ""); len(keys) != 0 {
		t.Errorf("%d keys are left, the first is %s", len(keys), keys[0])
	}
}

func make600k() []byte {
	b := make([]byte, 600_000)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

func TestDeleteWithoutTheDriver(t *testing.T) {
	d := &spy{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	threadtest.Talk(t, s, "t1", 1)
	d.before = func(kv.Tx) error { return errDisk }
	err := s.For("").Delete(t.Context(), "t1")
	threadtest.WantCode(t, "Delete", err, host.Internal)
	if !errors.Is(err, errDisk) {
		t.Errorf("Delete = %v, want its cause kept", err)
	}
	d.before = nil
	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "question 0", "answer 0")
}
