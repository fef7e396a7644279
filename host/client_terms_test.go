package host_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
)

var locate = llm.ToolSpec{Name: "locate", Description: "Locates the user.", Parameters: json.RawMessage(`{"type":"object","properties":{"exact":{"type":"boolean"}}}`)}

func toolNamesOf(req *llm.Request) (names []string) {
	for _, tool := range req.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// clientRun is a host on a store, with an agent that has a tool of its own.
func clientRun(t *testing.T, opts *host.AgentOptions, replies ...hosttest.Reply) (*host.Host, *host.Agent, *hosttest.Model, *threads.Store) {
	t.Helper()
	store := threads.New(kv.NewMemory(), nil)
	h := newHost(t, &host.Options{History: newHistory(t, store), SingleTenant: true})
	opts.Model = hosttest.NewModel(replies...)
	opts.Tools = []*host.Tool{lookUp()}
	return h, newAgent(t, opts), opts.Model.(*hosttest.Model), store
}

func threadCount(t *testing.T, store *threads.Store) int {
	t.Helper()
	page, err := store.For(host.DefaultTenant).List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Threads)
}

func TestToolsOfARequestAreExecutedByItsClient(t *testing.T) {
	for _, unstored := range []bool{false, true} {
		h, agent, model, store := clientRun(t, &host.AgentOptions{}, hosttest.Call("look", `{"what":"it"}`), hosttest.Call("locate", `{"exact":true}`), hosttest.Say("You are at home."))
		asked, err := h.Run(t.Context(), agent, &host.Request{Text: "where am I?", Client: &llm.ClientTerms{Tools: []llm.ToolSpec{locate}, Unstored: unstored}})
		if err != nil || asked.FinishReason != chat.FinishInterrupted || len(asked.Questions) != 1 {
			t.Fatalf("unstored %v: %+v, %v", unstored, asked, err)
		}
		q := asked.Questions[0]
		if q.Kind != host.AskResult || q.Tool != "locate" || string(q.Arguments) != `{"exact":true}` {
			t.Errorf("unstored %v: the question is %+v", unstored, q)
		}
		if unstored != (q.Expires != nil && time.Until(*q.Expires) > llm.UnstoredTimeout-time.Hour) {
			t.Errorf("unstored %v: the question expires at %v", unstored, q.Expires)
		}
		done, err := h.Run(t.Context(), agent, &host.Request{Resume: asked.Run, Answers: []host.Answer{{Question: q.ID, Decision: host.Reply, Value: json.RawMessage(`"at home"`)}}})
		if err != nil || done.Text() != "You are at home." {
			t.Fatalf("unstored %v: %+v, %v", unstored, done, err)
		}
		last := model.Requests()[2]
		if names := toolNamesOf(last); !slices.Equal(names, []string{"look", "locate"}) {
			t.Errorf("unstored %v: after the answer the model has the tools %v", unstored, names)
		}
		if n := len(last.Messages); n != 5 { // the work of the agent's own tool is not lost
			t.Errorf("unstored %v: the model sees %d messages, want 5", unstored, n)
		}
		if stored := threadCount(t, store); (stored == 0) != unstored {
			t.Errorf("unstored %v: %d threads are stored", unstored, stored)
		}
	}
}

func TestAConversationThatTheClientKeepsLeavesNoThread(t *testing.T) {
	h, agent, model, store := clientRun(t, &host.AgentOptions{}, hosttest.Say("two"))
	req := &host.Request{Text: "and one more?", Messages: []*host.Message{host.UserText("one"), host.AssistantText("one")}, Client: &llm.ClientTerms{Unstored: true}}
	if result, err := h.Run(t.Context(), agent, req); err != nil || result.Text() != "two" || result.Thread != "" {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := said(model.Requests()[0].Messages); got != "u:one | a:one | u:and one more?" {
		t.Errorf("the model sees %s", got)
	}
	if n := threadCount(t, store); n != 0 {
		t.Errorf("%d threads are stored", n)
	}
	req.Thread = "t1"
	if _, err := h.Run(t.Context(), agent, req); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("with a thread: %v", err)
	}
}

