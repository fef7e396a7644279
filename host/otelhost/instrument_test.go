package otelhost_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/otelhost"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testhost"
)

var update = flag.Bool("update", false, "write the golden files; read the diff")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// telemetry is an instrument with what it has exported.
type telemetry struct {
	*otelhost.Instrument
	spans  *tracetest.InMemoryExporter
	reader *sdkmetric.ManualReader
}

func newTelemetry(t testing.TB, opts otelhost.Options) *telemetry {
	t.Helper()
	tel := &telemetry{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	traces := trace.NewTracerProvider(trace.WithSyncer(tel.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(tel.reader))
	t.Cleanup(func() { _, _ = traces.Shutdown(context.Background()), meters.Shutdown(context.Background()) })
	opts.TracerProvider, opts.MeterProvider = traces, meters
	var err error
	if tel.Instrument, err = otelhost.New(&opts); err != nil {
		t.Fatal(err)
	}
	return tel
}

// tree returns the spans as paths of names, in the order of their ends, with their status.
func (tel *telemetry) tree() []string {
	spans := tel.spans.GetSpans()
	byID := map[string]tracetest.SpanStub{}
	for _, s := range spans {
		byID[s.SpanContext.SpanID().String()] = s
	}
	var out []string
	for _, s := range spans {
		path, status := s.Name, ""
		if s.Status.Code == codes.Error {
			status = " (" + value(s, "error.type") + ")"
		}
		for p, ok := byID[s.Parent.SpanID().String()]; ok; p, ok = byID[p.Parent.SpanID().String()] {
			path = p.Name + " > " + path
		}
		out = append(out, path+status)
	}
	return out
}

func (tel *telemetry) span(t testing.TB, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range tel.spans.GetSpans() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %q in\n%s", name, strings.Join(tel.tree(), "\n"))
	return tracetest.SpanStub{}
}

func value(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func (tel *telemetry) metrics(t testing.TB) map[string]metricdata.Aggregation {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := tel.reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	out := map[string]metricdata.Aggregation{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			out[m.Name] = m.Data
		}
	}
	return out
}

func sets(a metricdata.Aggregation) []attribute.Set {
	var out []attribute.Set
	switch a := a.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range a.DataPoints {
			out = append(out, p.Attributes)
		}
	case metricdata.Histogram[int64]:
		for _, p := range a.DataPoints {
			out = append(out, p.Attributes)
		}
	case metricdata.Sum[float64]:
		for _, p := range a.DataPoints {
			out = append(out, p.Attributes)
		}
	}
	return out
}

type page struct{ asked []*egress.Request }

func (p *page) Fetch(_ context.Context, req *egress.Request) (*egress.Response, error) {
	p.asked = append(p.asked, req)
	return &egress.Response{Status: 200, Body: []byte("body of a page")}, nil
}

type anyModel struct{ model host.Model }

func (m anyModel) Model(context.Context, string, string) (host.Model, error) { return m.model, nil }

// newDesk returns a host and a network that has every kind of operation.
func newDesk(t testing.TB, tel *telemetry, fetcher *page) (*host.Host, *host.Network) {
	t.Helper()
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir(), Fetcher: fetcher, Models: anyModel{hosttest.NewModel(hosttest.Say("a sum"))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	wasm := testcode.Build(t, "../plugin/testdata/guests/operations")
	p, err := rt.Load(t.Context(), "operations", wasm, &plugin.LoadOptions{Granted: plugin.Permissions{
		Model: true, HTTP: []plugin.HTTPAccess{{Host: "api.example.com"}}, Secrets: []plugin.SecretAccess{{Name: "KEY", Hosts: []string{"api.example.com"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := p.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	keep := host.ProcessorFunc("keep", func(_ context.Context, m []*host.Message) ([]*host.Message, error) { return m, nil })
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "", errors.New("secret words") }, nil)
	clerk := testhost.NewAgent(t, "clerk", &host.AgentOptions{Description: "Answers.", Instructions: "Be kind.", Tools: append(tools, look), Processors: []host.Processor{keep},
		Model: hosttest.NewModel(hosttest.Call("fetch", "{}"), hosttest.Call("ask", "{}"), hosttest.Call("look", "{}"), hosttest.Call("invented", "{}"), hosttest.Say("The answer."))})
	n, err := host.NewNetwork("desk", []*host.Agent{clerk}, &host.NetworkOptions{
		Router: host.NewModelRouter("choose", &host.ModelRouterOptions{Model: hosttest.NewModel(hosttest.Call("select_agent", `{"name":"clerk"}`), hosttest.Call("done", `{"summary":"ok"}`))}),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := testhost.New(t, &host.Options{Instrument: tel, Ledger: prices{}})
	return h, n
}

// prices is a ledger that admits all.
type prices struct{ host.Ledger }

func (prices) AdmitRun(context.Context, string, string) error { return nil }
func (prices) OpenRun(host.Scope, string) host.UsageRecord    { return nil }
func (prices) Price(string, host.Usage) instrument.Money {
	return instrument.Money{Amount: 2_500_000, Currency: "EUR"}
}

func TestSpansOfARunNest(t *testing.T) {
	tel := newTelemetry(t, otelhost.Options{})
	h, n := newDesk(t, tel, &page{})
	if _, err := h.Run(t.Context(), n, &host.Request{Tenant: "acme", Text: "my question"}); err != nil {
		t.Fatal(err)
	}
	run, agent := "invoke_workflow desk", "invoke_workflow desk > invoke_agent clerk"
	want := []string{
		run + " > agenthost.router choose > chat scripted",
		run + " > agenthost.router choose",
		agent + " > agenthost.processor keep",
		agent + " > chat scripted",
		agent + " > execute_tool fetch > agenthost.sandbox operations > GET",
		agent + " > execute_tool fetch > agenthost.sandbox operations",
		agent + " > execute_tool fetch",
		agent + " > agenthost.processor keep",
		agent + " > chat scripted",
		agent + " > execute_tool ask > agenthost.sandbox operations > chat scripted",
		agent + " > execute_tool ask > agenthost.sandbox operations",
		agent + " > execute_tool ask",
		agent + " > agenthost.processor keep",
		agent + " > chat scripted",
		agent + " > execute_tool look (internal)",
		agent + " > agenthost.processor keep",
		agent + " > chat scripted",
		agent + " > execute_tool other (not_found)",
		agent + " > agenthost.processor keep",
		agent + " > chat scripted",
		agent,
		run + " > agenthost.router choose > chat scripted",
		run + " > agenthost.router choose",
		run,
	}
	if diff := cmp.Diff(want, tel.tree()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range tel.spans.GetSpans() {
		if value(s, "agenthost.tenant.id") != "acme" {
			t.Errorf("span %s is of tenant %q", s.Name, value(s, "agenthost.tenant.id"))
		}
		for _, a := range s.Attributes {
			for _, content := range []string{"my question", "secret words", "The answer", "Be kind", "body of a page"} {
				if strings.Contains(a.Value.String(), content) || strings.Contains(s.Status.Description, content) {
					t.Errorf("without Content, span %s says %q", s.Name, content)
				}
			}
		}
	}
	chat := tel.span(t, "chat scripted")
	for key, want := range map[string]string{"gen_ai.operation.name": "chat", "gen_ai.request.model": "scripted", "gen_ai.response.finish_reasons": `["tool_calls"]`,
		"gen_ai.usage.input_tokens": "1", "agenthost.model.cost": "0.0025", "agenthost.model.cost.currency": "EUR", "agenthost.model.purpose": "router"} {
		if got := value(chat, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// The names are a contract with dashboards: a change of them is read in a diff.
// A call that a tool makes of another is a child of the tool's.
func TestSpansOfNestedCallsNest(t *testing.T) {
	tel := newTelemetry(t, otelhost.Options{})
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "seen", nil }, nil)
	script := host.NewTool("script", "Looks twice.", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		_, err := call.CallTools(ctx, []nested.Call{{Name: "look"}, {Name: "look"}})
		return "", err
	}, &host.ToolOptions{Calls: []string{"look"}})
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: []*host.Tool{look, script}})
	h := testhost.New(t, &host.Options{Model: hosttest.NewModel(hosttest.Call("script", "{}"), hosttest.Say("done")), Instrument: tel.Instrument})
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range tel.tree() {
		if _, tools, ok := strings.Cut(path, "execute_tool"); ok {
			got = append(got, "execute_tool"+tools)
		}
	}
	if diff := cmp.Diff([]string{"execute_tool script > execute_tool look", "execute_tool script > execute_tool look", "execute_tool script"}, got); diff != "" {
		t.Errorf("spans of tools (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	tel := newTelemetry(t, otelhost.Options{Content: true, Tenants: true})
	h, n := newDesk(t, tel, &page{})
	ctx, answered := tel.Request(httptest.NewRequest("POST", "/v1/runs", nil), "/v1/runs")
	if _, err := h.Run(ctx, n, &host.Request{Tenant: "acme", Text: "my question", Thread: "t"}); err != nil {
		t.Fatal(err)
	}
	answered(500)
	var lines []string
	for _, s := range tel.spans.GetSpans() {
		kind, _, _ := strings.Cut(s.Name, " ")
		for _, a := range s.Attributes {
			lines = append(lines, fmt.Sprintf("span %s (%s): %s", kind, s.SpanKind, a.Key))
		}
	}
	for name, data := range tel.metrics(t) {
		for _, set := range sets(data) {
			for _, a := range set.ToSlice() {
				lines = append(lines, fmt.Sprintf("metric %s: %s", name, a.Key))
			}
		}
	}
	slices.Sort(lines)
	got := strings.Join(slices.Compact(lines), "\n") + "\n"
	const file = "testdata/names.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestContentIsRedactedAndBounded(t *testing.T) {
	tel := newTelemetry(t, otelhost.Options{Content: true, Redact: func(s string) string { return strings.ReplaceAll(s, "4111", "****") }})
	h := testhost.New(t, &host.Options{Instrument: tel})
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Instructions: "Be kind.", Model: hosttest.NewModel(hosttest.Say("Paid with 4111."))})
	old := host.UserText("old " + strings.Repeat("x", otelhost.MaxContentBytes))
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Messages: []*host.Message{old}, Text: "card 4111 " + strings.Repeat("\u00e9", otelhost.MaxContentBytes)}); err != nil {
		t.Fatal(err)
	}
	chat := tel.span(t, "chat scripted")
	input, output := value(chat, "gen_ai.input.messages"), value(chat, "gen_ai.output.messages")
	if !strings.Contains(input, `"content":"card **** `) || strings.Contains(input, "old ") || len(input) > 2*otelhost.MaxContentBytes {
		t.Errorf("the input of %d bytes begins with %.80s", len(input), input)
	}
	if output != `[{"role":"assistant","parts":[{"type":"text","content":"Paid with ****."}],"finish_reason":"stop"}]` || value(chat, "gen_ai.system_instructions") != `[{"type":"text","content":"Be kind."}]` {
		t.Errorf("the output is %s", output)
	}
}

func TestFailuresAndCancellationsAreErrorsOfSpans(t *testing.T) {
	for want, model := range map[string]func(cancel func()) host.Model{
		"unavailable": func(func()) host.Model {
			return hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "server 10.0.0.1 is down")))
		},
		"canceled": func(cancel func()) host.Model {
			return hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
				cancel()
				<-ctx.Done()
				return hosttest.Fail(ctx.Err())
			})
		},
	} {
		t.Run(want, func(t *testing.T) {
			tel := newTelemetry(t, otelhost.Options{})
			h := testhost.New(t, &host.Options{Instrument: tel})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model(cancel)})
			if _, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Text: "hi"}); err == nil {
				t.Fatal("the run succeeds")
			}
			if len(tel.tree()) != 3 {
				t.Errorf("spans %q", tel.tree())
			}
			for _, s := range tel.spans.GetSpans() {
				if s.Status.Code != codes.Error || s.Status.Description != want || value(s, "error.type") != want {
					t.Errorf("span %s has %v and %q", s.Name, s.Status, value(s, "error.type"))
				}
			}
		})
	}
}

