package project_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/testguest"
)

// openUploads opens a project whose agent has the tools of uploaded plugins, on a data
// directory.
func openUploads(t *testing.T, data, tools string, opts project.Options) *project.Project {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agenthost.yaml": "version: 1\nagents: {clerk: {tools: [" + tools + "]}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\ntool_options: [{tool: \"*\", timeout: 9s}]\n",
		"rules.yaml":     "rules: [{match: {after: t}, reply: {text: the tool has answered}}, {match: {tool: t}, reply: {calls: [{name: t, arguments: {}}]}}, {match: {}, reply: {text: no tool}}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opts.Data = data
	p, err := project.Load(t.Context(), dir, &opts)
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

func uploads(t *testing.T, p *project.Project) *library.Library {
	t.Helper()
	l, err := p.Library(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serveUpload uploads a module for a tenant and lets it serve.
func serveUpload(t *testing.T, l *library.Library, tenant, id, guest string) {
	t.Helper()
	v, err := l.Upload(t.Context(), tenant, id, bytes.NewReader(testguest.Modules()[guest]))
	if err == nil {
		_, err = l.Activate(t.Context(), tenant, id, v.Digest)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// answer runs a turn of a tenant and returns its text.
func answer(t *testing.T, p *project.Project, tenant string) string {
	t.Helper()
	r, err := p.Run(t.Context(), &host.Request{Tenant: tenant, Text: "hi"})
	if err != nil {
		return err.Error()
	}
	return r.Text()
}

func TestAgentsHaveTheToolsThatTheirTenantHasUploaded(t *testing.T) {
	for tools, want := range map[string][3]string{ // of acme, after a rollback to nothing, of umbrella
		`"uploaded:*"`:    {"the tool has answered", "no tool", "no tool"},
		`"uploaded:mine"`: {"the tool has answered", "no tool", "no tool"},
		`"uploaded:else"`: {"no tool", "no tool", "no tool"},
	} {
		p := openUploads(t, t.TempDir(), tools, project.Options{Replaceable: true})
		l := uploads(t, p)
		if got := answer(t, p, "acme"); got != "no tool" {
			t.Errorf("%s: before the upload: %s", tools, got)
		}
		serveUpload(t, l, "acme", "mine", "result")
		got := [3]string{answer(t, p, "acme")}
		if _, err := l.Deactivate(t.Context(), "acme", "mine"); err != nil {
			t.Fatal(err)
		}
		got[1], got[2] = answer(t, p, "acme"), answer(t, p, "umbrella")
		if got != want {
			t.Errorf("%s: the answers are %q, want %q", tools, got, want)
		}
	}
}

func TestTwoUploadsWithOneToolEndTheRun(t *testing.T) {
	p := openUploads(t, "", `"uploaded:*"`, project.Options{Replaceable: true})
	serveUpload(t, uploads(t, p), "acme", "mine", "result")
	serveUpload(t, uploads(t, p), "acme", "other", "result")
	if got := answer(t, p, "acme"); !strings.Contains(got, `"mine" and "other" both have a tool "t"`) {
		t.Errorf("the run ends with %s", got)
	}
	if got := answer(t, p, "umbrella"); got != "no tool" {
		t.Errorf("the run of another tenant: %s", got)
	}
}

func TestUploadsOutliveTheProcess(t *testing.T) {
	data := t.TempDir()
	p := openUploads(t, data, `"uploaded:*"`, project.Options{Replaceable: true})
	serveUpload(t, uploads(t, p), "acme", "mine", "result")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Library(t.Context()); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("the library of a closed project: %v", err)
	}
	p = openUploads(t, data, `"uploaded:*"`, project.Options{}) // a command, which opens it with the first run
	if got := answer(t, p, "acme"); got != "the tool has answered" {
		t.Errorf("in the next process: %s", got)
	}
}

func TestADeletedTenantLeavesNoUploads(t *testing.T) {
	p := openUploads(t, t.TempDir(), `"uploaded:*"`, project.Options{Replaceable: true})
	serveUpload(t, uploads(t, p), "acme", "mine", "result")
	serveUpload(t, uploads(t, p), "umbrella", "mine", "result")
	if err := p.Erasures().Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	report, err := p.Erasures().Prove(t.Context(), "acme")
	if err != nil || !report.Gone {
		t.Errorf("the proof is %+v, %v", report, err)
	}
	left, err := uploads(t, p).Find(t.Context(), "acme")
	if err != nil || left != 0 || answer(t, p, "umbrella") != "the tool has answered" {
		t.Errorf("of the deleted tenant %d entries are left, %v", left, err)
	}
}

// TestCommandsOnPluginsLeaveUploadsAlone reloads all plugins of the configuration, which
// uploads are none of.
func TestCommandsOnPluginsLeaveUploadsAlone(t *testing.T) {
	p := openUploads(t, "", `"uploaded:*"`, project.Options{Replaceable: true})
	l := uploads(t, p)
	serveUpload(t, l, "acme", "mine", "result")
	serveUpload(t, l, "", "shared", "says-error")
	r := project.NewReloader(p, func(string, ...any) {})
	if list := r.Plugins(); len(list) != 0 {
		t.Errorf("the plugins of the configuration are %v", list)
	}
	if _, err := r.Reload(context.Background(), ""); err != nil {
		t.Error(err)
	}
	if _, err := r.Unload(t.Context(), "shared"); host.CodeOf(err) != host.NotFound {
		t.Errorf("an uploaded plugin is unloaded as one of the configuration: %v", err)
	}
	if ids := l.Serving("umbrella"); !slices.Equal(ids, []string{"shared"}) {
		t.Errorf("another tenant has %v", ids)
	}
}
