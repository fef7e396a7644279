package retry_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/internal/retry"
)

func TestWaitsDoubleUpToTheLast(t *testing.T) {
	const second = time.Second
	for _, row := range []struct {
		first, last time.Duration
		failures    int
		want        time.Duration // at least, and a quarter more at most
	}{
		{second, 10 * second, 1, second},
		{second, 10 * second, 2, 2 * second},
		{second, 10 * second, 4, 8 * second},
		{second, 10 * second, 5, 10 * second},
		{second, 10 * second, math.MaxInt, 10 * second},
		{second, math.MaxInt64 / 2, 1000, math.MaxInt64 / 2}, // doubling does not overflow
		{math.MaxInt64, math.MaxInt64, 1, math.MaxInt64 / 2}, // nor does the jitter
		{10 * second, second, 1, second},
		{0, 0, 3, 0},
	} {
		for range 20 {
			got := (retry.Backoff{First: row.first, Last: row.last, Later: 0.25}).Wait(row.failures)
			if got < row.want || got > row.want+row.want/4 {
				t.Errorf("Backoff{%v, %v}.Wait(%d) = %v, want %v and at most a quarter more", row.first, row.last, row.failures, got, row.want)
			}
		}
	}
}

func TestJitterGoesBothWays(t *testing.T) {
	b := retry.Backoff{First: time.Second, Last: time.Minute, Earlier: 0.5, Later: 0.5}
	var shorter, longer bool
	for range 1000 {
		switch d := b.Wait(1); {
		case d < time.Second/2 || d > 3*time.Second/2:
			t.Fatalf("Wait(1) = %v, more than half away from a second", d)
		case d < time.Second:
			shorter = true
		case d > time.Second:
			longer = true
		}
	}
	if !shorter || !longer {
		t.Errorf("1000 waits: some shorter %t, some longer %t", shorter, longer)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if retry.Sleep(ctx, time.Hour) {
		t.Error("Sleep said that an hour has passed")
	}
	if !retry.Sleep(t.Context(), 0) {
		t.Error("Sleep(0) did not end by itself")
	}
}
