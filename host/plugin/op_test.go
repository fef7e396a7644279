package plugin

// Scenario: guests call the host operations, each in a table of granted, denied and
// malformed requests.

// A table for each host operation: what is granted, denied, too large, badly
// asked, and what it comes to. The requests go in through a guest.

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/artifactio"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
	"github.com/agenthost/agenthost/host/usage"
)

// opRow is one host operation that a tool calls, after others.
type opRow struct {
	name    string
	before  []string // "operation request"
	op      string   // the same
	granted Permissions
	limits  Limits
	tenant  *Tenant
	budget  budget    // of the tenant
	want    string    // in the response
	code    host.Code // or the error's code
	says    string    // in the error
}

const everyPermission = `{"abi":1,"name":"ops","tools":[{"name":"t","description":"","parameters":{}}],"permissions":{"kv":"write","state":"write","model":true,"messages":true,"queue":true,"tools":["*"],"http":[{"host":"*"},{"scheme":"http","host":"*"},{"scheme":"http","host":"127.0.0.1","port":%PORT%}],"secrets":[{"name":"KEY","hosts":["http://127.0.0.1"]},{"name":"GONE","hosts":["http://127.0.0.1"]}]}}`

// opsGuest assembles a guest whose tool, processor and router run their input,
// operation, space and request, and answer with what that answers, and with its
// status.
func opsGuest(t testing.TB, manifest string) []byte {
	t.Helper()
	manifest = strings.Replace(manifest, `"permissions"`, `"processors":[{"name":"p"}],"routers":[{"name":"r"}],"providers":[{"name":"v"}],"permissions"`, 1)
	text := `
		import agenthost_v1 input_read i32 i32 i32 -> i32 as $input_read
		import agenthost_v1 output_write i32 i32 as $output_write
		import agenthost_v1 host_call i32 i32 i32 i32 -> i64 as $host_call
		import agenthost_v1 host_read i32 i32 i32 -> i32 as $host_read
		memory 64
		export memory memory 0
		custom agenthost.manifest ` + quote(manifest) + "\n"
	for _, e := range []abi.Export{abi.Tool, abi.Process, abi.Route, abi.Provide} {
		text += fmt.Sprintf("func $f%d %s i32 -> i32 : i32 i64\n%s\n", e, e, opsBody)
	}
	return wasmtest.Assemble(t, text)
}

const opsBody = `
		i32.const 0 i32.const 0 local.get 0 call $input_read drop
		loop
		  local.get 1 i32.load8_u i32.const 32 i32.ne if local.get 1 i32.const 1 i32.add local.set 1 br 1 end
		end
		i32.const 0 local.get 1
		local.get 1 i32.const 1 i32.add
		local.get 0 local.get 1 i32.sub i32.const 1 i32.sub
		call $host_call local.set 2
		i32.const 2097152 i32.const 0 local.get 2 i32.wrap_i64 call $host_read drop
		i32.const 2097152 local.get 2 i32.wrap_i64 call $output_write
		local.get 2 i64.const 4294967296 i64.div_u i32.wrap_i64`

// runOp has a guest run one operation, outside a run.
func runOp(ctx context.Context, p *Plugin, tenant, op string, opts *CallOptions) (string, error) {
	r, err := p.Call(ctx, tenant, "tool", []byte(op), opts)
	if err == nil && r.GuestError {
		err = abi.NewGuestError(p.id, "tool", r.Output)
	}
	return string(r.Output), err
}

