package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// tool returns a tool without parameters.
func tool(name string, fn func(ctx context.Context, call *host.Call) (string, error)) *host.Tool {
	return host.NewTool(name, "Does "+name+".", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		return fn(ctx, call)
	}, nil)
}

// runTools has an agent call each tool once, all in one answer.
func runTools(ctx context.Context, t testing.TB, opts *host.Options, tools ...*host.Tool) (*host.RunResult, error) {
	t.Helper()
	reply := hosttest.Say("")
	for _, tl := range tools {
		reply = reply.Call(tl.Name, "{}")
	}
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(reply), Tools: tools, MaxRounds: 1})
	return newHost(t, opts).Run(ctx, agent, &host.Request{Tenant: "acme", Text: "go"})
}

func contents(r *host.RunResult) []string {
	var out []string
	for _, res := range r.Results {
		for _, tr := range res.ToolResults() {
			out = append(out, tr.ContentText())
		}
	}
	return out
}

func TestToolsRunAtOnceAndAnswerInOrder(t *testing.T) {
	const n = 4
	turns := make([]chan struct{}, n+1)
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[n])
	var tools []*host.Tool
	for i := range n {
		tools = append(tools, tool(fmt.Sprint("t", i), func(context.Context, *host.Call) (string, error) {
			<-turns[i+1] // the last ends first
			close(turns[i])
			return fmt.Sprint("result ", i), nil
		}))
	}
	result, err := runTools(t.Context(), t, nil, tools...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"result 0", "result 1", "result 2", "result 3"}, contents(result)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// A handler may give out one output for ever: what the host fills in is its own.
func TestToolsMayShareTheirOutput(t *testing.T) {
	shared := &host.ToolOutput{}
	var tools []*host.Tool
	for _, name := range []string{"a", "b", "c"} {
		tl, err := host.NewRawTool(llm.ToolSpec{Name: name}, func(context.Context, *host.Call) (*host.ToolOutput, error) { return shared, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tl)
	}
	want := []string{"a successfully executed", "b successfully executed", "c successfully executed"}
	fromHook := func(_ context.Context, at *host.ToolStartHook) error { at.Output = shared; return nil }
	atEnd := func(_ context.Context, at *host.ToolEndHook) error { at.Output = shared; return nil }
	for name, hooks := range map[string]host.Hooks{"handler": {}, "start hook": {ToolStart: fromHook}, "end hook": {ToolEnd: atEnd}} {
		t.Run(name, func(t *testing.T) {
			reply := hosttest.Say("").Call("a", "{}").Call("b", "{}").Call("c", "{}")
			agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(reply), Tools: tools, MaxRounds: 1, Hooks: hooks})
			result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "go"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, contents(result)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if shared.Content != nil || shared.Cost != nil {
				t.Errorf("the shared output has become %+v", shared)
			}
		})
	}
}

func TestParallelToolsIsALimit(t *testing.T) {
	var running, most atomic.Int64
	var tools []*host.Tool
	for i := range 12 {
		tools = append(tools, tool(fmt.Sprint("t", i), func(context.Context, *host.Call) (string, error) {
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			runtime.Gosched()
			running.Add(-1)
			return "", nil
		}))
	}
	if _, err := runTools(t.Context(), t, &host.Options{Limits: host.Limits{ParallelTools: 3}}, tools...); err != nil {
		t.Fatal(err)
	}
	if most.Load() > 3 {
		t.Errorf("%d tools ran at once, more than 3", most.Load())
	}
}

func TestAToolMayEndItsGoroutine(t *testing.T) {
	result, err := runTools(t.Context(), t, nil,
		tool("exit", func(context.Context, *host.Call) (string, error) { runtime.Goexit(); return "", nil }),
		tool("panic", func(context.Context, *host.Call) (string, error) { panic("at the disco") }),
		tool("work", func(context.Context, *host.Call) (string, error) { return "done", nil }))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"The tool exit failed.", "The tool panic failed.", "done"}, contents(result)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestToolTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := host.NewTool("slow", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, &host.ToolOptions{Timeout: 3 * time.Second})
		own := tool("own", func(ctx context.Context, _ *host.Call) (string, error) {
			<-ctx.Done()
			return "", host.Errorf(host.ResourceExhausted, "It is out of fuel.")
		})
		result, err := runTools(t.Context(), t, &host.Options{Limits: host.Limits{ToolTimeout: 5 * time.Second}}, slow, own)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"The tool slow took longer than 3s.", "It is out of fuel."}, contents(result)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// A handler that never looks at its context must not hold the run for ever.
func TestAToolThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ended := make(chan error, 1)
		stubborn := tool("stubborn", func(_ context.Context, call *host.Call) (string, error) {
			<-release
			ended <- call.Emit("late", 1)
			return "too late", nil
		})
		started := time.Now()
		result, err := runTools(t.Context(), t, &host.Options{Limits: host.Limits{ToolTimeout: time.Second}}, stubborn)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"The tool stubborn took longer than 1s."}, contents(result)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("the run took %s", took)
		}
		close(release)
		if err := <-ended; err == nil {
			t.Error("an event of a tool left behind was taken")
		}
	})
}

// hangingModel waits for the end of its context.
type hangingModel struct{ asked chan struct{} }

func (hangingModel) Name() string { return "hanging" }
func (m hangingModel) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if m.asked != nil {
			close(m.asked)
		}
		<-ctx.Done()
		yield(llm.Chunk{}, fmt.Errorf("read body: %w", ctx.Err()))
	}
}

func TestRunTimeoutIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := hosttest.NewHistory()
		agent := newAgent(t, &host.AgentOptions{Model: hangingModel{}, History: newHistory(t, history)})
		h := newHost(t, &host.Options{Limits: host.Limits{RunTimeout: time.Minute}})
		result, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
		if host.CodeOf(err) != host.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "RunTimeout of 1m") {
			t.Errorf("Run: %v; want code %s and the name of the limit", err, host.DeadlineExceeded)
		}
		if result == nil || result.FinishReason != chat.FinishFailed {
			t.Errorf("result is %+v, want finish reason %s", result, chat.FinishFailed)
		}
		if turns := history.Turns(); len(turns) != 1 || turns[0].Status != chat.FinishFailed || turns[0].Error == nil {
			t.Errorf("stored turns: %+v; want one that failed", turns)
		}
	})
}

func TestACancelledRunKeepsWhatWasFinished(t *testing.T) {
	history := hosttest.NewHistory()
	ctx, cancel := context.WithCancel(t.Context())
	worked := make(chan struct{})
	stop := tool("stop", func(ctx context.Context, _ *host.Call) (string, error) {
		<-worked
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	})
	work := tool("work", func(context.Context, *host.Call) (string, error) { close(worked); return "done", nil })
	agent := newAgent(t, &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Call("work", "{}").Call("stop", "{}")), Tools: []*host.Tool{stop, work}, History: newHistory(t, history)})
	result, err := newHost(t, nil).Run(ctx, agent, &host.Request{Thread: "T", Text: "hi"})
	if host.CodeOf(err) != host.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v; want code %s", err, host.Canceled)
	}
	if result == nil || result.FinishReason != chat.FinishCanceled {
		t.Fatalf("result is %+v, want finish reason %s", result, chat.FinishCanceled)
	}
	if diff := cmp.Diff([]string{"done", "The tool stop was stopped."}, contents(result)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	turns := history.Turns()
	if len(turns) != 1 || turns[0].Status != chat.FinishCanceled || len(turns[0].Messages()) != 3 {
		t.Errorf("stored turns: %+v; want one, cancelled, of three messages", turns)
	}
}

