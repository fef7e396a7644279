package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/builtin"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/plugins/historytest"
)

func newSandbox(t testing.TB, models plugin.Models) *plugin.Runtime {
	t.Helper()
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir(), Models: models})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func counter(t testing.TB, opts *tokens.Options) *tokens.Counter {
	t.Helper()
	c, err := tokens.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// letters counts letters.
type letters struct{}

func (letters) CountTokens(_ context.Context, text string) (int, error) { return len(text), nil }

// Natively and in the sandbox a processor does the same, and reports it.
func TestNativeProcessorsAreThoseOfTheSandbox(t *testing.T) {
	rt := newSandbox(t, nil)
	count := counter(t, &tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"letters": letters{}}})
	for _, c := range []struct{ name, config string }{
		{"toolcallfilter", ``}, {"toolcallfilter", `{"persistResults":true}`}, {"toolcallfilter", `{"exclude":["a","c"],"persistResults":true}`},
		{"toolcallfilter", `{"include":["b"],"own_rounds":"filter"}`},
		{"tokenlimiter", `40`}, {"tokenlimiter", `{"limit":70,"reserve":20,"oversize":"empty"}`}, {"tokenlimiter", `{"limit":30,"useTiktoken":false,"encoding":"gpt2"}`},
		{"tokenlimiter", `{"limit":60,"tokenizer":"letters"}`}, {"tokenlimiter", `{"limit":40,"encoding":"model"}`},
	} {
		native, err := builtin.New(c.name, json.RawMessage(c.config), &builtin.Options{Tokens: count})
		if err != nil {
			t.Fatal(err)
		}
		sandboxed, err := builtin.New(c.name, json.RawMessage(c.config), &builtin.Options{Tokens: count, Sandbox: rt})
		if err != nil {
			t.Fatal(err)
		}
		if native.Name() != c.name || sandboxed.Name() != c.name {
			t.Errorf("%s is named %s and %s", c.name, native.Name(), sandboxed.Name())
		}
		t.Run(c.name+" "+c.config, rapid.MakeCheck(func(t *rapid.T) {
			draw := rapid.SampledFrom([]func(*rapid.T) []pdk.Message{historytest.Draw, historytest.DrawAny}).Draw(t, "draw")
			messages := hostMessages(draw(t))
			model := rapid.SampledFrom([]string{"gpt-4o", "gpt-4", "somebody's own"}).Draw(t, "model")
			own := rapid.IntRange(0, len(messages)).Draw(t, "own")
			run := func(p host.Processor) string {
				view := llm.NewView(messages, model, count)
				view.Own = own
				out, done, err := llm.Process(context.Background(), p, view)
				if err != nil {
					return "error " + string(host.CodeOf(err)) + ": " + fault.AsError(err).Message
				}
				return string(done.Report) + words(out)
			}
			if diff := cmp.Diff(run(sandboxed), run(native)); diff != "" {
				t.Fatalf("%s (-sandbox +native):\n%s", words(messages), diff)
			}
		}))
	}
}

// words returns messages without what is made up for them.
func words(messages []*host.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString("\n" + string(m.Role))
		for _, p := range m.Parts {
			b.WriteString(" " + string(chat.AppendPartJSON(nil, p)))
		}
	}
	return b.String()
}

func hostMessages(messages []pdk.Message) []*host.Message {
	out := []*host.Message{}
	for _, m := range messages {
		h := host.NewMessage(host.Role(m.Role))
		h.ID = m.ID
		for _, p := range m.Parts {
			switch p.Type {
			case pdk.PartToolCall:
				h.Parts = append(h.Parts, &host.ToolCall{ID: p.ID, Name: p.Name, Arguments: json.RawMessage(p.Arguments)})
			case pdk.PartToolResult:
				h.Parts = append(h.Parts, &host.ToolResult{ID: p.ID, Name: p.Name, Content: json.RawMessage(p.Content)})
			default:
				h.Parts = append(h.Parts, &host.Text{Text: p.Text})
			}
		}
		out = append(out, h)
	}
	return out
}

func TestNativeProcessorsKeepTheRules(t *testing.T) {
	hosttest.TestProcessor(t, builtin.Must(builtin.NewToolCallFilter(&builtin.ToolCallFilterOptions{PersistResults: true})), nil)
	hosttest.TestProcessor(t, builtin.Must(builtin.NewTokenLimiter(1000, nil)), nil)
}