func (row *opRow) check(t *testing.T, rt *Runtime, wasm []byte) {
	t.Helper()
	tenant := strings.ReplaceAll(t.Name(), "/", "-")
	if row.budget != nil {
		setBudget(t, rt, tenant, row.budget)
	}
	if row.tenant != nil {
		if err := rt.SetTenant(tenant, row.tenant); err != nil {
			t.Fatal(err)
		}
	}
	p, err := rt.Load(t.Context(), "ops", wasm, &LoadOptions{Granted: row.granted, Limits: row.limits})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, op := range row.before {
		if out, err := runOp(t.Context(), p, tenant, op, nil); err != nil {
			t.Fatalf("%s: %s, %v", op, out, err)
		}
	}
	out, err := runOp(t.Context(), p, tenant, row.op, nil)
	if host.CodeOf(err) != row.code {
		t.Fatalf("%.100s ends in %q: %v, want %q", row.op, host.CodeOf(err), err, row.code)
	}
	if err != nil && !strings.Contains(err.Error(), row.says) || err == nil && !strings.Contains(out, row.want) {
		t.Errorf("%.100s = %.300s, %v, want %q%q", row.op, out, err, row.want, row.says)
	}
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func manifestAt(port int) string {
	return strings.ReplaceAll(everyPermission, "%PORT%", strconv.Itoa(port))
}

func TestKVOperations(t *testing.T) {
	rt := startRuntime(t, nil)
	wasm := opsGuest(t, manifestAt(80))
	write, read := Permissions{KV: Write}, Permissions{KV: Read}
	put := func(key, value, more string) string {
		return fmt.Sprintf(`kv.put {"key":%q,"value":%q%s}`, key, b64(value), more)
	}
	for _, row := range []opRow{
		{name: "what is put is got", before: []string{put("a", "one", "")}, op: `kv.get {"key":"a"}`, granted: write, want: `"value":"` + b64("one") + `"`},
		{name: "a value may be empty", before: []string{put("a", "", "")}, op: `kv.get {"key":"a"}`, granted: write, want: `"value":""`},
		{name: "an unknown key", op: `kv.get {"key":"a"}`, granted: read, code: host.NotFound},
		{name: "reading is not granted", op: `kv.get {"key":"a"}`, code: host.PermissionDenied, says: `"kv=read"`},
		{name: "listing is not granted", op: `kv.list {}`, code: host.PermissionDenied, says: `"kv=read"`},
		{name: "reading is granted, not writing", op: put("a", "one", ""), granted: read, code: host.PermissionDenied, says: `"kv=write"`},
		{name: "reading is granted, not deleting", op: `kv.delete {"key":"a"}`, granted: read, code: host.PermissionDenied, says: `"kv=write"`},
		{name: "put if absent", op: put("a", "one", `,"revision":0`), granted: write, want: `"revision":`},
		{name: "put if absent, and it is not", before: []string{put("a", "one", "")}, op: put("a", "two", `,"revision":0`), granted: write, code: host.Conflict},
		{name: "put at another revision", before: []string{put("a", "one", "")}, op: put("a", "two", `,"revision":999999`), granted: write, code: host.Conflict},
		{name: "what is deleted is gone", before: []string{put("a", "one", ""), `kv.delete {"key":"a"}`}, op: `kv.get {"key":"a"}`, granted: write, code: host.NotFound},
		{name: "deleting what is not there", op: `kv.delete {"key":"a"}`, granted: write, want: `{}`},
		{name: "deleting at another revision", before: []string{put("a", "one", "")}, op: `kv.delete {"key":"a","revision":999999}`, granted: write, code: host.Conflict},
		{name: "a list is in order, by prefix", before: []string{put("b2", "x", ""), put("b1", "y", ""), put("a", "z", "")}, op: `kv.list {"prefix":"b","values":true}`, granted: write,
			want: `"key":"b1"`},
		{name: "a page says where the next begins", before: []string{put("b2", "x", ""), put("b1", "y", "")}, op: `kv.list {"limit":1}`, granted: write, want: `"next":"b1"`},
		{name: "the next page", before: []string{put("b2", "x", ""), put("b1", "y", "")}, op: `kv.list {"after":"b1"}`, granted: write, want: `"entries":[{"key":"b2"`},
		{name: "a list of nothing", op: `kv.list {}`, granted: read, want: `{"entries":[]}`},
		{name: "a list too long", op: `kv.list {"limit":1001}`, granted: read, code: host.InvalidArgument},
		{name: "no key", op: `kv.get {}`, granted: read, code: host.InvalidArgument},
		{name: "a key too long", op: `kv.get {"key":"` + strings.Repeat("k", 513) + `"}`, granted: read, code: host.InvalidArgument, says: "513"},
		{name: "no value", op: `kv.put {"key":"a"}`, granted: write, code: host.InvalidArgument, says: "no value"},
		{name: "a value that is not base64", op: `kv.put {"key":"a","value":"%"}`, granted: write, code: host.InvalidArgument},
		{name: "a value too large", op: put("a", strings.Repeat("v", maxKVValueBytes+1), ""), granted: write, code: host.ResourceExhausted, says: "262145"},
		{name: "a life of less than nothing", op: put("a", "one", `,"ttl_ms":-1`), granted: write, code: host.InvalidArgument},
		{name: "a life without end", op: put("a", "one", `,"ttl_ms":999999999999999999`), granted: write, code: host.InvalidArgument},
		{name: "a request that is not an object", op: `kv.put []`, granted: write, code: host.InvalidArgument},
		{name: "a request that is not UTF-8", op: "kv.get {\"key\":\"\xff\"}", granted: write, code: host.InvalidArgument},
		{name: "over the quota", op: put("a", strings.Repeat("v", 1000), ""), granted: write, limits: Limits{KVBytes: 1000}, code: host.ResourceExhausted, says: "KVBytes of 1000"},
		{name: "a tenant's quota is tighter", op: put("a", strings.Repeat("v", 1000), ""), granted: write,
			tenant: &Tenant{Grants: map[string]Permissions{"ops": write}, Limits: Limits{KVBytes: 500}}, code: host.ResourceExhausted, says: "KVBytes of 500"},
		{name: "writing over an item frees what it took", before: []string{put("a", strings.Repeat("v", 800), "")}, op: put("a", strings.Repeat("w", 900), ""), granted: write,
			limits: Limits{KVBytes: 1000}, want: `"revision":`},
	} {
		t.Run(row.name, func(t *testing.T) { row.check(t, rt, wasm) })
	}
}

func TestKVIsTheTenantsAndThePlugins(t *testing.T) {
	rt := startRuntime(t, nil)
	wasm := opsGuest(t, manifestAt(80))
	load := func(id string) *Plugin {
		p, err := rt.Load(t.Context(), id, wasm, &LoadOptions{Granted: Permissions{KV: Write}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, other := load("one"), load("other")
	if _, err := runOp(t.Context(), one, "acme", `kv.put {"key":"k","value":"`+b64("v")+`"}`, nil); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		plugin *Plugin
		tenant string
		want   host.Code
	}{{one, "acme", ""}, {one, "globex", host.NotFound}, {other, "acme", host.NotFound}} {
		if _, err := runOp(t.Context(), row.plugin, row.tenant, `kv.get {"key":"k"}`, nil); host.CodeOf(err) != row.want {
			t.Errorf("plugin %s, tenant %s: %v, want %q", row.plugin.ID(), row.tenant, err, row.want)
		}
	}
	one.Close()
	if _, err := runOp(t.Context(), load("one"), "acme", `kv.get {"key":"k"}`, nil); err != nil {
		t.Errorf("the next version of the plugin does not find the key: %v", err)
	}
}

func TestKVItemsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, owner, quota := NewTestStore(), Owner{"acme", "p"}, 2*ItemBytes("a", []byte("v"))
		expires := time.Now().Add(time.Second)
		if _, err := s.Put(t.Context(), owner, "a", []byte("v"), PutOptions{Quota: quota, Expires: expires}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), owner, "a"); err != nil {
			t.Errorf("before its time: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := s.Get(t.Context(), owner, "a"); host.CodeOf(err) != host.NotFound {
			t.Errorf("after its time: %v, want not_found", err)
		}
		if items, _, _ := s.List(t.Context(), owner, ListOptions{Limit: 10, MaxBytes: 1000}); len(items) > 0 {
			t.Errorf("after its time it is listed: %v", items)
		}
		for _, key := range []string{"b", "c"} { // there is room again
			if _, err := s.Put(t.Context(), owner, key, []byte("v"), PutOptions{Quota: quota}); err != nil {
				t.Errorf("put %s: %v", key, err)
			}
		}
	})
}

