package plugin

// Scenario: the hostile corpus and damaged modules run repeatedly, and the process does
// not grow.

// What the corpus leaves behind, and how far it goes past its deadlines.

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/longtest"
)

// hostileGrowth is what a process may have grown by in a repeat of the corpus: some 5 kB a
// case, a twelfth of a page of WebAssembly. A thousand repeats of BenchmarkHostileCorpus grow
// by less than that in all.
const hostileGrowth = 1 << 20

// corpusRun is the corpus, assembled once.
type corpusRun struct {
	*hostileRun
	engine   *hostileEngine
	cases    []*hostileCase
	modules  [][]byte
	past     []time.Duration // a deadline, each time
	worst    time.Duration   // of past
	worstOf  string
	slowest  time.Duration // where there is no deadline
	slowName string
}

func newCorpusRun(t testing.TB, e *hostileEngine) *corpusRun {
	t.Helper()
	r := &corpusRun{hostileRun: newHostileRun(t), engine: e}
	for _, c := range readCorpus(t) {
		if slices.Contains(c.engines, e.name) {
			r.cases = append(r.cases, c)
			r.modules = append(r.modules, e.assemble(t, c))
		}
	}
	return r
}

// once runs every case, and has the next tenant answer after each.
func (r *corpusRun) once() {
	r.t.Helper()
	for i, c := range r.cases {
		o := r.run(r.engine, c, r.modules[i])
		if host.CodeOf(o.err) != c.code && !c.answers {
			r.t.Errorf("%s ends with %v, want %s", c.name, o.err, c.code)
		}
		r.serveNext()
		over := o.took - c.deadline()
		if c.code == host.DeadlineExceeded {
			r.past = append(r.past, over)
			if over > r.worst {
				r.worst, r.worstOf = over, c.name
			}
		} else if over > r.slowest {
			r.slowest, r.slowName = over, c.name
		}
	}
}

func TestHostileCorpusLeavesNothingBehind(t *testing.T) {
	longtest.Need(t, "otherwise the corpus runs once, in TestHostileCorpus")
	const repeats = 2
	for _, e := range hostileEngines {
		t.Run(e.name, func(t *testing.T) {
			r := newCorpusRun(t, &e)
			r.once()
			r.once()
			before := measureFootprint()
			for range repeats {
				r.once()
			}
			after := measureFootprint()
			if grown := after.heap - before.heap; grown > repeats*hostileGrowth {
				t.Errorf("the heap has grown by %d bytes in %d repeats, want at most %d", grown, repeats, repeats*hostileGrowth)
			}
			if after.goroutines > before.goroutines {
				t.Errorf("there are %d goroutines, %d before", after.goroutines, before.goroutines)
			}
			if want := (repeats + 2) * len(r.cases); r.answered != want {
				t.Errorf("the next tenant was answered %d times, want %d", r.answered, want)
			}
		})
	}
}

// BenchmarkHostileCorpus runs the corpus again and again; 1,000 times with
// -benchtime 1000x. It reports how far cases went past their deadlines (starting
// an instance, which has a deadline of its own, is in it), the longest that one
// without a deadline took, and what the process has grown by since the second
// repeat. Run it alone: whatever else wants the processor shows in it.
func BenchmarkHostileCorpus(b *testing.B) {
	for _, e := range hostileEngines {
		b.Run(e.name, func(b *testing.B) {
			r := newCorpusRun(b, &e)
			r.once()
			r.once()
			r.worst, r.slowest, r.past = 0, 0, nil
			before := measureFootprint()
			for b.Loop() {
				r.once()
			}
			after := measureFootprint()
			slices.Sort(r.past)
			b.ReportMetric(float64(r.past[len(r.past)/2].Microseconds())/1000, "ms-past-deadline-median")
			b.ReportMetric(float64(r.past[len(r.past)*99/100].Microseconds())/1000, "ms-past-deadline-p99")
			b.ReportMetric(float64(r.worst.Microseconds())/1000, "ms-past-deadline-max")
			b.ReportMetric(float64(r.slowest.Microseconds())/1000, "ms-longest-other")
			b.ReportMetric(float64(after.heap-before.heap)/(1<<20), "MB-heap-grown")
			b.ReportMetric(float64(after.resident-before.resident)/(1<<20), "MB-resident-grown")
			b.ReportMetric(float64(len(r.cases)), "cases")
			b.Logf("furthest past its deadline: %s; longest of the others: %s", r.worstOf, r.slowName)
		})
	}
}

// damaged makes what a careless or a malicious copy makes of a module: cut off
// anywhere, with any bit flipped, with pieces moved.
func damaged(wasm []byte, yield func(name string, wasm []byte)) {
	for n := range wasm {
		yield("cut off", wasm[:n])
	}
	for i := range wasm {
		for bit := range 8 {
			b := slices.Clone(wasm)
			b[i] ^= 1 << bit
			yield("flipped", b)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		from, to := random.IntN(len(wasm)), random.IntN(len(wasm))
		n := random.IntN(len(wasm) - max(from, to))
		b := slices.Clone(wasm)
		copy(b[to:], wasm[from:from+n])
		yield("moved", b)
	}
}

// TestDamagedModules loads and calls a module in every way in which a byte of it
// can be wrong, or in a third of them: each is refused, or ends in an answer or a typed error.
func TestDamagedModules(t *testing.T) {
	r := newHostileRun(t)
	wasm := handWritten(t, `table 2
		elem 0 $g $g
		global i32 mut 7
		data 16 "hello"
		func $g -
		---
		i32.const 100 i32.const 0 local.get 0 call $input_read drop
		i32.const 3 local.set 0 loop local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end
		i32.const 100 i32.const 5 call $output_write i32.const 0`)
	limits := Limits{Timeout: 100 * time.Millisecond, Instructions: 1_000_000, StartTimeout: 100 * time.Millisecond, MemoryBytes: 1 << 20}
	loaded, refused, made := 0, 0, 0
	damaged(wasm, func(how string, wasm []byte) {
		if made++; made%longtest.Rounds(3, 1) != 0 {
			return
		}
		began := time.Now()
		p, err := r.runtime.Load(t.Context(), "damaged", wasm, &LoadOptions{Limits: limits})
		if err != nil {
			refused++
			if code := host.CodeOf(err); code == host.Internal || !code.Valid() {
				t.Errorf("%s: load ends with code %s: %v", how, code, err)
			}
		} else {
			loaded++
			_, err := p.Call(t.Context(), "a", "tool", []byte("12345"), nil)
			if err != nil && !host.CodeOf(err).Valid() {
				t.Errorf("%s: call ends with %v", how, err)
			}
			p.Close()
		}
		if took := time.Since(began); took > hostileTime {
			t.Errorf("%s: it takes %s", how, took)
		}
		if (loaded+refused)%100 == 0 {
			r.serveNext()
		}
	})
	if loaded == 0 || refused == 0 || r.answered == 0 {
		t.Errorf("%d were loaded, %d refused and %d calls answered beside them", loaded, refused, r.answered)
	}
}
