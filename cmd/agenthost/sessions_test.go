package main

// Scenario: turns in the background outlive the commands that began them, and their host.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/internal/testcode"
)

// slowModel is a model on another machine: it tells when it is asked, and answers
// when it may.
type slowModel struct {
	*httptest.Server
	asked, open chan struct{}
}

func newSlowModel(t *testing.T) *slowModel {
	t.Helper()
	rules, err := scriptedmodel.ReadRules([]byte(`{"rules":[{"match":{},"reply":{"text":"it is done"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	scripted, err := scriptedmodel.New(&scriptedmodel.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	m := &slowModel{asked: make(chan struct{}, maxAnswers), open: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked <- struct{}{}
		body, err := io.ReadAll(r.Body) // only then the server sees that a client is gone
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		select {
		case <-m.open:
			scripted.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { m.CloseClientConnections(); m.Close() })
	return m
}

// backgroundHost is a project and a data directory, and a way to run commands.
type backgroundHost struct {
	t                *testing.T
	dir, data, cache string
	model            *slowModel
	stdin            *io.PipeWriter
	out              *screen
	done             chan int
}

func newBackgroundHost(t *testing.T) *backgroundHost {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // short: there is to be a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &backgroundHost{t: t, dir: dir, data: filepath.Join(dir, "data"), cache: testcode.Project(t), model: newSlowModel(t)}
	writeText(t, dir, "agenthost.yaml", fmt.Sprintf(`version: 1
agents: {clerk: {}, other: {}}
networks: {desk: {agents: [clerk], router: in_order}}
default: desk
models: {m: {provider: openai, name: slow, base_url: "%s/v1"}}
`, h.model.URL))
	return h
}

func (h *backgroundHost) getenv(name string) string {
	return map[string]string{"AGENTHOST_CACHE": h.cache}[name]
}

// start starts a host in this process.
func (h *backgroundHost) start(args ...string) {
	h.t.Helper()
	stdin, typed := io.Pipe()
	h.stdin, h.out, h.done = typed, &screen{t: h.t, wrote: make(chan struct{}, 1)}, make(chan int, 1)
	go func() {
		env := &environment{stdin: stdin, stdout: h.out, stderr: h.out, getenv: h.getenv, stdinTerminal: true}
		h.done <- run(context.Background(), append(args, h.dir, "--data", h.data), env)
	}()
}

// stop ends it as a person does.
func (h *backgroundHost) stop() {
	h.t.Helper()
	if err := h.stdin.Close(); err != nil {
		h.t.Fatal(err)
	}
	if code := <-h.done; code != 0 {
		h.t.Errorf("the host ends with exit code %d", code)
	}
}

// do runs another command, which wants an exit code and prints something.
func (h *backgroundHost) do(code int, want string, args ...string) string {
	h.t.Helper()
	return wantExit(h.t, h.getenv, code, want, append(args, "--data", h.data)...)
}

var inBackground = regexp.MustCompile(`snapshot (\S+)\)`)

// detach begins a turn in the background and returns its snapshot when the model
// is being asked.
func (h *backgroundHost) detach(args ...string) string {
	h.t.Helper()
	text := h.do(0, "runs in the background", append([]string{"chat", "--detach"}, args...)...)
	<-h.model.asked
	return inBackground.FindStringSubmatch(text)[1]
}

// Turns in the background are listed, asked about, waited for and ended over the
// socket of the host; a host that is stopped leaves them to the next one.
func TestTurnsInTheBackground(t *testing.T) {
	h := newBackgroundHost(t)
	h.do(3, "no host is running", "session", "list")
	h.start("dev")
	h.out.waitFor("> ")
	h.do(0, "No turn is in the background.", "session", "list")
	h.do(0, "{\"items\":[]}\n", "session", "list", "--json")
	one := h.detach("--session", "s1", "check it")
	h.do(0, one+"  pending  desk", "session", "list")
	h.do(0, "No turn is in the background.", "session", "list", "--tenant", "eve")
	h.do(0, "pending (desk, since", "session", "status", one)
	h.do(0, "pending (desk, since", "session", "status", one[:30])
	h.do(0, "a host serves it", "doctor")
	h.do(4, "there is no snapshot", "session", "status", one, "--tenant", "eve")
	h.do(4, "there is no snapshot", "session", "status", "r9:s1")
	h.do(4, "there is no snapshot", "session", "wait", one, "--target", "other")
	h.do(6, "has not ended after 1ms", "session", "wait", one, "--timeout", "1ms")
	h.do(2, "--timeout is -1s", "session", "wait", one, "--timeout", "-1s")
	completes(t, h.getenv, one+"\tpending", "session", "wait", "--data", h.data, "")

	two := h.detach("--target", "other", "check that")
	h.do(0, `"status":"aborting"`, "session", "abort", two, "--json")
	h.do(130, "(aborted; session", "session", "wait", two)
	h.do(0, "aborted\n", "session", "abort", two)

	h.stop()
	h.start("run") // a conversation with --data is a host, too
	h.out.waitFor("* going on with 1 turn in the background that a host has left: ")
	<-h.model.asked
	h.out.waitFor("> ")
	close(h.model.open)
	h.do(0, "it is done\n(completed; session s1; snapshot "+one+")\n", "session", "wait", one)
	var snap sessions.Snapshot
	if err := json.Unmarshal([]byte(h.do(0, "", "session", "wait", one, "--json")), &snap); err != nil || len(snap.State.Messages) != 2 {
		t.Errorf("the turn left %+v, %v; want the question and its answer, once", snap, err)
	}
	h.do(0, "completed\n", "session", "abort", one)
	h.do(0, "No turn is in the background.", "session", "list")
	h.stop()
}

// A host that was killed has left a turn in the background and a durable run: the next
// one continues both.
func TestAHostThatWasKilled(t *testing.T) {
	h := newBackgroundHost(t)
	child := exec.Command(os.Args[0], "dev", h.dir, "--data", h.data)
	child.Args[0] = "agenthost" // see TestMain
	child.Env = append(os.Environ(), "AGENTHOST_CACHE="+h.cache)
	out := &screen{t: t, wrote: make(chan struct{}, 1)}
	child.Stdout, child.Stderr = out, out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	out.waitFor("Steer this host with")
	one := h.detach("--tenant", "acme", "check it")
	durable := make(chan int, 1)
	go func() {
		var b output
		durable <- run(t.Context(), []string{"run", h.dir, "--data", h.data, "--durable", "--thread", "t1", "check it as well"},
			&environment{stdin: strings.NewReader(""), stdout: &b, stderr: &b, getenv: h.getenv})
	}()
	<-h.model.asked
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()    // killed
	close(h.model.open) // the run in this process ends, and cannot store it any more
	if code := <-durable; code == 0 {
		t.Error("a run whose store is gone ends with exit code 0")
	}

	h.start("dev")
	h.out.waitFor("* going on with 1 turn in the background that a host has left: ")
	h.out.waitFor("--tenant acme")
	h.out.waitFor("> ")
	h.do(0, "it is done\n(completed;", "session", "wait", one, "--tenant", "acme")
	for limit := time.Now().Add(time.Minute); strings.Contains(h.do(0, "", "thread", "runs"), " open "); {
		if time.Now().After(limit) {
			t.Fatal("the durable run does not end")
		}
	}
	h.do(0, "it is done", "thread", "show", "t1")
	h.stop()
}
