package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/internal/testguest"
)

// marked is a guest whose digest, but nothing else, is another for each mark.
func marked(name, mark string) string {
	return string(testguest.Section(slices.Clone(testguest.Modules()[name]), 0, append(testguest.String("mark"), mark...)))
}

func TestAPluginIsUploadedAndServes(t *testing.T) {
	var plugins *library.Library
	s := newServer(t, func(o *httpapi.Options) { plugins = o.Plugins.(*library.Library) })
	var first, second library.Version
	s.do("acme", "POST", "/v1/plugins/notes/versions", marked("kv-put", "1"), 201, &first, "Content-Type", "application/wasm")
	s.do("acme", "POST", "/v1/plugins/notes/versions", marked("kv-put", "1"), 201, &second)
	if first.Digest != second.Digest || len(first.Tools) != 1 || len(first.Missing) != 1 {
		t.Errorf("the versions of one module are %+v and %+v", first, second)
	}
	s.do("acme", "POST", "/v1/plugins/notes/versions", marked("kv-put", "2"), 201, &second)
	one, two := "/v1/plugins/notes/versions/"+first.Digest, "/v1/plugins/notes/versions/"+second.Digest
	s.do("acme", "POST", one+"/activate", "", 403, nil)
	s.do("acme", "POST", one+"/accept", "", 200, nil)
	s.do("acme", "PUT", "/v1/plugins/notes/grants", `{"kv":"write"}`, 200, nil)
	var p, back, ended library.Plugin
	s.do("acme", "POST", two+"/activate", "", 200, &p)
	if p.Serving != second.Digest || !slices.Equal(p.Previous, []string{first.Digest}) || p.Granted.KV != "write" {
		t.Errorf("the plugin is %+v", p)
	}
	if _, err := plugins.Lookup("acme", "notes"); err != nil {
		t.Error(err)
	}
	s.do("acme", "POST", "/v1/plugins/notes/rollback", "", 200, &back)
	s.do("acme", "POST", "/v1/plugins/notes/rollback", "", 412, nil)
	if back.Serving != first.Digest {
		t.Errorf("after the rollback %s serves", back.Serving)
	}
	s.do("acme", "DELETE", one, "", 412, nil)
	s.do("acme", "DELETE", two, "", 200, nil)
	resp, raw := s.request("acme", "GET", one+"/manifest", "")
	if resp.StatusCode != 200 || !bytes.Contains(raw, []byte(`"tools"`)) {
		t.Errorf("the manifest is %d %s", resp.StatusCode, raw)
	}
	resp, raw = s.request("acme", "GET", one+"/module", "")
	if resp.Header.Get("Content-Type") != "application/wasm" || string(raw) != marked("kv-put", "1") {
		t.Errorf("the module is %d bytes of %s", len(raw), resp.Header.Get("Content-Type"))
	}
	var page httpapi.PluginPage
	s.do("acme", "GET", "/v1/plugins?limit=1", "", 200, &page)
	if len(page.Plugins) != 1 || page.Plugins[0].ID != "notes" || page.Next != "" {
		t.Errorf("the page is %+v", page)
	}
	s.do("acme", "POST", "/v1/plugins/notes/deactivate", "", 200, &ended)
	if _, err := plugins.Lookup("acme", "notes"); host.CodeOf(err) != host.NotFound || ended.Serving != "" {
		t.Errorf("a plugin that was deactivated: %v, %+v", err, ended)
	}
	s.do("acme", "DELETE", "/v1/plugins/notes", "", 204, nil)
	s.do("acme", "GET", "/v1/plugins/notes", "", 404, nil)
}

// Each change of a plugin is refused under the ETag of an earlier state, and made under that of
// the present one.
func TestChangesOfAPluginUnderACondition(t *testing.T) {
	s := newServer(t, nil)
	for _, c := range []struct{ credential, path string }{{"acme", "/v1/plugins/p"}, {"@root", "/v1/admin/plugins/p"}} {
		version := c.path + "/versions/" + s.fillPlugin(c.credential, c.path, "condition")
		old := s.do(c.credential, "GET", c.path, "", 200, nil).Header.Get("ETag")
		s.do(c.credential, "PUT", c.path+"/grants", `{"kv":"read"}`, 200, nil)
		for _, change := range []struct {
			method, path, body string
			status             int
		}{
			{"PUT", c.path + "/grants", `{"kv":"write"}`, 200}, {"POST", version + "/activate", "", 200}, {"POST", c.path + "/rollback", "", 200},
			{"POST", version + "/accept", "", 200}, {"POST", c.path + "/deactivate", "", 200}, {"DELETE", version, "", 200}, {"DELETE", c.path, "", 204},
		} {
			before := s.do(c.credential, "GET", c.path, "", 200, nil).Header.Get("ETag")
			s.do(c.credential, change.method, change.path, change.body, 412, nil, "If-Match", old)
			s.do(c.credential, change.method, change.path, change.body, 400, nil, "If-Match", "7")
			if now := s.do(c.credential, "GET", c.path, "", 200, nil).Header.Get("ETag"); now != before {
				t.Errorf("%s %s changed the plugin: its ETag is %s, and was %s", change.method, change.path, now, before)
			}
			made := s.do(c.credential, change.method, change.path, change.body, change.status, nil, "If-Match", before).Header.Get("ETag")
			if change.status == 200 && (made == "" || made == before) {
				t.Errorf("%s %s has the ETag %q after %q", change.method, change.path, made, before)
			}
		}
		s.do(c.credential, "GET", c.path, "", 404, nil)
	}
}

