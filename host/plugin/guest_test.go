package plugin_test

// Scenario: agents run with tools of Go guests, granted, denied and failing.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/runevent"
)

// everythingGranted is what the guest with everything asks for.
var everythingGranted = plugin.Permissions{State: plugin.Write, Messages: true}

// everything loads the guest that has one of everything the Go kit offers.
func everything(t testing.TB, opts *plugin.LoadOptions) *plugin.Plugin {
	t.Helper()
	return load(t, newRuntime(t, nil), "everything", buildGuest(t, "pdk/go/pdk/testdata/everything"), opts)
}

// must returns v, or ends the test.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// ran is what a run left behind, with its events.
type ran struct {
	*host.RunResult
	events []host.EventData
}

func run(t testing.TB, target host.Target, req *host.Request) ran {
	t.Helper()
	h := must[*host.Host](t)(host.New(&host.Options{SingleTenant: true}))
	var out ran
	for e, err := range h.Stream(t.Context(), target, req) {
		if err != nil {
			t.Logf("the run ends with %v", err)
			continue
		}
		out.events = append(out.events, e.Data)
		if f, ok := e.Data.(*runevent.RunFinished); ok {
			out.RunResult = f.Result
		}
	}
	return out
}

// event returns the first event of a type.
func event[T host.EventData](t testing.TB, r ran) T {
	t.Helper()
	for _, e := range r.events {
		if e, ok := e.(T); ok {
			return e
		}
	}
	var none T
	t.Fatalf("the run has no event %T", none)
	return none
}

// runTool has a model call one tool of p, and returns the run.
func runTool(t testing.TB, p *plugin.Plugin, tool, arguments string) ran {
	t.Helper()
	agent := must[*host.Agent](t)(host.NewAgent("clerk", &host.AgentOptions{
		Tools: must[[]*host.Tool](t)(p.Tools(nil)), Model: hosttest.NewModel(hosttest.Call(tool, arguments), hosttest.Say("done"))}))
	packer := must[*host.Agent](t)(host.NewAgent("packer", &host.AgentOptions{Description: "Packs.", Model: hosttest.NewModel(hosttest.Say("packed"))}))
	once := host.RouterFunc("once", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount == 0 {
			return &host.Route{Next: []string{"clerk"}}, nil
		}
		return nil, nil
	})
	n := must[*host.Network](t)(host.NewNetwork("n", []*host.Agent{agent, packer}, &host.NetworkOptions{Router: once}))
	return run(t, n, &host.Request{Tenant: "acme", Text: "go"})
}