func TestLimitsEndARunAndAreNamed(t *testing.T) {
	many := hosttest.Say("")
	for range 200 {
		many = many.Call("work", "{}")
	}
	forever := func() *hosttest.Model {
		return hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
			return hosttest.Reply{Calls: hosttest.Call("work", "{}").Calls, Usage: host.Usage{InputTokens: 90, OutputTokens: 10}}
		})
	}
	for name, c := range map[string]struct {
		limits host.Limits
		model  host.Model
		req    host.Request
		says   string
	}{
		"RunTokens":              {host.Limits{RunTokens: 250}, forever(), host.Request{Text: "x"}, "RunTokens of 250"},
		"MaxToolCalls":           {host.Limits{MaxToolCalls: 5}, forever(), host.Request{Text: "x"}, "MaxToolCalls of 5"},
		"calls of one answer":    {host.Limits{}, hosttest.NewModel(many), host.Request{Text: "x"}, "more than 128"},
		"ResponseBytes, deltas":  {host.Limits{ResponseBytes: 10}, says("a long answer indeed"), host.Request{Text: "x"}, "ResponseBytes of 10"},
		"ResponseBytes, unknown": {host.Limits{ResponseBytes: 10}, &fixedModel{resp: &llm.Response{Parts: []host.Part{&chat.Unknown{Kind: "x", JSON: json.RawMessage(`{"type":"x","of":"another provider"}`)}}}}, host.Request{Text: "x"}, "ResponseBytes of 10"},
		"ResponseBytes, extras":  {host.Limits{ResponseBytes: 10}, &fixedModel{resp: &llm.Response{Parts: []host.Part{&host.Text{Extra: chat.Extra{{Name: "x", Value: json.RawMessage(`"a long value indeed"`)}}}}}}, host.Request{Text: "x"}, "ResponseBytes of 10"},
		"ResponseBytes, media":   {host.Limits{ResponseBytes: 10}, &fixedModel{resp: &llm.Response{Parts: []host.Part{&host.Media{MediaType: "image/png", Data: []byte("a large picture")}}}}, host.Request{Text: "x"}, "ResponseBytes of 10"},
		"ResponseBytes, whole":   {host.Limits{ResponseBytes: 10}, &fixedModel{resp: &llm.Response{Parts: []host.Part{&host.Reasoning{Text: "a long thought indeed"}}}}, host.Request{Text: "x"}, "ResponseBytes of 10"},
		"InputBytes":             {host.Limits{InputBytes: 100}, says("x"), host.Request{Text: strings.Repeat("x", 100)}, "InputBytes of 100"},
		"StateBytes":             {host.Limits{StateBytes: 10}, says("x"), host.Request{Text: "x", State: map[string]string{"a": "long enough"}}, "StateBytes of 10"},
	} {
		t.Run(name, func(t *testing.T) {
			work := tool("work", func(context.Context, *host.Call) (string, error) { return "", nil })
			agent := newAgent(t, &host.AgentOptions{Model: c.model, Tools: []*host.Tool{work}})
			_, err := newHost(t, &host.Options{Limits: c.limits}).Run(t.Context(), agent, &c.req)
			if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v; want code %s and %q", err, host.ResourceExhausted, c.says)
			}
		})
	}
}

func TestHostMaxRoundsIsACap(t *testing.T) {
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Call("work", "{}") })
	work := tool("work", func(context.Context, *host.Call) (string, error) { return "", nil })
	for _, rounds := range []int{0, 100} {
		agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{work}, MaxRounds: rounds})
		result, err := newHost(t, &host.Options{Limits: host.Limits{MaxRounds: 3}}).Run(t.Context(), agent, &host.Request{Text: "x"})
		if err != nil || result.FinishReason != chat.FinishMaxRounds || result.Results[0].Rounds != 4 {
			t.Errorf("MaxRounds %d: %+v, %v; want 3 rounds, one without tools, and %s", rounds, result, err, chat.FinishMaxRounds)
		}
	}
}

func TestALoneAgentNeverEndsByIterations(t *testing.T) {
	agent := newAgent(t, &host.AgentOptions{Model: says("done")})
	result, err := newHost(t, &host.Options{Limits: host.Limits{MaxIterations: 1}}).Run(t.Context(), agent, &host.Request{Text: "x"})
	if err != nil || result.FinishReason != chat.FinishStop {
		t.Errorf("Run: %+v, %v; want %s", result, err, chat.FinishStop)
	}
}

// fixedModel gives the same answer to everybody, as the same value.
type fixedModel struct {
	name string
	resp *llm.Response
}

func (m *fixedModel) Name() string { return m.name }
func (m *fixedModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if m.resp != nil {
			yield(llm.Chunk{Response: m.resp}, nil)
		}
	}
}

