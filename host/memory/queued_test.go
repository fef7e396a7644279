package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

// queued is a store behind a queue that runs.
func queued(t *testing.T, s *memory.Store, driver kv.Driver) (*memory.Queued, *queue.Queue) {
	t.Helper()
	q := queue.New(driver, nil)
	memories := memory.NewQueued(s, q)
	q.Handle(memory.JobName, memories.HandleJob)
	if err := q.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return memories, q
}

func TestToolsAndProviderWriteThroughTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		s, err := memory.New(driver, nil)
		if err != nil {
			t.Fatal(err)
		}
		memories, q := queued(t, s, driver)
		remember := func(context.Context, *host.ObserveRequest) ([]memory.Change, error) {
			return []memory.Change{{Kind: memory.Add, Text: "Ada asked for tea."}}, nil
		}
		tools := memory.NewTools(memories, ofUser)
		agent := testhost.NewAgent(t, "butler", &host.AgentOptions{
			Tools: tools.Granular(), Providers: []host.Provider{memory.NewProvider("memories", memories, ofUser, &memory.ProviderOptions{Remember: remember})},
			Model: hosttest.NewModel(
				hosttest.Call("create_memories", `{"statements":["Ada drinks tea."]}`),
				hosttest.Call("recall_memories", `{"queries":["tea"]}`), hosttest.Say("Noted.")),
		})
		h := testhost.NewSingle(t, &host.Options{Queue: q})
		r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "I drink tea.", State: map[string]string{"user": "ada"}})
		if err != nil {
			t.Fatal(err)
		}
		got := results(r)
		var said []memory.Statement
		if err := json.Unmarshal([]byte(got[0]), &said); err != nil || len(said) != 1 || said[0].Statement != "Ada drinks tea." || said[0].ID == "" {
			t.Errorf("create_memories answers %s, %v", got[0], err)
		}
		wants(t, "recalled in the same run", got[1], `[]`)
		synctest.Wait()
		wants(t, "after the run", found(t, s, ada, "tea"), []string{"Ada drinks tea.", "Ada asked for tea."})
		if m, err := s.Get(t.Context(), ada, said[0].ID); err != nil || m.Text != "Ada drinks tea." {
			t.Errorf("Get of what was answered: %v, %v", m, err)
		}
	})
}

func TestQueuedChangesAreChecked(t *testing.T) {
	s := open(t, nil)
	memories, q := queued(t, s, testdriver.New(t))
	_, err := memories.Apply(t.Context(), memory.Scope{}, memory.Change{Kind: memory.Add, Text: "x"})
	wantCode(t, "no scope", err, host.InvalidArgument)
	_, err = memories.Apply(t.Context(), ada, memory.Change{Kind: memory.Add})
	wantCode(t, "no text", err, host.InvalidArgument)
	_, err = memories.Apply(t.Context(), ada, make([]memory.Change, memory.MaxChanges+1)...)
	wantCode(t, "too many", err, host.ResourceExhausted)
	if list, err := memories.Apply(t.Context(), ada); err != nil || len(list) != 0 {
		t.Errorf("nothing: %v, %v", list, err)
	}
	if n, err := q.Waiting(t.Context(), "acme"); err != nil || n != 0 {
		t.Errorf("%d jobs, %v", n, err)
	}
	for _, payload := range []string{`{`, `[]`, `{"scope":{"tenant":"globex","user":"ada"},"changes":[{"kind":"add","text":"x"}]}`} {
		if err := memories.HandleJob(t.Context(), &host.Job{Payload: []byte(payload), Scope: host.Scope{Tenant: "acme"}}); err == nil {
			t.Errorf("the job %s is done", payload)
		}
	}
}

// interrupted is a backend whose first write is done and reported as failed, as
// one whose process ended is.
type interrupted struct {
	memory.Backend
	failed bool
}

func (b *interrupted) Apply(ctx context.Context, scope memory.Scope, changes ...memory.Change) ([]*memory.Memory, error) {
	list, err := b.Backend.Apply(ctx, scope, changes...)
	if err == nil && !b.failed {
		b.failed = true
		err = errors.New("cut off")
	}
	return list, err
}

func TestQueuedChangesMayBeMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		s, err := memory.New(driver, nil)
		if err != nil {
			t.Fatal(err)
		}
		tea, walks := add(t, s, ada, "Ada drinks tea."), add(t, s, ada, "Ada walks.")
		_, q := queued(t, nil, driver)
		memories := memory.NewQueued(&interrupted{Backend: s}, q)
		q.Handle(memory.JobName, memories.HandleJob)
		if _, err := memories.Apply(t.Context(), ada, memory.Change{Kind: memory.Delete, ID: tea.ID},
			memory.Change{Kind: memory.Update, ID: walks.ID, Text: "Ada runs."}, memory.Change{Kind: memory.Add, Text: "Ada sings."}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		wants(t, "Ada", strings.Join(found(t, s, ada, "Ada"), " "), "Ada runs. Ada sings.")
		dead, err := q.Dead(t.Context(), "acme", 0)
		if err != nil || len(dead) != 0 {
			t.Errorf("dead: %v, %v", dead, err)
		}
		if _, err := memories.Apply(t.Context(), ada, memory.Change{Kind: memory.Update, ID: "nobody", Text: "x"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		dead, err = q.Dead(t.Context(), "acme", 0)
		if err != nil || len(dead) != 1 || dead[0].Error.Code != host.NotFound || dead[0].Attempts != 3 {
			t.Errorf("a change of what is not there: %+v, %v", dead, err)
		}
	})
}

// A job that was tried before is all or nothing all the same: what it was to
// delete stays if another of its changes cannot be made.
func TestQueuedChangesAreAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		s, err := memory.New(driver, nil)
		if err != nil {
			t.Fatal(err)
		}
		memories, q := queued(t, s, driver)
		tea, walks := add(t, s, ada, "Ada drinks tea."), add(t, s, ada, "Ada walks.")
		for _, changes := range [][]memory.Change{
			{{Kind: memory.Delete, ID: tea.ID}, {Kind: memory.Update, ID: "nobody", Text: "x"}},
			{{Kind: memory.Delete, ID: "nobody"}, {Kind: memory.Delete, ID: walks.ID}, {Kind: memory.Update, ID: "nobody", Text: "x"}},
		} {
			if _, err := memories.Apply(t.Context(), ada, changes...); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		wants(t, "Ada", strings.Join(found(t, s, ada, "Ada"), " "), "Ada walks. Ada drinks tea.")
		if dead, err := q.Dead(t.Context(), "acme", 0); err != nil || len(dead) != 2 {
			t.Errorf("dead: %v, %v; want both jobs", dead, err)
		}
		// What is not there any more needs no deletion.
		if _, err := memories.Apply(t.Context(), ada, memory.Change{Kind: memory.Delete, ID: "nobody"}, memory.Change{Kind: memory.Delete, ID: tea.ID}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		wants(t, "in the end", found(t, s, ada, "Ada"), []string{"Ada walks."})
	})
}
