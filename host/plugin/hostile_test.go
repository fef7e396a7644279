package plugin

// Scenario: handwritten guests fail, sleep and loop, and the host stops and discards
// them.

// Hostile guests, written by hand. These tests are inside the package because
// they write modules with its assembler, and look into its pools.

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// unhurried is how long a call of a test may take that is to end by itself: a busy machine does
// not run it for seconds.
const unhurried = time.Minute

// startRuntime starts a runtime that has a store and unhurried calls, whatever opts leave
// out, and closes it when the test ends.
func startRuntime(t testing.TB, opts *Options) *Runtime {
	t.Helper()
	complete := Options{}
	if opts != nil {
		complete = *opts
	}
	if complete.Store == nil {
		complete.Store = NewTestStore()
	}
	complete.Limits.Timeout = cmp.Or(complete.Limits.Timeout, unhurried)
	complete.Limits.StartTimeout = cmp.Or(complete.Limits.StartTimeout, unhurried)
	rt, err := NewRuntime(context.Background(), &complete)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("close runtime: %v", err)
		}
	})
	return rt
}

const toolManifest = `{"abi":1,"name":"hand","tools":[{"name":"t","description":""}],"permissions":{"state":"write"}}`

// handWritten assembles a plugin whose tool is the given code. What stands
// before a line with --- is declarations.
func handWritten(t testing.TB, code string) []byte {
	t.Helper()
	declarations, body, ok := strings.Cut(code, "---")
	if !ok {
		declarations, body = "", code
	}
	if !strings.Contains(declarations, "memory ") {
		declarations += "\nmemory 1 4"
	}
	if !strings.Contains(declarations, "custom ") {
		declarations += fmt.Sprintf("\ncustom agenthost.manifest %q", toolManifest)
	}
	var imports, others []string
	for line := range strings.Lines(declarations) {
		if strings.HasPrefix(strings.TrimSpace(line), "import ") {
			imports = append(imports, line)
		} else {
			others = append(others, line)
		}
	}
	return wasmtest.Assemble(t, strings.Join(imports, "\n")+`
		import agenthost_v1 input_read i32 i32 i32 -> i32 as $input_read
		import agenthost_v1 output_write i32 i32 as $output_write
		import agenthost_v1 host_call i32 i32 i32 i32 -> i64 as $host_call
		import agenthost_v1 host_read i32 i32 i32 -> i32 as $host_read
		import agenthost_v1 log i32 i32 i32 as $log
		export memory memory 0
		func $tool agenthost_tool i32 -> i32
		`+body+"\n"+strings.Join(others, "\n"))
}

func loadHand(t testing.TB, code string, limits Limits) *Plugin {
	t.Helper()
	return loadIsolated(t, startRuntime(t, nil), code, IsolationDefault, limits)
}

// long is a budget that only the clock ends.
const long = 1 << 50

// An instance whose call failed is not kept, and its error names the plugin;
// what such calls are is in testdata/hostile.
func TestFailedCallsLeaveNoInstance(t *testing.T) {
	for name, code := range map[string]string{
		"a trap":           `unreachable`,
		"a spent budget":   `loop br 0 end unreachable`,
		"a wrong range":    `i32.const 65532 i32.const 5 call $output_write i32.const 0`,
		"an unknown code":  `i32.const 2`,
		"a long recursion": `i32.const 0 call $tool i32.const 1 i32.add`,
	} {
		t.Run(name, func(t *testing.T) {
			p := loadHand(t, code, Limits{Instructions: 1_000_000})
			r, err := p.Call(t.Context(), "a", "tool", nil, nil)
			if err == nil || !strings.Contains(err.Error(), `plugin "hand"`) {
				t.Errorf("call: %v, want an error that names the plugin", err)
			}
			if r == nil || r.Output != nil {
				t.Errorf("result %+v, want one without output", r)
			}
			if n := IdleInstances(p); n != 0 {
				t.Errorf("%d instances are kept after a failed call", n)
			}
		})
	}
}

