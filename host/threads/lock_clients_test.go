package threads_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/sockkv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// sharedStores are stores of one process that has the driver and of clients of it.
func sharedStores(t *testing.T, clients int) []*threads.Store {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	shared := sockkv.Share(kv.Group(testdriver.New(t)))
	shared.Serve(l)
	t.Cleanup(func() { _ = shared.Close() })
	stores := []*threads.Store{threads.New(shared, nil)}
	for range clients {
		c, err := sockkv.Dial(t.Context(), "unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		stores = append(stores, threads.New(c, nil))
	}
	return stores
}

// Turns of many clients on one thread wait for each other: each sees what the ones
// before it left, and none is lost.
func TestTurnsOfManyClientsWait(t *testing.T) {
	const turns = 10
	stores := sharedStores(t, 7)
	model := model(func(_ context.Context, view []*host.Message) ([]host.Part, error) {
		return []host.Part{&host.Text{Text: fmt.Sprint(len(view))}}, nil
	})
	agent, err := host.NewAgent("clerk", nil)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for i, s := range stores {
		history, err := host.NewHistory(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := host.New(&host.Options{SingleTenant: true, History: history, Model: model, Limits: unhurried})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for n := range turns {
				if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "t1", Text: fmt.Sprint(i, n)}); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
			}
		})
	}
	running.Wait()
	show, err := stores[0].For("").Show(t.Context(), "t1", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(show.Messages) != 2*turns*len(stores) || show.Thread.Turns != turns*len(stores) {
		t.Fatalf("%d messages of %d turns are there", len(show.Messages), show.Thread.Turns)
	}
	for i, m := range show.Messages {
		if i%2 == 1 && m.Text() != fmt.Sprint(i) {
			t.Errorf("answer %d was given to %s messages: it did not wait", i, m.Text())
		}
	}
}

// Who does not wait gets a conflict, whose ever turn runs.
func TestLocksOfOtherProcesses(t *testing.T) {
	stores := sharedStores(t, 1)
	req := &host.HistoryRequest{Thread: "t1"}
	for i, s := range stores {
		unlock, err := s.LockThread(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		other := stores[1-i]
		_, err = other.LockThread(t.Context(), &host.HistoryRequest{Thread: "t1", Racing: host.RaceConflict})
		threadtest.WantCode(t, "LockThread without waiting", err, host.Conflict)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		_, err = other.LockThread(ctx, req)
		threadtest.WantCode(t, "LockThread that is given up", err, host.Canceled)
		unlock()
		unlock, err = other.LockThread(t.Context(), req)
		if err != nil {
			t.Fatalf("LockThread of what is free = %v", err)
		}
		unlock()
	}
	long := &host.HistoryRequest{Thread: strings.Repeat("%", threads.MaxThreadIDBytes)}
	unlock, err := stores[1].LockThread(t.Context(), long)
	if err != nil {
		t.Fatalf("LockThread of the longest id = %v", err)
	}
	unlock()
}