// fetchRuntime is a runtime whose plugins reach a server on this machine.
func fetchServer(t *testing.T, opts Options, handler http.HandlerFunc) (rt *Runtime, wasm []byte, base string, granted Permissions) {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	opts.Secrets = egress.StaticSecrets{"KEY": egress.NewSecret("sesame")}
	granted = Permissions{
		HTTP:    []HTTPAccess{{Scheme: "http", Host: "127.0.0.1", Port: port, Methods: []string{"GET", "POST"}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
		Secrets: []SecretAccess{{Name: "KEY", Hosts: []string{"http://127.0.0.1"}}, {Name: "GONE", Hosts: []string{"http://127.0.0.1"}}},
	}
	return startRuntime(t, &opts), opsGuest(t, manifestAt(port)), srv.URL, granted
}

func TestFetchOperation(t *testing.T) {
	rt, wasm, base, granted := fetchServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Write(make([]byte, 100_000))
		case "/elsewhere":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/out":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		default:
			w.Header().Set("X-Seen", r.Method+" "+r.Header.Get("X-Mine")+" "+strconv.Itoa(len(r.Header.Get("Authorization"))))
			w.WriteHeader(http.StatusTeapot)
			w.Write([]byte("hello"))
		}
	})
	get := func(path, more string) string { return fmt.Sprintf(`http.fetch {"url":%q%s}`, base+path, more) }
	noAddress := granted.Clone()
	noAddress.HTTP[0].Addresses = nil
	for _, row := range []opRow{
		{name: "a response", op: get("/", ""), granted: granted, want: `{"status":418,`},
		{name: "its body", op: get("/", ""), granted: granted, want: `"body":"` + b64("hello") + `"`},
		{name: "headers and body are sent", op: get("/", `,"method":"POST","headers":[{"name":"X-Mine","value":"yes"}],"body":"`+b64("x")+`"`), granted: granted, want: `{"name":"x-seen","value":"POST yes 0"}`},
		{name: "the host fills in a secret", op: get("/", `,"headers":[{"name":"Authorization","prefix":"Bearer ","secret":"KEY"}]`), granted: granted, want: `"GET  13"`},
		{name: "nothing is granted", op: get("/", ""), code: host.PermissionDenied, says: `grant http="GET http://127.0.0.1:`},
		{name: "the method is not granted", op: get("/", `,"method":"DELETE"`), granted: granted, code: host.PermissionDenied, says: "DELETE"},
		{name: "the address is not granted", op: get("/", ""), granted: noAddress, code: host.PermissionDenied},
		{name: "another server is not granted", op: `http.fetch {"url":"https://example.com/"}`, granted: granted, code: host.PermissionDenied},
		{name: "the secret is not granted", op: get("/", `,"headers":[{"name":"A","secret":"OTHER"}]`), granted: granted, code: host.PermissionDenied, says: "OTHER"},
		{name: "the secret does not exist", op: get("/", `,"headers":[{"name":"A","secret":"GONE"}]`), granted: granted, code: host.NotFound},
		{name: "a redirect is an answer", op: get("/elsewhere", ""), granted: granted, want: `{"status":302,`},
		{name: "a redirect is followed if asked", op: get("/elsewhere", `,"redirects":1`), granted: granted, want: `"url":"` + base + `/"`},
		{name: "a redirect to what is not granted", op: get("/out", `,"redirects":1`), granted: granted, code: host.PermissionDenied},
		{name: "too many redirects", op: get("/", `,"redirects":11`), granted: granted, code: host.InvalidArgument},
		{name: "a response too large", op: get("/large", ""), granted: granted, limits: Limits{ResponseBytes: 10_000}, code: host.ResourceExhausted},
		{name: "a value and a secret", op: get("/", `,"headers":[{"name":"A","value":"x","secret":"KEY"}]`), granted: granted, code: host.InvalidArgument},
		{name: "a user in the URL", op: `http.fetch {"url":"http://u:p@127.0.0.1/"}`, granted: granted, code: host.InvalidArgument},
		{name: "no URL", op: `http.fetch {}`, granted: granted, code: host.InvalidArgument},
		{name: "a body that is not base64", op: get("/", `,"body":"%"`), granted: granted, code: host.InvalidArgument},
		{name: "the budget of requests", before: []string{get("/", "")}, op: get("/", ""), tenant: &Tenant{Grants: map[string]Permissions{"ops": granted}}, budget: budget{usage.HTTPRequests: 1}, code: host.ResourceExhausted, says: "HTTPRequests of 1"},
		{name: "what is denied costs no request", op: get("/", ""), tenant: &Tenant{Grants: map[string]Permissions{"ops": granted}}, budget: budget{usage.HTTPRequests: 1}, want: `"status":418`},
	} {
		t.Run(row.name, func(t *testing.T) { row.check(t, rt, wasm) })
	}
}

