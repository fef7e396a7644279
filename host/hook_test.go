package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
)

// lookUp is a tool that answers with its argument.
func lookUp() *host.Tool {
	return host.NewTool("look", "Looks something up.", func(_ context.Context, c *host.Call, in struct {
		What string `json:"what"`
	}) (string, error) {
		if in.What == "nothing" {
			return "", errors.New("there is nothing")
		}
		return "found " + in.What, nil
	}, nil)
}

// runWith runs an agent with hooks over a script and returns what came of it.
func runWith(t *testing.T, opts *host.AgentOptions, req *host.Request, replies ...hosttest.Reply) (*host.RunResult, *hosttest.Model, error) {
	t.Helper()
	model := hosttest.NewModel(replies...)
	opts.Model = model
	if req == nil {
		req = &host.Request{Text: "hi"}
	}
	result, err := newHost(t, nil).Run(t.Context(), newAgent(t, opts), req)
	return result, model, err
}

// said returns a conversation as one line: role letter and text or call.
func said(messages []*host.Message) string {
	var words []string
	for _, m := range messages {
		word := string(m.Role[:1]) + ":" + m.Text()
		for _, c := range m.ToolCalls() {
			word += c.Name + string(c.Arguments)
		}
		for _, r := range m.ToolResults() {
			word += string(r.Content)
		}
		words = append(words, word)
	}
	return strings.Join(words, " | ")
}

func TestStartHook(t *testing.T) {
	var rounds []int
	hooks := host.Hooks{Start: func(_ context.Context, at *host.StartHook) error {
		rounds = append(rounds, at.Round)
		if at.Round == 1 {
			at.Instructions += " Be brief."
			at.Messages = append(at.Messages, host.UserText("and hurry"))
		}
		return nil
	}}
	result, model, err := runWith(t, &host.AgentOptions{Instructions: "Help.", Hooks: hooks, Tools: []*host.Tool{lookUp()}}, nil,
		hosttest.Call("look", `{"what":"it"}`), hosttest.Say("done"))
	if err != nil {
		t.Fatal(err)
	}
	if len(rounds) != 2 || rounds[0] != 1 || rounds[1] != 2 {
		t.Errorf("called before rounds %v, want 1 and 2", rounds)
	}
	requests := model.Requests()
	if got, want := said(requests[0].Messages), "s:Help. Be brief. | u:hi | u:and hurry"; got != want {
		t.Errorf("first request %q, want %q", got, want)
	}
	if got, want := said(requests[1].Messages), `s:Help. Be brief. | u:hi | u:and hurry | a:look{"what":"it"} | t:"found it"`; got != want {
		t.Errorf("second request %q, want %q", got, want)
	}
	if got, want := said(result.Results[0].Messages), `a:look{"what":"it"} | t:"found it" | a:done`; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
}

func TestStartHookStops(t *testing.T) {
	finished := false
	hooks := host.Hooks{
		Start: func(_ context.Context, at *host.StartHook) error {
			at.Stop = at.Round == 2
			return nil
		},
		Finish: func(context.Context, *host.FinishHook) error {
			finished = true
			return nil
		},
	}
	result, model, err := runWith(t, &host.AgentOptions{Hooks: hooks, Tools: []*host.Tool{lookUp()}}, nil, hosttest.Call("look", `{"what":"it"}`))
	if err != nil || finished || len(model.Requests()) != 1 {
		t.Fatalf("%v, finish hook called: %v, %d requests; want one request and no finish", err, finished, len(model.Requests()))
	}
	if r := result.Results[0]; r.FinishReason != chat.FinishStop || len(r.Messages) != 2 {
		t.Errorf("result %s after %q, want stop after the call and its result", r.FinishReason, said(r.Messages))
	}
}

func TestAStopBeforeAnythingIsAnEmptyResult(t *testing.T) {
	hooks := host.Hooks{Start: func(_ context.Context, at *host.StartHook) error {
		at.Stop = true
		return nil
	}}
	result, model, err := runWith(t, &host.AgentOptions{Hooks: hooks}, nil)
	if err != nil || len(model.Requests()) != 0 || len(result.Results) != 1 || len(result.Results[0].Messages) != 0 {
		t.Fatalf("%+v, %v, %d requests", result, err, len(model.Requests()))
	}
}