// Names come from providers, routers and tenants, as many as they like.
func TestAttributesOfMetricsAreBounded(t *testing.T) {
	tel := newTelemetry(t, otelhost.Options{})
	for i := range 3 * otelhost.MaxSeries {
		name := fmt.Sprint("name", i)
		scope := host.Scope{Tenant: name, Run: name, Network: name, Agent: name}
		for _, op := range []instrument.Operation{&instrument.Run{Scope: scope}, &instrument.Tool{Scope: scope, Name: name}, &instrument.Router{Scope: scope, Name: name},
			&instrument.Model{Scope: scope, Name: name, Request: &llm.Request{}, Usage: host.Usage{InputTokens: 1}}, &instrument.Sandbox{Scope: scope, Plugin: name, Owned: true}} {
			_, end := tel.Begin(t.Context(), op)
			end(nil)
		}
	}
	for name, data := range tel.metrics(t) {
		got := sets(data)
		if len(got) > otelhost.MaxSeries+10 {
			t.Errorf("%s has %d sets of attributes", name, len(got))
		}
		others := 0
		for _, s := range got {
			if _, ok := s.Value("agenthost.tenant.id"); ok {
				t.Fatalf("%s names a tenant without Tenants", name)
			}
			for _, a := range s.ToSlice() {
				if a.Value.AsString() == "other" {
					others++
					break
				}
			}
		}
		if others == 0 {
			t.Errorf("%s has nothing for the rest", name)
		}
	}
}