func TestAModelsAnswerIsNotChanged(t *testing.T) {
	model := &fixedModel{resp: &llm.Response{Parts: []host.Part{&host.ToolCall{Name: "work"}, &host.ToolCall{}}}}
	work := tool("work", func(context.Context, *host.Call) (string, error) { return "done", nil })
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{work}, MaxRounds: 1})
	h := newHost(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			result, err := h.Run(t.Context(), agent, &host.Request{Text: "x"})
			if err != nil || !result.Usage.Estimated {
				t.Errorf("Run: %+v, %v; want an estimated usage", result, err)
			}
		})
	}
	wg.Wait()
	if c := model.resp.Parts[0].(*host.ToolCall); c.ID != "" || c.Arguments != nil || model.resp.Usage != (host.Usage{}) {
		t.Errorf("the model's own answer became %+v", model.resp)
	}
}

func TestRawAnswersAreKept(t *testing.T) {
	model := &fixedModel{resp: &llm.Response{Parts: []host.Part{&host.Text{Text: "Hello."}}, Raw: json.RawMessage(`[{"id":"c1"}]`)}}
	var raw json.RawMessage
	var result *host.RunResult
	for e, err := range newHost(t, nil).Stream(t.Context(), newAgent(t, &host.AgentOptions{Model: model}), &host.Request{Text: "x"}) {
		if err != nil {
			t.Fatal(err)
		}
		switch d := e.Data.(type) {
		case *runevent.MessageDone:
			raw = d.Raw
		case *runevent.RunFinished:
			result = d.Result
		}
	}
	if len(result.Results[0].Raw) != 1 || string(result.Results[0].Raw[0]) != `[{"id":"c1"}]` || string(raw) != `[{"id":"c1"}]` {
		t.Errorf("the result has %s, the event %s", result.Results[0].Raw, raw)
	}
	if b, err := json.Marshal(result); err != nil || strings.Contains(string(b), `"c1"`) {
		t.Errorf("it would be stored: %s, %v", b, err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		model host.Model
		code  host.Code
	}{
		"nothing at all":  {&fixedModel{}, host.Unavailable},
		"a nil part":      {&fixedModel{resp: &llm.Response{Parts: []host.Part{nil}}}, host.Internal},
		"a model's error": {hosttest.NewModel(hosttest.Fail(host.Errorf(host.PermissionDenied, "bad key"))), host.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newHost(t, nil).Run(t.Context(), newAgent(t, &host.AgentOptions{Model: c.model}), &host.Request{Text: "x"})
			if host.CodeOf(err) != c.code || !strings.Contains(err.Error(), `agent "clerk"`) {
				t.Errorf("Run: %v; want code %s and the agent's name", err, c.code)
			}
			var own *host.Error
			if !errors.As(err, &own) || err != error(own) {
				t.Errorf("Run's error is a %T, want *host.Error", err)
			}
		})
	}
}

// What a model writes must be fit to be stored: it comes back, every call has a
// result, every result a call.
func TestOddCallsLeaveAHistoryThatCanBeRead(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	model := &fixedModel{resp: &llm.Response{Parts: []host.Part{
		&host.ToolCall{ID: "1", Name: "work", Arguments: raw(`{}`)},
		&host.ToolCall{ID: "1", Name: "work", Arguments: raw(`{}`)}, // said twice
		&host.ToolCall{ID: "1", Name: "work", Arguments: raw(`{"other":1}`)},
		&host.ToolCall{ID: "", Name: "work"},
		&host.ToolCall{ID: "2", Name: "", Arguments: raw(`{}`)},
		&host.ToolCall{ID: "3", Name: "work", Arguments: raw("\xff")},
		&host.ToolResult{ID: "9", Name: "work", Content: raw(`"made up"`)},
		&host.Data{Value: raw("{")}, &chat.Unknown{Kind: "odd", JSON: raw("{")},
	}}}
	work := tool("work", func(context.Context, *host.Call) (string, error) { return "done", nil })
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{work}, MaxRounds: 1})
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "x"})
	if err != nil {
		t.Fatal(err)
	}
	back, err := chat.DecodeMessages(chat.AppendMessagesJSON(nil, result.Results[0].Messages))
	if err != nil {
		t.Fatalf("the messages cannot be read back: %v", err)
	}
	var calls, results []string
	for _, m := range back {
		for _, c := range m.ToolCalls() {
			calls = append(calls, c.ID)
		}
		for _, r := range m.ToolResults() {
			results = append(results, r.ID)
		}
	}
	if len(calls) != 5 || !slices.Equal(calls, results) {
		t.Errorf("calls %q have results %q; want five, each once", calls, results)
	}
	unique := slices.Compact(slices.Sorted(slices.Values(calls)))
	if len(unique) != 5 {
		t.Errorf("the calls' ids are %q, not unique", calls)
	}
}

