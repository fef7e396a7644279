package metrics_test

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/metrics"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/internal/testhost"
)

var update = flag.Bool("update", false, "write the golden files; read the diff")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func text(t testing.TB, c *metrics.Collector, opts *metrics.ViewOptions) string {
	t.Helper()
	w := httptest.NewRecorder()
	c.Handler(opts).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("the handler answers %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// story is what two runs did; the second goes on.
func story(c *metrics.Collector) {
	at := time.UnixMilli(0)
	tell := func(tenant, run, agent string, after time.Duration, data host.EventData) {
		at = at.Add(after)
		c.Measure(host.Scope{Tenant: tenant, Run: run, Network: "desk", Agent: agent}, host.Event{Time: at, Run: run, Network: "desk", Agent: agent, Data: data})
	}
	answer := &runevent.MessageDone{Message: &host.Message{ID: "m", Role: host.Assistant}, Usage: &host.Usage{InputTokens: 10, OutputTokens: 5}}
	tell("acme", "r1", "", 0, &runevent.RunStarted{})
	tell("acme", "r1", "clerk", 0, &runevent.ProcessorRan{Processor: "limiter"})
	tell("acme", "r1", "clerk", 0, &runevent.ProcessorRan{Processor: "mask", Skipped: &host.Error{}})
	tell("acme", "r1", "clerk", 0, &runevent.ModelThrottled{Model: "large", WaitUS: 1_500_000})
	tell("acme", "r1", "clerk", 0, &runevent.ModelCalled{Model: "large"})
	tell("acme", "r1", "clerk", 0, &runevent.ModelRetried{Code: host.Unavailable})
	tell("acme", "r1", "clerk", 0, &runevent.ModelFellBack{From: "large", To: "small", Code: host.Unavailable})
	tell("acme", "r1", "clerk", 200*time.Millisecond, &runevent.TextDelta{Text: "Let "})
	tell("acme", "r1", "clerk", 300*time.Millisecond, &runevent.TextDelta{Text: "me look."})
	tell("acme", "r1", "clerk", 0, answer)
	tell("acme", "r1", "clerk", 0, &runevent.ToolRetried{Name: "look", Code: host.Unavailable})
	tell("acme", "r1", "clerk", 0, &runevent.ToolFinished{Name: "look", DurationUS: 20_000})
	tell("acme", "r1", "clerk", 0, &runevent.ToolFinished{Name: `a "strange"` + "\n" + `\name`, IsError: true})
	tell("acme", "r1", "clerk", 0, &runevent.Interrupted{Question: &host.Question{Kind: host.AskApproval}})
	tell("acme", "r1", "", 0, &runevent.RunFinished{FinishReason: chat.FinishInterrupted, DurationUS: 700_000, Usage: host.Usage{InputTokens: 10, OutputTokens: 5}})
	tell("umbrella", "r2", "", 0, &runevent.RunStarted{})
	tell("umbrella", "r2", "", 0, &runevent.RunFinished{FinishReason: chat.FinishFailed, Error: &host.Error{Code: host.Unavailable}, DurationUS: 900_000_000})
	tell("umbrella", "r3", "", 0, &runevent.RunStarted{})
	tell("umbrella", "r3", "clerk", 0, &runevent.ModelCalled{Model: "large"})
}

func TestGolden(t *testing.T) {
	c := metrics.New(nil)
	story(c)
	for file, opts := range map[string]*metrics.ViewOptions{"testdata/summed.txt": nil, "testdata/tenants.txt": {Tenants: true}} {
		got := text(t, c, opts)
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
		checkFormat(t, got)
	}
}

var sample = regexp.MustCompile(`^[a-z_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? (\S+)$`)

func checkFormat(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no sample: %s", line)
		}
		if _, err := strconv.ParseFloat(m[len(m)-1], 64); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// Names come from tenants and from models, as many as they like.
func TestSeriesAreBounded(t *testing.T) {
	c := metrics.New(nil)
	for i := range 10_000 {
		name := fmt.Sprint("tool", i)
		c.Measure(host.Scope{Tenant: name, Run: name}, host.Event{Data: &runevent.RunStarted{}})
		c.Measure(host.Scope{Tenant: name, Run: name}, host.Event{Data: &runevent.ToolFinished{Name: name}})
		c.Measure(host.Scope{Tenant: name, Run: name}, host.Event{Data: &runevent.RunFinished{FinishReason: chat.FinishStop}})
	}
	got := text(t, c, &metrics.ViewOptions{Tenants: true})
	if n := strings.Count(got, "\nagenthost_tool_calls_total{"); n != 2001 {
		t.Errorf("%d series of tools, want 2,000 and one for the rest", n)
	}
	for _, want := range []string{`agenthost_tool_calls_total{outcome="other",tool="other"} 8000`, `agenthost_tool_seconds_count{tool="other"} 8000`, "agenthost_runs_in_progress 0"} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if sums := text(t, c, nil); !strings.Contains(sums, `agenthost_runs_total{reason="stop"} 2000`) {
		t.Errorf("tenants are not summed:\n%s", sums)
	}
}

func newHost(t testing.TB, c *metrics.Collector, replies ...hosttest.Reply) (*host.Host, *host.Agent) {
	t.Helper()
	h := testhost.NewSingle(t, &host.Options{Meter: c})
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "shipped", nil }, nil)
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: hosttest.NewModel(replies...), Tools: []*host.Tool{look}})
	return h, agent
}

