package childcompiler

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Name {
		os.Exit(Main(os.Args[2:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// thisAsChild starts the test's own program: see TestMain.
func thisAsChild(t *testing.T) *Compiler {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Compiler{path, "agenthost", childPatience}
}

// childRuntime returns a runtime that compiles in children and keeps nothing.
func childRuntime(t *testing.T) *plugin.Runtime {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{Compiler: thisAsChild(t).compile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
			t.Errorf("%s and %d more are left behind", left[0].Name(), len(left)-1)
		}
	})
	return rt
}

// wasmSection is a section of a module.
func wasmSection(id byte, contents ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(contents))), contents...)
}

// loopBomb is a plugin with a function of many locals and loops, which takes
// wazero time and memory that grow with the product.
func loopBomb(locals, loops int) []byte {
	var use []byte
	for i := range locals { // local = local + 1
		n := binary.AppendUvarint(nil, uint64(i))
		use = append(append(append(use, 0x20), n...), 0x41, 1, 0x6a, 0x21)
		use = append(use, n...)
	}
	body := append(binary.AppendUvarint([]byte{1}, uint64(locals)), 0x7f)
	body = append(body, use...)
	body = append(body, bytes.Repeat([]byte{3, 0x40, 0x20, 0, 0x0d, 0, 0x0b}, loops)...) // loop local.get 0 br_if 0 end
	body = append(append(body, use...), 0x0b)
	code := append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)
	manifest := "\x12agenthost.manifest" + `{"abi":1,"name":"bomb"}`
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range [][]byte{
		wasmSection(1, 1, 0x60, 0, 0), wasmSection(3, 1, 0), wasmSection(5, 1, 0, 1),
		wasmSection(7, append([]byte{1, 6}, "memory\x02\x00"...)...), wasmSection(10, code...), wasmSection(0, []byte(manifest)...),
	} {
		wasm = append(wasm, s...)
	}
	return wasm
}

// unbound lets everything pass that is bounded before compiling.
const unbound = 1000 * time.Hour

func TestChildrenCompilePlugins(t *testing.T) {
	rt := childRuntime(t)
	p, err := rt.Load(t.Context(), "filter", toolcallfilter.Wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	pr, err := p.Processor("", nil)
	if err != nil {
		t.Fatal(err)
	}
	view := llm.NewView([]*host.Message{host.UserText("hi")}, "m", nil)
	if _, err := pr.Process(t.Context(), view); err != nil {
		t.Error(err)
	}
}

// TestCompileBombsEndTheirChildOnly loads modules that pass the structural limits
// because those were raised.
func TestCompileBombsEndTheirChildOnly(t *testing.T) {
	rt := childRuntime(t)
	for _, c := range []struct {
		name   string
		limits plugin.Limits
		code   host.Code
		says   string
		linux  bool
	}{
		{"time", plugin.Limits{CompileWork: unbound, CompileTimeout: 500 * time.Millisecond}, host.DeadlineExceeded, "CompileTimeout of 500ms", false},
		{"memory", plugin.Limits{CompileWork: unbound, CompileTimeout: time.Minute, CompileMemory: 100 << 20}, host.ResourceExhausted, "CompileMemory of 104857600", true},
		{"structure", plugin.Limits{}, host.InvalidArgument, "CompileWork", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.linux && runtime.GOOS != "linux" {
				t.Skip("needs Linux, whose kernel bounds the memory of a process")
			}
			began := time.Now()
			_, err := rt.Load(t.Context(), "bomb", loopBomb(1000, 10_000), &plugin.LoadOptions{Limits: c.limits})
			t.Logf("after %s: %v", time.Since(began), err)
			if host.CodeOf(err) != c.code || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("load: %v, want %s that says %q", err, c.code, c.says)
			}
			if p, err := rt.Load(t.Context(), "next", loopBomb(10, 10), nil); err != nil {
				t.Errorf("the next plugin: %v", err)
			} else {
				p.Close()
			}
		})
	}
}

// TestClosingEndsChildren closes a runtime while a bomb is compiled for it.
func TestClosingEndsChildren(t *testing.T) {
	child := thisAsChild(t)
	started := make(chan struct{})
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{Compiler: func(ctx context.Context, job *plugin.CompileJob) error {
		close(started)
		return child.compile(ctx, job)
	}})
	if err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := rt.Load(context.Background(), "bomb", loopBomb(1000, 10_000), &plugin.LoadOptions{Limits: plugin.Limits{CompileWork: unbound, CompileTimeout: time.Hour}})
		loaded <- err
	}()
	<-started
	if err := rt.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-loaded; host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("load: %v, want failed_precondition", err)
	}
}

// TestChildrenEndByThemselves runs children that nobody stops.
func TestChildrenEndByThemselves(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout string
		memory  int64
		linux   bool
		says    func(*exec.ExitError, string) bool
	}{
		{"clock", "300ms", 1 << 30, false, func(e *exec.ExitError, _ string) bool { return e.ExitCode() == exitLate }},
		{"memory", "1h", 100 << 20, true, func(_ *exec.ExitError, words string) bool { return outOfMemory(words) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.linux && runtime.GOOS != "linux" {
				t.Skip("needs Linux, whose kernel bounds the memory of a process")
			}
			var out, words bytes.Buffer
			job := &plugin.CompileJob{Wasm: loopBomb(1000, 10_000), Dir: t.TempDir(), Timeout: time.Hour, Memory: c.memory}
			cmd := thisAsChild(t).command(context.Background(), job, &out, &words)
			cmd.Args[2] = c.timeout
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !c.says(exit, words.String()+out.String()) {
				t.Errorf("%v: %.200s%.200s", err, &out, &words)
			}
		})
	}
}

func TestChildrenRefuse(t *testing.T) {
	for _, args := range [][]string{nil, {"1s"}, {"1s", "x"}, {"x", "1"}, {"0s", "1"}, {"1s", "-1"}, {"1s", "1", "1"}} {
		if _, _, err := childArgs(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	job := &plugin.CompileJob{Wasm: []byte("not a module"), Dir: t.TempDir(), Timeout: time.Minute, Memory: 512 << 20}
	if err := thisAsChild(t).compile(t.Context(), job); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "magic") {
		t.Errorf("compile: %v, want invalid_argument with what the compiler says", err)
	}
	missing := &Compiler{filepath.Join(t.TempDir(), "none"), "none", childPatience}
	if err := missing.compile(t.Context(), job); host.CodeOf(err) != host.Internal {
		t.Errorf("compile without a program: %v, want internal", err)
	}
}

// A child has written its code when it ends, however late its output is read.
func TestCodeOfAChildWhoseOutputStaysOpenIsTaken(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a shell, to stand in for the child")
	}
	script := filepath.Join(t.TempDir(), "child")
	if err := os.WriteFile(script, []byte("#!"+sh+"\n/bin/sleep 600 &\necho $! > pid\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, job := &Compiler{script, "child", 10 * time.Millisecond}, &plugin.CompileJob{Dir: t.TempDir(), Timeout: time.Hour, Memory: 1 << 30}
	if err := c.compile(t.Context(), job); err != nil {
		t.Errorf("compile: %v", err)
	}
	raw, err := os.ReadFile(filepath.Join(job.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
		t.Errorf("what holds the output is not ended: %v", err)
	}
}
