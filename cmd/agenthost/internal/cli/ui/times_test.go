package ui

import (
	"bytes"
	"testing"
	"time"
)

func TestTimesAreMilliseconds(t *testing.T) {
	var b bytes.Buffer
	err := PrintTimed(&b, struct {
		Took    time.Duration    `json:"duration_ns"`
		Wait    int64            `json:"wait_us"`
		Latency map[string]int64 `json:"latency_ns"`
		Text    string           `json:"text"`
		Bytes   int64            `json:"bytes"`
	}{1500 * time.Microsecond, 250, map[string]int64{"max": 2_000_001, "min": 0}, `a "wait_us":7 b`, 9})
	want := `{"duration_ms":1.5,"wait_ms":0.25,"latency_ms":{"max":2.000001,"min":0},"text":"a \"wait_us\":7 b","bytes":9}` + "\n"
	if err != nil || b.String() != want {
		t.Errorf("printed %s, %v; want %s", b.String(), err, want)
	}
}