func TestGuestToolsInRuns(t *testing.T) {
	p := everything(t, &plugin.LoadOptions{Granted: everythingGranted})
	t.Run("arguments that do not fit do not reach the guest", func(t *testing.T) {
		for _, arguments := range []string{`{`, `[1]`, `null`, `7`, `"words"`, `{"a":1,"a":2}`, strings.Repeat(`{"a":`, 100_000), `{"a":"` + strings.Repeat("x", 2<<20) + `"}`} {
			done := event[*runevent.ToolFinished](t, runTool(t, p, "echo", arguments))
			if !done.IsError || done.Cost != nil || len(done.Content) > 600 {
				t.Errorf("%.30q is answered %.600s at a cost of %v, want an error at none", arguments, done.Content, done.Cost)
			}
		}
	})
	t.Run("arguments are carried with their integers as digits", func(t *testing.T) {
		r := runTool(t, p, "echo", `{"n":9007199254740993,"f":1.50,"i":1.0}`)
		done := event[*runevent.ToolFinished](t, r)
		if string(done.Content) != `{"n":9007199254740993,"f":1.50,"i":1}` || done.IsError {
			t.Errorf("content %s, want the arguments", done.Content)
		}
		if c := done.Cost; c == nil || c.Plugin != "everything" || c.Instructions < 1000 || c.OutputBytes == 0 || c.PeakMemory == 0 {
			t.Errorf("cost %+v, want what the call has used", c)
		}
	})
	t.Run("state is changed by operations and by the result", func(t *testing.T) {
		r := runTool(t, p, "remember", `{"value":{"order":1042}}`)
		if got := string(r.State); got != `{"early":{"order":1042},"late":{"order":1042}}` {
			t.Errorf("state %s", got)
		}
		if done := event[*runevent.ToolFinished](t, r); done.Cost.HostCalls != 2 || !strings.Contains(string(done.Content), `"read":{"order":1042}`) {
			t.Errorf("content %s with %d host calls, want what was written and 2", done.Content, done.Cost.HostCalls)
		}
	})
	t.Run("events, artifacts and agents to run next", func(t *testing.T) {
		r := runTool(t, p, "report", `{"agent":"packer"}`)
		if e := event[*runevent.ToolProgress](t, r); e.Kind != "progress" || string(e.Data) != `{"done":1,"total":2}` {
			t.Errorf("event %s %s", e.Kind, e.Data)
		}
		if len(r.Artifacts) != 1 || r.Artifacts[0].Name != "report.txt" {
			t.Errorf("artifacts %+v, want report.txt", r.Artifacts)
		}
		if r.Text() != "packed" {
			t.Errorf("the last word is %q, want the packer's", r.Text())
		}
	})
	t.Run("a person agrees, is asked and answers", func(t *testing.T) {
		h := must[*host.Host](t)(host.New(&host.Options{SingleTenant: true, Journal: hosttest.NewJournal()}))
		agent := must[*host.Agent](t)(host.NewAgent("clerk", &host.AgentOptions{
			Tools: must[[]*host.Tool](t)(p.Tools(nil)), Model: hosttest.NewModel(hosttest.Call("ask", `{"amount":80}`), hosttest.Say("done"))}))
		r := must[*host.RunResult](t)(h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}))
		answer := func(kind host.QuestionKind, a host.Answer) {
			t.Helper()
			if len(r.Questions) != 1 || r.Questions[0].Kind != kind {
				t.Fatalf("questions %+v, want one of kind %s", r.Questions, kind)
			}
			a.Question = r.Questions[0].ID
			r = must[*host.RunResult](t)(h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: r.Run, Answers: []host.Answer{a}}))
		}
		answer(host.AskApproval, host.Answer{Decision: host.Approve})
		if q := r.Questions[0]; q.Reason != "Go on?" || string(q.Data) != `{"amount":80}` {
			t.Errorf("question %+v", q)
		}
		answer(host.AskInput, host.Answer{Decision: host.Reply, Value: json.RawMessage(`{"yes":9007199254740993}`)})
		if got := r.Results[0].ToolResults()[0]; string(got.Content) != `{"yes":9007199254740993}` || got.IsError {
			t.Errorf("the tool answers %s, want what the person said", got.Content)
		}
	})
}

// sentence is the text of a failed call for models.
func sentence(t testing.TB, done *runevent.ToolFinished) (s string) {
	t.Helper()
	if err := json.Unmarshal(done.Content, &s); err != nil {
		t.Fatalf("%v in %s", err, done.Content)
	}
	return s
}

