package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/idempotency"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// targets are the agents of a server, by name.
type targets map[string]host.Target

func (t targets) Target(name string) (host.Target, error) {
	if name == "" {
		name = "clerk"
	}
	if a := t[name]; a != nil {
		return a, nil
	}
	return nil, host.Errorf(host.NotFound, "shop.yaml has no agent %q", name).WithHint("it has %v", t.Targets()) // which clients do not read
}

func (t targets) Targets() (names []string) {
	for name := range t {
		names = append(names, name)
	}
	return names
}

// server is an API behind a listener. A credential is TENANT or TENANT/SCOPE,SCOPE or
// TENANT//THREAD, and of an administrator @NAME or @NAME/SCOPE,SCOPE.
type server struct {
	*httptest.Server
	t       *testing.T
	threads *threads.Store
	keys    *keys.Store
	audit   *audit.Log
	api     *httpapi.API
	options *httpapi.Options
	full    *atomic.Bool // the audit log refuses entries
}

// sometimesFull is a driver that refuses commits of the audit log while it is full.
type sometimesFull struct {
	kv.Driver
	full atomic.Bool
}

func (d *sometimesFull) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if d.full.Load() {
		return slices.Repeat([]kv.Result{{Err: kv.ErrUnavailable}}, len(txs))
	}
	return d.Driver.Commit(ctx, txs...)
}

func credential(r *http.Request) (*keys.Principal, error) {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || key == "" || key == "wrong" {
		return nil, host.Errorf(host.Unauthenticated, "the credential is not valid").WithHint("send a key of the tenant")
	}
	switch key {
	case "expired":
		return nil, host.Errorf(host.Unauthenticated, "the credential has expired")
	case "suspended":
		return nil, host.Errorf(host.PermissionDenied, "the tenant is not active")
	}
	parts := strings.SplitN(key, "/", 3)
	p := &keys.Principal{Tenant: parts[0], Key: "k-" + parts[0], Scopes: httpapi.Scopes()}
	if name, admin := strings.CutPrefix(parts[0], "@"); admin {
		p = &keys.Principal{Admin: true, Key: name, Scopes: httpapi.AdminScopes()}
	}
	if len(parts) > 1 && parts[1] != "" {
		p.Scopes = strings.Split(parts[1], ",")
	}
	if len(parts) > 2 {
		p.Thread = parts[2]
	}
	return p, nil
}

// newServer serves the agents clerk, which repeats its input, asker, which wants an
// approval, drafter, which leaves an artifact, and stuck, which answers when it is canceled.
func newServer(t *testing.T, change func(*httpapi.Options)) *server {
	t.Helper()
	driver := kv.NewMemory()
	store := threads.New(driver, &threads.Options{Deleted: func(ctx context.Context, tenant, id string) error {
		return responses.EraseThread(ctx, driver, tenant, id)
	}})
	history := testhost.NewHistory(t, store)
	ledger, err := usage.New(driver, nil)
	must(t, err)
	h := testhost.New(t, &host.Options{History: history, Journal: store, Ledger: ledger})
	agents := targets{"clerk": agentOf(t, "clerk", func(_ context.Context, req *llm.Request) hosttest.Reply {
		return hosttest.Say("you said " + req.Messages[len(req.Messages)-1].Text())
	}), "stuck": agentOf(t, "stuck", func(ctx context.Context, _ *llm.Request) hosttest.Reply {
		<-ctx.Done()
		return hosttest.Fail(ctx.Err())
	}), "asker": askerOf(t), "drafter": drafterOf(t)}
	registry, err := runs.New(h, &runs.Options{Target: agents.Target, Journal: store, StartWait: time.Minute}) // for a refusal on a busy machine
	must(t, err)
	logged := &sometimesFull{Driver: driver}
	credentials, log := keys.New(driver, nil), audit.New(logged)
	records, err := tenants.Open(t.Context(), driver, &tenants.Options{Ledger: ledger, Runs: registry, Unregistered: true})
	must(t, err)
	memories, err := memory.New(driver, nil)
	must(t, err)
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir()})
	must(t, err)
	limits := plugin.Limits{Instructions: 10_000_000} // a loop in describe spends them long before its time is over, also on a busy machine
	plugins, err := library.Open(t.Context(), driver, rt, &library.Options{Limits: limits})
	must(t, err)
	services := &services{targets: agents, store: store, ledger: ledger, made: map[string]*sessions.Service{}}
	opts := &httpapi.Options{
		Runs: registry, Targets: agents, Threads: store, Ledger: ledger, Keys: credentials, Audit: log,
		Memory: memories, Plugins: plugins, Responses: responses.New(driver), Sessions: services.of, Idempotency: idempotency.New(driver, nil),
		Admin: &httpapi.Admin{
			Tenants: records, Erasures: erasure.New(driver, records, credentials, ledger.Erasing()),
			Exports: []tenants.Exporter{{Part: "numbers", Export: func(context.Context, string) iter.Seq2[any, error] {
				return func(yield func(any, error) bool) { yield(7, nil) }
			}}},
			Backup: func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, "all of it")
				return err
			},
		},
	}
	if change != nil {
		change(opts)
	}
	api, err := httpapi.New(credential, opts)
	must(t, err)
	s := &server{httptest.NewServer(api), t, store, credentials, log, api, opts, &logged.full}
	t.Cleanup(func() {
		s.Close()
		services.close()
		must(t, errors.Join(records.Close(), credentials.Close(), plugins.Close(), registry.Close(), rt.Close(context.Background())))
		must(t, ledger.Close(context.Background()))
		must(t, driver.Close())
	})
	return s
}

