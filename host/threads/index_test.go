package threads_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// What the index adds to a commit of a kilobyte of text.
func BenchmarkIndexOfAKilobyte(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < 1000; i++ {
		fmt.Fprintf(&text, "word%d said and heard again ", i*i%1009)
	}
	for _, disabled := range []bool{true, false} {
		b.Run(fmt.Sprintf("disabled=%t", disabled), func(b *testing.B) {
			d := &spy{Driver: testdriver.New(b)}
			s := threads.New(d, &threads.Options{SearchDisabled: disabled})
			i := 0
			bytes, _, _ := d.measure(func() {
				for b.Loop() {
					threadtest.Say(b, s, "t1", "", threadtest.WithID(fmt.Sprint(i), text.String()))
					i++
				}
			})
			b.ReportMetric(float64(bytes)/float64(i), "kvbytes/op")
		})
	}
}