func TestGuestFailuresAreTheModelsToRead(t *testing.T) {
	limits := plugin.Limits{Instructions: 400_000_000, MemoryBytes: 32 << 20}
	p := everything(t, &plugin.LoadOptions{Granted: everythingGranted, Limits: limits})
	for _, c := range []struct{ tool, arguments, says string }{
		{"fail", `{"code":"not_found","message":"there is no order 7"}`, "there is no order 7"},
		{"fail", `{"message":"plainly"}`, "plainly"},
		{"panic", `{"message":"out of umbrellas"}`, "out of umbrellas"},
		{"spin", `{}`, "limit Instructions of 400000000"},
		{"grow", `{}`, "limit MemoryBytes of 33554432"},
		{"recurse", `{}`, "limit CallDepth of 10000"},
		{"lie", `{}`, "not what the ABI says"},
		{"call", `{"op":"time.travel","request":{}}`, `no operation "time.travel"`},
		{"call", `{"op":"emit","request":{"data":1}}`, "needs a kind"},
		{"call", `{"op":"emit","request":7}`, "request of emit"},
		{"call", `{"op":"state.get","request":{"path":"/nowhere"}}`, "nothing at"},
		{"call", `{"op":"messages.get","request":{"indices":[0]}}`, "nothing to work on"},
	} {
		t.Run(c.tool+" "+c.arguments, func(t *testing.T) {
			r := runTool(t, p, c.tool, c.arguments)
			done := event[*runevent.ToolFinished](t, r)
			if !done.IsError || !strings.Contains(sentence(t, done), c.says) {
				t.Errorf("result %s, want an error that says %q", done.Content, c.says)
			}
			if strings.Contains(string(done.Content), "goroutine") || strings.Contains(string(done.Content), ".go:") {
				t.Errorf("the model is shown a stack: %s", done.Content)
			}
			if r.FinishReason != chat.FinishStop || r.Error != nil {
				t.Errorf("the run ends with %s, %v; a tool's failure must not end it", r.FinishReason, r.Error)
			}
		})
	}
}

func TestWhatIsNotGrantedIsDenied(t *testing.T) {
	p := everything(t, nil)
	done := event[*runevent.ToolFinished](t, runTool(t, p, "remember", `{"value":1}`))
	if !done.IsError || !strings.Contains(string(done.Content), "state=write") {
		t.Errorf("a change of the state without a grant: %s, want an error that names what to grant", done.Content)
	}
	done = event[*runevent.ToolFinished](t, runTool(t, p, "call", `{"op":"state.get","request":{}}`))
	if !done.IsError || !strings.Contains(string(done.Content), "state=read") {
		t.Errorf("a look at the state without a grant: %s, want an error that names what to grant", done.Content)
	}
	if got := p.Granted(); got.State != "" || got.Messages {
		t.Errorf("granted %+v, want nothing", got)
	}
	missing := p.Manifest().Permissions.Missing(plugin.Permissions{})
	if !slices.Equal(missing, []string{"state=write", "messages"}) {
		t.Errorf("missing %q", missing)
	}
}

func TestGuestProcessorsInRuns(t *testing.T) {
	p := everything(t, nil)
	history := []*host.Message{host.UserText("one"), host.AssistantText("two"), host.UserText("three")}
	for _, c := range []struct {
		name, config string
		want         []string // what the model is shown
		fails        string
	}{
		{"upper", "", []string{"ONE", "TWO", "THREE"}, ""},
		{"replace_all", "", []string{"one", "two", "three"}, ""},
		{"newest", "1", []string{"three"}, ""},
		{"newest", "5", []string{"one", "two", "three"}, ""},
		{"newest", `"x"`, nil, "newest is configured with"},
		{"peek", "", []string{"one", "two", "three"}, ""},
		{"wrong", "", nil, "wrong"},
	} {
		t.Run(c.name+" "+c.config, func(t *testing.T) {
			pr := must[host.Processor](t)(p.Processor(c.name, &plugin.PartOptions{Config: json.RawMessage(c.config)}))
			model := hosttest.NewModel(hosttest.Say("done"))
			agent := must[*host.Agent](t)(host.NewAgent("clerk", &host.AgentOptions{Model: model, Processors: []host.Processor{pr}}))
			h := must[*host.Host](t)(host.New(&host.Options{SingleTenant: true, Tokens: byteCounter{}}))
			_, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Messages: history[:2], Input: history[2]})
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || len(model.Requests()) != 0 {
					t.Errorf("run: %v, want an error that says %q before the model is asked", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range model.Requests()[0].Messages {
				got = append(got, m.Text())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the model is shown %q, want %q", got, c.want)
			}
		})
	}
	t.Run("peek reports", func(t *testing.T) {
		pr := must[host.Processor](t)(p.Processor("peek", nil))
		_, done, err := llm.Process(t.Context(), pr, llm.NewView(history, "m", byteCounter{}))
		if err != nil {
			t.Fatal(err)
		}
		if string(done.Report) != `{"text":"one","tokens":1,"exact":true}` || done.Cost.HostCalls != 2 {
			t.Errorf("report %s with %d host calls", done.Report, done.Cost.HostCalls)
		}
	})
}