// What is wrong is found when the processor is made, with code invalid_argument.
func TestConfigurationsAreCheckedAtConstruction(t *testing.T) {
	count := counter(t, &tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"letters": letters{}}})
	filter := func(opts *builtin.ToolCallFilterOptions) error { _, err := builtin.NewToolCallFilter(opts); return err }
	limiter := func(limit int, opts *builtin.TokenLimiterOptions) error {
		_, err := builtin.NewTokenLimiter(limit, opts)
		return err
	}
	for name, c := range map[string]struct {
		err  error
		says string // "": it is taken
	}{
		"nothing":                        {filter(nil), ""},
		"excluded":                       {filter(&builtin.ToolCallFilterOptions{Exclude: []string{"debug_log"}, PersistResults: true}), ""},
		"nothing is included":            {filter(&builtin.ToolCallFilterOptions{Include: []string{}, Exclude: []string{"a"}}), ""},
		"both":                           {filter(&builtin.ToolCallFilterOptions{Exclude: []string{"a"}, Include: []string{"b"}}), "include and exclude are both given; choose one"},
		"a tool without a name":          {filter(&builtin.ToolCallFilterOptions{Exclude: []string{""}}), "exclude holds"},
		"a limit":                        {limiter(8000, nil), ""},
		"no limit":                       {limiter(0, nil), "limit is 0, not an integer from 1"},
		"a limit below nothing":          {limiter(-1, nil), "limit is -1"},
		"no room":                        {limiter(10, &builtin.TokenLimiterOptions{Reserve: 10}), "reserve is 10, which leaves nothing"},
		"an encoding":                    {limiter(10, &builtin.TokenLimiterOptions{Encoding: "model", Estimate: true, EmptyIfTooLarge: true}), ""},
		"an encoding of nobody":          {limiter(10, &builtin.TokenLimiterOptions{Encoding: "cl200k"}), `encoding is "cl200k", not one of`},
		"a tokenizer":                    {limiter(10, &builtin.TokenLimiterOptions{Tokenizer: "letters", Tokens: count}), ""},
		"an encoding as one":             {limiter(10, &builtin.TokenLimiterOptions{Tokenizer: "gpt2", Tokens: count}), ""},
		"a tokenizer of nobody":          {limiter(10, &builtin.TokenLimiterOptions{Tokenizer: "mine", Tokens: count}), `config of tokenlimiter: tokenizer is "mine", which is not known; known are o200k_base, `},
		"a tokenizer without a counter":  {limiter(10, &builtin.TokenLimiterOptions{Tokenizer: "mine"}), "there is no token counter that could know it"},
		"a summarizer without a sandbox": {second(builtin.NewSummarizer(nil, 20, nil)), "runs in a sandbox alone; give it one, or use reduce.Summarizing"},
		"a summarizer without a target":  {second(builtin.NewSummarizer(nil, 0, nil)), "target is 0, less than 1"},
	} {
		t.Run(name, func(t *testing.T) {
			switch {
			case c.says == "" && c.err != nil:
				t.Error(c.err)
			case c.says != "" && (host.CodeOf(c.err) != host.InvalidArgument || !strings.Contains(c.err.Error(), c.says)):
				t.Errorf("%v, want code invalid_argument and %q", c.err, c.says)
			}
		})
	}
	if _, err := builtin.New("limiter", nil, nil); host.CodeOf(err) != host.NotFound || !strings.Contains(err.Error(), "tokenlimiter") {
		t.Errorf("a processor of no name: %v", err)
	}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "builtin: config of tokenlimiter: limit is 0") {
			t.Errorf("Must panics with %s", got)
		}
	}()
	builtin.Must(builtin.NewTokenLimiter(0, nil))
}

func second[T any](_ T, err error) error { return err }

// Decision 38, natively and in the sandbox: an agent that filters everything sees its
// own calls and ends its loop, and a greeter after it sees none of them.
func TestFiltersLeaveAnAgentItsOwnRounds(t *testing.T) {
	rt := newSandbox(t, nil)
	for name, sandbox := range map[string]*plugin.Runtime{"natively": nil, "in the sandbox": rt} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				name   string
				opts   builtin.ToolCallFilterOptions
				asked  int
				reason host.FinishReason
			}{
				{"kept", builtin.ToolCallFilterOptions{}, 2, chat.FinishStop},
				{"filtered", builtin.ToolCallFilterOptions{FilterOwnRounds: true}, 5, chat.FinishMaxRounds},
			} {
				t.Run(c.name, func(t *testing.T) { testOwnRounds(t, c.opts, sandbox, c.asked, c.reason) })
			}
		})
	}
}

