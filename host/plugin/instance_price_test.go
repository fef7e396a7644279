package plugin

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/usage"
)

// Tables and elements count in the limit TotalMemoryBytes, and tables that code
// changes count at their largest.
func TestTablesAreCounted(t *testing.T) {
	for _, c := range []struct {
		name, code string
		want       int64
	}{
		{"tables", "table 1000 2000\ntable 500\n---\ni32.const 0", 1500 * entryBytes},
		{"elements", "table 1000 2000\nelem 0 $tool $tool\n---\ni32.const 0", 1000*entryBytes + 2*elementBytes},
		{"a table that grows", "table 1000 2000\n---\nref.null funcref i32.const 1 table.grow 0 drop i32.const 0", 2000 * entryBytes},
	} {
		rt := startRuntime(t, nil)
		p := loadIsolated(t, rt, c.code, IsolationReuse, Limits{})
		if _, err := p.Call(t.Context(), "a", "tool", nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := rt.memories.Used() - pageBytes; got != c.want {
			t.Errorf("%s: an idle instance counts for %d bytes beside its memory, want %d", c.name, got, c.want)
		}
		p.Close()
		if used := rt.memories.Used(); used != 0 {
			t.Errorf("%s: %d bytes are in use after the plugin is closed", c.name, used)
		}
	}
	rt := startRuntime(t, &Options{TotalMemoryBytes: 8 << 20})
	p := loadIsolated(t, rt, strings.Repeat("table 100000\n", 16)+"---\ni32.const 0", IsolationReuse, Limits{})
	if _, err := p.Call(t.Context(), "a", "tool", nil, nil); host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "TotalMemoryBytes") {
		t.Errorf("12.8 MB of tables under a limit of 8 MiB: %v, want resource_exhausted that names it", err)
	}
}

// A tenant's budget pays for what an instance is made of.
func TestInstancesCostWhatTheyAreMadeOf(t *testing.T) {
	for _, c := range []struct {
		name, declarations string
		least              int64
	}{
		{"nothing", "", 0},
		{"data", "memory 16 16\ndata 0 \"" + strings.Repeat("x", 1<<20) + "\"\n", dataPrice << 20},
		{"elements", "table 20000\nelem 0 " + strings.Repeat("$tool ", 20_000) + "\n", 20_000 * elementPrice},
		{"tables", strings.Repeat("table 100000\n", 16), 1_600_000 * entryPrice},
		{"globals", strings.Repeat("global i32 mut 1\n", 900), 900 * globalPrice},
	} {
		rt := startRuntime(t, nil)
		p := loadIsolated(t, rt, c.declarations+"---\nunreachable", IsolationReuse, Limits{})
		for range 2 { // each makes one
			before := spentBy(t, rt, "a", usage.Instructions)
			if _, err := p.Call(t.Context(), "a", "tool", nil, nil); err == nil || !strings.Contains(err.Error(), "unreachable") {
				t.Errorf("%s: a call ends with %v, want a trap", c.name, err)
			}
			if spent := spentBy(t, rt, "a", usage.Instructions) - before; spent < instancePrice+c.least/2 {
				t.Errorf("%s: a call that makes an instance costs %d, want %d for that", c.name, spent, c.least)
			}
		}
		if n := rt.scheduler.Stats().Free; n != rt.opts.Running {
			t.Errorf("%s: %d turns are free after the calls, want %d", c.name, n, rt.opts.Running)
		}
	}
}

// Data in pieces is what it was as a whole, whatever its pieces' borders are.
func TestDataInPieces(t *testing.T) {
	const piece = 256 << 10 // the longest segment of a metered module
	text := func(n int, c string) string { return strings.Repeat(c, n) }
	p := loadHand(t, `memory 32 32
		data 3 "`+text(piece-1, "a")+`"
		data `+"262150"+` "`+text(3*piece, "b")+`"
		data 1048600 "cc"
		---
		i32.const 0 i32.const 1048640 call $output_write
		i32.const 0`, Limits{})
	want := make([]byte, 1048640)
	copy(want[3:], text(piece-1, "a"))
	copy(want[262150:], text(3*piece, "b"))
	copy(want[1048600:], "cc")
	r, err := p.Call(t.Context(), "a", "tool", nil, nil)
	if err != nil || string(r.Output) != string(want) {
		t.Errorf("memory begins with other bytes than the segments have (%v)", err)
	}
}