func TestFetchEndsWithItsCall(t *testing.T) {
	entered := make(chan struct{})
	rt, wasm, base, granted := fetchServer(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	p, err := rt.Load(t.Context(), "ops", wasm, &LoadOptions{Granted: granted})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := runOp(ctx, p, "acme", `http.fetch {"url":"`+base+`"}`, nil)
		done <- err
	}()
	<-entered
	cancel()
	if err := <-done; host.CodeOf(err) != host.Canceled {
		t.Errorf("the call ends in %v, want canceled", err)
	}
}

func TestUsageOfFetch(t *testing.T) {
	rt, wasm, base, granted := fetchServer(t, Options{}, func(http.ResponseWriter, *http.Request) {})
	p, err := rt.Load(t.Context(), "ops", wasm, &LoadOptions{Granted: granted})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{`{"url":"` + base + `","headers":[{"name":"A","secret":"KEY"}]}`, `{"url":"https://example.com"}`} {
		_, _ = runOp(t.Context(), p, "acme", "http.fetch "+op, nil)
	}
	use := p.Usage("acme")
	if len(use.Used.HTTP) != 1 || use.Used.HTTP[0].Host != "127.0.0.1" || len(use.Used.Secrets) != 1 || use.Used.Secrets[0].Name != "KEY" {
		t.Errorf("used %+v", use.Used)
	}
	if len(use.Denied) != 1 {
		t.Errorf("denied %v", use.Denied)
	}
	for grant := range use.Denied {
		if !strings.Contains(grant, `"GET https://example.com:443"`) {
			t.Errorf("the denial says %q and not which host to grant", grant)
		}
	}
}

