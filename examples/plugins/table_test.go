package plugins_test

// Scenario: the table of the five plugins in BENCHMARKS.md, which this file measures and writes.

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/pdk/js"
)

var writeTable = flag.Bool("table", false, "measure the table of BENCHMARKS.md, and write it there")

const (
	page      = "../../BENCHMARKS.md"
	tableHead = "| plugin | language | size | compile | load | call | instructions | memory |\n|---|---|---|---|---|---|---|---|\n"
)

// table returns the rows of the table in the page, and where they begin and end.
func table(t *testing.T) (text string, from, to int) {
	t.Helper()
	text = string(file(t, page))
	_, rest, found := strings.Cut(text, tableHead)
	if !found {
		t.Fatalf("%s has no table with the head\n%s", page, tableHead)
	}
	from = len(text) - len(rest)
	rows, _, _ := strings.Cut(rest, "\n\n")
	return text, from, from + len(rows) + 1
}

func TestTheTableOfLanguagesHasEveryPlugin(t *testing.T) {
	text, from, to := table(t)
	if *writeTable {
		var rows strings.Builder
		for _, name := range plugins {
			for _, l := range languages {
				rows.WriteString(measure(t, l, name).row(name, l.name))
			}
		}
		if err := os.WriteFile(page, []byte(text[:from]+rows.String()+text[to:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, name := range plugins {
		for _, l := range languages {
			if size := fmt.Sprintf("\n| %s | %s | ", name, l.name); !strings.Contains("\n"+text[from:to], size) {
				t.Errorf("%s has no row %q; run: go test ./examples/plugins -run TestTheTable -table", page, size)
			}
		}
	}
}

// measured is what a plugin takes.
type measured struct {
	size                 int
	compile, load, call  time.Duration
	instructions, memory int64
}

func (m *measured) row(name, language string) string {
	return fmt.Sprintf("| %s | %s | %.1f kB | %s | %s | %s | %s | %s KiB |\n", name, language,
		float64(m.size)/1e3, short(m.compile), short(m.load), short(m.call), grouped(m.instructions), grouped(m.memory>>10))
}

func short(d time.Duration) string {
	switch {
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0f µs", d.Seconds()*1e6)
}

// grouped writes a number with commas between thousands.
func grouped(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return grouped(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// timed are the steps of the transcripts whose calls are timed.
var timed = map[string]string{
	"translate": "a text is translated",
	"scores":    "and grows with each call",
	"redact":    "addresses and card numbers are hidden",
	"triage":    "a word of a rule names the agent",
	"remember":  "another wish is kept behind it",
}

// answered is how the host has answered an operation.
type answered struct {
	response []byte
	err      error
}

// measure compiles and loads a plugin, and makes a call of its transcript for half a second.
// The host's operations answer what they have answered the first time: neither server nor
// store are measured.
func measure(t *testing.T, l language, name string) *measured {
	wasm := l.guest(t, name)
	m := &measured{size: len(wasm), compile: timeLoad(t, wasm, "")}
	timeLoad(t, wasm, testcode.Dir()) // its code is there from now on
	loads := make([]time.Duration, 5)
	for i := range loads {
		loads[i] = timeLoad(t, wasm, testcode.Dir())
	}
	m.load = median(loads)

	p := load(t, wasm, granted)
	s, answers := record(t, p, name)
	var calls []time.Duration
	for began := time.Now(); time.Since(began) < time.Second/2; {
		n := 0
		replay := &plugin.CallOptions{Operate: func(context.Context, string, []byte, plugin.Operation) ([]byte, error) {
			n++
			return answers[n-1].response, answers[n-1].err
		}}
		start := time.Now()
		result, err := p.Call(t.Context(), "acme", s.export, s.input, replay)
		calls = append(calls, time.Since(start))
		if err != nil || result.GuestError {
			t.Fatalf("%s: %v, %s", name, err, result.Output)
		}
		m.instructions, m.memory = result.Cost.Instructions, max(m.memory, result.Cost.PeakMemory)
	}
	m.call = median(calls)
	return m
}

// record plays a transcript up to the step that is timed, and returns that and how the host
// has answered its operations.
func record(t *testing.T, p *plugin.Plugin, name string) (s step, answers []answered) {
	t.Helper()
	opts := &plugin.CallOptions{Own: host.NewProviderState(nil)}
	opts.Operate = func(ctx context.Context, op string, request []byte, next plugin.Operation) ([]byte, error) {
		response, err := next(ctx, op, request)
		answers = append(answers, answered{slices.Clone(response), err})
		return response, err
	}
	for _, s := range transcript(t, name) {
		answers = nil
		s.check(t, p, opts)
		if s.claim == timed[name] {
			return s, answers
		}
	}
	t.Fatalf("the transcript of %s has no step %q", name, timed[name])
	return s, nil
}

// timeLoad returns how long a new runtime takes to load a plugin, whose code may be in a
// directory.
func timeLoad(t *testing.T, wasm []byte, dir string) time.Duration {
	t.Helper()
	runtime, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: dir, Interpreters: [][]byte{js.Engine()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Close(t.Context()) }()
	began := time.Now()
	if _, err := runtime.Load(t.Context(), "five", wasm, &plugin.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