// TestATenantGrantsNothingOfTheOperators refuses grants of secrets and private addresses,
// but for those that the operator has granted.
func TestATenantGrantsNothingOfTheOperators(t *testing.T) {
	var plugins *library.Library
	s := newServer(t, func(o *httpapi.Options) { plugins = o.Plugins.(*library.Library) })
	s.do("acme", "POST", "/v1/plugins/p/versions", marked("echo", "1"), 201, nil)
	const path = "/v1/plugins/p/grants"
	secret := `{"secrets":[{"name":"STRIPE_KEY","hosts":["api.example.com"]}]}`
	inside := `{"http":[{"host":"db.internal","addresses":["10.0.0.0/8"]}]}`
	s.do("acme", "PUT", path, secret, 403, nil)
	s.do("acme", "PUT", path, inside, 403, nil)
	s.do("acme", "PUT", path, `{"operations":["billing.charge"]}`, 403, nil)
	s.do("acme/plugins:write", "PUT", path, `{"kv":"read"}`, 403, nil)
	s.do("acme", "PUT", path, `{"kv":"read","http":[{"host":"api.example.com"}]}`, 200, nil)
	if _, err := plugins.Grant(t.Context(), "acme", "p", plugin.Permissions{HTTP: []plugin.HTTPAccess{{Host: "db.internal", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}}); err != nil {
		t.Fatal(err)
	}
	s.do("acme", "PUT", path, inside, 200, nil)
	s.do("acme", "PUT", path, `{"http":[{"host":"db.internal","addresses":["10.0.0.0/8","192.168.0.0/16"]}]}`, 403, nil)
	s.do("acme", "PUT", path, secret, 403, nil)
}

// TestAnAdministratorSharesAPluginWithTenants grants it what only an operator may grant, of
// which the tenants see nothing.
func TestAnAdministratorSharesAPluginWithTenants(t *testing.T) {
	var plugins *library.Library
	s := newServer(t, func(o *httpapi.Options) { plugins = o.Plugins.(*library.Library) })
	const at = "/v1/admin/plugins/notes"
	var first, second library.Version
	resp := s.do("@root", "POST", at+"/versions", marked("kv-put", "1"), 201, &first, "Content-Type", "application/wasm")
	s.do("@root", "POST", at+"/versions", marked("kv-put", "2"), 201, &second)
	if resp.Header.Get("Location") != at {
		t.Errorf("the plugin is at %s", resp.Header.Get("Location"))
	}
	var page httpapi.PluginPage
	s.do("acme", "GET", "/v1/plugins?shared=true", "", 200, &page)
	if len(page.Plugins) != 0 {
		t.Errorf("before it serves a tenant sees %+v", page)
	}
	s.do("@root", "PUT", at+"/grants", `{"kv":"write","secrets":[{"name":"OWN_KEY","hosts":["db.internal"]}],"http":[{"host":"db.internal","addresses":["10.0.0.0/8"]}]}`, 200, nil)
	s.do("@root", "POST", at+"/versions/"+first.Digest+"/activate", "", 200, nil)
	s.do("@root", "POST", at+"/versions/"+second.Digest+"/activate", "", 200, nil)
	for _, tenant := range []string{"acme", "globex"} {
		if _, err := plugins.Lookup(tenant, "notes"); err != nil {
			t.Error(err)
		}
		_, raw := s.request(tenant, "GET", "/v1/plugins?shared=true&limit=1", "")
		must(t, json.Unmarshal(raw, &page))
		if len(page.Plugins) != 1 || page.Plugins[0].ID != "notes" || len(page.Plugins[0].Versions) != 1 || page.Plugins[0].Serving != second.Digest || len(page.Plugins[0].Versions[0].Tools) != 1 {
			t.Errorf("the shared plugins of %s are %s", tenant, raw)
		}
		for _, hidden := range []string{"granted", "asks", "OWN_KEY", "db.internal", first.Digest} {
			if bytes.Contains(raw, []byte(hidden)) {
				t.Errorf("%s sees %q in %s", tenant, hidden, raw)
			}
		}
	}
	s.do("acme", "GET", "/v1/plugins?shared=true&cursor=notes", "", 200, &page)
	if len(page.Plugins) != 0 {
		t.Errorf("the page after the last is %+v", page)
	}
	s.do("acme", "GET", "/v1/plugins?shared=yes", "", 400, nil)
	s.do("acme", "GET", "/v1/plugins", "", 200, &page)
	if len(page.Plugins) != 0 {
		t.Errorf("a tenant's own plugins are %+v", page)
	}
	// It is not the tenants' to read or change, and its id is taken.
	for _, try := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/deactivate"}, {"GET", "/versions/" + second.Digest + "/module"}} {
		s.do("acme", try[0], "/v1/plugins/notes"+try[1], "", 404, nil)
	}
	s.do("acme", "POST", "/v1/plugins/notes/versions", marked("kv-put", "3"), 409, nil)
	s.do("@root/plugins:read", "POST", at+"/deactivate", "", 403, nil)
	s.do("@root/plugins:write", "PUT", at+"/grants", "{}", 403, nil)
	s.do("@root", "POST", at+"/deactivate", "", 200, nil)
	s.do("acme", "GET", "/v1/plugins?shared=true", "", 200, &page)
	if len(page.Plugins) != 0 {
		t.Errorf("after it was deactivated a tenant sees %+v", page)
	}
	s.do("@root", "DELETE", at, "", 204, nil)
	s.do("@root", "GET", at, "", 404, nil)
	var log httpapi.AuditPage
	s.do("@root", "GET", "/v1/admin/audit?action=shared_plugin.remove", "", 200, &log)
	if len(log.Entries) != 1 || log.Entries[0].Tenant != "" || log.Entries[0].Object != "plugin/notes" {
		t.Errorf("the entries of the removal are %+v", log.Entries)
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	var plugins *library.Library
	s := newServer(t, func(o *httpapi.Options) {
		plugins = o.Plugins.(*library.Library)
		o.Bounds.MaxModuleBytes = 64 << 10
	})
	const path = "/v1/plugins/p/versions"
	header := "\x00asm\x01\x00\x00\x00"
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    host.Code
	}{
		"nothing":                    {"", nil, 400, host.InvalidArgument},
		"no module":                  {"not a module", nil, 400, host.InvalidArgument},
		"an empty module":            {header, nil, 412, host.FailedPrecondition},
		"half a module":              {marked("echo", "x")[:100], nil, 400, host.InvalidArgument},
		"a huge section":             {header + "\x01\xff\xff\xff\xff\x0f", nil, 400, host.InvalidArgument},
		"many types":                 {header + "\x01\x06\xff\xff\xff\xff\x0f\x60", nil, 400, host.InvalidArgument},
		"memory beyond the limit":    {header + "\x05\x05\x01\x00\x80\x80\x04", nil, 400, host.InvalidArgument},
		"a manifest bomb":            {string(testguest.Section([]byte(header), 0, append(testguest.String("agenthost.manifest"), strings.Repeat("[", 60000)...))), nil, 400, host.InvalidArgument},
		"too large":                  {strings.Repeat("\x00", 70<<10), nil, 413, host.ResourceExhausted},
		"too large without a length": {strings.Repeat("\x00", 70<<10), []string{"Transfer-Encoding", "chunked"}, 413, host.ResourceExhausted},
		"a loop":                     {marked("describe-loop", "x"), nil, 429, host.ResourceExhausted},
		"JSON":                       {`{}`, []string{"Content-Type", "application/json"}, 415, host.InvalidArgument},
		"a form":                     {"a=b", []string{"Content-Type", "multipart/form-data"}, 415, host.InvalidArgument},
	} {
		var p httpapi.Problem
		resp, raw := s.request("acme", "POST", path, c.body, c.headers...)
		if err := json.Unmarshal(raw, &p); err != nil || resp.StatusCode != c.status || p.Code != c.code || p.Detail == "" || p.Hint == "" && c.status == 400 {
			t.Errorf("%s: the answer is %d %s, want %d and code %s", name, resp.StatusCode, raw, c.status, c.code)
		}
	}
	list, _, err := plugins.List(t.Context(), "acme", "", 0)
	if err != nil || len(list) != 0 {
		t.Errorf("the refused uploads left %v, %v", list, err)
	}
}

// TestAnUploadThatIsCutOffLeavesNothing ends the connection within the body.
func TestAnUploadThatIsCutOffLeavesNothing(t *testing.T) {
	s := newServer(t, nil)
	begun := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	body := &stalledBody{begun: begun, ended: ctx.Done()}
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/plugins/p/versions", body)
	must(t, err)
	r.Header.Set("Authorization", "Bearer acme")
	go func() { <-begun; cancel() }()
	if resp, err := s.Client().Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("the upload is answered %d", resp.StatusCode)
	}
	s.do("acme", "GET", "/v1/plugins/p", "", 404, nil)
}

// stalledBody is a body that does not end.
type stalledBody struct {
	begun chan struct{}
	ended <-chan struct{}
	n     int
}

func (b *stalledBody) Read(p []byte) (int, error) {
	if b.n++; b.n == 1 {
		return copy(p, "\x00asm"), nil
	}
	if b.n == 2 {
		close(b.begun)
	}
	<-b.ended
	return 0, context.Canceled
}
