package nesting_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/internal/nesting"
)

func TestEachRunsAllWithinTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, ran atomic.Int32
		slots := make(chan struct{}, 3)
		nesting.Each(t.Context(), slots, 10, func(int) {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			ran.Add(1)
		})
		if ran.Load() != 10 || most.Load() != 3 || len(slots) != 0 {
			t.Errorf("%d ran, %d at once, %d slots are taken", ran.Load(), most.Load(), len(slots))
		}
	})
}

func TestEachSurvivesWhatEndsItsGoroutine(t *testing.T) {
	var ran atomic.Int32
	nesting.Each(t.Context(), make(chan struct{}, 2), 10, func(i int) {
		ran.Add(1)
		if i%2 == 0 {
			runtime.Goexit()
		}
	})
	if ran.Load() != 10 {
		t.Errorf("%d ran, want 10", ran.Load())
	}
}

func TestEachWaitsForNoSlotAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	full := make(chan struct{}, 1)
	full <- struct{}{}
	ran := 0
	nesting.Each(ctx, full, 1, func(int) { ran++ })
	if ran != 1 || len(full) != 1 {
		t.Errorf("%d ran, %d slots are taken", ran, len(full))
	}
}