func TestTheNearestModelAnswers(t *testing.T) {
	named := func(name string) host.Model {
		return &fixedModel{name, &llm.Response{Parts: []host.Part{&host.Text{Text: name}}}}
	}
	for want, c := range map[string]struct{ run, agent, network, host host.Model }{
		"run":     {named("run"), named("agent"), named("network"), named("host")},
		"agent":   {nil, named("agent"), named("network"), named("host")},
		"network": {nil, nil, named("network"), named("host")},
		"host":    {nil, nil, nil, named("host")},
	} {
		t.Run(want, func(t *testing.T) {
			agent := newAgent(t, &host.AgentOptions{Model: c.agent})
			network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Model: c.network, Router: order("clerk")})
			if err != nil {
				t.Fatal(err)
			}
			result, err := newHost(t, &host.Options{Model: c.host}).Run(t.Context(), network, &host.Request{Text: "x", Model: c.run})
			if err != nil || result.Text() != want {
				t.Errorf("%q answered, %v; want %q", result.Text(), err, want)
			}
		})
	}
}

// order returns a router that runs agents one after the other.
func order(agents ...string) host.Router {
	return host.RouterFunc("order", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount >= len(agents) {
			return host.Stop("all have run"), nil
		}
		return host.Next(agents[req.CallCount]), nil
	})
}

func TestWhatAModelIsAsked(t *testing.T) {
	warm := 0.5
	work := tool("work", func(context.Context, *host.Call) (string, error) { return "", nil })
	model := hosttest.NewModel(hosttest.Call("work", "{}"), hosttest.Say("done"))
	agent := newAgent(t, &host.AgentOptions{
		Model: model, Tools: []*host.Tool{work}, ToolChoice: "work", SerialTools: true, Temperature: &warm, MaxOutputTokens: 7, Prefill: "So"})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	first, second := model.Requests()[0], model.Requests()[1]
	if first.ToolChoice != "work" || !first.SerialTools || *first.Temperature != warm || first.MaxOutputTokens != 7 || first.Scope.Tenant != "acme" || first.Scope.Agent != "clerk" {
		t.Errorf("the first request is %+v", first)
	}
	if second.ToolChoice != host.ToolChoiceAuto {
		t.Errorf("the second request has tool choice %q: the agent could never stop", second.ToolChoice)
	}
	last := func(r *llm.Request) *host.Message { return r.Messages[len(r.Messages)-1] }
	if last(first).Text() != "So" || last(second).Role != host.ToolRole {
		t.Errorf("the first request ends with %s, the second with %s", encode(last(first)), encode(last(second)))
	}
}

func TestCallsKnowWhereTheyAre(t *testing.T) {
	type progress struct {
		Done int `json:"done"`
	}
	var keys []string
	var mu sync.Mutex
	work := tool("work", func(ctx context.Context, call *host.Call) (string, error) {
		mu.Lock()
		keys = append(keys, call.IdempotencyKey)
		mu.Unlock()
		if err := host.UpdateState(call.State, func(p *progress) error { p.Done++; return nil }); err != nil {
			return "", err
		}
		step, err := call.Step(ctx, "fetch", func(context.Context) (json.RawMessage, error) { return json.RawMessage(`"` + call.ID + `"`), nil })
		return fmt.Sprintf("%s/%s/%s/%s %s attempt %d", call.Scope.Tenant, call.Scope.Thread, call.Scope.Network, call.Scope.Agent, step, call.Attempt), err
	})
	model := hosttest.NewModel(hosttest.Call("work", "{}"), hosttest.Call("work", "{}"), hosttest.Say("done"))
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{work}, History: newHistory(t, hosttest.NewHistory())})
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "T", Text: "x"})
	if err != nil {
		t.Fatal(err)
	}
	want := `acme/T/clerk/clerk "call_1" attempt 1` // the step runs once
	if diff := cmp.Diff([]string{want, want}, contents(result)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if string(result.State) != `{"done":2}` {
		t.Errorf("the state is %s", result.State)
	}
	if len(keys) != 2 || keys[0] == keys[1] || !strings.HasPrefix(keys[0], result.Run) {
		t.Errorf("idempotency keys are %q", keys)
	}
}