func TestTermsOfAClientReachTheModel(t *testing.T) {
	cold := 0.0
	for name, c := range map[string]struct {
		agent host.AgentOptions
		terms llm.ClientTerms
		check func(*llm.Request) bool
	}{
		"a temperature":                  {host.AgentOptions{}, llm.ClientTerms{Temperature: &cold}, func(r *llm.Request) bool { return *r.Temperature == 0 }},
		"the smaller bound of output":    {host.AgentOptions{MaxOutputTokens: 100}, llm.ClientTerms{MaxOutputTokens: 50}, func(r *llm.Request) bool { return r.MaxOutputTokens == 50 }},
		"no larger bound than the agent": {host.AgentOptions{MaxOutputTokens: 100}, llm.ClientTerms{MaxOutputTokens: 500}, func(r *llm.Request) bool { return r.MaxOutputTokens == 100 }},
		"a call that is forced":          {host.AgentOptions{}, llm.ClientTerms{Tools: []llm.ToolSpec{locate}, ToolChoice: "locate"}, func(r *llm.Request) bool { return r.ToolChoice == "locate" }},
		"the agent's choice first":       {host.AgentOptions{ToolChoice: "look"}, llm.ClientTerms{Tools: []llm.ToolSpec{locate}, ToolChoice: host.ToolChoiceAny}, func(r *llm.Request) bool { return r.ToolChoice == "look" }},
		"no tools":                       {host.AgentOptions{}, llm.ClientTerms{Tools: []llm.ToolSpec{locate}, ToolChoice: host.ToolChoiceNone}, func(r *llm.Request) bool { return len(r.Tools) == 1 }},
		"one call an answer":             {host.AgentOptions{}, llm.ClientTerms{SerialTools: true}, func(r *llm.Request) bool { return r.SerialTools }},
	} {
		h, agent, model, _ := clientRun(t, &c.agent, hosttest.Say("hi"))
		if _, err := h.Run(t.Context(), agent, &host.Request{Text: "hi", Client: &c.terms}); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if req := model.Requests()[0]; !c.check(req) {
			t.Errorf("%s: the request is %+v", name, req)
		}
	}
}

func TestOutputOfARequestTakesThePlaceOfTheAgents(t *testing.T) {
	h, agent, model, _ := clientRun(t, &host.AgentOptions{Output: verdictSchema(t)}, hosttest.Say(`{"fine":true}`), hosttest.Say(`{"n":7}`))
	terms := &llm.ClientTerms{Output: &llm.OutputSpec{Name: "number", Schema: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`), Strict: true}}
	result, err := h.Run(t.Context(), agent, &host.Request{Text: "a number", Client: terms})
	if err != nil || string(result.Results[0].Output) != `{"n":7}` {
		t.Fatalf("%+v, %v", result, err)
	}
	if out := model.Requests()[0].Output; out == nil || out.Name != "number" || !out.Strict {
		t.Errorf("the model is asked for %+v", out)
	}
}

func TestTermsOfAClientThatDoNotFit(t *testing.T) {
	for name, terms := range map[string]*llm.ClientTerms{
		"a tool of the agent's name": {Tools: []llm.ToolSpec{{Name: "look"}}},
		"two tools of one name":      {Tools: []llm.ToolSpec{locate, locate}},
		"a name with a space":        {Tools: []llm.ToolSpec{{Name: "a b"}}},
		"parameters that are broken": {Tools: []llm.ToolSpec{{Name: "a", Parameters: json.RawMessage(`{"type":7}`)}}},
		"a choice of no tool":        {ToolChoice: "locate"},
		"too many tools":             {Tools: slices.Repeat([]llm.ToolSpec{locate}, llm.MaxClientTools+1)},
		"an output that is broken":   {Output: &llm.OutputSpec{Schema: json.RawMessage(`{"type":7}`)}},
		"a negative bound":           {MaxOutputTokens: -1},
	} {
		h, agent, model, store := clientRun(t, &host.AgentOptions{}, hosttest.Say("hi"))
		_, err := h.Run(t.Context(), agent, &host.Request{Text: "hi", Client: terms})
		if host.CodeOf(err) != host.InvalidArgument || len(model.Requests()) > 0 || threadCount(t, store) > 0 {
			t.Errorf("%s: %v, %d requests, %d threads", name, err, len(model.Requests()), threadCount(t, store))
		}
	}
}

// A durable run has the terms after its process has ended, and so has one that asked.
func TestTermsOfAClientSurviveTheProcess(t *testing.T) {
	h, agent, model, _ := clientRun(t, &host.AgentOptions{}, hosttest.Call("locate", `{}`), hosttest.Call("locate", `{}`), hosttest.Say("home"))
	result, err := h.Run(t.Context(), agent, &host.Request{Text: "where?", Durable: true, Client: &llm.ClientTerms{Tools: []llm.ToolSpec{locate}, MaxOutputTokens: 9}})
	for err == nil && result.FinishReason == chat.FinishInterrupted {
		result, err = h.Run(t.Context(), agent, &host.Request{Resume: result.Run, Answers: []host.Answer{{Question: result.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`1`)}}})
	}
	if err != nil || result.Text() != "home" || len(model.Requests()) != 3 {
		t.Fatalf("%+v, %v", result, err)
	}
	for i, req := range model.Requests() {
		if req.MaxOutputTokens != 9 || len(req.Tools) != 2 {
			t.Errorf("request %d has the bound %d and the tools %v", i, req.MaxOutputTokens, toolNamesOf(req))
		}
	}
}
