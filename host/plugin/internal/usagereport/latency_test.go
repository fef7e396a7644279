package usagereport

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLatencyQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, 20_000_000), 1, 50).Draw(t, "us")
		q := rapid.Float64Range(0.01, 1).Draw(t, "q")
		var l Latency
		for _, us := range times {
			l[latencyBucket(time.Duration(us)*time.Microsecond)]++
		}
		got, under := l.Quantile(q), 0
		for _, us := range times {
			if d := time.Duration(us) * time.Microsecond; d < got || got == LatencyBound(latencyBuckets-1) {
				under++
			}
		}
		if float64(under) < q*float64(len(times))-1e-9 {
			t.Fatalf("Quantile(%v) of %v us = %s, which %d stay under", q, times, got, under)
		}
	})
	if d := new(Latency).Quantile(0.5); d != 0 {
		t.Errorf("the quantile of nothing is %s", d)
	}
}