func TestTraceContextComesInAndGoesOutWhereItMay(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	var sent http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint("allowed ", allowed), func(t *testing.T) {
			tel := newTelemetry(t, otelhost.Options{ToModels: allowed, ToHost: func(h string) bool { return allowed && h == "api.example.com" }})
			fetcher := &page{}
			h, n := newDesk(t, tel, fetcher)
			model, err := openaimodel.New("m", &openaimodel.Options{Server: modelhttp.Options{BaseURL: server.URL, HTTPClient: client}})
			if err != nil {
				t.Fatal(err)
			}
			agent := testhost.NewAgent(t, "asker", &host.AgentOptions{Model: model})
			r := httptest.NewRequest("POST", "/v1/runs", nil)
			r.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
			ctx, answered := tel.Request(r, "/v1/runs")
			for _, target := range []host.Target{n, agent} {
				if _, err := h.Run(ctx, target, &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
					t.Fatal(err)
				}
			}
			answered(200)
			for _, s := range tel.spans.GetSpans() {
				if s.SpanContext.TraceID().String() != trace {
					t.Errorf("span %s is of trace %s", s.Name, s.SpanContext.TraceID())
				}
			}
			chat := tel.span(t, "chat m")
			if got, want := sent.Get("traceparent"), "00-"+trace+"-"+chat.SpanContext.SpanID().String()+"-01"; (got == want) != allowed || !allowed && got != "" {
				t.Errorf("the model's server gets %q, want %q: %t", got, want, allowed)
			}
			if value(chat, "gen_ai.provider.name") != "openai" || value(chat, "gen_ai.response.model") != "m-1" || value(chat, "gen_ai.response.id") != "x" {
				t.Errorf("the span has %v", chat.Attributes)
			}
			has := slices.ContainsFunc(fetcher.asked[0].Headers, func(h egress.Header) bool {
				return h.Name == "Traceparent" && strings.Contains(h.Value, tel.span(t, "GET").SpanContext.SpanID().String())
			})
			if has != allowed {
				t.Errorf("the guest's request has the headers %v", fetcher.asked[0].Headers)
			}
		})
	}
}

func Example() {
	spans := tracetest.NewInMemoryExporter() // or one of OTLP
	traces := trace.NewTracerProvider(trace.WithSyncer(spans))
	telemetry, err := otelhost.New(&otelhost.Options{TracerProvider: traces})
	if err != nil {
		panic(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, Instrument: telemetry, Model: hosttest.NewModel(hosttest.Say("Hello!"))})
	if err != nil {
		panic(err)
	}
	agent, err := host.NewAgent("clerk", nil)
	if err != nil {
		panic(err)
	}
	if _, err := h.Run(context.Background(), agent, &host.Request{Text: "hi"}); err != nil {
		panic(err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// chat scripted
	// invoke_agent clerk
	// invoke_workflow clerk
}
