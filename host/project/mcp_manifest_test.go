package project_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/testguest"
)

// offeringManifest is that of a plugin which offers people something beside its tool.
const offeringManifest = `{"abi":1,"name":"shop","tools":[{"name":"t","description":"","parameters":{"type":"object"},"annotations":{"destructive":true}}],
"resources":[{"uri":"shop://terms","name":"terms","media_type":"text/markdown","text":"# Terms"},{"uri":"shop://charts/{month}","name":"chart","tool":"t"}],
"prompts":[{"name":"complaint","arguments":[{"name":"order","required":true}],"text":"Write about {{.arguments.order}}."},{"name":"reply","tool":"t"}]}`

// offeringProject opens a project with that plugin.
func offeringProject(t *testing.T, more string) *project.Project {
	t.Helper()
	wasm, err := plugin.WithManifest(testguest.Modules()["media"], []byte(offeringManifest))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agenthost.yaml": "version: 1\nagents: {clerk: {tools: [shop]}}\nplugins: {shop: {path: shop.wasm, prefix: s_}}\ntenants: {poor: {plugins: []}}\n" +
			"models: {m: {provider: scripted, rules: rules.yaml}}\nserve_mcp: {tools: [shop]}\n" + more,
		"rules.yaml": "rules: [{match: {}, reply: {text: hello}}]\n",
		"shop.wasm":  string(wasm),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := project.Load(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestClientsAreOfferedTheResourcesAndPromptsOfManifests(t *testing.T) {
	p := offeringProject(t, "")
	s := mcpClient(t, p, "acme", nil)
	read := func(uri string) *mcp.ReadResourceResult {
		t.Helper()
		r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if c := read("shop://terms").Contents; len(c) != 1 || c[0].Text != "# Terms" || c[0].MIMEType != "text/markdown" {
		t.Errorf("the terms are %+v", c)
	}
	if c := read("shop://charts/may").Contents; len(c) != 2 || c[0].Text != "a chart" || string(c[1].Blob) != "\x01\x02" || c[1].MIMEType != "image/png" {
		t.Errorf("a chart is %+v", c)
	}
	for name, want := range map[string]string{"complaint": "Write about 7.", "reply": "a chart"} {
		got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: map[string]string{"order": "7"}})
		if err != nil || got.Messages[0].Content.(*mcp.TextContent).Text != want {
			t.Errorf("the prompt %s is %+v, %v", name, got, err)
		}
	}
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "s_t", Arguments: map[string]any{}})
	if err != nil || len(r.Content) != 2 || string(r.Content[1].(*mcp.ImageContent).Data) != "\x01\x02" {
		t.Errorf("the tool answers %+v, %v", r, err)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if hint := tool.Annotations; tool.Name == "s_t" && (hint.DestructiveHint == nil || !*hint.DestructiveHint) {
			t.Errorf("the tool has the annotations %+v", hint)
		}
	}
	poor := mcpClient(t, p, "poor", nil)
	if got, err := poor.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://terms"}); err == nil {
		t.Errorf("a tenant without the plugin reads %+v", got.Contents)
	}
}

// TestAPersonReadsThatACallMayDestroy asks for an approval that the configuration wants; reading
// by the same tool asks nobody, and fails.
func TestAPersonReadsThatACallMayDestroy(t *testing.T) {
	p := offeringProject(t, "approve: [{tool: s_t, reason: It is expensive}]\n")
	asked := ""
	s := mcpClient(t, p, "acme", &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked = r.Params.Message
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "s_t", Arguments: map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(asked, "It is expensive; the call may change or remove what is there") {
		t.Errorf("the person reads %q", asked)
	}
	if got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://charts/may"}); err == nil || !strings.Contains(err.Error(), "asks a person") {
		t.Errorf("a resource of a tool that needs an approval is %+v, %v", got, err)
	}
}
