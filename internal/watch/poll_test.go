package watch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/internal/watch"
)

func TestPollEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n := 0
		watch.Poll(ctx, 300*time.Millisecond, func() time.Duration { n++; return 300 * time.Millisecond })
		if n != 3 {
			t.Errorf("Poll looked %d times in a second, want 3", n)
		}
	})
}
