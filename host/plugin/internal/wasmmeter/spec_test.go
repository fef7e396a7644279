package wasmmeter

// Scenario: the WebAssembly 2.0 test suite runs on plain and on metered modules side by
// side.

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/longtest"
)

// TestSpecification runs the WebAssembly 2.0 test suite, which wazero's module
// carries, on plain and on metered modules side by side: every call must give
// the same results or the same trap, and a module that is invalid must be
// refused before or after the pass.
func TestSpecification(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(wazeroDir(t), "internal/integration_test/spectest/v2/testdata/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("the WebAssembly test suite is not where wazero's module had it: ", err)
	}
	total := specCounts{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if !longtest.Enabled() && strings.HasPrefix(name, "simd_") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := &specRun{t: t, dir: filepath.Dir(file), byName: map[string]*specPair{}, plain: specRuntime(t), metered: specRuntime(t)}
			s.run(file)
			total.modules += s.counts.modules
			total.calls += s.counts.calls
			total.invalid += s.counts.invalid
		})
	}
	t.Logf("%d modules, %d calls, %d invalid modules", total.modules, total.calls, total.invalid)
	if total.modules < 500 || total.calls < 5_000 || total.invalid < 1000 {
		t.Errorf("that is less than there is: the runner skips too much")
	}
}

func wazeroDir(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to find the WebAssembly test suite")
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatal("go list does not find wazero's module: ", err)
	}
	return strings.TrimSpace(string(out))
}

type specCounts struct{ modules, calls, invalid int }

const specDepth = 1_000

// specStack is in units, and less than specDepth frames need.
const specStack = specDepth

// specPair is one module twice.
type specPair struct{ plain, metered api.Module }

type specRun struct {
	t       *testing.T
	dir     string
	plain   wazero.Runtime
	metered wazero.Runtime
	current *specPair // nil if the module needs what we refuse
	byName  map[string]*specPair
	counts  specCounts
}

type specCommand struct {
	Type     string
	Line     int
	Name     string
	Filename string
	Action   struct {
		Type, Module, Field string
		Args                []specValue
	}
}

type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    json.RawMessage
}

func (s *specRun) run(file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	var script struct{ Commands []specCommand }
	if err := json.Unmarshal(raw, &script); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range script.Commands {
		switch c.Type {
		case "module":
			s.current = s.instantiate(c)
			if c.Name != "" {
				s.byName[c.Name] = s.current
			}
		case "action", "assert_return", "assert_trap", "assert_exhaustion":
			s.call(c)
		case "assert_invalid", "assert_malformed", "assert_unlinkable", "assert_uninstantiable":
			s.refuse(c)
		}
	}
}

// instantiate loads a valid module both ways. It returns nil for modules that
// this host refuses on purpose: those with imports that are not functions.
func (s *specRun) instantiate(c specCommand) *specPair {
	wasm, err := os.ReadFile(filepath.Join(s.dir, c.Filename))
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := Prepare(wasm, &Limits{MemoryPages: maxPages, TableEntries: 10_000_000, CallDepth: specDepth})
	if err != nil {
		if fault.CodeOf(err) != fault.FailedPrecondition {
			s.t.Errorf("line %d: prepare %s: %v", c.Line, c.Filename, err)
		}
		return nil
	}
	s.counts.modules++
	plain, plainErr := instantiate(s.plain, wasm)
	metered, meteredErr := instantiate(s.metered, p.Wasm)
	if trap(plainErr) != trap(meteredErr) {
		s.t.Errorf("line %d: instantiate %s plain: %v, metered: %v", c.Line, c.Filename, plainErr, meteredErr)
	}
	if plainErr != nil || meteredErr != nil {
		return nil // it imports another module of the script
	}
	return &specPair{plain, metered}
}

