package bench

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Call makes the call that is timed. failed reports that the call answered with an
// error of its own, which is counted; err ends the measurement.
type Call func(ctx context.Context) (cost *host.Cost, failed bool, err error)

// Until says when a measurement ends: after Calls calls of each, or, if that is
// 0, after For.
type Until struct {
	Calls int
	For   time.Duration
}

// Stats are the measurements of one call.
type Stats struct {
	Calls        int     `json:"calls"`
	Failed       int     `json:"failed"`
	Seconds      float64 `json:"-"`
	DurationUS   int64   `json:"duration_us"` // the same
	PerSecond    float64 `json:"calls_per_second"`
	Latency      Latency `json:"latency_ns"`
	Instructions Range   `json:"instructions"`
	PeakMemory   int64   `json:"peak_memory_bytes"` // the largest of any call
	HostCalls    int     `json:"host_calls"`        // the most of any call
	OutputBytes  int     `json:"output_bytes"`      // the most of any call
}

// Latency is the distribution of how long calls took, in nanoseconds. Min, Max
// and Mean are exact, percentiles at most 1/64 too high.
type Latency struct {
	Min  int64 `json:"min"`
	Mean int64 `json:"mean"`
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// Range is the least, the mean and the most of something. Equal ends mean that
// every call had the same.
type Range struct {
	Min  int64 `json:"min"`
	Mean int64 `json:"mean"`
	Max  int64 `json:"max"`
}

// A turn is this many calls, or those that fit into turnTime: long enough to make the
// change of turns negligible, short enough for all calls to meet the same noise.
const (
	turnCalls = 64
	turnTime  = 10 * time.Millisecond
)

// Compare times calls in turns, each as often as the first: its turns are the
// clock. warm calls of each go before and do not count. The error is ctx's or the
// first of a call.
func Compare(ctx context.Context, warm int, until Until, calls ...Call) ([]Stats, error) {
	measured := make([]series, len(calls))
	for _, call := range calls {
		for range warm {
			if _, _, err := call(ctx); err != nil {
				return nil, err
			}
		}
	}
	for begun := time.Now(); ; {
		n := turnCalls
		if until.Calls > 0 {
			n = min(n, until.Calls-measured[0].Calls)
		}
		if n <= 0 || until.Calls == 0 && time.Since(begun) >= until.For {
			break
		}
		for i, call := range calls {
			ran, err := measured[i].turn(ctx, call, n, i == 0)
			if err != nil {
				return nil, err
			}
			n = ran
		}
	}
	stats := make([]Stats, len(calls))
	for i := range measured {
		stats[i] = measured[i].stats()
	}
	return stats, nil
}

// series has the measurements of one call so far.
type series struct {
	Stats
	took         time.Duration
	times        histogram
	instructions int64 // of all
}

// turn makes n calls, or, if short, at most as many as fit into turnTime.
func (s *series) turn(ctx context.Context, call Call, n int, short bool) (ran int, err error) {
	begun := time.Now()
	last := begun
	for ran < n && !(short && ran > 0 && last.Sub(begun) >= turnTime) {
		if err := ctx.Err(); err != nil {
			return ran, host.Errorf(host.Canceled, "interrupted: %w", err)
		}
		cost, failed, err := call(ctx)
		if err != nil {
			return ran, err
		}
		now := time.Now() // one clock reading a call: a call's end is the next one's beginning
		s.add(now.Sub(last), cost, failed)
		last = now
		ran++
	}
	s.took += last.Sub(begun)
	return ran, nil
}

func (s *series) add(took time.Duration, cost *host.Cost, failed bool) {
	s.times.add(took.Nanoseconds())
	if failed {
		s.Failed++
	}
	if cost == nil {
		cost = &host.Cost{}
	}
	if s.Calls == 0 || cost.Instructions < s.Instructions.Min {
		s.Instructions.Min = cost.Instructions
	}
	s.Instructions.Max = max(s.Instructions.Max, cost.Instructions)
	s.instructions += cost.Instructions
	s.PeakMemory = max(s.PeakMemory, cost.PeakMemory)
	s.HostCalls = max(s.HostCalls, cost.HostCalls)
	s.OutputBytes = max(s.OutputBytes, cost.OutputBytes)
	s.Calls++
}

func (s *series) stats() Stats {
	out := s.Stats
	out.Instructions.Mean = s.instructions / max(int64(s.Calls), 1)
	out.Seconds, out.DurationUS = s.took.Seconds(), s.took.Microseconds()
	if s.took > 0 {
		out.PerSecond = float64(s.Calls) / s.took.Seconds()
	}
	t := &s.times
	out.Latency = Latency{Min: t.min, Mean: t.mean(), P50: t.quantile(0.5), P90: t.quantile(0.9), P99: t.quantile(0.99), P999: t.quantile(0.999), Max: t.max}
	return out
}