// services are the sessions of targets.
type services struct {
	targets targets
	store   *threads.Store
	ledger  *usage.Ledger

	mu   sync.Mutex
	made map[string]*sessions.Service
}

func (s *services) of(name string) (*sessions.Service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.made[name]; made != nil {
		return made, nil
	}
	target, err := s.targets.Target(name)
	if err != nil {
		return nil, err
	}
	s.made[name], err = sessions.New(target, &sessions.Options{Store: s.store, Host: host.Options{Ledger: s.ledger}})
	return s.made[name], err
}

func (s *services) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, made := range s.made {
		made.Close()
	}
}

func agentOf(t *testing.T, name string, answer func(context.Context, *llm.Request) hosttest.Reply, tools ...*host.Tool) host.Target {
	t.Helper()
	a := testhost.NewAgent(t, name, &host.AgentOptions{Model: hosttest.ModelFunc(answer), Tools: tools})
	return a
}

// askerOf returns an agent whose only tool wants an approval.
func askerOf(t *testing.T) host.Target {
	t.Helper()
	refund := host.NewTool("refund", "Pays money back.", func(context.Context, *host.Call, struct{}) (string, error) { return "paid", nil }, &host.ToolOptions{Approve: host.ApproveAlways("money")})
	return agentOf(t, "asker", func(_ context.Context, req *llm.Request) hosttest.Reply {
		if last := req.Messages[len(req.Messages)-1]; last.Role == host.ToolRole {
			return hosttest.Say("refunded")
		}
		return hosttest.Call("refund", `{}`)
	}, refund)
}

// drafterOf returns an agent whose only tool makes an artifact.
func drafterOf(t *testing.T) host.Target {
	t.Helper()
	draft := host.NewTool("draft", "Writes a letter.", func(_ context.Context, c *host.Call, _ struct{}) (string, error) {
		return "written", c.AddArtifact(host.Artifact{Name: "letter", Parts: []host.Part{&host.Text{Text: "Dear customer"}}})
	}, nil)
	return agentOf(t, "drafter", func(_ context.Context, req *llm.Request) hosttest.Reply {
		if last := req.Messages[len(req.Messages)-1]; last.Role == host.ToolRole {
			return hosttest.Say("it is written")
		}
		return hosttest.Call("draft", `{}`)
	}, draft)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request sends a request of a tenant; headers are NAME, VALUE, ...
func (s *server) request(credential, method, path, body string, headers ...string) (*http.Response, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	must(s.t, err)
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := s.Client().Do(r)
	must(s.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(s.t, err)
	return resp, raw
}

// do sends a request, wants a status, and decodes the answer into into unless it is nil.
func (s *server) do(credential, method, path, body string, status int, into any, headers ...string) *http.Response {
	s.t.Helper()
	resp, raw := s.request(credential, method, path, body, headers...)
	if resp.StatusCode != status {
		s.t.Fatalf("%s %s = %d %s, want %d", method, path, resp.StatusCode, raw, status)
	}
	if into != nil {
		reflect.ValueOf(into).Elem().SetZero() // an absent member is none of the answer before
		if err := json.Unmarshal(raw, into); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, raw)
		}
	}
	return resp
}

