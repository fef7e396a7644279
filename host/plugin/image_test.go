package plugin

// What a restored instance is equal to can only be seen from inside.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/instancepool"
)

// stateOf is everything that calls can change of an instance.
func stateOf(inst *instance) (state []byte) {
	n := int(inst.guest.memory.Size())
	state = fmt.Appendf(nil, "%d bytes, depth %d, globals", n, inst.callStack.calls)
	for _, g := range inst.guest.globals {
		state = fmt.Appendf(state, " %x", g.Get())
	}
	return append(append(state, '\n'), inst.guest.bytes(n)...)
}

// runTool runs the tool of an instance outside the pools. A trap is no failure.
func runTool(t testing.TB, inst *instance, input string) error {
	t.Helper()
	inst.beginCall(t.Context(), &callRequest{export: abi.Tool, input: []byte(input)}, inst.plugin.runtime.began.Add(1<<60))
	_, _, err := inst.run(abi.Tool)
	return err
}

// statements draws code that changes memory, its size, and globals.
func statements(t *rapid.T) string {
	address := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(4000, 4200), rapid.IntRange(0, 3*pageBytes-8))
	var b strings.Builder
	for range rapid.IntRange(0, 8).Draw(t, "statements") {
		at, v := address.Draw(t, "at"), rapid.IntRange(0, 255).Draw(t, "value")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1:
			fmt.Fprintf(&b, "i32.const %d i32.const %d i32.store\n", at, v)
		case 2: // not beyond the first page, which is always there
			fmt.Fprintf(&b, "i32.const %d i32.const %d i32.const %d memory.fill\n", at%pageBytes/2, v, rapid.IntRange(0, pageBytes/2).Draw(t, "length"))
		case 3:
			fmt.Fprintf(&b, "i32.const %d i32.const %d i32.const 300 memory.copy\n", at%pageBytes/2, v)
		case 4:
			b.WriteString("i32.const 1 memory.grow drop\n")
		case 5:
			fmt.Fprintf(&b, "i32.const %d global.set 0\n", v)
		case 6:
			fmt.Fprintf(&b, "i64.const %d global.set 1\n", -v)
		case 7:
			fmt.Fprintf(&b, "i32.const %d f32.load global.set 2\n", at)
		case 8:
			fmt.Fprintf(&b, "i32.const %d f64.load global.set 3\n", at)
		case 9: // pages, what the data segments put there among them
			fmt.Fprintf(&b, "i32.const 4096 i32.const %d i32.const 40000 memory.fill\n", v%2)
		}
	}
	return b.String()
}

func TestRestoredIsFresh(t *testing.T) {
	rt := startRuntime(t, nil)
	rapid.Check(t, func(r *rapid.T) {
		start := "_initialize"
		section := ""
		if rapid.Bool().Draw(r, "start section") {
			start, section = "-", "start $s\n"
		}
		code := fmt.Sprintf(`memory %d 5
			global i32 mut 7
			global i64 mut -1
			global f32 mut 0
			global f64 mut 0
			global i32 42
			data 100 "some"
			data 4090 "more bytes"
			data 60000 "far away"
			%sfunc $s %s
			%s
			---
			%s
			i32.const 0`, rapid.IntRange(1, 3).Draw(r, "pages"), section, start, statements(r), statements(r))
		load := func() *Plugin {
			p, err := rt.Load(context.Background(), "x", handWritten(t, code), nil)
			if err != nil {
				r.Fatal(err)
			}
			return p
		}
		p := load()
		defer p.Close()
		first, err := p.newInstance(t.Context(), p.bindings.of("a"), &fairsched.Flow{})
		if err != nil {
			return // its start code traps
		}
		defer first.Close()
		want := stateOf(first)
		for range 3 {
			if runTool(t, first, "x") != nil {
				return // thrown away
			}
			if atMaximum := first.guest.memory.Size() == 5*pageBytes && first.image.memory.Size() < 5*pageBytes; first.restore() == atMaximum {
				r.Fatalf("restore = %t with %d bytes of memory; the image has %d", !atMaximum, first.guest.memory.Size(), first.image.memory.Size())
			} else if atMaximum {
				return
			}
			if got := stateOf(first); !bytes.Equal(got, want) {
				r.Fatalf("restored: %.100q\nfresh: %.100q\nthey differ at %d", got, want, difference(got, want))
			}
		}
		second, err := p.newInstance(t.Context(), p.bindings.of("b"), &fairsched.Flow{})
		if err != nil {
			r.Fatal(err)
		}
		defer second.Close()
		if got := stateOf(second); !bytes.Equal(got, want) {
			r.Fatalf("made of the image: %.100q\nby its start code: %.100q\nthey differ at %d", got, want, difference(got, want))
		}
	})
}

