package plugin

// Scenario: a call, a load and a plugin's description run out of time in each of their
// phases.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// waiting is the host's side of a call whose operations end only with their
// context. It says which has begun.
type waiting func(op string)

func (begun waiting) operate(ctx context.Context, op string, _ []byte) ([]byte, error) {
	begun(op)
	<-ctx.Done()
	return nil, ctx.Err()
}

// operating is a guest that calls one operation again and again.
func operating(op string) string {
	return fmt.Sprintf("data 600 %q\n---\nloop i32.const 600 i32.const %d i32.const 0 i32.const 0 call $host_call drop br 0 end unreachable", op, len(op))
}

// callPhase is where a call can be when its time is up.
type callPhase struct {
	name  string
	code  string
	limit string // what bounds it, where the caller does not

	operation string // of the host, if it is there
}

// callPhases are all of them: the code that runs before the first call, the call, and
// every operation of the host.
func callPhases() []callPhase {
	const loop = "loop br 0 end"
	list := []callPhase{
		{"the start section", "start $s\nfunc $s -\n" + loop + "\n---\ni32.const 0", "StartTimeout", ""},
		{"_initialize", "func $s _initialize\n" + loop + "\n---\ni32.const 0", "StartTimeout", ""},
		{"the call", loop + " unreachable", "Timeout", ""},
		{"calls without loops", "func $f - i32\n" + // 2^60 calls, no deeper than 60
			"local.get 0 if local.get 0 i32.const 1 i32.sub call $f local.get 0 i32.const 1 i32.sub call $f end\n---\ni32.const 60 call $f unreachable", "Timeout", ""},
		{"a long straight line", "memory 16 16\n---\nloop " + strings.Repeat("i32.const 0 i32.const 1 i32.const 1000000 memory.fill ", 200) + "br 0 end unreachable", "Timeout", ""},
	}
	for _, op := range Operations() {
		list = append(list, callPhase{"the operation " + op, operating(op), "Timeout", op})
	}
	return list
}

// TestOneDeadlineCoversACall stops a call in each phase by the limit, by the
// caller's deadline and by the caller's leaving.
func TestOneDeadlineCoversACall(t *testing.T) {
	const soon = 20 * time.Millisecond
	huge := Limits{Instructions: long, StartInstructions: long, CallDepth: 1 << 20, HostCalls: 1 << 30, Timeout: time.Hour, StartTimeout: time.Hour}
	for _, ph := range callPhases() {
		short := huge
		if ph.limit == "StartTimeout" {
			short.StartTimeout = soon
		} else {
			short.Timeout = soon
		}
		call := func(ctx context.Context, limits Limits, begun waiting) error {
			cost, err := loadHand(t, ph.code, limits).call(ctx, "a", abi.Tool, nil, begun, nil)
			if err == nil || cost == nil {
				t.Errorf("%s: error %v, cost %v", ph.name, err, cost)
			}
			return err
		}
		t.Run(ph.name+"/limit", func(t *testing.T) {
			err := call(t.Context(), short, func(string) {})
			if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(fmt.Sprint(err), "limit "+ph.limit+" of 20ms") {
				t.Errorf("%v, want deadline_exceeded that names %s", err, ph.limit)
			}
		})
		t.Run(ph.name+"/caller's deadline", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			if err := call(ctx, huge, func(string) {}); host.CodeOf(err) != host.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want deadline_exceeded", err)
			}
		})
		t.Run(ph.name+"/caller leaves", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if ph.operation == "" {
				timer := time.AfterFunc(soon, cancel)
				defer timer.Stop()
			}
			called := ""
			err := call(ctx, huge, func(op string) { called = op; cancel() })
			if host.CodeOf(err) != host.Canceled || !errors.Is(err, context.Canceled) || called != ph.operation {
				t.Errorf("%v, in the operation %q; want canceled in %q", err, called, ph.operation)
			}
		})
	}
}

// TestDescribingEndsWithItsLoad has a module that describes itself for ever.
func TestDescribingEndsWithItsLoad(t *testing.T) {
	wasm := handWritten(t, "custom other \"\"\nfunc $d agenthost_describe -> i32\nloop br 0 end unreachable\n---\ni32.const 0")
	rt := startRuntime(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := rt.Load(ctx, "x", wasm, &LoadOptions{Limits: Limits{StartTimeout: time.Hour, Instructions: long, StartInstructions: long}})
	if host.CodeOf(err) != host.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("load: %v, want deadline_exceeded", err)
	}
}

// TestLoadingEndsWithItsCaller loads through a compiler that never ends.
func TestLoadingEndsWithItsCaller(t *testing.T) {
	begun := make(chan struct{})
	rt := startRuntime(t, &Options{Compiler: func(ctx context.Context, _ *CompileJob) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	_, err := rt.Load(ctx, "x", handWritten(t, "i32.const 0"), &LoadOptions{Limits: Limits{CompileTimeout: time.Hour}})
	if host.CodeOf(err) != host.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v, want canceled", err)
	}
}

// TestCompilersAreHeldToTheirTime has one that ends with its context only.
func TestCompilersAreHeldToTheirTime(t *testing.T) {
	rt := startRuntime(t, &Options{Compiler: func(ctx context.Context, job *CompileJob) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	_, err := rt.Load(t.Context(), "x", handWritten(t, "i32.const 0"), &LoadOptions{Limits: Limits{CompileTimeout: time.Millisecond}})
	if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(fmt.Sprint(err), "limit CompileTimeout of 1ms") {
		t.Errorf("load: %v, want deadline_exceeded that names CompileTimeout", err)
	}
	if len(rt.compiler.codes) != 0 {
		t.Errorf("%d codes are left", len(rt.compiler.codes))
	}
}

// TestCompilersThatFail has compilers that break, lie or refuse.
func TestCompilersThatFail(t *testing.T) {
	refused := host.Errorf(host.InvalidArgument, "it is a bomb")
	for name, c := range map[string]struct {
		compile func(context.Context, *CompileJob) error
		code    host.Code
		says    string
	}{
		"refuses":        {func(context.Context, *CompileJob) error { return refused }, host.InvalidArgument, "it is a bomb"},
		"too much":       {func(_ context.Context, j *CompileJob) error { return j.MemoryError() }, host.ResourceExhausted, "CompileMemory of 1073741824"},
		"writes nothing": {func(context.Context, *CompileJob) error { return nil }, host.Internal, "files of code"},
	} {
		for _, dir := range []string{"", t.TempDir()} {
			rt := startRuntime(t, &Options{Compiler: c.compile, CacheDir: dir})
			for range 2 { // a failure is not kept
				_, err := rt.Load(t.Context(), "x", handWritten(t, "i32.const 0"), nil)
				if host.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("a compiler that %s, cache %q: %v, want %s that says %q", name, dir, err, c.code, c.says)
				}
			}
			if len(rt.compiler.codes) != 0 || len(rt.plugins) != 0 {
				t.Errorf("a compiler that %s: %d codes and %d plugins are left", name, len(rt.compiler.codes), len(rt.plugins))
			}
		}
	}
}