func testOwnRounds(t *testing.T, opts builtin.ToolCallFilterOptions, sandbox *plugin.Runtime, wantAsked int, reason host.FinishReason) {
	opts.Sandbox = sandbox
	everything := builtin.Must(builtin.NewToolCallFilter(&opts))
	var mu sync.Mutex
	asked, greeted := 0, []int{}
	results := func(req *llm.Request) (n int) {
		for _, m := range req.Messages {
			n += len(m.ToolCalls()) + len(m.ToolResults())
		}
		return n
	}
	search := host.NewTool("search", "", func(context.Context, *host.Call, struct{}) (string, error) { return "found", nil }, nil)
	worker := must(host.NewAgent("worker", &host.AgentOptions{Tools: []*host.Tool{search}, MaxRounds: 5, Processors: []host.Processor{everything},
		Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			mu.Lock()
			defer mu.Unlock()
			if asked++; results(req) == 0 {
				return hosttest.Call("search", `{}`)
			}
			return hosttest.Say("It is there.")
		})}))
	greeter := must(host.NewAgent("greeter", &host.AgentOptions{Processors: []host.Processor{everything},
		Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			greeted = append(greeted, results(req))
			return hosttest.Say("Hello.")
		})}))
	n := must(host.NewNetwork("desk", []*host.Agent{worker, greeter}, &host.NetworkOptions{Router: host.InOrder("line", "worker", "greeter")}))
	result, err := must(host.New(nil)).Run(t.Context(), n, &host.Request{Tenant: "acme", Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if asked != wantAsked || !slices.Equal(greeted, []int{0}) || result.Results[0].FinishReason != reason {
		t.Errorf("the worker was asked %d times and ended with %s, the greeter saw %v; want %d, %s and nothing",
			asked, result.Results[0].FinishReason, greeted, wantAsked, reason)
	}
}

// One processor serves many runs at once, and a sandbox loads a plugin once, whoever
// asks for it first.
func TestProcessorsAreMadeAndUsedAtOnce(t *testing.T) {
	rt := newSandbox(t, nil)
	shared := builtin.Must(builtin.NewToolCallFilter(nil))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			own, err := builtin.NewToolCallFilter(&builtin.ToolCallFilterOptions{Sandbox: rt})
			if err != nil {
				t.Error(err)
				return
			}
			messages := []*host.Message{host.UserText("x")}
			for n := range i {
				id := fmt.Sprint(n)
				messages = append(messages, host.NewMessage(host.Assistant, &host.ToolCall{ID: id, Name: "a", Arguments: json.RawMessage(`{}`)}),
					host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: "a", Content: json.RawMessage(`1`)}))
			}
			out, reports, err := host.ProcessAll(context.Background(), []host.Processor{shared, own}, llm.NewView(messages, "gpt-4o", nil))
			if err != nil || len(out) != 1 || !strings.Contains(string(reports[0].Report), fmt.Sprintf(`"removed_calls":%d,`, i)) {
				t.Errorf("%d messages, %v", len(out), err)
			}
		})
	}
	wg.Wait()
	if got := len(rt.Slots()); got != 1 {
		t.Errorf("the runtime has %d plugins, want 1", got)
	}
}

// models are one model under all names.
type models struct{ model host.Model }

func (m models) Model(context.Context, string, string) (host.Model, error) { return m.model, nil }

// The summarizer is granted the model that it asks.
func TestSummarizerSummarizes(t *testing.T) {
	asked := 0
	rt := newSandbox(t, models{hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		asked++
		return hosttest.Say("They spoke of the weather.")
	})})
	p := builtin.Must(builtin.NewSummarizer(rt, 2, &builtin.SummarizerOptions{Threshold: -1}))
	var messages []*host.Message
	for range 3 {
		messages = append(messages, host.UserText("rain?"), host.AssistantText("Rain."))
	}
	var told string
	agent := must(host.NewAgent("clerk", &host.AgentOptions{Processors: []host.Processor{p},
		Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			told = words(req.Messages)
			return hosttest.Say("Yes.")
		})}))
	if _, err := must(host.New(nil)).Run(t.Context(), agent, &host.Request{Tenant: "acme", Messages: messages, Text: "Sun?"}); err != nil {
		t.Fatal(err)
	}
	if asked != 1 || strings.Count(told, "\n") != 4 || !strings.Contains(told, "They spoke of the weather.") {
		t.Errorf("the summarizer asked %d times, and the model is told%s", asked, told)
	}
}
