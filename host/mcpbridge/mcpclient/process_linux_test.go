package mcpclient_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

func init() {
	// A server that starts a program of its own, which does not end with its input.
	roles["parent"] = func(ctx context.Context) error {
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			return err
		}
		s := newGreeter()
		mcp.AddTool(s, &mcp.Tool{Name: "pids"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return textResult(fmt.Sprint(os.Getpid(), " ", child.Process.Pid)), nil, nil
		})
		return s.Run(ctx, &mcp.StdioTransport{})
	}
	// A host that prints the processes of its server, and waits to be killed.
	roles["host"] = func(ctx context.Context) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		servers, err := mcpclient.New(&mcpclient.Options{Servers: []mcpclient.Server{{Name: "parent", Command: []string{self}, Env: []mcpclient.Setting{{Name: roleVariable, Value: "stubborn"}}}}})
		if err != nil {
			return err
		}
		report, err := servers.ReadResource(ctx, "acme", "parent", "pid://self")
		fmt.Println(strings.Join(report, ""), err)
		<-ctx.Done()
		return nil
	}
	// A server that lives on without its input.
	roles["stubborn"] = func(ctx context.Context) error {
		s := mcp.NewServer(&mcp.Implementation{Name: "stubborn", Version: "1"}, nil)
		s.AddResource(&mcp.Resource{URI: "pid://self", Name: "pid"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "pid://self", Text: strconv.Itoa(os.Getpid())}}}, nil
		})
		_ = s.Run(ctx, &mcp.StdioTransport{})
		select {}
	}
}

// lives reports whether a process runs.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestTheProcessesOfAServerEndWithTheHost(t *testing.T) {
	servers, err := mcpclient.New(&mcpclient.Options{Servers: []mcpclient.Server{stdioServer(t, "parent", "parent")}})
	must(t, err)
	got, _ := callTool(t, servers, "acme", "parent__pids", `{}`)
	var server, child int
	if _, err := fmt.Sscan(got, &server, &child); err != nil || !lives(server) || !lives(child) {
		t.Fatalf("the server answers %q, %v", got, err)
	}
	must(t, servers.Close())
	waitFor(t, "the server and its child end", func() bool { return !lives(server) && !lives(child) })
}

// TestReplacedServersEndAndOthersStay removes a server, changes another and leaves a third.
func TestReplacedServersEndAndOthersStay(t *testing.T) {
	removed, changed, kept := stdioServer(t, "removed", "parent"), stdioServer(t, "changed", "parent"), stdioServer(t, "kept", "parent")
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{removed, kept}, Tenants: map[string][]mcpclient.Server{"acme": {changed}}})
	pids := func(name string) (server, child int) {
		got, _ := callTool(t, servers, "acme", name+"__pids", `{}`)
		if _, err := fmt.Sscan(got, &server, &child); err != nil || !lives(server) || !lives(child) {
			t.Fatalf("%s answers %q, %v", name, got, err)
		}
		return server, child
	}
	gone := map[string][2]int{}
	for _, name := range []string{"removed", "changed"} {
		server, child := pids(name)
		gone[name] = [2]int{server, child}
	}
	stays, _ := pids("kept")
	changed.Timeout = time.Hour
	if err := servers.Replace([]mcpclient.Server{kept}, map[string][]mcpclient.Server{"acme": {changed, kept}}); fault.CodeOf(err) != fault.AlreadyExists {
		t.Errorf("a tenant's server of the name of a common one: %v, want already_exists", err)
	}
	if now, _ := pids("changed"); now != gone["changed"][0] {
		t.Error("servers that are refused replace others")
	}
	must(t, servers.Replace([]mcpclient.Server{kept}, map[string][]mcpclient.Server{"acme": {changed}}))
	for name, of := range gone {
		waitFor(t, "the processes of the server that is "+name+" end", func() bool { return !lives(of[0]) && !lives(of[1]) })
	}
	if now, _ := pids("kept"); now != stays {
		t.Error("a server that is as before was started again")
	}
	if now, _ := pids("changed"); now == gone["changed"][0] {
		t.Error("a changed server answers from its old process")
	}
	if names := servers.Names("acme"); !slices.Equal(names, []string{"changed", "kept"}) {
		t.Errorf("the tenant has %q", names)
	}
}

func TestAServerEndsWithAHostThatIsKilled(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=host")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil || !lives(pid) {
		t.Fatalf("the host says %q", line)
	}
	must(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	waitFor(t, "the server ends", func() bool { return !lives(pid) })
}

func TestAProcessSeesNoEnvironmentButItsOwn(t *testing.T) {
	t.Setenv("AGENTHOST_SECRET_OF_THE_HOST", "not for servers")
	server := stdioServer(t, "greeter", "greeter")
	server.Env = append(server.Env, mcpclient.Setting{Name: "TOKEN", Secret: "TOKEN"})
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}, Secrets: secrets{"acme/TOKEN": "of-acme", "umbrella/TOKEN": "of-umbrella"}})
	for tenant, other := range map[string]string{"acme": "umbrella", "umbrella": "acme"} {
		got, _ := callTool(t, servers, tenant, "greeter__environment", `{}`)
		for line := range strings.Lines(got) {
			name, _, _ := strings.Cut(line, "=")
			if !strings.Contains(" PATH HOME LANG TZ TMPDIR TOKEN "+roleVariable+" ", " "+name+" ") {
				t.Errorf("the server of %s sees %q", tenant, line)
			}
		}
		if !strings.Contains(got, "TOKEN=of-"+tenant) || strings.Contains(got, "of-"+other) {
			t.Errorf("the server of %s sees %q", tenant, got)
		}
	}
}
