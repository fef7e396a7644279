package threads_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

// An agent's thread goes on after a restart, on disk, as it was.
func TestAgentThreadsSurviveReopening(t *testing.T) {
	dir := t.TempDir()
	model := hosttest.NewModel(hosttest.Say("R0"), hosttest.Say("R1"), hosttest.Say("R2"))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	head := ""
	for round := range 3 {
		s, done := openBadger(t, dir)
		var thread *host.AgentThread
		data, at, err := s.For("acme").LoadAgentThread(t.Context(), "u1")
		switch {
		case round == 0 && host.CodeOf(err) == host.NotFound:
			thread, err = agent.NewThread(t.Context(), &host.ThreadOptions{Tenant: "acme"})
		case err == nil && at == head:
			thread, err = agent.RestoreThread(t.Context(), data, &host.ThreadOptions{Tenant: "acme"})
		}
		if err != nil || thread == nil {
			t.Fatalf("round %d: %v, head %q, want %q", round, err, at, head)
		}
		if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: fmt.Sprint("Q", round), AgentThread: thread}); err != nil {
			t.Fatal(err)
		}
		if data, err = thread.Serialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if head, err = s.For("acme").SaveAgentThread(t.Context(), "u1", data, at); err != nil {
			t.Fatal(err)
		}
		done()
	}
	if n := len(model.Requests()[2].Messages); n != 5 {
		t.Errorf("the last run sees %d messages, want 5", n)
	}
}

func TestSerializedThreadsAreKeptAsTheyAre(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	for name, data := range map[string][]byte{
		"nothing":         {},
		"no JSON":         {0, 0xff, '"'},
		"a newer version": []byte(`{"version":99}`),
		"a piece":         bytes.Repeat([]byte{1, 2, 3}, threads.ChunkBytes/3),
		"many pieces":     bytes.Repeat([]byte("0123456"), threads.ChunkBytes),
	} {
		for _, key := range []string{name, "../" + name, strings.Repeat("x", threads.MaxThreadIDBytes)} {
			head, err := s.For("acme").SaveAgentThread(t.Context(), key, data, "")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, at, err := s.For("acme").LoadAgentThread(t.Context(), key)
			if err != nil || at != head || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, head %s, %v; want %d bytes, head %s", name, len(got), at, err, len(data), head)
			}
			if _, _, err := s.For("globex").LoadAgentThread(t.Context(), key); host.CodeOf(err) != host.NotFound {
				t.Errorf("%s: another tenant: %v", name, err)
			}
		}
	}
	first, err := s.For("acme").AgentThreads(t.Context(), "", 2)
	if err != nil || !slices.Equal(first, []string{"../a newer version", "../a piece"}) {
		t.Errorf("keys %q, %v", first, err)
	}
	rest, err := s.For("acme").AgentThreads(t.Context(), first[1], 0)
	if err != nil || len(rest) != 9 {
		t.Errorf("keys behind %q: %q, %v", first[1], rest, err)
	}
	for _, key := range append(first, rest...) {
		if err := s.For("acme").DeleteAgentThread(t.Context(), key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if n := entriesOf(t, d, "acme"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func entriesOf(t *testing.T, d kv.Driver, part string) (n int) {
	t.Helper()
	for _, err := range kv.All(t.Context(), d, part, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestSavingOverAnothersSaveIsAConflict(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	large := func(b byte) []byte { return bytes.Repeat([]byte{b}, 2*threads.ChunkBytes) }
	head, err := s.For("acme").SaveAgentThread(t.Context(), "u1", large('a'), "")
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.For("acme").SaveAgentThread(t.Context(), "u1", large('b'), head)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("acme").SaveAgentThread(t.Context(), "u1", []byte("late"), head); host.CodeOf(err) != host.Conflict {
		t.Errorf("%v; want code %s", err, host.Conflict)
	}
	before := entriesOf(t, d, "acme")
	if _, err := s.For("acme").SaveAgentThread(t.Context(), "u1", large('c'), head); host.CodeOf(err) != host.Conflict || entriesOf(t, d, "acme") != before {
		t.Errorf("a large one: %v; %d keys, before %d", err, entriesOf(t, d, "acme"), before)
	}
	if data, at, err := s.For("acme").LoadAgentThread(t.Context(), "u1"); err != nil || at != next || !bytes.Equal(data, large('b')) {
		t.Errorf("%d bytes, head %s, %v", len(data), at, err)
	}
	if _, err := s.For("acme").SaveAgentThread(t.Context(), "u1", []byte("small"), next); err != nil {
		t.Fatal(err)
	}
	if n := entriesOf(t, d, "acme"); n != 1 {
		t.Errorf("%d keys are left of one short thread", n)
	}
	if _, err := s.For("acme").SaveAgentThread(t.Context(), "u1", make([]byte, host.MaxThreadBytes+1), ""); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("too long: %v; want code %s", err, host.ResourceExhausted)
	}
	for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 257)} {
		if _, err := s.For("acme").SaveAgentThread(t.Context(), key, nil, ""); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("key %.10q: %v; want code %s", key, err, host.InvalidArgument)
		}
	}
}

// dying is a driver whose process dies after some commits.
type dying struct {
	kv.Driver
	lives int
}

func (d *dying) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if d.lives == 0 {
		out := make([]kv.Result, len(txs))
		for i := range out {
			out[i].Err = kv.ErrClosed
		}
		return out
	}
	d.lives--
	return d.Driver.Commit(ctx, txs...)
}

