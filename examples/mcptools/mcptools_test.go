package mcptools_test

// Scenario: the project runs with the server that it names, and with the definitions of its
// lock.

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
	"github.com/agenthost/agenthost/host/project"
)

// built returns a copy of the project with its server.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"agenthost.yaml", "rules.yaml", mcpclient.LockName} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(dir, "stock"), "./server").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

func TestTheAgentCallsTheServersTools(t *testing.T) {
	p, err := project.Load(t.Context(), built(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	result, err := p.Run(context.Background(), &host.Request{Text: "how much tea is there"})
	if err != nil {
		t.Fatal(err)
	}
	var told string
	if err := json.Unmarshal(result.Results[0].ToolResults()[0].Content, &told); err != nil || told != "40 boxes of tea in the warehouse north" {
		t.Errorf("the tool answers %q, %v", told, err)
	}
	report, err := p.MCPServers().Inspect(t.Context(), "default", "stock")
	if err != nil {
		t.Fatal(err)
	}
	states := []string{}
	for _, tool := range report.Tools {
		states = append(states, tool.Name+" "+string(tool.State))
	}
	if got, want := strings.Join(states, ", "), "burn left out, look_up accepted, order accepted"; got != want {
		t.Errorf("the tools are %s; want %s: agenthost mcp accept examples/mcptools", got, want)
	}
}