// models are models by name.
type models map[string]host.Model

func (m models) Model(_ context.Context, _, name string) (host.Model, error) {
	if model, ok := m[name]; ok {
		return model, nil
	}
	return nil, host.Errorf(host.NotFound, "there is no model %q in a secret place", name)
}

func TestGenerateOperation(t *testing.T) {
	wasm := opsGuest(t, manifestAt(80))
	granted := Permissions{Model: true}
	ask := func(more string) string {
		return `model.generate {"messages":[{"role":"user","parts":[{"type":"text","text":"Say it."}]}]` + more + `}`
	}
	for _, row := range []opRow{
		{name: "an answer", op: ask(""), granted: granted, want: `"text":"said"`},
		{name: "its usage", op: ask(""), granted: granted, want: `"usage":{"input_tokens":`},
		{name: "a model by name", op: ask(`,"model":"small"`), granted: granted, want: `"text":"small"`},
		{name: "a model that there is not", op: ask(`,"model":"large"`), granted: granted, code: host.NotFound},
		{name: "not granted", op: ask(""), code: host.PermissionDenied, says: `"model"`},
		{name: "no message", op: `model.generate {"messages":[]}`, granted: granted, code: host.InvalidArgument},
		{name: "messages with calls", op: `model.generate {"messages":[{"role":"assistant","parts":[{"type":"tool_call","id":"1","name":"t","arguments":{}}]}]}`, granted: granted, code: host.InvalidArgument},
		{name: "more tokens than anybody may ask for", op: ask(`,"max_tokens":65537`), granted: granted, code: host.InvalidArgument},
		{name: "a schema", op: ask(`,"schema":{"type":"object"}`), granted: granted, code: host.Unimplemented},
		{name: "a budget of tokens", op: ask(""), tenant: &Tenant{Grants: map[string]Permissions{"ops": granted}}, budget: budget{usage.ModelTokens: 100}, code: host.ResourceExhausted, says: "ModelTokens of 100"},
		{name: "a smaller question under the same budget", op: ask(`,"max_tokens":20`), tenant: &Tenant{Grants: map[string]Permissions{"ops": granted}}, budget: budget{usage.ModelTokens: 100}, want: `"text":"said"`},
		{name: "a model that fails", op: ask(`,"model":"broken"`), granted: granted, code: host.Unavailable, says: "does not answer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			rt := startRuntime(t, &Options{Models: models{
				"": hosttest.NewModel(hosttest.Say("said")), "small": hosttest.NewModel(hosttest.Say("small")),
				"broken": hosttest.NewModel(hosttest.Reply{Err: host.Errorf(host.Unauthenticated, "the key sk-123 is wrong")}),
			}})
			row.check(t, rt, wasm)
		})
	}
}