func TestRunsAreMeasuredHoweverTheyAreRead(t *testing.T) {
	c := metrics.New(nil)
	h, agent := newHost(t, c, hosttest.Call("look", "{}"), hosttest.Say("done"), hosttest.Say("cut off"), hosttest.Say("again"))
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	for range h.Stream(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"}) {
		break // its reader leaves
	}
	got := text(t, c, &metrics.ViewOptions{Tenants: true})
	for _, want := range []string{
		`agenthost_runs_total{network="clerk",reason="stop",tenant="acme"} 1`,
		`agenthost_runs_total{code="canceled",network="clerk",reason="canceled",tenant="acme"} 1`,
		`agenthost_tokens_total{kind="input",network="clerk",tenant="acme"} 2`,
		`agenthost_model_calls_total{model="scripted"} 2`, `agenthost_model_seconds_count{model="scripted"} 2`,
		`agenthost_tool_calls_total{outcome="ok",tool="look"} 1`, `agenthost_runs_in_progress 0`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
}

func TestNamesThatModelsInventHaveOneSeries(t *testing.T) {
	c := metrics.New(nil)
	h, agent := newHost(t, c, hosttest.Call("lookup_42", "{}"), hosttest.Call("lookup_43", "{}"), hosttest.Say("done"))
	if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	got := text(t, c, nil)
	if !strings.Contains(got, `agenthost_tool_calls_total{outcome="error",tool="(unknown)"} 2`+"\n") || strings.Contains(got, "lookup_4") {
		t.Errorf("the metrics are\n%s", got)
	}
}

func TestManyRunsAtOnce(t *testing.T) {
	c := metrics.New(nil)
	var runs sync.WaitGroup
	for range 20 {
		runs.Go(func() { story(c) })
		runs.Go(func() { _ = text(t, c, nil) })
	}
	runs.Wait()
	if got := text(t, c, nil); !strings.Contains(got, `agenthost_runs_total{network="desk",reason="interrupted"} 20`) {
		t.Error(got)
	}
}

func BenchmarkMeasure(b *testing.B) {
	c := metrics.New(nil)
	scope := host.Scope{Tenant: "acme", Run: "r", Network: "desk", Agent: "clerk"}
	c.Measure(scope, host.Event{Data: &runevent.RunStarted{}})
	c.Measure(scope, host.Event{Data: &runevent.ModelCalled{Model: "m"}})
	for name, data := range map[string]host.EventData{"delta": &runevent.TextDelta{Text: "x"}, "tool": &runevent.ToolFinished{Name: "look"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Measure(scope, host.Event{Data: data})
			}
		})
	}
}

func Example() {
	collected := metrics.New(nil)
	h, err := host.New(&host.Options{SingleTenant: true, Meter: collected, Model: hosttest.NewModel(hosttest.Say("Hello!"))})
	if err != nil {
		panic(err)
	}
	agent, err := host.NewAgent("clerk", nil)
	if err != nil {
		panic(err)
	}
	if _, err := h.Run(context.Background(), agent, &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	collected.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "agenthost_runs_total") || strings.HasPrefix(line, "agenthost_tokens_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// agenthost_runs_total{network="clerk",reason="stop"} 1
	// agenthost_tokens_total{kind="input",network="clerk"} 1
	// agenthost_tokens_total{kind="output",network="clerk"} 1
}
