package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
)

// takes is a call that takes its times in turn, on the test's clock.
func takes(times ...time.Duration) Call {
	i := 0
	return func(context.Context) (*host.Cost, bool, error) {
		time.Sleep(times[i%len(times)])
		i++
		return &host.Cost{Instructions: int64(i), PeakMemory: 7, HostCalls: 2, OutputBytes: 3}, i%2 == 0, nil
	}
}

func TestCompareTimesEachAsOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats, err := Compare(t.Context(), 0, Until{Calls: 100}, takes(2*time.Millisecond), takes(time.Microsecond))
		if err != nil {
			t.Fatal(err)
		}
		slow, fast := stats[0], stats[1]
		if slow.Calls != 100 || fast.Calls != 100 || slow.Seconds != 0.2 || slow.PerSecond != 500 {
			t.Errorf("Compare = %+v, %+v; want 100 calls each, 500 a second of the first", slow, fast)
		}
		if slow.Latency.Min != 2e6 || slow.Latency.Max != 2e6 || slow.Latency.P999 != 2e6 {
			t.Errorf("latency of a call that takes 2ms = %+v", slow.Latency)
		}
		if slow.Failed != 50 || slow.Instructions != (Range{1, 50, 100}) || slow.PeakMemory != 7 || slow.HostCalls != 2 || slow.OutputBytes != 3 {
			t.Errorf("Compare = %+v; want 50 failed and the costs of the calls", slow)
		}
	})
}

func TestCompareEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats, err := Compare(t.Context(), 3, Until{For: 100 * time.Millisecond}, takes(5*time.Millisecond))
		if err != nil || stats[0].Calls != 20 {
			t.Errorf("Compare for 100ms of calls of 5ms = %+v, %v; want 20 calls", stats, err)
		}
	})
}

func TestCompareEndsWithAnErrorAndWithItsContext(t *testing.T) {
	broken := errors.New("broken")
	fails := func(context.Context) (*host.Cost, bool, error) { return nil, false, broken }
	if _, err := Compare(t.Context(), 0, Until{Calls: 1}, fails); !errors.Is(err, broken) {
		t.Errorf("Compare of a broken call = %v, want its error", err)
	}
	if _, err := Compare(t.Context(), 1, Until{Calls: 1}, fails); !errors.Is(err, broken) {
		t.Errorf("Compare that warms up a broken call = %v, want its error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compare(ctx, 0, Until{Calls: 1}, fails); host.CodeOf(err) != host.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("Compare with an ended context = %v, want canceled", err)
	}
}

// A quantile is that of the sorted numbers, at most a bucket's width above.
func TestQuantilesAreThoseOfTheSortedNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 300).Draw(t, "numbers")
		q := rapid.SampledFrom([]float64{0.001, 0.5, 0.9, 0.99, 1}).Draw(t, "q")
		var h histogram
		for _, v := range numbers {
			h.add(v)
		}
		slices.Sort(numbers)
		want := numbers[max(int(math.Ceil(q*float64(len(numbers)))), 1)-1]
		if got := h.quantile(q); got < want || got > want+want/64 {
			t.Fatalf("quantile(%v) of %v = %d, want %d or at most 1/64 more", q, numbers, got, want)
		}
		if h.min != numbers[0] || h.max != numbers[len(numbers)-1] {
			t.Fatalf("min, max = %d, %d of %v", h.min, h.max, numbers)
		}
	})
}

func TestOfNothing(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 || h.mean() != 0 {
		t.Error("a histogram of nothing has numbers")
	}
}