// fixedGuest assembles a guest whose tool runs one operation and answers nothing,
// or 1 if that failed.
func fixedGuest(t testing.TB, operation, request string) []byte {
	return handWritten(t, fmt.Sprintf(`
		memory 4
		custom agenthost.manifest %s
		data 0 %s
		data 65536 "{}"
		data 65600 "{\"code\":\"internal\",\"message\":\"it failed\"}"
		---
		i32.const 0 i32.const %d i32.const %d i32.const %d call $host_call i64.const 4294967296 i64.div_u i32.wrap_i64
		if i32.const 65600 i32.const 41 call $output_write i32.const 1 return end
		i32.const 65536 i32.const 2 call $output_write
		i32.const 0`, quote(manifestAt(80)), quote(operation+request), len(operation), len(operation), len(request)))
}

func TestGenerateAsksTheAgentsModelInARun(t *testing.T) {
	const question = `{"instructions":"Be brief.","messages":[{"role":"user","parts":[{"type":"text","text":"Sum it up."}]}]}`
	p, err := startRuntime(t, nil).Load(t.Context(), "ops", fixedGuest(t, "model.generate", question), &LoadOptions{Granted: Permissions{Model: true}})
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.NewModel(hosttest.Say("").Call("t", "{}"), hosttest.Say("a sum"), hosttest.Say("done"))
	if res := runAgent(t, p, model); res.ToolResults()[0].IsError {
		t.Errorf("the tool answers %s", res.ToolResults()[0].Content)
	}
	asked := model.Requests()[1]
	if len(asked.Messages) != 2 || asked.Messages[0].Role != host.System || asked.Messages[1].Text() != "Sum it up." || len(asked.Tools) > 0 || asked.MaxOutputTokens != defaultMaxTokens {
		t.Errorf("the plugin's question is %+v", asked)
	}
}