// specRuntime has what the test suite lets modules import.
func specRuntime(t *testing.T) wazero.Runtime {
	r := newRuntime(t, func(_ context.Context, stack []uint64) {
		if int64(stack[1]) < 0 {
			panic(errDepth)
		}
		stack[0] += 1000
	})
	b := r.NewHostModuleBuilder("spectest")
	for name, f := range map[string]any{
		"print": func() {}, "print_i32": func(uint32) {}, "print_i64": func(uint64) {}, "print_f32": func(float32) {}, "print_f64": func(float64) {},
		"print_i32_f32": func(uint32, float32) {}, "print_f64_f64": func(float64, float64) {},
	} {
		b.NewFunctionBuilder().WithFunc(f).Export(name)
	}
	if _, err := b.Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

func instantiate(r wazero.Runtime, wasm []byte) (api.Module, error) {
	mod, err := r.InstantiateWithConfig(context.Background(), wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err == nil && mod.ExportedGlobal(DepthGlobal) != nil {
		deepStack(mod)
		err = runStart(mod)
	}
	return mod, err
}

func (s *specRun) call(c specCommand) {
	pair := s.current
	if c.Action.Module != "" {
		pair = s.byName[c.Action.Module]
	}
	if pair == nil || c.Action.Type != "invoke" {
		return
	}
	var args []uint64
	for _, a := range c.Action.Args {
		args = append(args, a.bits(s.t)...)
	}
	s.counts.calls++
	plain, plainErr := pair.plain.ExportedFunction(c.Action.Field).Call(context.Background(), args...)
	pair.metered.ExportedGlobal(DepthGlobal).(api.MutableGlobal).Set(uint64(PackDepth(specDepth, specStack))) // traps leave it lower
	metered, meteredErr := pair.metered.ExportedFunction(c.Action.Field).Call(context.Background(), args...)
	if c.Type == "assert_exhaustion" {
		if plainErr == nil || meteredErr == nil {
			s.t.Errorf("line %d: %s recursed for ever and returned", c.Line, c.Action.Field)
		}
		return
	}
	if !slices.Equal(plain, metered) || trap(plainErr) != trap(meteredErr) {
		s.t.Errorf("line %d: %s(%v) plain: %v %v, metered: %v %v", c.Line, c.Action.Field, args, plain, plainErr, metered, meteredErr)
	}
}

// trap is an error without its stack trace and the names of modules.
func trap(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// refuse checks that a bad module does not become a good one.
func (s *specRun) refuse(c specCommand) {
	if !strings.HasSuffix(c.Filename, ".wasm") {
		return // malformed text
	}
	wasm, err := os.ReadFile(filepath.Join(s.dir, c.Filename))
	if err != nil {
		s.t.Fatal(err)
	}
	s.counts.invalid++
	p, err := Prepare(wasm, &Limits{MemoryPages: maxPages, TableEntries: 10_000_000})
	if err != nil {
		return
	}
	if plain, metered := compiles(s.t, wasm), compiles(s.t, p.Wasm); (plain == nil) != (metered == nil) {
		s.t.Errorf("line %d: %s plain: %v, metered: %v", c.Line, c.Filename, plain, metered)
	}
}

// bits returns an argument as the words that a call takes.
func (v specValue) bits(t *testing.T) []uint64 {
	if v.Type != "v128" {
		var text string
		if err := json.Unmarshal(v.Value, &text); err != nil {
			t.Fatal(err)
		}
		return []uint64{scalar(t, v.Type, text)}
	}
	var lanes []string
	if err := json.Unmarshal(v.Value, &lanes); err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, 2)
	width := 128 / len(lanes)
	for i, lane := range lanes {
		bits := scalar(t, v.LaneType, lane)
		if width < 64 {
			bits &= 1<<width - 1
		}
		words[i*width/64] |= bits << (i * width % 64)
	}
	return words
}

func scalar(t *testing.T, kind, text string) uint64 {
	switch text {
	case "null":
		return 0
	case "nan:canonical", "nan:arithmetic":
		if kind == "f32" {
			return uint64(math.Float32bits(float32(math.NaN())))
		}
		return math.Float64bits(math.NaN())
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(fmt.Errorf("%s %q: %w", kind, text, err))
	}
	return uint64(n)
}
