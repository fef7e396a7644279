package project

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// steerable is a host with the plugin guest, which serves and asks for nothing.
func steerable(t *testing.T, say func(string, ...any)) *Reloader {
	t.Helper()
	dir, cache := t.TempDir(), testcode.Project(t)
	writeProjectFile(t, dir, "agenthost.yaml", liveConfig("kv: read"))
	writeProjectFile(t, dir, "rules.yaml", "rules: [{match: {}, reply: {text: hi}}]\n")
	writeProjectFile(t, dir, "guest.wasm", string(testguest.Modules()["echo"]))
	c, err := ReadFile(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), c, &Options{Replaceable: true, Getenv: func(name string) string {
		if name == "AGENTHOST_CACHE" {
			return cache
		}
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewReloader(a, say)
}

func liveConfig(grant string) string {
	return fmt.Sprintf(`version: 1
agents: {clerk: {tools: [guest/t]}}
plugins: {guest: {path: guest.wasm, grant: {%s}}}
tenants: {acme: {plugins: []}}
models: {m: {provider: scripted, rules: rules.yaml}}
`, grant)
}

// Whoever asks what a host does is answered while a change waits for calls.
func TestListDoesNotWaitForChanges(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	l.changing.Lock() // as unload has it until the last call has ended
	defer l.changing.Unlock()
	listed := make(chan []PluginStatus)
	go func() {
		listed <- l.Plugins()
	}()
	select {
	case list := <-listed:
		if len(list) != 1 || list[0].ID != "guest" || !strings.HasSuffix(list[0].Path, "guest.wasm") {
			t.Errorf("the list is %+v", list)
		}
	case <-time.After(time.Minute):
		t.Error("the list waits")
	}
}

// A version that is rolled back to is read again from where it came.
func TestRollbackGoesBackToTheFile(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	dir := strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	writeProjectFile(t, dir, "other.wasm", string(testguest.Modules()["state-get"]))
	l.Watch()
	if _, err := l.Load(t.Context(), "guest", dir+"/other.wasm", &plugin.Permissions{State: plugin.Read, Messages: true, HTTP: []plugin.HTTPAccess{{Scheme: "https", Host: "example.com"}}}); err != nil {
		t.Fatal(err)
	}
	is := func(what, file string) {
		t.Helper()
		if path := l.sourcePaths()["guest"]; path != dir+"/"+file {
			t.Errorf("%s the plugin comes from %s, want %s", what, path, file)
		}
	}
	is("loaded,", "other.wasm")
	serving := l.project.plugins.runtime.Slot("guest").Current().Digest()
	if _, err := l.Rollback(t.Context(), "guest"); err != nil {
		t.Fatal(err)
	}
	is("rolled back,", "guest.wasm")
	c, err := l.Reload(t.Context(), "guest")
	if err != nil || !c[0].Same || c[0].Serves.Digest == serving {
		t.Errorf("read again, what was rolled back serves: %+v, %v", c, err)
	}
}

// What is granted with a module that does not load is not granted to the version
// that stays.
func TestAFailedLoadChangesNoGrants(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	dir := strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	writeProjectFile(t, dir, "bad.wasm", "\x00asm\x01\x00\x00\x00")
	s := l.project.plugins.runtime.Slot("guest")
	before := s.Granted()
	if _, err := l.Load(t.Context(), "guest", dir+"/bad.wasm", &plugin.Permissions{Messages: true}); err == nil {
		t.Fatal("a module without a manifest is loaded")
	}
	if diff := cmp.Diff(before, s.Granted()); diff != "" || before.KV != plugin.Read {
		t.Errorf("what is granted after it (+) and before (-): %s", diff)
	}
}

// Grants that are not enough for a version that is held back are grants all the
// same, and so is the rest of the configuration.
func TestGrantsOfAHeldVersionAreTaken(t *testing.T) {
	var said []string
	l := steerable(t, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	s := l.project.plugins.runtime.Slot("guest")
	if _, err := s.Replace(t.Context(), testguest.Modules()["state-get"]); host.CodeOf(err) != host.PermissionDenied {
		t.Fatalf("a version that asks for more: %v", err)
	}
	dir := strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	writeProjectFile(t, dir, "agenthost.yaml", strings.Replace(liveConfig("state: read"), "acme", "globex", 1))
	l.reconfigure(context.Background())
	if all := strings.Join(said, "\n"); !strings.Contains(all, "stays held back") || !strings.Contains(all, "grants, tenants and prices are taken") || strings.Contains(all, "as it was") {
		t.Errorf("it says %s", all)
	}
	if _, has := l.project.config.Tenants["globex"]; !has {
		t.Errorf("the tenants are %v", l.project.config.Tenants)
	}
	if got := s.Current().Granted(); got.State != plugin.None && got.State != "" {
		t.Errorf("the version that serves has %+v of what it did not ask for", got)
	}
	if v := s.State(); !v.Held {
		t.Errorf("no version is held back: %+v", v)
	}
}
