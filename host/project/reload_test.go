package project

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/share"
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

// Plugins answers while a change waits for calls.
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

// A look that takes a minute, because a change or a terminal holds it up, is no reason to
// look again after twenty.
func TestAPollThatWaitedDelaysTheNextByTwoSeconds(t *testing.T) {
	said := make(chan string, 10)
	var waited bool // by the goroutine of the polls
	l := steerable(t, func(format string, args ...any) {
		if !waited {
			time.Sleep(time.Minute)
			waited = true
		}
		said <- fmt.Sprintf(format, args...)
	})
	l.Watch()
	dir := strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	writeProjectFile(t, dir, configfile.FileName, "agents: {clerk: {tools: [}}\n")
	synctest.Test(t, func(t *testing.T) {
		stop := l.Poll(t.Context())
		defer stop()
		time.Sleep(time.Minute + time.Second)
		for len(said) > 0 {
			<-said
		}
		if !waited {
			t.Fatal("the saved configuration is not seen")
		}
		writeProjectFile(t, dir, configfile.FileName, "agents: {clerk: {tools: [}, other: {}}\n")
		time.Sleep(2 * maxPollInterval)
		if len(said) == 0 {
			t.Error("what was saved after a poll of a minute is not seen four seconds later")
		}
	})
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

// Clients of MCP ask what they are offered while plugins of new ids are loaded.
func TestPluginsAreLoadedWhileClientsAreOfferedTools(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	l.project.config.ServeMCP.Tools = []string{"guest"}
	module := strings.TrimSuffix(l.project.config.Name, configfile.FileName) + "guest.wasm"
	catalog, loaded := &mcpCatalog{project: l.project}, make(chan struct{})
	var offering sync.WaitGroup
	offering.Go(func() {
		for {
			select {
			case <-loaded:
				return
			default:
			}
			if offers, err := catalog.Offers(t.Context(), "other"); err != nil || len(offers.Tools) != 1 {
				t.Errorf("Offers = %+v, %v", offers, err)
				return
			}
		}
	})
	for i := range 5 {
		if _, err := l.Load(t.Context(), fmt.Sprint("more", i), module, nil); err != nil {
			t.Error(err)
		}
	}
	close(loaded)
	offering.Wait()
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
	if all := strings.Join(said, "\n"); !strings.Contains(all, "stays held back") || !strings.Contains(all, "grants, tenants, prices and MCP servers are taken") || strings.Contains(all, "as it was") {
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

// A plugin that a saved configuration has no more serves as before, for agents name it until the
// restart. The reload says so, and how to end it.
func TestAPluginThatWasRemovedKeepsItsGrantsUntilTheRestart(t *testing.T) {
	var said []string
	l := steerable(t, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	s := l.project.plugins.slot("guest")
	before := s.Granted()
	dir := strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	writeProjectFile(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")
	l.reconfigure(t.Context())
	if all := strings.Join(said, "\n"); !strings.Contains(all, "agenthost plugin unload guest") || !strings.Contains(all, "start again for the rest") {
		t.Errorf("it says %s", all)
	}
	if diff := cmp.Diff(before, s.Granted()); diff != "" || s.Current() == nil {
		t.Errorf("the plugin serves: %t, its grants before (-) and after (+): %s", s.Current() != nil, diff)
	}
	said = nil
	if _, err := l.Unload(t.Context(), "guest"); err != nil {
		t.Fatal(err)
	}
	if l.reconfigure(t.Context()); strings.Contains(strings.Join(said, "\n"), "unload") {
		t.Errorf("after the plugin has ended it says %q", said)
	}
}

// mcpGreeter serves an MCP server with one tool, and returns its address.
func mcpGreeter(t *testing.T, tool string) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: tool, Description: "Greets."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL
}

// TestMCPServersOfASavedConfigurationAreTaken adds, moves and removes servers while the host
// runs, and saves a fault.
func TestMCPServersOfASavedConfigurationAreTaken(t *testing.T) {
	var said []string
	l := steerable(t, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	servers, dir := l.project.MCPServers(), strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	tools := func(server string) (names []string) {
		report, err := servers.Inspect(t.Context(), "acme", server)
		if err != nil {
			return nil
		}
		for _, tool := range report.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	first, second := mcpGreeter(t, "hello"), mcpGreeter(t, "goodbye")
	save := func(mcp string) {
		said = nil
		writeProjectFile(t, dir, "agenthost.yaml", liveConfig("kv: read")+mcp)
		l.reconfigure(t.Context())
	}
	for _, step := range []struct {
		mcp   string
		want  []string
		fault string
	}{
		{"mcp: {one: {url: " + first + "}}\n", []string{"hello"}, ""},
		{"mcp: {one: {url: " + second + "}}\n", []string{"goodbye"}, ""},
		{"mcp: {one: {url: ftp://nowhere}}\n", []string{"goodbye"}, "its URL cannot be used"},
		{"mcp: {two: {url: " + first + "}}\n", nil, ""},
	} {
		save(step.mcp)
		all := strings.Join(said, "\n")
		if got := tools("one"); !slices.Equal(got, step.want) {
			t.Errorf("after %s the tools of the server are %q, want %q", step.mcp, got, step.want)
		}
		if failed := strings.Contains(all, "the configuration stays as it was"); failed != (step.fault != "") || !strings.Contains(all, step.fault) || strings.Contains(all, "start again") {
			t.Errorf("after %s it says %s", step.mcp, all)
		}
	}
	if got := tools("two"); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("the tools of the added server are %q", got)
	}
}

// TestAFailedReloadKeepsTheMCPServers saves a configuration that moves an MCP server, and whose
// grants fail: the plugin is being closed, and waits for a call.
func TestAFailedReloadKeepsTheMCPServers(t *testing.T) {
	var said []string
	l := steerable(t, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	servers, dir := l.project.MCPServers(), strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	save := func(ctx context.Context, url string) {
		t.Helper()
		writeProjectFile(t, dir, "agenthost.yaml", liveConfig("kv: read")+"mcp: {one: {url: "+url+"}}\n")
		l.reconfigure(ctx)
	}
	save(t.Context(), mcpGreeter(t, "hello"))
	_, release := l.project.Runtime().Pin(t.Context())
	guest := l.project.plugins.slot("guest")
	var closing sync.WaitGroup
	closing.Go(guest.Close)
	defer closing.Wait()
	defer release()
	for guest.Current() != nil {
		runtime.Gosched()
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	save(impatient, mcpGreeter(t, "goodbye"))
	if all := strings.Join(said, "\n"); !strings.Contains(all, "the configuration stays as it was") {
		t.Fatalf("it says %s", all)
	}
	report, err := servers.Inspect(t.Context(), "acme", "one")
	if err != nil || len(report.Tools) != 1 || report.Tools[0].Name != "hello" {
		t.Errorf("after a reload that failed the server is %+v, %v", report, err)
	}
}

// TestASavedConfigurationKeepsTheServersThatAProgramHasSet saves the file while a tenant that it
// lists, without MCP servers, has some that the program has set; and then a server of all tenants
// of the same name.
func TestASavedConfigurationKeepsTheServersThatAProgramHasSet(t *testing.T) {
	var said []string
	l := steerable(t, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	servers, dir := l.project.MCPServers(), strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	url := mcpGreeter(t, "hello")
	if err := servers.SetTenant("acme", []mcpclient.Server{{Name: "own", URL: url}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		mcp, said string
		want      []string
	}{
		{"", "are taken", []string{"own"}},
		{"mcp: {two: {url: " + url + "}}\n", "are taken", []string{"own", "two"}},
		{"mcp: {own: {url: " + url + "}}\n", "the configuration stays as it was", []string{"own", "two"}},
	} {
		said = nil
		writeProjectFile(t, dir, "agenthost.yaml", liveConfig("kv: write")+step.mcp)
		l.reconfigure(t.Context())
		if all, got := strings.Join(said, "\n"), servers.Names("acme"); !strings.Contains(all, step.said) || !slices.Equal(got, step.want) {
			t.Errorf("after %q the tenant has %q, want %q; it says %s", step.mcp, got, step.want, all)
		}
	}
}

func TestASavedLockOfMCPServersIsTaken(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	dir := strings.TrimSuffix(l.project.config.Name, "/"+configfile.FileName)
	writeProjectFile(t, dir, "agenthost.yaml", liveConfig("kv: read")+"mcp: {one: {url: "+mcpGreeter(t, "hello")+"}}\n")
	l.reconfigure(t.Context())
	l.Watch()
	other, err := OpenMCPServers(&File{l.project.config}, nil) // of another process: agenthost mcp accept
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := other.Accept(t.Context(), "acme", "one"); err != nil {
		t.Fatal(err)
	}
	if err := other.WriteLock(); err != nil {
		t.Fatal(err)
	}
	l.Refresh(t.Context())
	report, err := l.project.MCPServers().Inspect(t.Context(), "acme", "one")
	if err != nil || !report.Locked || report.Tools[0].State != mcpclient.StateAccepted {
		t.Errorf("after the lock was saved the server is %+v, %v", report, err)
	}
}

func TestASharedPluginIsReadAgainByItsLock(t *testing.T) {
	l := steerable(t, func(string, ...any) {})
	dir := strings.TrimSuffix(l.project.config.Name, "/agenthost.yaml")
	client, err := share.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ref, err := share.ParseReference("oci-layout:" + dir + "/dist:1")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := client.Push(t.Context(), ref, &share.Artifact{Module: testguest.Modules()["quiet"]})
	if err != nil {
		t.Fatal(err)
	}
	l.setSource("guest", "oci-layout:dist:1")
	if _, err := l.Reload(t.Context(), "guest"); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "agenthost.lock") {
		t.Errorf("a reload without a lock: %v", err)
	}
	l.setSource("guest", "oci-layout:dist@"+digest)
	changes, err := l.Reload(t.Context(), "guest")
	if err != nil || len(changes) != 1 {
		t.Errorf("a reload of the digest = %v, %v", changes, err)
	}
}
