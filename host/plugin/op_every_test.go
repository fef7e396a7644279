package plugin

// Scenario: a guest calls each host operation with and without its permission, over a
// quota, and badly.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/usage"
)

// everyOp is what one operation comes to when a guest asks for it.
type everyOp struct {
	op     string
	export string      // where it works; "" is a tool
	needs  Permissions // none: it works without
	ok     string      // a good request
	answer string      // in its response
	grant  string      // what the log and the error say is missing, without needs
	first  string      // a request before over, within the quota
	over   string      // a request over a quota
	limits Limits      // in force for it
	budget budget      // the same
	overBy string      // in its error
	bad    []string    // requests of another shape or with impossible values
}

func everyOperation() []everyOp {
	const hello = `"messages":[{"role":"user","parts":[{"type":"text","text":"hi"}]}]`
	const page = `{"url":"https://a.example/"}`
	write := Permissions{KV: Write}
	return []everyOp{
		{op: "artifact.read", ok: `{"name":"none"}`, answer: `"not_found"`,
			over: `{"name":"` + strings.Repeat("n", 2000) + `"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{}`, `{"name":"a","offset":-1}`, `{"name":"a","digest":"b"}`}},
		{op: "artifact.write", ok: `{"name":"a","data":"aGk=","last":true}`, answer: `"digest":"sha256:`,
			over: `{"name":"a","data":"` + strings.Repeat("aaaa", 500_000) + `","last":true}`, overBy: "ArtifactBytes",
			bad: []string{`{"data":"aGk="}`, `{"name":"a","data":"%"}`, `{"name":"` + strings.Repeat("n", 300) + `"}`}},
		{op: "emit", ok: `{"kind":"progress","data":{"done":1}}`, answer: `{}`,
			over: `{"kind":"k","data":"` + strings.Repeat("x", 70_000) + `"}`, overBy: "EventBytes",
			bad: []string{`{"data":1}`, `{"kind":7}`, `{"kind":"k","data":}`, `{"kind":"` + strings.Repeat("k", 129) + `","data":1}`}},
		{op: "http.fetch", needs: Permissions{HTTP: []HTTPAccess{{Host: "a.example"}}}, ok: page, answer: `"body":"YSBwYWdl"`,
			grant: `http="GET https://a.example:443"`, first: page, over: page, budget: budget{usage.HTTPRequests: 1}, overBy: "HTTPRequests of 1",
			bad: []string{`{}`, `{"url":"ftp://a.example/"}`, `{"url":"https://u:p@a.example/"}`, `{"url":"https://a.example/","redirects":-1}`, `{"url":"https://a.example/","body":"%"}`}},
		{op: "kv.delete", needs: write, ok: `{"key":"a"}`, answer: `{}`, grant: "kv=write",
			over: `{"key":"` + strings.Repeat("k", 2000) + `"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{}`, `{"key":1}`, `{"key":"a","revision":"x"}`}},
		{op: "kv.get", needs: Permissions{KV: Read}, ok: `{"key":"none"}`, answer: `"not_found"`, grant: "kv=read",
			over: `{"key":"` + strings.Repeat("k", 2000) + `"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{}`, `{"key":""}`, `{"key":"` + strings.Repeat("k", 513) + `"}`}},
		{op: "kv.list", needs: Permissions{KV: Read}, ok: `{}`, answer: `{"entries":[]}`, grant: "kv=read",
			over: `{"prefix":"` + strings.Repeat("k", 2000) + `"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{"limit":-1}`, `{"limit":1001}`, `{"values":1}`}},
		{op: "kv.put", needs: write, ok: `{"key":"a","value":"aGk="}`, answer: `"revision":`, grant: "kv=write",
			over: `{"key":"b","value":"` + strings.Repeat("aaaa", 300) + `"}`, limits: Limits{KVBytes: 500}, overBy: "KVBytes of 500",
			bad: []string{`{"key":"a"}`, `{"value":"aGk="}`, `{"key":"a","value":"%"}`, `{"key":"a","value":"aGk=","ttl_ms":-1}`}},
		{op: "messages.get", export: "route", needs: Permissions{Messages: true}, ok: `{"indices":[1,0]}`, answer: `"text":"two"`, grant: "messages",
			over: `{"indices":[0,1,0,1,0,1,0,1,0,1]}`, limits: Limits{ResponseBytes: 500}, overBy: "ResponseBytes of 500",
			bad: []string{`{"indices":[2]}`, `{"indices":[-1]}`, `{"indices":"all"}`, `[]`}},
		{op: "model.generate", needs: Permissions{Model: true}, ok: `{` + hello + `}`, answer: `"text":"said"`, grant: "model",
			over: `{` + hello + `,"max_tokens":101}`, budget: budget{usage.ModelTokens: 100}, overBy: "ModelTokens of 100",
			bad: []string{`{}`, `{"messages":[]}`, `{` + hello + `,"max_tokens":-1}`, `{"messages":[{"role":"nobody"}]}`}},
		{op: "provider_state.get", export: "provide", ok: `{}`, answer: `{"value":null,"revision":0}`,
			over: `{"a":"` + strings.Repeat("x", 2000) + `"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000"},
		{op: "provider_state.put", export: "provide", ok: `{"value":{"n":1}}`, answer: `{"revision":`,
			over: `{"value":"` + strings.Repeat("x", 70_000) + `"}`, overBy: "65536",
			bad: []string{`{}`, `{"value":1,"revision":-1}`, `{"value":1,"revision":"x"}`}},
		{op: "queue.send", needs: Permissions{Queue: true}, ok: `{"handler":"t","payload":{"n":1}}`, answer: `{"id":"`, grant: "queue",
			first: `{"handler":"t","delay_ms":86400000}`, over: `{"handler":"t"}`, overBy: "as many jobs of the tenant", // it takes one
			bad: []string{`{"handler":"x"}`, `{}`, `{"handler":"t","delay_ms":-1}`, `{"handler":"t","payload":}`}},
		{op: "state.get", needs: Permissions{State: Read}, ok: `{"path":"/a"}`, answer: `"value":1`, grant: "state=read",
			over: `{"path":"/long"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{"path":"a"}`, `{"path":1}`}},
		{op: "state.patch", needs: Permissions{State: Write}, ok: `{"patch":[{"op":"add","path":"/b","value":2}]}`, answer: `"revision":`, grant: "state=write",
			over: `{"patch":[{"op":"add","path":"/b","value":"` + strings.Repeat("x", 3000) + `"}]}`, overBy: "4000",
			bad: []string{`{"patch":[{"op":"add","path":"b","value":2}]}`, `{"patch":{}}`, `{"patch":[{"op":"swap","path":"/a"}]}`}},
		{op: "step.begin", ok: `{"name":"a"}`, answer: `{"done":false}`,
			over: `{"name":"` + strings.Repeat("n", 2000) + `"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{}`, `{"name":""}`, `{"name":"` + strings.Repeat("n", 257) + `"}`, `{"name":"a","idempotent":1}`}},
		{op: "step.end", ok: `{"name":"a","result":1}`, answer: `has not begun`,
			over: `{"name":"a","result":"` + strings.Repeat("n", 2000) + `"}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{}`, `{"name":"a"}`, `{"name":"","result":1}`, `{"name":"a","result":}`}},
		{op: "tokens.count", export: "route", needs: Permissions{Messages: true}, ok: `{"texts":["one","two"]}`, answer: `"tokens":[3,3]`, grant: "messages",
			over: `{"texts":["` + strings.Repeat("x", 2000) + `"]}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{"texts":["a"],"encoding":"none"}`, `{"texts":"a"}`, `{"texts":[1]}`}},
		{op: "tool.call", needs: Permissions{Tools: []string{"look"}}, ok: `{"calls":[{"name":"look"}]}`, answer: `"failed_precondition"`, grant: "tools=look",
			over: `{"calls":[{"name":"look","arguments":"` + strings.Repeat("x", 2000) + `"}]}`, limits: Limits{ResponseBytes: 1000}, overBy: "ResponseBytes of 1000",
			bad: []string{`{}`, `{"calls":[]}`, `{"calls":{}}`, `{"calls":[{}]}`, `{"calls":[{"name":1}]}`}},
	}
}

