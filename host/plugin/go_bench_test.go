package plugin_test

// Scenario: Go guests are measured against raw wazero and native Go.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/agenthost/agenthost/host/plugin"
)

// A Go guest with encoding/json is what people write, and the hardest on a
// sandbox: it starts slowly, has megabytes of memory, and much of its time goes
// into small branches and calls. What follows is measured with one.

const historyGuest = "host/plugin/testdata/guests/history"

// conversation is about as many bytes of JSON.
func conversation(size int) []byte {
	type object = map[string]any
	var messages []object
	for n := 0; n < size; n += 420 {
		messages = append(messages, object{
			"id": "m" + strconv.Itoa(n), "role": []string{"user", "assistant"}[n%2], "meta": object{"a": 1.5, "b": []int{1, 2, 3}, "c": nil},
			"parts": []object{{"type": "text", "text": fmt.Sprintf("where is order %d? I have waited for it \"for weeks\" and \u00e4 nothing came %s", n, strings.Repeat("lorem ipsum ", 20))}},
		})
	}
	b, err := json.Marshal(messages)
	if err != nil {
		panic(err)
	}
	return b
}

// sideBySide calls functions in turn, so that all meet the same machine, and
// returns the median time of each.
func sideBySide(b *testing.B, calls ...func()) []time.Duration {
	times := make([][]time.Duration, len(calls))
	for b.Loop() {
		for i, call := range calls {
			began := time.Now()
			call()
			times[i] = append(times[i], time.Since(began))
		}
	}
	medians := make([]time.Duration, len(calls))
	for i, list := range times {
		medians[i] = median(list)
	}
	return medians
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkGoJSON has a Go guest decode and encode 100 kB of a conversation: here,
// on raw wazero without limits, on raw wazero that looks at a context's end, which
// is its own way to stop a guest, and the same code as a Go function. The bar is
// 1.3 times raw wazero.
func BenchmarkGoJSON(b *testing.B) {
	wasm, input := buildGuest(b, historyGuest), conversation(100_000)
	p := load(b, newRuntime(b, nil), "history", wasm, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	raw := rawGuest(b, context.Background(), wasm, wazero.NewRuntimeConfig(), input)
	closing := rawGuest(b, ctx, wasm, wazero.NewRuntimeConfig().WithCloseOnContextDone(true), input)
	ours := func() []byte {
		r, err := p.Call(context.Background(), "t", "tool", input, nil)
		if err != nil {
			b.Fatal(err)
		}
		return r.Output
	}
	if want := raw(); !bytes.Equal(ours(), want) || !bytes.Equal(want, reencoded(b, input)) {
		b.Fatal("they answer differently")
	}
	m := sideBySide(b, func() { ours() }, func() { raw() }, func() { closing() }, func() { reencoded(b, input) })
	for i, name := range []string{"ours-ms", "wazero-ms", "wazero-closing-ms", "go-ms"} {
		b.ReportMetric(float64(m[i].Microseconds())/1000, name)
	}
	b.ReportMetric(float64(m[0])/float64(m[1]), "times-wazero")
	b.ReportMetric(float64(m[2])/float64(m[1]), "closing-times-wazero")
	b.ReportMetric(0, "ns/op")
}

// reencoded is what the guest does.
func reencoded(b *testing.B, input []byte) []byte {
	var messages []struct {
		ID    string `json:"id"`
		Role  string `json:"role"`
		Parts []struct {
			Type string `json:"type"`
			Text string `json:"text,omitempty"`
		} `json:"parts"`
		Meta map[string]any `json:"meta,omitempty"`
	}
	if err := json.Unmarshal(input, &messages); err != nil {
		b.Fatal(err)
	}
	out, err := json.Marshal(messages)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// BenchmarkGoFresh is what fresh state costs a Go guest that imports os and
// encoding/json: bringing its memory and globals back after a call, the whole call
// beside one that finds what the last one left, and the change of the tenant of
// the only instance. A fresh Go guest has more to do itself, too: encoding/json
// makes its tables of types again, and the heap grows again. The bars are 40 us for
// each MB of memory, and 500 us for the change of the tenant.
func BenchmarkGoFresh(b *testing.B) {
	wasm := buildGuest(b, historyGuest)
	for _, size := range []int{400, 10_000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			input := conversation(size)
			rt, memory := newRuntime(b, nil), int64(0)
			open := func(isolation plugin.Isolation) func(tenant string) {
				p := load(b, rt, "history", wasm, &plugin.LoadOptions{Isolation: isolation, Limits: plugin.Limits{MaxIdle: 1}})
				call := func(tenant string) {
					r, err := p.Call(context.Background(), tenant, "tool", input, nil)
					if err != nil {
						b.Fatal(err)
					}
					memory = r.Cost.PeakMemory
				}
				for range 3 { // the image is there
					call("a")
				}
				return call
			}
			fresh, kept, shared := open(plugin.IsolationFresh), open(plugin.IsolationReuse), open(plugin.IsolationReuse)
			restored := must[*plugin.Restored](b)(plugin.NewRestored(b.Context(), load(b, rt, "history", wasm, nil)))
			defer restored.Close()
			var restoring, copying []time.Duration
			n := 0
			m := sideBySide(b, func() { fresh("a") }, func() { kept("a") }, func() { n++; shared(strconv.Itoa(n % 2)) }, func() {
				r, c := restored.Call(b, input)
				restoring, copying = append(restoring, r), append(copying, c)
			})
			us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
			b.ReportMetric(us(m[0]), "fresh-us")
			b.ReportMetric(us(m[1]), "kept-us")
			b.ReportMetric(us(m[2]), "other-tenant-us")
			b.ReportMetric(float64(memory)/1e6, "MB")
			b.ReportMetric(us(median(restoring)), "restore-us")
			b.ReportMetric(us(median(restoring))/(float64(memory)/1e6), "restore-us/MB")
			b.ReportMetric(us(median(copying))/(float64(memory)/1e6), "copy-us/MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestGoGuestsAreRestored keeps what BenchmarkGoFresh measures from being a new
// instance for each call: what the Go runtime and its os do as they start must
// not look like something that an image does not hold.
func TestGoGuestsAreRestored(t *testing.T) {
	p := load(t, newRuntime(t, nil), "history", buildGuest(t, historyGuest), &plugin.LoadOptions{Isolation: plugin.IsolationFresh})
	input, bill := conversation(5000), int64(0)
	for i := range 20 {
		r, err := p.Call(t.Context(), strconv.Itoa(i%3), "tool", input, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bill == 0 {
			bill = r.Cost.Instructions
		}
		if r.Cost.Instructions != bill {
			t.Errorf("call %d costs %d instructions, the first one %d", i, r.Cost.Instructions, bill)
		}
		if n := plugin.IdleInstances(p); n != 1 {
			t.Fatalf("after call %d there are %d idle instances, want the restored one", i, n)
		}
	}
}
