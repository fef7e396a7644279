package main

// Scenario: people type the command lines of testdata/script, each in a process of its
// own.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/sigstoretest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testdir"
	"github.com/agenthost/agenthost/internal/testguest"
)

func TestMain(m *testing.M) {
	if longtest.Race { // a process would sleep for a second at its end, in case that others race still
		_ = os.Setenv(raceOptions, strings.TrimSpace(os.Getenv(raceOptions)+" atexit_sleep_ms=0"))
	}
	for _, variable := range []string{commandChildEnv, copyChildEnv, eraseChildEnv, anotherUserEnv} {
		if os.Getenv(variable) != "" { // a child, which has no scripts
			os.Exit(m.Run())
		}
	}
	testscript.Main(inMemory{m}, map[string]func(){"agenthost": runCommand, "mcpgreeter": serveGreeter})
}

// runCommand is the command in a process of a script, which ends before its garbage is worth
// a collection: those take a fifth of the time of a command that lists something.
func runCommand() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(scriptMemory)
	main()
}

// scriptMemory is the memory from which a command of a script collects its garbage.
const scriptMemory = 256 << 20

// inMemory runs tests that keep their files in memory. The programs of scripts are made
// before: where the test program is, they are links to it.
type inMemory struct{ tests *testing.M }

func (m inMemory) Run() int {
	testdir.InMemory()
	return m.tests.Run()
}

// raceOptions is the environment variable of the race detector's options.
const raceOptions = "GORACE"

var update = flag.Bool("update", false, "write what commands print into the scripts")

// TestScripts runs the command line as people do: each script is a file in
// testdata/script, in which agenthost is a process of its own. Beside what
// testscript has, a script can say
//
//	exits CODE agenthost ARGS...   runs it and wants that exit code
//	guest NAME FILE                writes a module of guests_test.go
//	desk DIR                       writes a project whose agent looks orders up; it starts
//	                               in a fifth of the time of examples/orderdesk
//	bytes N FILE                   writes a file of that many letters
//	sigstore SUBJECT FILE          signs a file as an instance of sigstore does, into
//	                               FILE.sigstore.json, and writes its trusted root, root.json
//	modelserver RULES              serves a scripted model at $OPENAI_BASE_URL
//	modelserver -down              has nobody serve there
//	modelbegins N                  waits until N answers have begun
//	interrupts TEXT agenthost ...  runs it, sends it SIGINT once it has printed
//	                               that, and wants exit code 130
//	answered DECISION [=X]         runs what the last output says goes on with a
//	                               run, with that decision and words after the id
//	again                          runs that once more
//	runof FILE, jobof FILE         puts the id of the only run or job of a list into RUN or JOB
//	shape FILE                     prints the shape of JSON, a line each
//	serves agenthost ...           starts a server, and puts its address into URL
//	curl STATUS [-X METHOD] [-H HEADER] [--json BODY] [--data-binary @FILE] URL
//	                               sends a request, prints the answer and wants that status
//	keep VARIABLE [MEMBER]         puts the last output, or a member of it, into a variable
//	terminates                     ends the server by SIGTERM, and wants it to end well
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	cache := testcode.Project(t) // one for all scripts: compiling plugins takes seconds
	warm(t, cache)
	toolchain := goEnv(t, "GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN")
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[scriptValues{}] = map[any]any{}
			env.Vars = append(env.Vars, "AGENTHOST_CACHE="+cache, raceOptions+"="+os.Getenv(raceOptions), "REPO="+root, "LONG="+strings.Repeat("x", 1000))
			env.Vars = append(env.Vars, toolchain...)
			env.Vars = append(env.Vars, "GOGC=400") // the packages of a command are initialized without a collection
			bin, _, _ := strings.Cut(env.Getenv("PATH"), string(os.PathListSeparator))
			env.Setenv("BIN", bin) // holds agenthost and nothing else
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "guest": cmdGuest, "desk": cmdDesk, "bytes": cmdBytes, "sigstore": func(ts *testscript.TestScript, neg bool, args []string) { cmdSigstore(t, ts, neg, args) },
			"modelserver": cmdModelServer, "modelbegins": cmdModelBegins,
			"interrupts": cmdInterrupts, "shape": cmdShape,
			"answered": cmdAnswered, "again": cmdAgain, "runof": cmdRunOf, "jobof": cmdJobOf, "kills": cmdKills,
			"serves": cmdServes, "terminates": cmdTerminates, "keep": cmdKeep, "curl": cmdCurl,
		},
	})
}

// warm has the demo and what it needs compiled once.
func warm(t *testing.T, cache string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "demo")
	cmd.Args[0] = "agenthost" // see TestMain
	cmd.Env = append(os.Environ(), "AGENTHOST_CACHE="+cache)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("agenthost demo: %v\n%s", err, out)
	}
}