func TestAStepThatFailedRunsAgain(t *testing.T) {
	call := host.NewCall("work", nil, nil)
	n := 0
	step := func(context.Context) (json.RawMessage, error) {
		if n++; n == 1 {
			return nil, errors.New("not yet")
		}
		return json.RawMessage("1"), nil
	}
	for i, wantErr := range []bool{true, false, false} {
		if _, err := call.Step(t.Context(), "s", step); (err != nil) != wantErr {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if n != 2 {
		t.Errorf("the step ran %d times, want 2", n)
	}
}

func TestArtifacts(t *testing.T) {
	part := func(text string) []host.Part { return []host.Part{&host.Text{Text: text}} }
	add := func(as ...host.Artifact) *host.Tool {
		return tool(fmt.Sprint("add", len(as), as[0].Name), func(_ context.Context, call *host.Call) (string, error) {
			for _, a := range as {
				if err := call.AddArtifact(a); err != nil {
					return "", err
				}
			}
			return "", nil
		})
	}
	failing, err := host.NewRawTool(llm.ToolSpec{Name: "failing"}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{Artifacts: []host.Artifact{{Name: "lost", Parts: part("x")}}, State: []host.PatchOp{{Op: "remove", Path: "/none"}}}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := runTools(t.Context(), t, nil,
		add(host.Artifact{Name: "report", Parts: part("first")}, host.Artifact{Parts: part("unnamed")}),
		add(host.Artifact{Name: "report", Parts: part("second"), Metadata: map[string]json.RawMessage{"n": json.RawMessage("1")}}),
		add(host.Artifact{Name: "big", Parts: part(strings.Repeat("x", host.DefaultLimits().ArtifactBytes))}),
		failing)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(result.Artifacts)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"report","parts":[{"type":"text","text":"second"}],"metadata":{"n":1}},{"parts":[{"type":"text","text":"unnamed"}]}]`
	if string(raw) != want {
		t.Errorf("artifacts are %s, want %s", raw, want)
	}
	var back []host.Artifact
	if err := json.Unmarshal(raw, &back); err != nil || len(back) != 2 || back[0].Name != "report" {
		t.Errorf("artifacts come back as %+v, %v", back, err)
	}
	if err := new(host.Artifact).UnmarshalJSON([]byte(`{"parts":[],"parts":[]}`)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("an artifact with two lists of parts: %v", err)
	}
	told := contents(result)
	if !strings.Contains(told[2], "ArtifactBytes") || !strings.Contains(told[3], "/none") {
		t.Errorf("the model is told %q", told)
	}
}

func TestTooManyScheduledAgents(t *testing.T) {
	names := slices.Repeat([]string{"clerk"}, 65)
	result, err := runTools(t.Context(), t, nil, tool("flood", func(_ context.Context, call *host.Call) (string, error) {
		call.Schedule(names...)
		return "", nil
	}))
	if err != nil || !strings.Contains(contents(result)[0], "more than 64") {
		t.Errorf("one call that schedules 65: %v, %v; want the model to be told", result, err)
	}
	half := tool("half", func(_ context.Context, call *host.Call) (string, error) {
		call.Schedule(names[:40]...)
		return "", nil
	})
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("half", "{}").Call("half", `{ }`)), Tools: []*host.Tool{half}})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "x"}); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("two calls that schedule 40 each: %v, want code %s", err, host.ResourceExhausted)
	}
}

func TestRequestsRefused(t *testing.T) {
	message := func(role host.Role, parts ...host.Part) *host.Message { return host.NewMessage(role, parts...) }
	for name, c := range map[string]struct {
		req  host.Request
		says string
	}{
		"nothing":                  {host.Request{}, "say something"},
		"text and input":           {host.Request{Text: "x", Input: host.UserText("y")}, "both"},
		"an assistant's input":     {host.Request{Input: host.AssistantText("x")}, "not user"},
		"an input without parts":   {host.Request{Input: message(host.User)}, "no parts"},
		"an input with a call":     {host.Request{Input: message(host.User, &host.ToolCall{ID: "1", Name: "n"})}, "only a model calls tools"},
		"an input with a result":   {host.Request{Input: message(host.User, &host.ToolResult{ID: "1", Name: "n"})}, "only a model calls tools"},
		"an input of nothing":      {host.Request{Input: message(host.User, nil)}, "a part that is nil"},
		"a message of nothing":     {host.Request{Text: "x", Messages: []*host.Message{message(host.User, nil)}}, "message 0 has a part that is nil"},
		"an input that is no JSON": {host.Request{Input: message(host.User, &host.Data{Value: json.RawMessage("{")})}, "not valid JSON"},
		"state that is a list":     {host.Request{Text: "x", State: []int{1}}, "an array"},
		"a nil message":            {host.Request{Text: "x", Messages: []*host.Message{nil}}, "message 0"},
		"a message of nobody":      {host.Request{Text: "x", Messages: []*host.Message{message("boss")}}, "message 0"},
	} {
		t.Run(name, func(t *testing.T) {
			model := says("x")
			_, err := newHost(t, nil).Run(t.Context(), newAgent(t, &host.AgentOptions{Model: model}), &c.req)
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v; want code %s and %q", err, host.InvalidArgument, c.says)
			}
			if n := len(model.Requests()); n != 0 {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}

func TestInputKeepsItsIDAndGetsOneIfItHasNone(t *testing.T) {
	for _, id := range []string{"mine", ""} {
		history := hosttest.NewHistory()
		agent := newAgent(t, &host.AgentOptions{Model: says("x"), History: newHistory(t, history)})
		input := &host.Message{ID: id, Role: host.User, Parts: []host.Part{&host.Text{Text: "hi"}}}
		if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Input: input}); err != nil {
			t.Fatal(err)
		}
		stored := history.Messages("", "T")[0]
		if stored.ID == "" || id != "" && stored.ID != id || stored.CreatedAt.IsZero() {
			t.Errorf("an input with id %q is stored as %s", id, encode(stored))
		}
		if input.ID != id || !input.CreatedAt.IsZero() {
			t.Errorf("the caller's message became %s", encode(input))
		}
	}
}

// One network serves any number of runs, which share nothing.
func TestRunsAtOnceShareNothing(t *testing.T) {
	type counter struct {
		N    int      `json:"n"`
		List []string `json:"list"`
	}
	count := tool("count", func(_ context.Context, call *host.Call) (string, error) {
		return "", host.UpdateState(call.State, func(c *counter) error { c.N++; c.List = append(c.List, call.Scope.Tenant); return nil })
	})
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if req.Messages[len(req.Messages)-1].Role == host.ToolRole {
			return hosttest.Say("done")
		}
		return hosttest.Call("count", "{}").Call("count", `{ }`)
	})
	agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{count}})
	defaults := &counter{List: []string{"default"}}
	network, err := host.NewNetwork("n", []*host.Agent{agent}, &host.NetworkOptions{Router: order("clerk", "clerk"), State: defaults})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			tenant := fmt.Sprint("tenant", i)
			result, err := h.Run(t.Context(), network, &host.Request{Tenant: tenant, Text: "x"})
			if err != nil {
				t.Error(err)
				return
			}
			want := `{"list":["default"` + strings.Repeat(`,"`+tenant+`"`, 4) + `],"n":4}`
			if string(result.State) != want {
				t.Errorf("state is %s, want %s", result.State, want)
			}
		})
	}
	wg.Wait()
	if len(defaults.List) != 1 {
		t.Errorf("the network's default state became %+v", defaults)
	}
}

func TestNewRefusesNegativeLimits(t *testing.T) {
	for _, limits := range []host.Limits{
		{MaxIterations: -1}, {MaxRounds: -1}, {MaxToolCalls: -1}, {ParallelTools: -1}, {InputBytes: -1}, {ArgumentBytes: -1},
		{ResponseBytes: -1}, {ResultBytes: -1}, {ArtifactBytes: -1}, {RunArtifacts: -1}, {RunArtifactBytes: -1}, {EventBytes: -1}, {EventsPerCall: -1}, {StateBytes: -1},
		{RunTokens: -1}, {RunTimeout: -1}, {ToolTimeout: -1}, {HistoryTimeout: -1}, {CommitTimeout: -1},
	} {
		if _, err := host.New(&host.Options{SingleTenant: true, Limits: limits}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("New with %+v: %v, want code %s", limits, err, host.InvalidArgument)
		}
	}
}