func TestARunIsAnsweredAsTheClientAccepts(t *testing.T) {
	s := newServer(t, nil)
	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"text":"hello","thread":"t1"}`, 200, &run)
	if run.Status != runs.Completed || run.Text != "you said hello" || run.Thread != "t1" || run.Usage == nil {
		t.Errorf("the ended run is %+v", run)
	}
	resp, raw := s.request("acme", "POST", "/v1/runs", `{"text":"again","thread":"t1"}`, "Accept", "text/event-stream")
	if resp.Header.Get("Content-Type") != "text/event-stream" || !bytes.Contains(raw, []byte("run.finished")) || !bytes.HasPrefix(raw, []byte("id: 0\n")) {
		t.Errorf("the stream is %s", raw)
	}
	id := strings.TrimPrefix(resp.Header.Get("Location"), "/v1/runs/")
	resp, rest := s.request("acme", "GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID", "0")
	if resp.StatusCode != 200 || !bytes.HasSuffix(raw, rest) || len(rest) >= len(raw) || len(rest) == 0 {
		t.Errorf("the events after 0 are %s of %s", rest, raw)
	}
	resp, raw = s.request("acme", "POST", "/v1/runs", `{"text":"lines"}`, "Accept", "application/x-ndjson")
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 0; lines.Scan(); n++ {
		var ev struct{ Seq int }
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil || ev.Seq != n {
			t.Errorf("line %d is %s", n, lines.Text())
		}
	}
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("the type of the lines is %s", resp.Header.Get("Content-Type"))
	}
}

func TestARunIsLeftFoundAndCanceled(t *testing.T) {
	s := newServer(t, nil)
	var run httpapi.EndedRun
	resp := s.do("acme", "POST", "/v1/runs", `{"target":"stuck","text":"go"}`, 202, &run, "Prefer", "respond-async")
	if resp.Header.Get("Preference-Applied") != "respond-async" || run.Status != runs.Running {
		t.Errorf("the accepted run is %+v", run)
	}
	var page runs.Page
	s.do("acme", "GET", "/v1/runs?status=running", "", 200, &page)
	if len(page.Runs) != 1 || page.Runs[0].ID != run.ID {
		t.Errorf("the list is %+v", page.Runs)
	}
	s.do("other", "POST", "/v1/runs/"+run.ID+"/cancel", "", 404, nil)
	s.do("acme", "POST", "/v1/runs/"+run.ID+"/cancel", "", 200, nil)
	s.request("acme", "GET", "/v1/runs/"+run.ID+"/events", "") // until its end
	s.do("acme", "GET", "/v1/runs/"+run.ID, "", 200, &run)
	if run.Status != runs.Canceled || run.Error == nil || run.Error.Code != host.Canceled {
		t.Errorf("the canceled run is %+v", run)
	}
}

func TestAnInterruptedRunIsAnswered(t *testing.T) {
	s := newServer(t, nil)
	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"target":"asker","text":"I want my money"}`, 200, &run)
	if run.Status != runs.Interrupted || len(run.Questions) != 1 {
		t.Fatalf("the run is %+v", run)
	}
	answers := fmt.Sprintf(`{"answers":[{"question":%q,"decision":"approve"}]}`, run.Questions[0].ID)
	s.do("other", "POST", "/v1/runs/"+run.ID+"/answers", answers, 404, nil)
	s.do("acme", "POST", "/v1/runs/"+run.ID+"/answers", answers, 200, &run)
	if run.Status != runs.Completed || run.Text != "refunded" {
		t.Errorf("the answered run is %+v", run)
	}
}

func TestAThreadIsReadAndChanged(t *testing.T) {
	s := newServer(t, nil)
	var thread threads.Thread
	s.do("acme", "POST", "/v1/threads", `{"id":"t1","title":"orders"}`, 201, &thread)
	s.do("acme", "POST", "/v1/threads", `{"id":"t1","title":"other"}`, 200, &thread)
	if thread.Title != "orders" {
		t.Errorf("a thread that exists became %+v", thread)
	}
	s.do("acme", "POST", "/v1/runs", `{"thread":"t1","text":"where is order 1042"}`, 200, nil)
	tag := s.do("acme", "GET", "/v1/threads/t1", "", 200, &thread).Header.Get("ETag")
	s.do("acme", "GET", "/v1/threads/t1", "", 304, nil, "If-None-Match", tag)
	var shown threads.Transcript
	s.do("acme", "GET", "/v1/threads/t1/messages?limit=10", "", 200, &shown)
	if len(shown.Messages) != 2 {
		t.Fatalf("the thread has %d messages", len(shown.Messages))
	}
	var hits httpapi.Hits
	s.do("acme", "GET", "/v1/search?q=order", "", 200, &hits)
	if len(hits.Hits) == 0 || hits.Hits[0].Thread != "t1" {
		t.Errorf("the search found %+v", hits.Hits)
	}
	edit := `{"role":"user","parts":[{"type":"text","text":"where is order 7"}]}`
	s.do("acme", "PUT", "/v1/threads/t1/messages/"+shown.Messages[0].ID, edit, 412, nil, "If-Match", `"old"`)
	s.do("acme", "PUT", "/v1/threads/t1/messages/"+shown.Messages[0].ID, edit, 200, &thread, "If-Match", tag)
	var branches httpapi.Branches
	s.do("acme", "GET", "/v1/threads/t1/branches", "", 200, &branches)
	if len(branches.Branches) < 2 {
		t.Errorf("the branches are %+v", branches.Branches)
	}
	var paged []string
	for page := (httpapi.Branches{Next: "start"}); page.Next != ""; {
		cursor := strings.TrimPrefix(page.Next, "start")
		page = httpapi.Branches{}
		s.do("acme", "GET", "/v1/threads/t1/branches?limit=1&cursor="+cursor, "", 200, &page)
		paged = append(paged, page.Branches[0].Head)
	}
	if len(paged) != len(branches.Branches) || paged[1] != branches.Branches[1].Head {
		t.Errorf("the pages have the heads %v, and the list is %+v", paged, branches.Branches)
	}
	s.do("acme", "GET", "/v1/threads/t1/branches?cursor=x", "", 400, nil)
	s.do("acme", "POST", "/v1/threads/t1/rewind", fmt.Sprintf(`{"branch":%q}`, branches.Branches[1].ID), 200, &thread)
	s.do("acme", "POST", "/v1/threads/t1/forks", `{"id":"t2"}`, 201, &thread)
	s.do("acme", "PATCH", "/v1/threads/t2", `{"title":"copy"}`, 200, &thread)
	resp, raw := s.request("acme", "GET", "/v1/threads/t2/export", "")
	if resp.StatusCode != 200 || !bytes.Contains(raw, []byte("order 1042")) {
		t.Errorf("the export is %d %s", resp.StatusCode, raw)
	}
	s.do("acme", "DELETE", "/v1/threads/t2", "", 204, nil)
	s.do("acme", "GET", "/v1/threads/t2", "", 404, nil)
	var page threads.Page
	s.do("acme", "GET", "/v1/threads", "", 200, &page)
	if len(page.Threads) != 1 {
		t.Errorf("the list has %d threads", len(page.Threads))
	}
}