// byteCounter counts bytes as tokens.
type byteCounter struct{}

func (byteCounter) EncodingFor(string) (string, bool) { return "bytes", true }

func (byteCounter) CountTokens(_ context.Context, encoding string, text []byte) (int, error) {
	if encoding != "bytes" {
		return 0, host.Errorf(host.InvalidArgument, "there is no encoding %q", encoding)
	}
	return len(text), nil
}

// blankPage answers every request.
type blankPage struct{}

func (blankPage) Fetch(context.Context, *egress.Request) (*egress.Response, error) {
	return &egress.Response{Status: 200, Body: []byte("a page")}, nil
}

// everyRuntime is a runtime that has everything that operations work on, for
// guests of one tenant, and the log that it writes.
func everyRuntime(t *testing.T) (*Runtime, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	q := queue.New(kv.NewMemory(), &queue.Options{MaxPerTenant: 1})
	t.Cleanup(func() { _ = q.Close() })
	return startRuntime(t, &Options{
		Logger: slog.New(slog.NewTextHandler(log, nil)), Fetcher: blankPage{}, Queue: q,
		Models: models{"": hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("said") })},
	}), log
}

func (row *everyOp) options(t *testing.T) *CallOptions {
	t.Helper()
	state, err := host.NewState(map[string]any{"a": 1, "long": strings.Repeat("x", 1500)}, 4000)
	if err != nil {
		t.Fatal(err)
	}
	return &CallOptions{State: state, View: llm.NewView([]*host.Message{host.UserText("one"), host.UserText("two")}, "", byteCounter{})}
}

