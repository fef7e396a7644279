package project

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/internal/testguest"
)

// The grants of the second plugin cannot be made: it is being closed, and waits for a call.
func TestAReloadWhoseLaterGrantFailsChangesNothing(t *testing.T) {
	var said []string
	l := steerable(t, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	dir := strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	writeProjectFile(t, dir, "later.wasm", string(testguest.Modules()["echo"]))
	if _, err := l.Load(t.Context(), "later", dir+"/later.wasm", nil); err != nil {
		t.Fatal(err)
	}
	save := func(ctx context.Context, grant, tenant string) string {
		t.Helper()
		text := strings.Replace(liveConfig(grant), "plugins: {", "plugins: {later: {path: later.wasm, grant: {"+grant+"}}, ", 1)
		writeProjectFile(t, dir, "agenthost.yaml", strings.Replace(text, "tenants: {acme:", "tenants: {"+tenant+":", 1)+"mcp: {"+tenant+": {url: "+mcpGreeter(t, "hello")+"}}\n")
		said = nil
		l.reconfigure(ctx)
		return strings.Join(said, "\n")
	}
	if all := save(t.Context(), "kv: read", "acme"); !strings.Contains(all, "are taken") {
		t.Fatalf("it says %s", all)
	}
	guest, later := l.project.plugins.slot("guest"), l.project.plugins.slot("later")
	before := guest.Granted()
	_, release := l.project.Runtime().Pin(t.Context())
	var closing sync.WaitGroup
	closing.Go(later.Close)
	defer closing.Wait()
	defer release()
	for later.Current() != nil {
		runtime.Gosched()
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if all := save(impatient, "kv: write", "other"); !strings.Contains(all, "the configuration stays as it was") {
		t.Fatalf("it says %s", all)
	}
	if diff := cmp.Diff(before, guest.Granted()); diff != "" {
		t.Errorf("the grants of the first plugin before (-) and after (+): %s", diff)
	}
	settings := l.project.tenants.settings()
	if settings.plugins["acme"] == nil || settings.plugins["other"] != nil {
		t.Errorf("the tenants are %v, want those before", settings.plugins)
	}
	if names := l.project.MCPServers().Names("acme"); !slices.Equal(names, []string{"acme"}) {
		t.Errorf("the MCP servers are %q, want those before", names)
	}
	if err := guest.Grant(t.Context(), before); err != nil {
		t.Errorf("a later grant of the first plugin: %v", err)
	}
}

// A name of an MCP server that a program has set is refused last, when tenants have been taken.
func TestAReloadWhoseServersAreRefusedKeepsTheTenants(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	change, err := l.readReconfiguration(l.project.config)
	if err != nil {
		t.Fatal(err)
	}
	next := *change.tenants
	next.plugins = nil
	change.tenants = &next
	if err := l.project.MCPServers().Close(); err != nil {
		t.Fatal(err)
	}
	before := l.project.tenants.settings()
	if err := change.take(t.Context(), l.say); err == nil {
		t.Fatal("closed servers were replaced")
	}
	if l.project.tenants.settings() != before {
		t.Error("the tenants of the refused configuration count")
	}
	if err := l.project.plugins.slot("guest").Grant(t.Context(), l.project.plugins.slot("guest").Granted()); err != nil {
		t.Errorf("a later grant: %v", err)
	}
}