// In a network the empty result is one of the run's, and is stored.
func TestAStopInANetworkLeavesAnEmptyResult(t *testing.T) {
	stops := newAgent(t, &host.AgentOptions{Model: says("never"), Hooks: host.Hooks{
		Start:  func(_ context.Context, at *host.StartHook) error { at.Stop = true; return nil },
		Finish: func(context.Context, *host.FinishHook) error { t.Error("the finish hook was called"); return nil },
	}})
	history := hosttest.NewHistory()
	network, err := host.NewNetwork("n", []*host.Agent{stops}, &host.NetworkOptions{Router: host.InOrder("line", stops.Name()), History: newHistory(t, history)})
	if err != nil {
		t.Fatal(err)
	}
	result, err := newHost(t, nil).Run(t.Context(), network, &host.Request{Thread: "T", Text: "hi"})
	if err != nil || len(result.Results) != 1 || len(result.Results[0].Messages) != 0 {
		t.Fatalf("Run = %+v, %v, want one empty result", result, err)
	}
	if turns := history.Turns(); len(turns) != 1 || len(turns[0].Results) != 1 || turns[0].Results[0].Agent != stops.Name() {
		t.Errorf("stored are %+v, want the empty result", turns)
	}
}

func TestResponseHookTakesACallOut(t *testing.T) {
	hooks := host.Hooks{Response: func(_ context.Context, at *host.ResponseHook) error {
		at.Parts = []host.Part{&host.Text{Text: "I would rather not."}}
		return nil
	}}
	ran := false
	tool := host.NewTool("look", "", func(context.Context, *host.Call, struct{}) (string, error) {
		ran = true
		return "", nil
	}, nil)
	result, _, err := runWith(t, &host.AgentOptions{Hooks: hooks, Tools: []*host.Tool{tool}}, nil, hosttest.Call("look", `{}`))
	if err != nil || ran || result.Text() != "I would rather not." {
		t.Errorf("%q, %v, tool ran: %v", result.Text(), err, ran)
	}
}

func TestFinishHookEditsWhatIsStored(t *testing.T) {
	store := hosttest.NewHistory()
	hooks := host.Hooks{Finish: func(_ context.Context, at *host.FinishHook) error {
		if at.Rounds != 1 || at.FinishReason != chat.FinishStop {
			t.Errorf("finish after %d rounds with %s", at.Rounds, at.FinishReason)
		}
		at.Messages = []*host.Message{host.AssistantText("edited")}
		return nil
	}}
	result, _, err := runWith(t, &host.AgentOptions{Hooks: hooks, History: newHistory(t, store)},
		&host.Request{Tenant: "acme", Thread: "t", Text: "hi"}, hosttest.Say("original"))
	if err != nil || result.Text() != "edited" || result.Results[0].Messages[0].Agent != "clerk" {
		t.Fatalf("%q, %v", result.Text(), err)
	}
	loaded, err := store.Get(t.Context(), &host.HistoryRequest{Tenant: "acme", Thread: "t"})
	if err != nil || said(loaded.Messages) != "u:hi | a:edited" {
		t.Errorf("stored %q, %v", said(loaded.Messages), err)
	}
}

func TestToolHooks(t *testing.T) {
	for _, test := range []struct {
		name      string
		arguments string
		hooks     host.Hooks
		want      string
		isError   bool
	}{
		{"arguments are replaced", `{"what":"it"}`, host.Hooks{ToolStart: func(_ context.Context, at *host.ToolStartHook) error {
			at.Arguments = json.RawMessage(`{"what":"that"}`)
			return nil
		}}, `"found that"`, false},
		{"new arguments must fit", `{"what":"it"}`, host.Hooks{ToolStart: func(_ context.Context, at *host.ToolStartHook) error {
			at.Arguments = json.RawMessage(`{"what":1}`)
			return nil
		}}, "do not fit the schema", true},
		{"the hook answers", `{"what":"it"}`, host.Hooks{ToolStart: func(_ context.Context, at *host.ToolStartHook) error {
			at.Output = &host.ToolOutput{Content: json.RawMessage(`"from the cache"`)}
			return nil
		}}, `"from the cache"`, false},
		{"the hook denies", `{"what":"it"}`, host.Hooks{ToolStart: func(context.Context, *host.ToolStartHook) error {
			return host.Errorf(host.PermissionDenied, "not on a Sunday")
		}}, `"not on a Sunday"`, true},
		{"the result is replaced", `{"what":"it"}`, host.Hooks{ToolEnd: func(_ context.Context, at *host.ToolEndHook) error {
			at.Output.Content = json.RawMessage(`"[` + at.Tool + ` withheld]"`)
			return nil
		}}, `"[look withheld]"`, false},
		{"a failure becomes an answer", `{"what":"nothing"}`, host.Hooks{ToolEnd: func(_ context.Context, at *host.ToolEndHook) error {
			at.Output, at.Err = &host.ToolOutput{Content: json.RawMessage(`[]`)}, nil
			return nil
		}}, `[]`, false},
		{"a result that is not JSON", `{"what":"it"}`, host.Hooks{ToolEnd: func(_ context.Context, at *host.ToolEndHook) error {
			at.Output.Content = json.RawMessage(`{`)
			return nil
		}}, "is not JSON", true},
		{"a hook panics", `{"what":"it"}`, host.Hooks{ToolEnd: func(context.Context, *host.ToolEndHook) error {
			panic("oh")
		}}, `"The tool look failed."`, true},
		{"arguments that do not fit reach no hook", `{"what":7}`, host.Hooks{ToolStart: func(context.Context, *host.ToolStartHook) error {
			t.Error("the start hook was called")
			return nil
		}}, "do not fit the schema", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, _, err := runWith(t, &host.AgentOptions{Hooks: test.hooks, Tools: []*host.Tool{lookUp()}, MaxRounds: 1}, nil,
				hosttest.Call("look", test.arguments))
			if err != nil {
				t.Fatal(err)
			}
			got := result.Results[0].ToolResults()[0]
			if !strings.Contains(string(got.Content), test.want) || got.IsError != test.isError {
				t.Errorf("the model is told %s (error: %v), want %s (%v)", got.Content, got.IsError, test.want, test.isError)
			}
		})
	}
}

