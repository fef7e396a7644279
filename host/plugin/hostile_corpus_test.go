package plugin

// Scenario: every case of the hostile corpus runs and ends as its file says.

// The hostile corpus: how its cases are read, assembled and run. What they are
// is in testdata/hostile, with a README of the format.

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/longtest"
)

// hostileCase is one case of the corpus.
type hostileCase struct {
	name    string // group/name
	tries   string // in words
	stage   string // where it ends: load or call
	code    host.Code
	answers bool   // it ends in no error
	says    string // part of the error, or of the answer
	limits  Limits
	budget  budget // of its tenant
	granted Permissions
	input   int
	door    abi.Export // abi.Describe is the raw tool
	engines []string
	text    string
}

// hostileEngine is a way in which untrusted modules run.
type hostileEngine struct {
	name string
	// assemble makes a module of a case.
	assemble func(t testing.TB, c *hostileCase) []byte
	// call calls it, and returns what it answers.
	call func(t testing.TB, p *Plugin, c *hostileCase) (string, error)
}

// hostileEngines are all of them. The SDK of extismsdk is for plugins that are
// trusted, and not among them.
var hostileEngines = []hostileEngine{
	{"native", assembleNative, callNative},
	{"extism", assembleExtism, callExtism},
}

// readCorpus reads all cases.
func readCorpus(t testing.TB) (cases []*hostileCase) {
	t.Helper()
	files, err := filepath.Glob("testdata/hostile/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			group := strings.TrimSuffix(filepath.Base(file), ".txtar")
			c, err := readCase(group+"/"+f.Name, string(f.Data))
			if err != nil {
				t.Fatalf("%s: case %s: %v", file, f.Name, err)
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// readCase reads a case: words, headers, an empty line, the module.
func readCase(name, data string) (*hostileCase, error) {
	head, text, ok := strings.Cut(data, "\n\n")
	if !ok {
		return nil, fmt.Errorf("no empty line before the module")
	}
	c := &hostileCase{name: name, text: text, engines: []string{"native", "extism"}}
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		key, value, isHeader := strings.Cut(line, ": ")
		read, known := caseHeaders[key]
		if !isHeader || !known {
			if c.stage != "" {
				return nil, fmt.Errorf("%q after the headers have begun", line)
			}
			c.tries += line + " "
			continue
		}
		if err := read(c, value); err != nil {
			return nil, fmt.Errorf("%q: %v", line, err)
		}
	}
	if c.tries == "" || c.stage == "" {
		return nil, fmt.Errorf("it must say what it tries and how it ends")
	}
	return c, nil
}

var caseHeaders = map[string]func(c *hostileCase, value string) error{
	"ends": func(c *hostileCase, value string) error {
		f := wasmtest.Fields(value)
		if len(f) < 2 || f[0] != "load" && f[0] != "call" {
			return fmt.Errorf("it is WHERE CODE \"WORDS\"")
		}
		c.stage, c.code, c.answers = f[0], host.Code(f[1]), f[1] == "answered"
		if !c.answers && !c.code.Valid() {
			return fmt.Errorf("there is no code %s", f[1])
		}
		var err error
		if len(f) > 2 {
			c.says, err = strconv.Unquote(f[2])
		}
		return err
	},
	"limits": func(c *hostileCase, value string) error {
		for _, f := range strings.Fields(value) {
			name, v, _ := strings.Cut(f, "=")
			if err := setField(&c.limits, name, v); err != nil {
				return err
			}
		}
		return nil
	},
	"budget": func(c *hostileCase, value string) error {
		name, v, _ := strings.Cut(value, "=")
		r, err := usage.ParseResource(name)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(v, 10, 64)
		c.budget = budget{r: n}
		return err
	},
	"grants": func(c *hostileCase, value string) error {
		for _, name := range strings.Fields(value) {
			switch name {
			case "state":
				c.granted.State = Write
			case "messages":
				c.granted.Messages = true
			case "clock":
				c.granted.Clock = true
			case "random":
				c.granted.Random = true
			default:
				return fmt.Errorf("there is no grant %s", name)
			}
		}
		return nil
	},
	"input": func(c *hostileCase, value string) (err error) {
		c.input, err = strconv.Atoi(value)
		return err
	},
	"door": func(c *hostileCase, value string) error {
		c.door, _ = abi.ExportNamed(value)
		if c.door < abi.Tool {
			return fmt.Errorf("there is no door %s", value)
		}
		return nil
	},
	"engines": func(c *hostileCase, value string) error {
		c.engines = strings.Fields(value)
		return nil
	},
}

// setField sets a field by its name: a duration, a number or 1<<N.
func setField(of any, name, value string) error {
	f := reflect.ValueOf(of).Elem().FieldByName(name)
	if !f.IsValid() {
		return fmt.Errorf("there is no field %s", name)
	}
	if d, err := time.ParseDuration(value); err == nil && f.Type() == reflect.TypeFor[time.Duration]() {
		f.SetInt(int64(d))
		return nil
	}
	base, shift, _ := strings.Cut(value, "<<")
	n, err := strconv.ParseInt(base, 10, 64)
	if err == nil && shift != "" {
		var by int
		by, err = strconv.Atoi(shift)
		n <<= by
	}
	f.SetInt(n)
	return err
}

// assembleNative makes a plugin of the native ABI of a case.
func assembleNative(t testing.TB, c *hostileCase) []byte {
	t.Helper()
	if wasm, ok := assembleWhole(t, c); ok {
		return wasm
	}
	imports, others, body := c.parts()
	if !hasLine(others, "custom ") {
		others += fmt.Sprintf("custom agenthost.manifest %q\n", doorManifests[c.door])
	}
	name := c.door
	if name == abi.Describe {
		name = abi.Tool
	}
	return wasmtest.Assemble(t, imports+`
		import agenthost_v1 input_read i32 i32 i32 -> i32 as $input_read
		import agenthost_v1 output_write i32 i32 as $output_write
		import agenthost_v1 host_call i32 i32 i32 i32 -> i64 as $host_call
		import agenthost_v1 host_read i32 i32 i32 -> i32 as $host_read
		import agenthost_v1 log i32 i32 i32 as $log
		export memory memory 0
		func $export `+name.String()+` i32 -> i32
		`+body+"\n"+others)
}

// assembleWhole assembles a case that is written out.
func assembleWhole(t testing.TB, c *hostileCase) ([]byte, bool) {
	t.Helper()
	if text, ok := strings.CutPrefix(c.text, "module\n"); ok {
		return wasmtest.Assemble(t, wasmtest.Expand(text)), true
	}
	text, ok := strings.CutPrefix(c.text, "binary\n")
	if !ok {
		return nil, false
	}
	var wasm []byte
	for line := range strings.Lines(wasmtest.Expand(text)) {
		if line = strings.TrimSpace(line); line != "" {
			s, err := strconv.Unquote(line)
			if err != nil {
				t.Fatalf("%s: %.50s: %v", c.name, line, err)
			}
			wasm = append(wasm, s...)
		}
	}
	return wasm, true
}

// parts returns a case's imports, its other declarations and the body of the
// export that is called. Without a memory of its own it gets one.
func (c *hostileCase) parts() (imports, others, body string) {
	declarations, body, ok := strings.Cut(c.text, "\n---\n")
	if !ok {
		declarations, body = "", c.text
	}
	var i, o strings.Builder
	var data []string
	for line := range strings.Lines(wasmtest.Expand(declarations) + "\n") {
		switch {
		case strings.HasPrefix(line, "import "), strings.HasPrefix(line, "type "): // types count from 0 on
			i.WriteString(line)
			continue
		case strings.HasPrefix(line, "data "):
			data = append(data, wasmtest.Fields(line)[2])
		}
		o.WriteString(line)
	}
	if others = o.String(); !hasLine(others, "memory ") {
		others += "memory 1 4\n"
	}
	return i.String(), others, segmentLength.ReplaceAllStringFunc(wasmtest.Expand(body), func(s string) string {
		n, _ := strconv.Atoi(s[1:])
		text, _ := strconv.Unquote(data[n])
		return strconv.Itoa(len(text))
	})
}

var segmentLength = regexp.MustCompile(`#\d+`)

func hasLine(text, prefix string) bool {
	return strings.HasPrefix(text, prefix) || strings.Contains(text, "\n"+prefix)
}

const hostilePermissions = `"permissions":{"state":"write","messages":true,"clock":true,"random":true}}`

// doorManifests are the manifests of plugins that one part is asked for.
var doorManifests = map[abi.Export]string{
	abi.Describe: `{"abi":1,"name":"hand","tools":[{"name":"t","description":""}],` + hostilePermissions,
	abi.Tool:     `{"abi":1,"name":"hand","tools":[{"name":"t","description":""}],"permissions":{}}`,
	abi.Process:  `{"abi":1,"name":"hand","processors":[{"name":"p"}],` + hostilePermissions,
	abi.Route:    `{"abi":1,"name":"hand","routers":[{"name":"r"}],` + hostilePermissions,
	abi.Provide:  `{"abi":1,"name":"hand","providers":[{"name":"c"}],` + hostilePermissions,
}

// callNative calls a case through its door.
func callNative(t testing.TB, p *Plugin, c *hostileCase) (string, error) {
	t.Helper()
	if c.door == abi.Describe {
		r, err := p.Call(context.Background(), c.name, "tool", make([]byte, c.input), nil)
		return string(r.Output), err
	}
	answer, err := ask(t, p, c.door, nil)
	if err == nil && c.door == abi.Process {
		_, err = chat.ApplyEdits([]*host.Message{host.UserText("a")}, answer.(*llm.Processed).Edits)
	}
	if out, ok := answer.(*host.ToolOutput); ok && err == nil {
		return string(out.Content), nil
	}
	return "", err
}

// assembleExtism makes an Extism plugin of a case, which has the locals 1 to 4 of
// type i64 besides the i32 that it has as a native plugin.
func assembleExtism(t testing.TB, c *hostileCase) []byte {
	t.Helper()
	if wasm, ok := assembleWhole(t, c); ok {
		return wasm
	}
	imports, others, body := c.parts()
	return wasmtest.Assemble(t, imports+extismImports()+`
		export memory memory 0
		func $export run -> i32 : i32 i64 i64 i64 i64
		`+body+"\n"+others)
}

func callExtism(t testing.TB, p *Plugin, c *hostileCase) (string, error) {
	t.Helper()
	r, err := p.Call(context.Background(), c.name, "run", make([]byte, c.input), nil)
	return string(r.Output), err
}

// hostileRun is a runtime in which cases are run beside a plugin of another
// tenant.
type hostileRun struct {
	t         testing.TB
	runtime   *Runtime
	neighbour *Plugin
	answered  int // by the neighbour
}

// echoModule answers with its input.
const echoModule = `i32.const 0 i32.const 0 local.get 0 call $input_read drop
	i32.const 0 local.get 0 call $output_write i32.const 0`

func newHostileRun(t testing.TB) *hostileRun {
	t.Helper()
	r := &hostileRun{t: t, runtime: startRuntime(t, &Options{Ledger: newLedger(t, unlimited.plan(0))})}
	var err error
	if r.neighbour, err = r.runtime.Load(context.Background(), "neighbour", handWritten(t, echoModule), &LoadOptions{Limits: Limits{Timeout: hostileTime}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// ending is how a case ended.
type ending struct {
	stage  string
	answer string
	err    error
	took   time.Duration
}

// run runs a case to its end.
func (r *hostileRun) run(e *hostileEngine, c *hostileCase, wasm []byte) (o ending) {
	began := time.Now()
	o.stage = "load"
	limits := c.limits
	if c.code != host.DeadlineExceeded { // what ends it comes in time, however busy the machine
		limits.Timeout = cmp.Or(limits.Timeout, hostileTime)
	}
	p, err := r.runtime.Load(context.Background(), "hostile", wasm, &LoadOptions{Limits: limits, Granted: c.granted})
	if o.err, o.took = err, time.Since(began); err != nil {
		return o
	}
	defer p.Close()
	if c.budget != nil {
		if o.err = r.runtime.Ledger().SetPlan(c.name, c.budget.plan(0)); o.err != nil {
			return o
		}
		defer func() { _ = r.runtime.ResetTenant(c.name) }()
	}
	o.stage, began = "call", time.Now()
	o.answer, o.err = e.call(r.t, p, c)
	o.took = time.Since(began)
	return o
}

// serveNext has the next tenant's plugin answer.
func (r *hostileRun) serveNext() {
	r.t.Helper()
	ask := fmt.Sprintf("are you there, %d?", r.answered)
	got, err := r.neighbour.Call(context.Background(), "next", "tool", []byte(ask), nil)
	if err != nil || string(got.Output) != ask {
		r.t.Errorf("after it the next tenant is answered %q, %v", got.Output, err)
		return
	}
	r.answered++
}

// deadline is the longest that a case may take where it ends.
func (c *hostileCase) deadline() time.Duration {
	l := c.limits.withDefaults()
	if c.code != host.DeadlineExceeded {
		return 0
	}
	if strings.Contains(c.says, "StartTimeout") {
		return l.StartTimeout
	}
	return l.Timeout
}

// judge compares how a case ended with how it must.
func (c *hostileCase) judge(t testing.TB, o ending) {
	t.Helper()
	switch {
	case o.stage != c.stage:
		t.Errorf("it ends when it is %sed, with %q, %v; want when it is %sed", o.stage, o.answer, o.err, c.stage)
	case c.answers && (o.err != nil || !strings.Contains(o.answer, c.says)):
		t.Errorf("it ends with %q, %v; want an answer with %q", o.answer, o.err, c.says)
	case !c.answers && (host.CodeOf(o.err) != c.code || !strings.Contains(fmt.Sprint(o.err), c.says)):
		t.Errorf("it ends with %.300q, code %q, %.1000v; want code %s with %q", o.answer, host.CodeOf(o.err), o.err, c.code, c.says)
	}
	if len(fmt.Sprint(o.err)) > maxErrorText {
		t.Errorf("its error is %d bytes long: %.100v…", len(o.err.Error()), o.err)
	}
}

// maxErrorText is how long an error may be that a guest has a hand in.
const maxErrorText = 16 << 10

const (
	// hostileTime is how long a case may take beyond its deadline on any machine, however
	// busy. The benchmark reports what it takes on this one.
	hostileTime = time.Minute
	// hostileMemory is what the process may need more while a case runs: twice
	// the memory that it may have by default, and as much for its compiler.
	hostileMemory = raceFactor * 256 << 20
)

func TestHostileCorpus(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // the memory that is measured is not garbage for the most part
	cases := readCorpus(t)
	if longtest.Race {
		cases = watched(cases)
	}
	for _, e := range hostileEngines {
		t.Run(e.name, func(t *testing.T) {
			r, ran := newHostileRun(t), 0
			for i, c := range cases {
				if !slices.Contains(c.engines, e.name) || c.engines[0] != e.name && i%longtest.Rounds(3, 1) != 0 {
					continue // most cases of both engines are of their compiler, which is one
				}
				ran++
				t.Run(c.name, func(t *testing.T) {
					r.t = t
					wasm := e.assemble(t, c)
					before, measured := resetPeak()
					o := r.run(&e, c, wasm)
					if peak := peakMemory(); measured && peak > before+hostileMemory {
						t.Errorf("the process needs %d MB more while it runs, want at most %d", (peak-before)>>20, hostileMemory>>20)
					}
					c.judge(t, o)
					if o.took > c.deadline()+hostileTime {
						t.Errorf("it takes %s, with a deadline of %s", o.took, c.deadline())
					}
					r.serveNext()
				})
			}
			if r.answered != ran || ran == 0 {
				t.Errorf("the next tenant was answered %d times after %d cases", r.answered, ran)
			}
		})
	}
}

// watched returns the cases that run under the race detector too: every fourth of those that
// are called. One goroutine reads modules and schemas, and takes twenty times as long there.
func watched(cases []*hostileCase) (list []*hostileCase) {
	for i, c := range cases {
		if i%4 == 0 && !strings.HasPrefix(c.name, "load/") && !strings.HasPrefix(c.name, "schemas/") {
			list = append(list, c)
		}
	}
	return list
}

// resetPeak begins a new measurement of the most memory that the process has
// had, and returns what it has. Only Linux can say.
func resetPeak() (now int64, ok bool) {
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return 0, false
	}
	return statusBytes("VmRSS"), true
}

// peakMemory is the most memory that the process has had since resetPeak.
func peakMemory() int64 { return statusBytes("VmHWM") }

// statusBytes reads a size of this process; 0 where there is none to read.
func statusBytes(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}
