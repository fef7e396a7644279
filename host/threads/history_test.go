package threads_test

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/threads"
)

func TestHistoryKit(t *testing.T) {
	opts := &hosttest.HistoryOptions{Status: func(t *testing.T, adapter any, tenant, thread string) host.FinishReason {
		show, err := adapter.(*threads.Store).Show(t.Context(), tenant, thread, 0)
		if err != nil || len(show.Snapshots) == 0 {
			t.Fatalf("Show = %+v, %v", show, err)
		}
		return show.Snapshots[len(show.Snapshots)-1].FinishReason
	}}
	t.Run("memory", func(t *testing.T) {
		hosttest.TestHistory(t, func(t *testing.T) any {
			s, _ := newStore(t, nil)
			return s
		}, opts)
	})
	t.Run("badger", func(t *testing.T) {
		hosttest.TestHistory(t, func(t *testing.T) any {
			s, done := openBadger(t, t.TempDir())
			t.Cleanup(done)
			return s
		}, opts)
	})
}
