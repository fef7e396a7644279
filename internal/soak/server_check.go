//go:build linux

package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/chat"
)

// The check of the promises after the faults.

// endRuns waits for the ends of the durable runs that have begun. One that the server does
// not know has ended some time ago: its turn is in its thread.
func (s *serverSoak) endRuns(ctx context.Context) error {
	for since := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		s.mu.Lock()
		ids := make(map[string]string, len(s.pending))
		for id, turn := range s.pending {
			ids[id] = turn
		}
		s.mu.Unlock()
		running := 0
		for id := range ids {
			if s.follow(ctx, id, 1) {
				running++
			}
		}
		if running == 0 || time.Since(since) > settleLimit {
			return ctx.Err()
		}
	}
}

// checkThreads compares the threads with the acknowledged turns.
func (s *serverSoak) checkThreads(ctx context.Context) error {
	threads := map[string]*storedThread{}
	read := func(thread string) (t *storedThread, err error) {
		if t = threads[thread]; t == nil {
			t, err = s.readThread(ctx, thread)
			threads[thread] = t
		}
		return t, err
	}
	for name, thread := range s.acked {
		t, err := read(thread)
		if err != nil {
			return err
		}
		if t.asks[name] != 1 || t.answers[name] != 1 {
			s.broke("turn %s of thread %s: it was completed, and the thread has it %d times with %d answers", name, thread, t.asks[name], t.answers[name])
		}
	}
	for id, turn := range s.pending {
		thread, name, _ := strings.Cut(turn, " ")
		t, err := read(thread)
		if err != nil {
			return err
		}
		if t.turns[id] == "" {
			s.broke("turn %s of thread %s: its durable run began and never ended; the thread has it %d times with %d answers", name, thread, t.asks[name], t.answers[name])
		}
	}
	for thread, t := range threads {
		for name, n := range t.asks {
			if n > 1 || t.answers[name] > 1 {
				s.broke("turn %s of thread %s is there %d times with %d answers", name, thread, n, t.answers[name])
			}
		}
	}
	return nil
}

// storedThread counts the messages of each turn in a thread.
type storedThread struct {
	asks, answers map[string]int
	turns         map[string]string // their statuses, by run
}

func (s *serverSoak) readThread(ctx context.Context, thread string) (*storedThread, error) {
	resp, raw, err := s.ask(ctx, s.current(), http.MethodGet, "/v1/threads/"+thread+"/messages?limit=1000", nil, "", false)
	if err != nil {
		return nil, err
	}
	var page struct {
		Messages  []*chat.Message `json:"messages"`
		Snapshots []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(raw, &page); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read thread %s: %d %.300s", thread, resp.StatusCode, raw)
	}
	t := &storedThread{asks: map[string]int{}, answers: map[string]int{}, turns: map[string]string{}}
	for _, m := range page.Messages {
		if name, ok := strings.CutPrefix(m.Text(), askPrefix); ok && m.Role == chat.User {
			t.asks[name]++
		}
		if text, ok := strings.CutPrefix(m.Text(), answerPrefix); ok {
			name, _, _ := strings.Cut(text, ": ")
			t.answers[name]++
		}
	}
	for _, snapshot := range page.Snapshots {
		t.turns[snapshot.ID] = snapshot.Status
	}
	return t, nil
}