// runAgent has an agent with the plugin's tools go on until it is done.
func runAgent(t *testing.T, p *Plugin, model host.Model) *host.Result {
	t.Helper()
	tools, err := p.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("a", &host.AgentOptions{Model: model, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	return res.Results[0]
}

func TestArtifactOperations(t *testing.T) {
	rt := startRuntime(t, nil)
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := p.bindings.of("acme")
	call := host.NewCall("t", nil, nil)
	ops := s.toolOperations(call)
	do := func(op, request string) map[string]any {
		t.Helper()
		raw, err := ops.operate(t.Context(), op, []byte(request))
		if err != nil {
			return map[string]any{"code": string(host.CodeOf(err))}
		}
		var out map[string]any
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatalf("%s answers %s: %v", op, raw, err)
		}
		return out
	}
	begun := do("artifact.write", `{"name":"a.txt","media_type":"text/plain","data":"`+b64("hello ")+`"}`)
	ended := do("artifact.write", fmt.Sprintf(`{"name":"a.txt","upload":%q,"data":%q,"last":true}`, begun["upload"], b64("world")))
	if ended["digest"] != chat.ContentDigest([]byte("hello world")) {
		t.Errorf("the last piece answers %v", ended)
	}
	if got := call.Artifacts(); len(got) != 1 || got[0].Name != "a.txt" || string(got[0].Parts[0].(*host.Media).Data) != "hello world" {
		t.Errorf("the call's artifacts are %+v", got)
	}
	for _, row := range []struct{ name, op, request, member, want string }{
		{"all of it", "artifact.read", `{"name":"a.txt"}`, "data", b64("hello world")},
		{"by digest", "artifact.read", `{"digest":"` + chat.ContentDigest([]byte("hello world")) + `"}`, "media_type", "text/plain"},
		{"a piece", "artifact.read", `{"name":"a.txt","offset":6,"length":3}`, "data", b64("wor")},
		{"past its end", "artifact.read", `{"name":"a.txt","offset":100}`, "data", ""},
		{"one that there is not", "artifact.read", `{"name":"b.txt"}`, "code", "not_found"},
		{"neither name nor digest", "artifact.read", `{}`, "code", "invalid_argument"},
		{"a negative offset", "artifact.read", `{"name":"a.txt","offset":-1}`, "code", "invalid_argument"},
		{"an upload that has ended", "artifact.write", `{"name":"a.txt","upload":"1","data":""}`, "code", "not_found"},
		{"another name's upload", "artifact.write", `{"name":"x","upload":"9","data":""}`, "code", "not_found"},
		{"no name", "artifact.write", `{"data":"","last":true}`, "code", "invalid_argument"},
		{"more than a run takes", "artifact.write", `{"name":"l","data":"` + b64(strings.Repeat("x", 2<<20)) + `","last":true}`, "code", "resource_exhausted"},
	} {
		if got := do(row.op, row.request)[row.member]; got != row.want {
			t.Errorf("%s: %s is %v, want %s", row.name, row.member, got, row.want)
		}
	}
	for range artifactio.MaxUploads {
		do("artifact.write", `{"name":"open","data":""}`)
	}
	if got := do("artifact.write", `{"name":"open","data":""}`)["code"]; got != "resource_exhausted" {
		t.Errorf("one upload too many ends in %v", got)
	}
}

// What a guest sends may come back in an error, but not all of it.
func TestErrorsOfOperationsAreShort(t *testing.T) {
	p, err := startRuntime(t, nil).Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{State: Read}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Call(t.Context(), "acme", "tool", []byte(`state.get {"path":"/`+strings.Repeat("x", 500<<10)+`"}`), nil)
	if err != nil || !r.GuestError || len(r.Output) > 4*abi.MaxErrorText {
		t.Errorf("an operation on 500 kB answers with %d bytes, %v", len(r.Output), err)
	}
}

// failing is a model that answers until it fails.
type failing struct{ host.Model }

func (failing) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for range 10 {
			if !yield(llm.Chunk{Text: strings.Repeat("word ", 80)}, nil) {
				return
			}
		}
		yield(llm.Chunk{}, host.Errorf(host.Unavailable, "down"))
	}
}

// Somebody is billed for what a model said before it failed.
func TestAnswersThatFailArePaidFor(t *testing.T) {
	rt := startRuntime(t, &Options{Models: models{"": failing{hosttest.NewModel()}}})
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{Model: true}})
	if err != nil {
		t.Fatal(err)
	}
	const ask = `model.generate {"messages":[{"role":"user","parts":[{"type":"text","text":"Say it."}]}]}`
	if out, err := runOp(t.Context(), p, "acme", ask, nil); host.CodeOf(err) != host.Unavailable {
		t.Fatalf("a model that fails: %s, %v", out, err)
	}
	if got := spentBy(t, rt, "acme", usage.ModelTokens); got < 1000 || got > 1100 {
		t.Errorf("an answer of 4,000 bytes that fails costs %d tokens, want some 1,000", got)
	}
}