// goEnv returns settings of the toolchain that runs the tests, so that guests
// are built with it, and without a network.
func goEnv(t *testing.T, names ...string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "-json").Output()
	if err != nil {
		t.Fatalf("go env: %v; the tests build guests with the go command", err)
	}
	var all map[string]string
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	var env []string
	for _, name := range names {
		env = append(env, name+"="+all[name])
	}
	return env
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	wantCode(ts, exitOf(ts, ts.Exec(args[1], args[2:]...)), args[0])
}

// exitOf is the exit code that a command ended with.
func exitOf(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

func wantCode(ts *testscript.TestScript, got int, want string) {
	if n, err := strconv.Atoi(want); err != nil || got != n {
		ts.Fatalf("exit code is %d, want %s", got, want)
	}
}

func cmdGuest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: guest NAME FILE")
	}
	wasm, ok := testguest.Modules()[args[0]]
	if !ok {
		ts.Fatalf("there is no guest %q", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), wasm, 0o666))
}

// deskProject is the configuration of the project that desk writes.
const deskProject = `version: 1
default: support
models: {clerk: {provider: scripted}}
plugins: {desk: {path: desk.wasm}}
agents:
  orders: {description: Looks up orders., tools: [desk]}
networks:
  support: {agents: [orders], router: in_order}
`

func cmdDesk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: desk DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o777))
	ts.Check(os.WriteFile(filepath.Join(dir, "agenthost.yaml"), []byte(deskProject), 0o666))
	ts.Check(os.WriteFile(filepath.Join(dir, "desk.wasm"), testguest.Modules()["desk"], 0o666))
}

// cmdRunOf puts the id of the only run that thread runs --json has printed into RUN.
func cmdRunOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: runof FILE")
	}
	var runs struct{ Items []struct{ Run string } }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &runs))
	if len(runs.Items) != 1 {
		ts.Fatalf("%d runs, want one", len(runs.Items))
	}
	ts.Setenv("RUN", runs.Items[0].Run)
}

// cmdJobOf puts the beginning of the id of the only job that queue dead --json has
// printed into JOB.
func cmdJobOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: jobof FILE")
	}
	var jobs struct{ Items []struct{ ID string } }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &jobs))
	if len(jobs.Items) != 1 {
		ts.Fatalf("%d jobs, want one", len(jobs.Items))
	}
	const begin = 13 // characters that no other id of the test has
	ts.Setenv("JOB", jobs.Items[0].ID[:begin])
}

func cmdBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bytes N FILE")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), bytes.Repeat([]byte("a"), n), 0o666))
}

func cmdSigstore(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sigstore SUBJECT FILE")
	}
	instance := sigstoretest.New(t)
	bundle := instance.Sign(t, args[0], sigstoretest.Issuer, []byte(ts.ReadFile(args[1])))
	ts.Check(os.WriteFile(ts.MkAbs(args[1])+".sigstore.json", bundle, 0o666))
	ts.Check(os.WriteFile(ts.MkAbs("root.json"), instance.Root(t), 0o666))
}

// modelServer is a scripted model that tells when its answers begin.
type modelServer struct {
	*httptest.Server
	begun chan struct{}
}

type modelServerKey struct{}

// maxAnswers is how many answers of a server can be waited for.
const maxAnswers = 100

func cmdModelServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: modelserver RULES|-down")
	}
	s := &modelServer{begun: make(chan struct{}, maxAnswers)}
	if args[0] == "-down" {
		s.Server = &httptest.Server{URL: "http://" + addressOfNone(ts)}
	} else {
		s.Server = httptest.NewServer(s.handler(ts, args[0]))
		ts.Defer(func() { s.CloseClientConnections(); s.Close() })
	}
	servers(ts)[modelServerKey{}] = s
	ts.Setenv("OPENAI_BASE_URL", s.URL+"/v1")
}

// addressOfNone returns an address at which nothing listens until the script has ended: the port
// is that of a connection, so that no other server gets it.
func addressOfNone(ts *testscript.TestScript) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	conn, err := net.Dial("tcp", l.Addr().String())
	ts.Check(err)
	ts.Defer(func() { _, _ = conn.Close(), l.Close() })
	return conn.LocalAddr().String()
}

func (s *modelServer) handler(ts *testscript.TestScript, file string) http.Handler {
	raw, err := yaml.YAMLToJSON([]byte(ts.ReadFile(file)))
	ts.Check(err)
	rules, err := scriptedmodel.ReadRules(raw)
	ts.Check(err)
	handler, err := scriptedmodel.New(&scriptedmodel.Options{Rules: rules})
	ts.Check(err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(&beginning{ResponseWriter: w, begun: s.begun}, r)
	})
}

// servers holds what the script has running.
func servers(ts *testscript.TestScript) map[any]any { return ts.Value(scriptValues{}).(map[any]any) }

type scriptValues struct{}

// beginning tells once that an answer has begun to reach the client.
type beginning struct {
	http.ResponseWriter
	begun chan<- struct{}
	once  sync.Once
}

// Flush implements http.Flusher.
func (b *beginning) Flush() {
	b.ResponseWriter.(http.Flusher).Flush()
	b.once.Do(func() { b.begun <- struct{}{} })
}