func TestGuestRoutersAndProvidersInRuns(t *testing.T) {
	p := everything(t, &plugin.LoadOptions{Granted: everythingGranted})
	router := must[host.Router](t)(p.Router("first", nil))
	provider := must[host.Provider](t)(p.Provider("season", nil))
	model := hosttest.NewModel(hosttest.Call("echo", `{"a":1}`), hosttest.Say("done"))
	agents := []*host.Agent{
		must[*host.Agent](t)(host.NewAgent("clerk", &host.AgentOptions{Description: "Answers.", Model: model, Providers: []host.Provider{provider}})),
		must[*host.Agent](t)(host.NewAgent("packer", &host.AgentOptions{Description: "Packs.", Model: hosttest.NewModel()})),
	}
	n := must[*host.Network](t)(host.NewNetwork("n", agents, &host.NetworkOptions{Router: router}))
	r := run(t, n, &host.Request{Tenant: "acme", Text: "go"})
	if r.FinishReason != chat.FinishStop || r.Text() != "done" {
		t.Fatalf("the run ends with %s: %q, %v", r.FinishReason, r.Text(), r.Error)
	}
	asked := model.Requests()[0]
	var texts []string
	for _, m := range asked.Messages {
		texts = append(texts, m.Text())
	}
	if !slices.Equal(texts, []string{"It is winter.", "I live in Oslo.", "go"}) {
		t.Errorf("the model is shown %q", texts)
	}
	if len(asked.Tools) != 1 || asked.Tools[0].Name != "echo" {
		t.Errorf("the model has the tools %+v, want echo", asked.Tools)
	}
	if string(r.State) != `{"observed":true}` {
		t.Errorf("state %s, want what the observer wrote", r.State)
	}
	if r.Cost.Instructions == 0 {
		t.Error("the run's cost has no instructions")
	}
}

// A guest's clock stands still for it but not for its host.
func TestGuestCallsEndWithTheirRun(t *testing.T) {
	p := everything(t, &plugin.LoadOptions{Limits: plugin.Limits{Instructions: 1 << 50, Timeout: time.Minute}})
	cause := errors.New("the user has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	agent := must[*host.Agent](t)(host.NewAgent("clerk", &host.AgentOptions{
		Tools: must[[]*host.Tool](t)(p.Tools(nil)), Model: hosttest.NewModel(hosttest.Call("spin", `{}`))}))
	h := must[*host.Host](t)(host.New(&host.Options{SingleTenant: true}))
	var last error
	for e, err := range h.Stream(ctx, agent, &host.Request{Text: "go"}) {
		if last = err; err == nil {
			if _, ok := e.Data.(*runevent.ToolStarted); ok {
				cancel(cause)
			}
		}
	}
	if host.CodeOf(last) != host.Canceled && !errors.Is(last, cause) {
		t.Errorf("the run ends with %v, want canceled", last)
	}
	if _, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"echo","arguments":{}}`), nil); err != nil {
		t.Errorf("a call after that: %v", err)
	}
}

// The same input costs a fresh instance the same, whatever machine it is on.
func TestGuestsAreDeterministic(t *testing.T) {
	rt := newRuntime(t, nil)
	wasm := buildGuest(t, "pdk/go/pdk/testdata/everything")
	var costs []string
	for i := range 3 {
		p := load(t, rt, fmt.Sprint(i), wasm, nil)
		r, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"echo","arguments":{"a":[1,2,3]}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		costs = append(costs, fmt.Sprint(r.Cost.Instructions, r.Cost.PeakMemory, string(r.Output)))
	}
	if costs[0] != costs[1] || costs[0] != costs[2] {
		t.Errorf("the same call costs %q", costs)
	}
}