func TestUsageIsThatOfTheKey(t *testing.T) {
	s := newServer(t, nil)
	s.do("acme", "POST", "/v1/runs", `{"text":"hello"}`, 200, nil)
	var bill httpapi.Bill
	s.do("acme", "GET", "/v1/usage", "", 200, &bill)
	if !slices.ContainsFunc(bill.Items, func(item usage.LineItem) bool { return item.Key == "k-acme" && item.Agent == "clerk" }) || bill.Total.Runs != 1 {
		t.Errorf("the bill is %+v", bill)
	}
	s.do("other", "GET", "/v1/usage", "", 200, &bill)
	if len(bill.Items) != 0 {
		t.Errorf("another tenant's bill is %+v", bill)
	}
	var records, rest httpapi.UsageRecords
	s.do("acme", "GET", "/v1/usage/records?key=k-acme", "", 200, &records)
	s.do("acme", "GET", "/v1/usage/records?key=k-other", "", 200, &rest)
	if len(records.Records) == 0 || len(rest.Records) != 0 {
		t.Errorf("the records are %+v, and those of another key %+v", records, rest)
	}
	s.do("acme", "GET", "/v1/usage/limits", "", 200, nil)
}

func TestARequestIsSentAgain(t *testing.T) {
	var calls atomic.Int64
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["counter"] = agentOf(t, "counter", func(context.Context, *llm.Request) hosttest.Reply {
			return hosttest.Say(fmt.Sprintf("answer %d", calls.Add(1)))
		})
	})
	var first, again, lost httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"target":"counter","text":"hello"}`, 200, &first, "Idempotency-Key", "k1")
	s.do("acme", "POST", "/v1/runs", `{"target":"counter","text":"hello"}`, 200, &again, "Idempotency-Key", "k1")
	if again.Text != first.Text || again.Thread != first.Thread || calls.Load() != 1 {
		t.Errorf("a request sent again is %+v after %d calls, want %+v", again, calls.Load(), first)
	}
	s.do("acme", "POST", "/v1/runs", `{"target":"counter","text":"other"}`, 409, nil, "Idempotency-Key", "k1")
	s.do("other", "POST", "/v1/runs", `{"target":"counter","text":"hello"}`, 200, &lost, "Idempotency-Key", "k1")
	if lost.ID == first.ID || lost.Text != "answer 2" {
		t.Errorf("the key of another tenant is answered %+v", lost)
	}
	s.do("acme", "POST", "/v1/runs", `{"target":"counter","text":"hello"}`, 400, nil, "Idempotency-Key", strings.Repeat("k", 256))
	// While the first runs, the second follows it.
	var running httpapi.EndedRun
	for range 2 {
		s.do("acme", "POST", "/v1/runs", `{"target":"stuck","text":"wait"}`, 202, &running, "Idempotency-Key", "k2", "Prefer", "respond-async")
	}
	var page runs.Page
	s.do("acme", "GET", "/v1/runs?status=running", "", 200, &page)
	if len(page.Runs) != 1 {
		t.Errorf("%d runs are live, want 1", len(page.Runs))
	}
	s.do("acme", "POST", "/v1/runs/"+running.ID+"/cancel", "", 200, nil)
}