// With a real clock a sleep takes time, but not more than the call has.
func TestSleepEndsWithItsCall(t *testing.T) {
	manifest := `{"abi":1,"name":"n","tools":[{"name":"t","description":""}],"permissions":{"clock":true,"random":true}}`
	wasm := handWritten(t, "import wasi_snapshot_preview1 poll_oneoff i32 i32 i32 i32 -> i32 as $poll\n"+
		"data 88 \"\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x0f\"\n"+
		fmt.Sprintf("custom agenthost.manifest %q", manifest)+
		"\n---\ni32.const 64 i32.const 1024 i32.const 1 i32.const 16 call $poll drop i32.const 0")
	p, err := startRuntime(t, nil).Load(t.Context(), "x", wasm,
		&LoadOptions{Granted: Permissions{Clock: true, Random: true}, Limits: Limits{Timeout: 30 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = p.Call(t.Context(), "a", "tool", nil, nil)
	if took := time.Since(began); host.CodeOf(err) != host.DeadlineExceeded || took < 30*time.Millisecond || took > time.Minute {
		t.Errorf("a long sleep ends after %s with %v, want deadline_exceeded after 30 ms", took, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Call(ctx, "a", "tool", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a long sleep of a caller who has left ends with %v, want canceled", err)
	}
}

func TestStartCodeIsBounded(t *testing.T) {
	limits := Limits{StartTimeout: 20 * time.Millisecond, Instructions: long}
	const loop = "loop br 0 end"
	for _, c := range []struct{ name, code string }{
		{"describe", "custom other \"\"\nfunc $d agenthost_describe -> i32\n" + loop + " unreachable\n---\ni32.const 0"},
		{"the start function of a module that describes itself", "custom other \"\"\nstart $s\nfunc $s -\n" + loop + "\nfunc $d agenthost_describe -> i32\ni32.const 0\n---\ni32.const 0"},
		{"_initialize of a module that describes itself", "custom other \"\"\nfunc $s _initialize\n" + loop + "\nfunc $d agenthost_describe -> i32\ni32.const 0\n---\ni32.const 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := startRuntime(t, nil)
			_, err := rt.Load(t.Context(), "x", handWritten(t, c.code), &LoadOptions{Limits: limits})
			if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(fmt.Sprint(err), "limit StartTimeout of 20ms") {
				t.Errorf("load: %v, want deadline_exceeded that names StartTimeout", err)
			}
			if len(rt.compiler.codes) != 0 || len(rt.plugins) != 0 {
				t.Errorf("%d codes and %d plugins are left of what was refused", len(rt.compiler.codes), len(rt.plugins))
			}
		})
	}
	for _, c := range []struct{ name, code string }{
		{"the start function", "start $s\nfunc $s -\n" + loop + "\n---\ni32.const 0"},
		{"_initialize", "func $s _initialize\n" + loop + "\n---\ni32.const 0"},
	} {
		t.Run(c.name+" of a call", func(t *testing.T) {
			p := loadHand(t, c.code, limits)
			r, err := p.Call(t.Context(), "a", "tool", nil, nil)
			if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(fmt.Sprint(err), "limit StartTimeout of 20ms") {
				t.Errorf("call: %v, want deadline_exceeded that names StartTimeout", err)
			}
			if r.Cost == nil || r.Cost.Instructions == 0 {
				t.Errorf("cost %+v, want what the start has cost", r.Cost)
			}
		})
	}
}

func TestLoadRefusesExportsOfOtherTypesBeforeRunningThem(t *testing.T) {
	for name, code := range map[string]string{
		"agenthost_describe": "custom other \"\"\nfunc $d agenthost_describe i32 -> i32\nunreachable\n---\ni32.const 0",
		"_initialize":        "func $d _initialize i32\nunreachable\n---\ni32.const 0",
		"agenthost_route":    "func $d agenthost_route i32 i32 -> i32\nunreachable\n---\ni32.const 0",
	} {
		_, err := startRuntime(t, nil).Load(t.Context(), "x", handWritten(t, code), nil)
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(fmt.Sprint(err), "its export "+name+" is of type") {
			t.Errorf("load a module with another %s: %v", name, err)
		}
	}
}

// counter counts its calls in memory, and traps when it is called with a '!'.
const counter = `
	i32.const 100 i32.const 0 i32.const 1 call $input_read drop
	i32.const 100 i32.load8_u i32.const 33 i32.eq if unreachable end
	i32.const 200 i32.const 200 i32.load8_u i32.const 1 i32.add i32.store8
	i32.const 201 i32.const 200 i32.load8_u i32.const 48 i32.add i32.store8
	i32.const 201 i32.const 1 call $output_write
	i32.const 100 i32.load8_u i32.const 63 i32.eq`

// calls calls p and returns the output; an error is "error".
func calls(t *testing.T, p *Plugin, tenant, input string) string {
	t.Helper()
	r, err := p.Call(t.Context(), tenant, "tool", []byte(input), nil)
	if err != nil {
		return "error"
	}
	return string(r.Output)
}

func TestInstancesAreTheirTenants(t *testing.T) {
	p := loadHand(t, counter, Limits{})
	for i, c := range []struct{ tenant, input, want string }{
		{"a", "", "1"}, {"a", "", "2"}, {"b", "", "1"}, {"a", "", "3"}, {"b", "", "2"}, {"", "", "1"},
		{"a", "?", "4"}, // an error object's instance is kept
		{"a", "", "5"},
		{"a", "!", "error"}, // a trapped one is not
		{"a", "", "1"}, {"b", "", "3"},
	} {
		if got := calls(t, p, c.tenant, c.input); got != c.want {
			t.Errorf("call %d of tenant %q: %s, want %s", i, c.tenant, got, c.want)
		}
	}
}

func TestInstancesAreRetired(t *testing.T) {
	t.Run("when worn", func(t *testing.T) {
		p := loadHand(t, counter, Limits{MaxCallsPerInstance: 2})
		if got := calls(t, p, "a", "") + calls(t, p, "a", "") + calls(t, p, "a", ""); got != "121" {
			t.Errorf("three calls say %s, want 121", got)
		}
	})
	t.Run("when swollen", func(t *testing.T) {
		p := loadHand(t, "memory 1 16\n---\ni32.const 12 memory.grow drop"+counter, Limits{MemoryBytes: 16 * pageBytes})
		if got := calls(t, p, "a", "") + calls(t, p, "a", ""); got != "11" {
			t.Errorf("two calls say %s, want 11", got)
		}
	})
	t.Run("when other tenants' were used later", func(t *testing.T) {
		p := loadHand(t, counter, Limits{MaxIdle: 2})
		for i, c := range []struct{ tenant, want string }{
			{"a", "1"}, {"b", "1"}, {"a", "2"}, {"c", "1"}, // b goes
			{"a", "3"}, {"b", "1"}, // c goes
			{"c", "1"}, // a goes
			{"b", "2"}, {"a", "1"},
		} {
			if got := calls(t, p, c.tenant, ""); got != c.want {
				t.Errorf("call %d of tenant %s: %s, want %s", i, c.tenant, got, c.want)
			}
		}
	})
}

func TestTenantsWithoutInstancesAreForgotten(t *testing.T) {
	p := loadHand(t, counter, Limits{MaxIdle: 3})
	for i := range 100 {
		calls(t, p, fmt.Sprint(i), map[bool]string{true: "!"}[i%2 == 0])
	}
	if c := p.instances.Count(); c.Tenants != 3 || c.Idle != 3 {
		t.Errorf("%d pools and %d instances are kept of 100 tenants, want 3 and 3", c.Tenants, c.Idle)
	}
}

// emitter emits an event, and returns 0 or, if it was called with a byte of
// input, never.
const emitter = `data 0 "emit"
	data 16 "{\"kind\":\"k\"}"
	data 64 "{}"
	---
	i32.const 0 i32.const 4 i32.const 16 i32.const 12 call $host_call drop
	local.get 0 if loop br 0 end end
	i32.const 64 i32.const 2 call $output_write
	i32.const 0`

// gate is what a guest waits for in an emit.
type gate struct{ entered, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) options() *CallOptions {
	return &CallOptions{Emit: func(string, json.RawMessage) { g.entered <- struct{}{}; <-g.open }}
}

func TestCancelledCallsAreRecognised(t *testing.T) {
	cause := errors.New("the user has left")
	p := loadHand(t, emitter, Limits{Instructions: long, Timeout: time.Minute})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	opts := &CallOptions{Emit: func(string, json.RawMessage) { cancel(cause) }}
	_, err := p.Call(ctx, "a", "tool", []byte("x"), opts)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || host.CodeOf(err) != host.Canceled {
		t.Errorf("a call cancelled midway: %v, want canceled because %v", err, cause)
	}
	if _, err = p.Call(ctx, "a", "tool", []byte("x"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call cancelled before: %v, want canceled", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	_, err = p.Call(ctx, "a", "tool", []byte("x"), nil)
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "limit") {
		t.Errorf("a call past the caller's deadline: %v, want deadline_exceeded that names no limit", err)
	}
}

func TestCallsBeyondInstancesWait(t *testing.T) {
	p := loadHand(t, emitter, Limits{Instances: 1, Timeout: time.Minute})
	g := newGate()
	done := make(chan error, 2)
	call := func() {
		_, err := p.Call(context.Background(), "a", "tool", nil, g.options())
		done <- err
	}
	go call()
	<-g.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Call(ctx, "a", "tool", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a waiting call whose caller leaves: %v, want canceled", err)
	}
	if _, err := p.Call(t.Context(), "b", "tool", nil, nil); err != nil {
		t.Errorf("another tenant's call waits too: %v", err)
	}
	go call() // waits
	close(g.open)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestWaitingForAnInstanceEnds(t *testing.T) {
	p := loadHand(t, emitter, Limits{Instances: 1, Timeout: 10 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		done := make(chan error)
		go func() {
			_, err := p.Call(context.Background(), "a", "tool", []byte("x"), g.options())
			done <- err
		}()
		<-g.entered
		_, err := p.Call(t.Context(), "a", "tool", nil, nil)
		if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "Instances") {
			t.Errorf("a call that waits for ever: %v, want resource_exhausted that names Instances", err)
		}
		close(g.open)
		if err := <-done; host.CodeOf(err) != host.DeadlineExceeded {
			t.Errorf("a call whose host operation took too long: %v, want deadline_exceeded", err)
		}
	})
}

func TestCloseWaitsForCalls(t *testing.T) {
	rt := startRuntime(t, nil)
	p, err := rt.Load(t.Context(), "x", handWritten(t, emitter), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate()
	call, closed := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := p.Call(context.Background(), "a", "tool", nil, g.options())
		call <- err
	}()
	<-g.entered
	go func() { _ = rt.Close(context.Background()); close(closed) }()
	for _, err := p.Call(t.Context(), "b", "tool", nil, nil); host.CodeOf(err) != host.FailedPrecondition; _, err = p.Call(t.Context(), "b", "tool", nil, nil) {
		if err != nil {
			t.Fatalf("call while closing: %v", err)
		}
	}
	select {
	case <-closed:
		t.Error("closed with a call in progress")
	default:
	}
	close(g.open)
	if err := <-call; err != nil {
		t.Errorf("the call in progress: %v", err)
	}
	<-closed
	if _, err := rt.Load(t.Context(), "x", handWritten(t, emitter), nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("load into a closed runtime: %v", err)
	}
	p.Close() // twice
}

// keeper remembers the first byte that it was called with, and traps if it is
// called with another one.
const keeper = `
	i32.const 100 i32.const 0 i32.const 1 call $input_read drop
	i32.const 101 i32.load8_u i32.eqz if i32.const 101 i32.const 100 i32.load8_u i32.store8 end
	i32.const 101 i32.load8_u i32.const 100 i32.load8_u i32.ne if unreachable end
	i32.const 101 i32.const 1 call $output_write
	i32.const 0`

func TestManyTenantsAtOnce(t *testing.T) {
	const workers, tenants, each = 32, 8, 100
	rt := startRuntime(t, nil)
	wasm := handWritten(t, keeper)
	limits := Limits{Instances: 2, IdleInstances: 2, MaxIdle: 5, MaxCallsPerInstance: 7}
	load := func() *Plugin {
		p, err := rt.Load(context.Background(), "x", wasm, &LoadOptions{Limits: limits})
		if err != nil {
			t.Error(err)
		}
		return p
	}
	shared := load()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			tenant := string(rune('A' + w%tenants))
			for i := range each {
				p := shared
				if i%20 == w%20 {
					p = load()
				}
				r, err := p.Call(context.Background(), tenant, "tool", []byte(tenant), nil)
				if err != nil || string(r.Output) != tenant {
					t.Errorf("call of tenant %s: %q, %v", tenant, r.Output, err)
				}
				if p != shared {
					p.Close()
				}
			}
		})
	}
	wg.Wait()
	if len(rt.plugins) != 1 || len(rt.compiler.codes) != 1 || IdleInstances(shared) > limits.MaxIdle {
		t.Errorf("%d plugins, %d codes and %d instances are left", len(rt.plugins), len(rt.compiler.codes), IdleInstances(shared))
	}
}

func TestLoadingWhileClosing(t *testing.T) {
	wasm := handWritten(t, "custom other \"\"\ndata 0 "+fmt.Sprintf("%q", toolManifest)+
		fmt.Sprintf("\nfunc $d agenthost_describe -> i32\ni32.const 0 i32.const %d call $output_write i32.const 0\n---\ni32.const 0", len(toolManifest)))
	for range 20 {
		rt, err := NewRuntime(t.Context(), &Options{Limits: Limits{Timeout: unhurried, StartTimeout: unhurried}})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				p, err := rt.Load(t.Context(), "x", wasm, nil)
				if err != nil && host.CodeOf(err) != host.FailedPrecondition {
					t.Errorf("load: %v", err)
				}
				if err == nil {
					_, err := p.Call(t.Context(), "a", "tool", nil, nil)
					if err != nil && host.CodeOf(err) != host.FailedPrecondition {
						t.Errorf("call: %v", err)
					}
				}
			})
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

func TestLogIsBoundedAndClean(t *testing.T) {
	var lines []LogLine
	rt := startRuntime(t, &Options{Log: func(l LogLine) { lines = append(lines, l) }})
	run := func(code string, limits Limits) []LogLine {
		t.Helper()
		lines = nil
		p, err := rt.Load(t.Context(), "x", handWritten(t, code), &LoadOptions{Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Call(t.Context(), "acme", "tool", nil, nil); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	const hundred = `i32.const 100 local.set 0
		loop i32.const 1 i32.const 0 i32.const 1000 call $log local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end i32.const 0`
	total := 0
	for _, l := range run(hundred, Limits{LogBytes: 4500}) {
		total += len(l.Text)
	}
	if total > 4500+100 || len(lines) != 5 || !strings.HasSuffix(lines[4].Text, "(log limit reached)") {
		t.Errorf("%d lines of %d bytes in all, the last %.40q; want 5 of 4500, the last with a note", len(lines), total, lines[len(lines)-1].Text)
	}
	got := run(`data 0 "a\x1b[31m\x00b\u202ec\td\ne\xff"
		---
		i32.const 3 i32.const 0 i32.const 17 call $log i32.const 9 i32.const 0 i32.const 1 call $log i32.const 0`, Limits{})
	want := []LogLine{
		{Plugin: "x", Tenant: "acme", Export: "agenthost_tool", Level: slog.LevelError, Text: "a [31m b c\td\ne\ufffd"},
		{Plugin: "x", Tenant: "acme", Export: "agenthost_tool", Level: slog.LevelInfo, Text: "a"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("log %+q, want %+q", got, want)
	}
}

// Without grants time and randomness are the same in every call, and a sleep
// takes none.
func TestWorldIsTheSameInEveryCall(t *testing.T) {
	const code = `import wasi_snapshot_preview1 random_get i32 i32 -> i32 as $random
		import wasi_snapshot_preview1 clock_time_get i32 i64 i32 -> i32 as $time
		import wasi_snapshot_preview1 poll_oneoff i32 i32 i32 i32 -> i32 as $poll
		import wasi_snapshot_preview1 environ_sizes_get i32 i32 -> i32 as $environ
		import wasi_snapshot_preview1 args_sizes_get i32 i32 -> i32 as $args
		import wasi_snapshot_preview1 fd_prestat_get i32 i32 -> i32 as $prestat
		data 280 "\x00\xe4\x0b\x54\x02\x00\x00\x00"
		---
		i32.const 0 i32.const 16 call $random drop
		i32.const 0 i64.const 1 i32.const 16 call $time drop
		i32.const 256 i32.const 512 i32.const 1 i32.const 600 call $poll drop
		i32.const 0 i64.const 1 i32.const 24 call $time drop
		i32.const 32 i32.const 40 call $environ drop
		i32.const 36 i32.const 44 call $args drop
		i32.const 48 i32.const 3 i32.const 64 call $prestat i32.store8
		i32.const 0 i32.const 49 call $output_write
		i32.const 0`
	p := loadHand(t, code, Limits{})
	first := calls(t, p, "a", "")
	for range 3 {
		if again := calls(t, p, "a", ""); again != first {
			t.Errorf("a second call sees another world:\n%q\n%q", first, again)
		}
	}
	if other := calls(t, p, "b", ""); other != first {
		t.Errorf("another tenant sees another world:\n%q\n%q", first, other)
	}
	at := func(i int) (n int64) {
		for k := range 8 {
			n |= int64(first[i+k]) << (8 * k)
		}
		return n
	}
	if began := time.Unix(0, at(16)).UTC(); began.Format(time.DateTime) != "2025-01-01 00:00:00" {
		t.Errorf("the clock starts at %s, not at 2025", began)
	}
	origin := &CallOptions{Clock: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), Seed: 7}
	for range 2 {
		r, err := p.Call(t.Context(), "a", "tool", nil, origin)
		if err != nil {
			t.Fatal(err)
		}
		if began := time.Unix(0, int64(binary.LittleEndian.Uint64(r.Output[16:]))).UTC(); !began.Equal(origin.Clock.Add(time.Millisecond)) || string(r.Output[:16]) == first[:16] {
			t.Errorf("with a clock and a seed the call begins at %s, with the bytes %x", began, r.Output[:16])
		}
	}
	if again := calls(t, p, "a", ""); again != first {
		t.Errorf("a call after one with a clock sees another world:\n%q\n%q", first, again)
	}
	if slept := time.Duration(at(24) - at(16)); slept < 10*time.Second || slept > 10*time.Second+100*time.Millisecond {
		t.Errorf("after a sleep of 10 s the clock is %s on", slept)
	}
	if rest := first[32:48]; rest != strings.Repeat("\x00", 16) {
		t.Errorf("there are arguments or an environment: %q", rest)
	}
	if first[48] != 8 {
		t.Errorf("descriptor 3 answers %d, not EBADF", first[48])
	}
}

func TestCallsCostTheSame(t *testing.T) {
	var costs []int64
	for range 3 {
		p := loadHand(t, counter, Limits{})
		for range 2 {
			r, err := p.Call(t.Context(), "a", "tool", []byte("x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			costs = append(costs, r.Cost.Instructions)
		}
	}
	if costs[0] < 20 || slices.Min(costs) != slices.Max(costs) {
		t.Errorf("the same call costs %v instructions", costs)
	}
}