// A save that is interrupted leaves what was there, and no space for ever.
func TestAnInterruptedSaveLeavesTheOldThread(t *testing.T) {
	was, next := bytes.Repeat([]byte("a"), 3*threads.ChunkBytes), bytes.Repeat([]byte("b"), 3*threads.ChunkBytes)
	for lives := range 6 {
		s, d := threadtest.NewStore(t, nil)
		if _, err := s.For("acme").SaveAgentThread(t.Context(), "u1", was, ""); err != nil {
			t.Fatal(err)
		}
		_, err := threads.New(&dying{d, lives}, nil).For("acme").SaveAgentThread(t.Context(), "u1", next, "")
		want := was
		if lives >= 4 { // three pieces and the entry
			want = next
		}
		if data, _, err := s.For("acme").LoadAgentThread(t.Context(), "u1"); err != nil || !bytes.Equal(data, want) {
			t.Errorf("lives %d: %d bytes of %c, %v", lives, len(data), data[0], err)
		}
		if (err == nil) != (lives > 4) {
			t.Errorf("lives %d: %v", lives, err)
		}
		s.SetNow(func() time.Time { return time.Now().Add(2 * threads.StaleSave) })
		if err := s.For("acme").DeleteAgentThread(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
		if n := entriesOf(t, d, "acme"); n != 0 {
			t.Errorf("lives %d: %d keys are left", lives, n)
		}
	}
}

func TestADamagedAgentThreadIsFound(t *testing.T) {
	for name, damage := range map[string]func(e kv.Entry) kv.Write{
		"a piece is gone":     func(e kv.Entry) kv.Write { return kv.Delete(e.Key) },
		"a piece has changed": func(e kv.Entry) kv.Write { return kv.Put(e.Key, bytes.Repeat([]byte("x"), len(e.Value))) },
		"a piece is cut off":  func(e kv.Entry) kv.Write { return kv.Put(e.Key, e.Value[:7]) },
	} {
		s, d := threadtest.NewStore(t, nil)
		if _, err := s.For("acme").SaveAgentThread(t.Context(), "u1", make([]byte, 3*threads.ChunkBytes), ""); err != nil {
			t.Fatal(err)
		}
		for e, err := range kv.All(t.Context(), d, "acme", kv.Range{Prefix: kv.NewKey("threads", "piece")}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: "acme", Writes: []kv.Write{damage(e)}}); err != nil {
				t.Fatal(err)
			}
			break
		}
		if _, _, err := s.For("acme").LoadAgentThread(t.Context(), "u1"); host.CodeOf(err) != host.DataLoss {
			t.Errorf("%s: %v; want code %s", name, err, host.DataLoss)
		}
	}
}