func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// grower answers with its memory's size in pages and a byte that it finds in the
// last one, changes that, and grows.
const grower = `memory 2 9
	---
	i32.const 0 memory.size i32.store8
	i32.const 1 i32.const 131000 i32.load8_u i32.store8
	i32.const 131000 i32.const 255 i32.store8
	i32.const 3 memory.grow drop
	memory.size i32.const 16 i32.shl i32.const 1 i32.sub i32.const 9 i32.store8
	i32.const 0 i32.const 2 call $output_write
	i32.const 0`

func loadIsolated(t testing.TB, rt *Runtime, code string, isolation Isolation, limits Limits) *Plugin {
	t.Helper()
	limits.Timeout = cmp.Or(limits.Timeout, time.Minute) // calls are not to end because the machine is busy
	p, err := rt.Load(context.Background(), "hand", handWritten(t, code), &LoadOptions{Isolation: isolation, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFreshCallsFindNothing(t *testing.T) {
	const sequel = "\x02\x00" // two pages, and zero
	t.Run("in memory that grew, with one instance for all tenants", func(t *testing.T) {
		p := loadIsolated(t, startRuntime(t, nil), grower, IsolationFresh, Limits{})
		calls(t, p, "a", "")
		kept := p.instances.Idle()[0]
		for i := range 10 {
			if got := calls(t, p, fmt.Sprint(i), ""); got != sequel {
				t.Fatalf("call %d finds %q, want %q", i, got, sequel)
			}
		}
		if idle := p.instances.Idle(); len(idle) != 1 || idle[0] != kept {
			t.Errorf("the instance was not used again")
		}
		if n := p.instances.Count().Tenants; kept.tenant != "" || n != 0 {
			t.Errorf("the instance belongs to tenant %q, and %d pools are kept", kept.tenant, n)
		}
	})
	for _, c := range []struct{ name, code string }{
		{"in memory at its maximum", strings.Replace(grower, "memory 2 9", "memory 2 5", 1)},
		{"though the module writes a table", strings.Replace(grower, "---", "table 2 funcref\n---\ni32.const 0 ref.null funcref table.set 0", 1)},
		{"though the module drops a segment", strings.Replace(grower, "---", "passive \"x\"\n---\ndata.drop 0", 1)},
		{"though it keeps a reference", strings.Replace(grower, "---", "global externref mut null\n---", 1)},
		{"though it closes a file", "import wasi_snapshot_preview1 fd_close i32 -> i32 as $close\n" +
			strings.Replace(grower, "---", "---\ni32.const 1 call $close drop", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := loadIsolated(t, startRuntime(t, nil), c.code, IsolationFresh, Limits{})
			for i := range 3 {
				if got := calls(t, p, "a", ""); got != sequel {
					t.Fatalf("call %d finds %q, want %q", i, got, sequel)
				}
			}
			if IdleInstances(p) != 0 {
				t.Errorf("%d instances are kept, which cannot be restored", IdleInstances(p))
			}
		})
	}
	t.Run("of what a failed call left", func(t *testing.T) {
		p := loadIsolated(t, startRuntime(t, nil), strings.Replace(grower, "---", "---\nlocal.get 0 if i32.const 131000 i32.const 7 i32.store8 unreachable end", 1), IsolationFresh, Limits{})
		calls(t, p, "a", "")
		if _, err := p.Call(t.Context(), "a", "tool", []byte("x"), nil); host.CodeOf(err) != host.Internal {
			t.Fatalf("Call = %v, want a trap", err)
		}
		if got := calls(t, p, "a", ""); got != sequel || IdleInstances(p) != 1 {
			t.Errorf("after a trap a call finds %q, want %q; %d instances are idle, want 1", got, sequel, IdleInstances(p))
		}
	})
}

// With as many idle instances as may be, a tenant gets one of another's,
// restored.
func TestTenantsTakeRestoredInstances(t *testing.T) {
	p := loadIsolated(t, startRuntime(t, nil), counter, IsolationReuse, Limits{MaxIdle: 1})
	for range 2 {
		calls(t, p, "a", "")
	}
	inst := p.instances.Idle()[0]
	if got := calls(t, p, "b", ""); got != "1" {
		t.Errorf("another tenant's first call is number %s", got)
	}
	if p.instances.Idle()[0] != inst || inst.tenant != "b" {
		t.Errorf("it did not get the only instance")
	}
}

// A plugin with the real clock or random bytes gets no image of code that has
// used them.
func TestImagesKnowNoRandomBytes(t *testing.T) {
	manifest := strings.Replace(toolManifest, `"state":"write"`, `"state":"write","random":true`, 1)
	code := "import wasi_snapshot_preview1 random_get i32 i32 -> i32 as $random\n" + fmt.Sprintf("custom agenthost.manifest %q", manifest) + `
		func $init _initialize
		i32.const 0 i32.const 8 call $random drop
		---
		i32.const 0 i32.const 8 call $output_write
		i32.const 0`
	for _, granted := range []bool{false, true} {
		rt := startRuntime(t, nil)
		p, err := rt.Load(t.Context(), "hand", handWritten(t, code), &LoadOptions{Isolation: IsolationFresh, Granted: Permissions{Random: granted}})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i := range 3 {
			seen[calls(t, p, fmt.Sprint(i), "")] = true
		}
		if granted && (len(seen) != 3 || IdleInstances(p) != 0) || !granted && (len(seen) != 1 || IdleInstances(p) != 1) {
			t.Errorf("granted %t: three calls have %d seeds, and %d instances are kept", granted, len(seen), IdleInstances(p))
		}
	}
}

// Start-up code reads virtual time, also of a tenant with the real clock: it is
// imaged, and what it has read is the same in every instance. Calls read the real
// one, which does not stand before what start-up was told.
func TestImagesAreOfNoTime(t *testing.T) {
	manifest := strings.Replace(toolManifest, `"state":"write"`, `"state":"write","clock":true`, 1)
	code := "import wasi_snapshot_preview1 clock_time_get i32 i64 i32 -> i32 as $time\n" + fmt.Sprintf("custom agenthost.manifest %q", manifest) + `
		func $init _initialize
		i32.const 0 i64.const 0 i32.const 0 call $time drop
		i32.const 1 i64.const 0 i32.const 8 call $time drop
		---
		i32.const 0 i64.const 0 i32.const 16 call $time drop
		i32.const 1 i64.const 0 i32.const 24 call $time drop
		i32.const 0 i32.const 32 call $output_write
		i32.const 0`
	for _, granted := range []bool{false, true} {
		rt := startRuntime(t, nil)
		p, err := rt.Load(t.Context(), "hand", handWritten(t, code), &LoadOptions{Isolation: IsolationFresh, Granted: Permissions{Clock: granted}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			out := []byte(calls(t, p, fmt.Sprint(i), ""))
			read := func(at int) time.Duration { return time.Duration(binary.LittleEndian.Uint64(out[at:])) }
			if got := time.Unix(0, int64(read(0))).UTC().Year(); got != 2025 || read(8) > time.Second {
				t.Errorf("granted %t: start-up is told the year %d, and %s since the start", granted, got, read(8))
			}
			if year := time.Unix(0, int64(read(16))).Year(); (year == time.Now().Year()) != granted {
				t.Errorf("granted %t: a call is told the year %d", granted, year)
			}
			if granted && read(24) < read(8) {
				t.Errorf("monotonic time went back from %s to %s", read(8), read(24))
			}
		}
		if n := IdleInstances(p); n != 1 {
			t.Errorf("granted %t: %d instances are kept, want 1 that is restored for each call", granted, n)
		}
		did, err := p.StartUp(t.Context())
		if err != nil || !did.Clock || did.Random || !did.Image || did.Instructions == 0 {
			t.Errorf("granted %t: start-up is reported as %+v, %v", granted, did, err)
		}
	}
}

// What start-up does is known without a call, also of a plugin that does not describe
// itself, and random bytes are told apart from clocks.
func TestStartUpIsReported(t *testing.T) {
	for reads, want := range map[string]StartUp{
		"": {Image: true},
		`func $init _initialize
			i32.const 0 i32.const 8 call $random drop`: {Image: true, Random: true},
		`func $init _initialize
			i32.const 0 i64.const 0 i32.const 0 call $time drop`: {Image: true, Clock: true},
	} {
		rt := startRuntime(t, nil)
		p, err := rt.Load(t.Context(), "hand", handWritten(t, "import wasi_snapshot_preview1 clock_time_get i32 i64 i32 -> i32 as $time\n"+
			"import wasi_snapshot_preview1 random_get i32 i32 -> i32 as $random\n"+reads+"\n---\ni32.const 0"), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.StartUp(t.Context())
		if got.Instructions = 0; err != nil || got != want {
			t.Errorf("start-up that does %q is reported as %+v, %v; want %+v", reads, got, err, want)
		}
	}
}

func TestMemoryOfAllInstancesIsBounded(t *testing.T) {
	rt := startRuntime(t, &Options{TotalMemoryBytes: 12 * pageBytes})
	p := loadIsolated(t, rt, `memory 2 9
		---
		i32.const 0 i32.const 1 memory.grow i32.store8
		i32.const 0 i32.const 1 call $output_write
		i32.const 0`, IsolationReuse, Limits{})
	for i, want := range []string{"\x02", "\x03", "\x04", "\x05", "\xff"} { // half is left for others
		if got := calls(t, p, "a", ""); got != want {
			t.Errorf("call %d: memory.grow answers %q, want %q", i, got, want)
		}
	}
	for range 2 { // its instance is not kept: half of all is in use
		if got := calls(t, p, "b", ""); got != "\x02" {
			t.Errorf("memory.grow of another tenant answers %q, want that it had 2", got)
		}
	}
	large := loadIsolated(t, rt, "memory 7 9\n---\ni32.const 0", IsolationReuse, Limits{})
	_, err := large.Call(t.Context(), "b", "tool", nil, nil)
	if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(fmt.Sprint(err), "TotalMemoryBytes") {
		t.Errorf("an instance beyond the limit: %v, want resource_exhausted that names it", err)
	}
	p.Close()
	large.Close()
	if used := rt.memories.Used(); used != 0 {
		t.Errorf("%d bytes are in use after the last plugin is closed", used)
	}
}

// An instance that no call uses is closed after a while.
func TestIdleInstancesAreRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := startRuntime(t, nil)
		p := loadIsolated(t, rt, counter, IsolationReuse, Limits{IdleTime: 10 * time.Second})
		calls(t, p, "a", "")
		time.Sleep(7 * time.Second)
		calls(t, p, "b", "")
		time.Sleep(7 * time.Second)
		got := calls(t, p, "b", "")
		if c := p.instances.Count(); got != "2" || c.Idle != 1 || c.Live != 1 {
			t.Errorf("after 14 s call %s of b, %d instances idle and %d live; want 2, 1 and 1", got, c.Idle, c.Live)
		}
		time.Sleep(30 * time.Second)
		if c := p.instances.Count(); c != (instancepool.Counts{}) {
			t.Errorf("after 44 s there are %+v, want none", c)
		}
		if used := rt.memories.Used(); used != 0 {
			t.Errorf("%d bytes of linear memory are in use, want 0", used)
		}
	})
}

// Idle instances make room for one that is needed.
func TestIdleInstancesGiveTheirMemory(t *testing.T) {
	rt := startRuntime(t, &Options{TotalMemoryBytes: 2 * pageBytes})
	p := loadIsolated(t, rt, counter, IsolationReuse, Limits{})
	for _, tenant := range []string{"a", "b", "c"} {
		if got := calls(t, p, tenant, ""); got != "1" {
			t.Errorf("first call of tenant %s: %s", tenant, got)
		}
	}
}