// Unwrap lets http.ResponseController find what is below.
func (b *beginning) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// patience is how long a script waits for what comes at once.
const patience = time.Minute

func cmdModelBegins(ts *testscript.TestScript, neg bool, args []string) {
	s, ok := servers(ts)[modelServerKey{}].(*modelServer)
	if neg || len(args) != 1 || !ok {
		ts.Fatalf("usage: modelbegins N, after modelserver")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for i := range n {
		select {
		case <-s.begun:
		case <-time.After(patience):
			ts.Fatalf("answer %d of %d has not begun", i+1, n)
		}
	}
}

func cmdInterrupts(ts *testscript.TestScript, neg bool, args []string) {
	code := stopAt(ts, os.Interrupt, neg, args)
	wantCode(ts, code, "130")
}

// cmdKills runs a command and kills it when it has printed a text.
func cmdKills(ts *testscript.TestScript, neg bool, args []string) {
	if code := stopAt(ts, os.Kill, neg, args); code == 0 {
		ts.Fatalf("the command ended by itself")
	}
}

// stopAt runs a command, sends it a signal when it has printed a text, and
// returns its exit code.
func stopAt(ts *testscript.TestScript, signal os.Signal, neg bool, args []string) int {
	if neg || len(args) < 2 || args[1] != "agenthost" {
		ts.Fatalf("usage: interrupts|kills TEXT agenthost ARGS...")
	}
	cmd := exec.Command(filepath.Join(ts.Getenv("BIN"), "agenthost"), args[2:]...)
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), ts.Stderr()
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "AGENTHOST_CACHE", "OPENAI_BASE_URL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	printed := readUntil(stdout, args[0])
	if !bytes.Contains(printed, []byte(args[0])) {
		ts.Fatalf("the command ended before it printed %q:\n%s", args[0], printed)
	}
	ts.Check(cmd.Process.Signal(signal))
	rest, err := io.ReadAll(stdout)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s%s", printed, rest)
	_ = cmd.Wait() // the exit code tells
	return cmd.ProcessState.ExitCode()
}

// readUntil reads until a text has come, or nothing comes any more.
func readUntil(r io.Reader, text string) []byte {
	var got []byte
	b := make([]byte, 4096)
	for !bytes.Contains(got, []byte(text)) {
		n, err := r.Read(b)
		got = append(got, b[:n]...)
		if err != nil {
			break
		}
	}
	return got
}

type answerKey struct{}

var goesOn = regexp.MustCompile(`(?m)^  agenthost (run .* --resume \S+) --(?:approve|reply) ([0-9a-f-]+)(?:=JSON)?$`)

// cmdAnswered continues a run that asked one question.
func cmdAnswered(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: answered DECISION [=X], after a run that asks")
	}
	found := goesOn.FindStringSubmatch(ts.ReadFile("stderr"))
	if found == nil {
		ts.Fatalf("the output does not say how to go on")
	}
	words := append(strings.Fields(found[1]), "--"+args[0], found[2]+strings.Join(args[1:], ""))
	servers(ts)[answerKey{}] = words
	wantCode(ts, exitOf(ts, ts.Exec("agenthost", words...)), "0")
}

func cmdAgain(ts *testscript.TestScript, neg bool, args []string) {
	words, ok := servers(ts)[answerKey{}].([]string)
	if !neg || !ok || len(args) > 0 {
		ts.Fatalf("usage: ! again, after answered")
	}
	if exitOf(ts, ts.Exec("agenthost", words...)) == 0 {
		ts.Fatalf("the same answer is taken twice")
	}
}

// cmdShape prints each JSON value of a file with types in the place of what
// differs from run to run, and equal lines once.
func cmdShape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shape FILE")
	}
	seen := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(ts.ReadFile(args[0])))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil || d.More() {
			ts.Fatalf("shape: %q is not one JSON value: %v", lines.Text(), err)
		}
		if s := shapeOf(v, ""); !seen[s] {
			seen[s] = true
			fmt.Fprintln(ts.Stdout(), s)
		}
	}
	ts.Check(lines.Err())
}

// kept are the members whose values are the contract, not the data.
var kept = []string{"type", "role", "code", "kind", "level", "finish_reason", "status", "abi", "manifest_source"}

// opaque are the members that hold any JSON, what tools and plugins made, and
// those of which some members are there only if they are not zero.
var opaque = []string{"arguments", "content", "report", "value", "cost"}

func shapeOf(v any, name string) string {
	if slices.Contains(opaque, name) {
		return "json"
	}
	switch v := v.(type) {
	case map[string]any:
		var members []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			members = append(members, k+":"+shapeOf(v[k], k))
		}
		return "{" + strings.Join(members, ",") + "}"
	case []any:
		var items []string
		for _, item := range v {
			if s := shapeOf(item, name); !slices.Contains(items, s) {
				items = append(items, s)
			}
		}
		return "[" + strings.Join(items, "|") + "]"
	case string:
		if slices.Contains(kept, name) {
			return strconv.Quote(v)
		}
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "bool"
	}
	return "null"
}
