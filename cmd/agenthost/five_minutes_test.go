package main

// The commands of testdata/script/five_minutes.txtar, the scenario of docs/serve.md: a
// server, and a client that speaks HTTP to it.

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

type serverKey struct{}

// cmdServes starts a command that serves HTTP, and sets URL to its address.
func cmdServes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[0] != "agenthost" {
		ts.Fatalf("usage: serves agenthost COMMAND ARGS...")
	}
	cmd := exec.Command(filepath.Join(ts.Getenv("BIN"), "agenthost"), args[1:]...)
	log, err := os.Create(ts.MkAbs("server.log"))
	ts.Check(err)
	defer log.Close() // the process has its own
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), log
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "AGENTHOST_CACHE", "GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	printed := readUntil(stdout, "/v1/runs")
	_, url, found := strings.Cut(string(printed), " at http")
	if !found {
		ts.Fatalf("the command does not say where it serves:\n%s", printed)
	}
	ts.Setenv("URL", "http"+strings.Fields(url)[0])
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	servers(ts)[serverKey{}] = cmd
}

// cmdTerminates sends the server SIGTERM and wants it to end well.
func cmdTerminates(ts *testscript.TestScript, neg bool, args []string) {
	cmd, ok := servers(ts)[serverKey{}].(*exec.Cmd)
	if neg || !ok || len(args) > 0 {
		ts.Fatalf("usage: terminates, after serves")
	}
	ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	ts.Check(cmd.Wait())
}

// cmdKeep sets a variable to the last output, without its end of line, or to a member of
// the object that it is.
func cmdKeep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: keep VARIABLE [MEMBER]")
	}
	text := strings.TrimSuffix(ts.ReadFile("stdout"), "\n")
	if len(args) == 2 {
		var members map[string]any
		ts.Check(json.Unmarshal([]byte(text), &members))
		text, _ = members[args[1]].(string)
	}
	ts.Setenv(args[0], text)
}

// headerFlag collects the headers of a request.
type headerFlag http.Header

func (h headerFlag) String() string { return "" }

func (h headerFlag) Set(text string) error {
	name, value, _ := strings.Cut(text, ":")
	http.Header(h).Set(name, strings.TrimSpace(value))
	return nil
}

// cmdCurl is as much of curl as the page needs: curl STATUS [-X METHOD] [-H HEADER]
// [--json BODY] [--data-binary @FILE] URL. It prints the answer and wants its status.
func cmdCurl(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: curl STATUS ARGS... URL")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	header := http.Header{}
	flags := flag.NewFlagSet("curl", flag.ContinueOnError)
	method, body, file := flags.String("X", "", ""), flags.String("json", "", ""), flags.String("data-binary", "", "")
	flags.Var(headerFlag(header), "H", "")
	ts.Check(flags.Parse(args[1:]))
	if *body != "" {
		header.Set("Content-Type", "application/json")
	}
	if name, ok := strings.CutPrefix(*file, "@"); ok {
		*body = ts.ReadFile(name)
	}
	if *method == "" && *body != "" {
		*method = "POST"
	}
	req, err := http.NewRequest(*method, flags.Arg(0), strings.NewReader(*body))
	ts.Check(err)
	req.Header = header
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
	if resp.StatusCode != status {
		ts.Fatalf("the answer has status %d, want %d", resp.StatusCode, status)
	}
}