// run has a guest ask, and returns what it is told and the error's code.
func (row *everyOp) run(t *testing.T, p *Plugin, request string) (string, host.Code) {
	t.Helper()
	export := row.export
	if export == "" {
		export = "tool"
	}
	r, err := p.Call(t.Context(), "acme", export, []byte(row.op+" "+request), row.options(t))
	if err != nil {
		t.Fatalf("%s %.100s: %v", row.op, request, err)
	}
	if !r.GuestError {
		return string(r.Output), ""
	}
	var guest *GuestError
	if err := abi.NewGuestError(p.id, export, r.Output); !errors.As(err, &guest) {
		t.Fatalf("%s %.100s is told %s, which is no error object: %v", row.op, request, r.Output, err)
	}
	var told struct{ Code host.Code }
	if err := json.Unmarshal(r.Output, &told); err != nil {
		t.Fatal(err)
	}
	return string(r.Output), told.Code
}

// Each host operation, from a guest: with its permission, without it, over a
// quota, and asked badly.
func TestEveryOperation(t *testing.T) {
	rows := everyOperation()
	wasm := opsGuest(t, manifestAt(80))
	for i, op := range Operations() {
		if i >= len(rows) || rows[i].op != op {
			t.Fatalf("operation %s has no row, or not in its place", op)
		}
		row := rows[i]
		with := func(t *testing.T, granted Permissions, limits Limits) (*Plugin, *Runtime, *bytes.Buffer) {
			rt, log := everyRuntime(t)
			p, err := rt.Load(t.Context(), "ops", wasm, &LoadOptions{Granted: granted, Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			log.Reset() // of what it asks for
			return p, rt, log
		}
		t.Run(op+" granted", func(t *testing.T) {
			p, _, log := with(t, row.needs, Limits{})
			if got, _ := row.run(t, p, row.ok); !strings.Contains(got, row.answer) {
				t.Errorf("the answer is %s, want %s", got, row.answer)
			}
			if log.Len() > 0 {
				t.Errorf("the log says %s", log)
			}
		})
		t.Run(op+" not granted", func(t *testing.T) {
			p, _, log := with(t, Permissions{}, Limits{})
			got, code := row.run(t, p, row.ok)
			if row.grant == "" {
				if !strings.Contains(got, row.answer) {
					t.Errorf("it needs no grant, and is told %s", got)
				}
				return
			}
			if code != host.PermissionDenied {
				t.Errorf("it is told %s, want permission_denied", got)
			}
			if said := strings.NewReplacer(`\"`, `"`, `grant="`, `grant=`).Replace(log.String()); !strings.Contains(said, `msg="plugin was denied"`) || !strings.Contains(said, "grant="+row.grant) {
				t.Errorf("the log says %q, want that it was denied, and to grant %s", log, row.grant)
			}
			if len(p.Denials()) != 1 {
				t.Errorf("denials %v, want one", p.Denials())
			}
		})
		t.Run(op+" over a quota", func(t *testing.T) {
			p, rt, _ := with(t, row.needs, row.limits)
			if row.budget != nil {
				setBudget(t, rt, "acme", row.budget)
			}
			if row.first != "" {
				row.run(t, p, row.first)
			}
			if got, code := row.run(t, p, row.over); code != host.ResourceExhausted || !strings.Contains(got, row.overBy) {
				t.Errorf("it is told %s, want resource_exhausted and %q", got, row.overBy)
			}
		})
		t.Run(op+" asked badly", func(t *testing.T) {
			p, _, _ := with(t, row.needs, Limits{})
			for _, request := range slices.Concat(row.bad, []string{"", "null7", "[", "7", `"x"`, "{\"\xff\":1}", strings.Repeat("[", 10_000)}) {
				if got, code := row.run(t, p, request); code != host.InvalidArgument {
					t.Errorf("%.60q is told %.200s, want invalid_argument", request, got)
				}
			}
			if got, _ := row.run(t, p, row.ok); !strings.Contains(got, row.answer) {
				t.Errorf("after that, the answer is %s, want %s", got, row.answer)
			}
		})
	}
}