func TestToolHooksAreCalledForEachCall(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	count := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen[what]++
	}
	hooks := host.Hooks{
		ToolStart: func(_ context.Context, at *host.ToolStartHook) error { count("start " + at.ID); return nil },
		ToolEnd:   func(_ context.Context, at *host.ToolEndHook) error { count("end " + at.ID); return nil },
	}
	_, _, err := runWith(t, &host.AgentOptions{Hooks: hooks, Tools: []*host.Tool{lookUp()}}, nil,
		hosttest.Call("look", `{"what":"a"}`).Call("look", `{"what":"nothing"}`).Call("gone", `{}`), hosttest.Say("done"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"start call_1": 1, "end call_1": 1, "start call_2": 1, "end call_2": 1}
	if len(seen) != len(want) {
		t.Errorf("hooks were called %v, want %v", seen, want)
	}
	for what := range want {
		if seen[what] != 1 {
			t.Errorf("%s was called %d times", what, seen[what])
		}
	}
}

func TestHookFailures(t *testing.T) {
	oh := host.Errorf(host.FailedPrecondition, "oh")
	for _, test := range []struct {
		name  string
		hooks host.Hooks
		want  string
	}{
		{"start", host.Hooks{Start: func(context.Context, *host.StartHook) error { return oh }}, `hook start of agent "clerk": oh`},
		{"response", host.Hooks{Response: func(context.Context, *host.ResponseHook) error { return oh }}, `hook response of agent "clerk": oh`},
		{"finish", host.Hooks{Finish: func(context.Context, *host.FinishHook) error { return oh }}, `hook finish of agent "clerk": oh`},
		{"start breaks the history", host.Hooks{Start: func(_ context.Context, at *host.StartHook) error {
			at.Messages = append(at.Messages, host.NewMessage(host.ToolRole, &host.ToolResult{ID: "x", Name: "look", Content: json.RawMessage(`1`)}))
			return nil
		}}, "broken history"},
		{"start puts in nothing", host.Hooks{Start: func(_ context.Context, at *host.StartHook) error {
			at.Messages = append(at.Messages, nil)
			return nil
		}}, "is nil"},
		{"response puts in nothing", host.Hooks{Response: func(_ context.Context, at *host.ResponseHook) error {
			at.Parts = []host.Part{nil}
			return nil
		}}, "nil"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := runWith(t, &host.AgentOptions{Hooks: test.hooks}, nil, hosttest.Say("hi"))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestStopAfterTool(t *testing.T) {
	for _, test := range []struct {
		name, arguments string
		requests        int
	}{
		{"it answered", `{"what":"it"}`, 1},
		{"it failed", `{"what":"nothing"}`, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, model, err := runWith(t, &host.AgentOptions{Tools: []*host.Tool{lookUp()}, StopWhen: host.StopAfterTool("look")}, nil,
				hosttest.Call("look", test.arguments), hosttest.Say("done"))
			if err != nil || len(model.Requests()) != test.requests || result.FinishReason != chat.FinishStop {
				t.Errorf("%v, %d requests, %s; want %d and stop", err, len(model.Requests()), result.FinishReason, test.requests)
			}
		})
	}
}

func TestInstructionsOfOneRun(t *testing.T) {
	for _, test := range []struct{ own, want string }{
		{"Help.", "s:Help.\n\nAnswer in French. | u:hi"},
		{"", "s:Answer in French. | u:hi"},
	} {
		_, model, err := runWith(t, &host.AgentOptions{Instructions: test.own}, &host.Request{Text: "hi", Instructions: "Answer in French."}, hosttest.Say("oui"))
		if err != nil {
			t.Fatal(err)
		}
		if got := said(model.Requests()[0].Messages); got != test.want {
			t.Errorf("asked %q, want %q", got, test.want)
		}
	}
}
