package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// bureau is an agent whose tools are a tool and another agent; that has tools, one
// of which a person must agree to, and, with depth, yet another agent between.
type bureau struct {
	t            *testing.T
	depth        int
	outer, inner *hosttest.Model
	between      []*hosttest.Model
	history      *hosttest.History
	journal      *hosttest.Journal
	mu           sync.Mutex
	world        map[string]int // what has happened, by tool and key
	order        []string
	agent        *host.Agent
}

func newBureau(t *testing.T, depth int) *bureau {
	b := &bureau{t: t, depth: depth, history: hosttest.NewHistory(), journal: hosttest.NewJournal(), world: map[string]int{}}
	type in struct {
		Amount int `json:"amount,omitempty"`
	}
	tool := func(name string, opts *host.ToolOptions) *host.Tool {
		return host.NewTool(name, name+"s", func(_ context.Context, call *host.Call, in in) (string, error) {
			b.mu.Lock() // tools of one answer run at once
			defer b.mu.Unlock()
			b.world[name+" "+call.IdempotencyKey]++
			b.order = append(b.order, fmt.Sprintf("%s %d", name, in.Amount))
			return name + " done", nil
		}, opts)
	}
	b.inner = hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if n := results(req); n > 0 {
			return hosttest.Say(fmt.Sprintf("inner has %d results", n))
		}
		return hosttest.Call("look", `{}`).Call("pay", `{"amount":7}`)
	})
	agent, err := host.NewAgent("inner", &host.AgentOptions{Description: "Pays.", Model: b.inner,
		Tools: []*host.Tool{tool("look", nil), tool("pay", &host.ToolOptions{Approve: host.ApproveAlways("money")})}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range depth {
		wrapped, err := host.NewAgentTool(agent, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := agent.Name()
		model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			if results(req) > 0 {
				return hosttest.Say("between says: " + lastResult(req))
			}
			return hosttest.Call(name, `{"request":"further"}`)
		})
		b.between = append(b.between, model)
		if agent, err = host.NewAgent(fmt.Sprint("between", i), &host.AgentOptions{Description: "Asks further.", Model: model, Tools: []*host.Tool{wrapped}}); err != nil {
			t.Fatal(err)
		}
	}
	wrapped, err := host.NewAgentTool(agent, &host.AgentToolOptions{Name: "helper"})
	if err != nil {
		t.Fatal(err)
	}
	b.outer = hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if results(req) > 0 {
			return hosttest.Say("outer says: " + lastResult(req))
		}
		return hosttest.Call("note", `{}`).Call("helper", `{"request":"pay it"}`)
	})
	b.agent = newAgent(t, &host.AgentOptions{Model: b.outer, Tools: []*host.Tool{tool("note", nil), wrapped}})
	return b
}

func results(req *llm.Request) (n int) {
	for _, m := range req.Messages {
		n += len(m.ToolResults())
	}
	return n
}

func lastResult(req *llm.Request) string {
	r := req.Messages[len(req.Messages)-1].ToolResults()
	return r[len(r)-1].ContentText()
}

func (b *bureau) run(journal host.Journal, req *host.Request) (*host.RunResult, error) {
	history, err := host.NewHistory(b.history, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Tenant = "acme"
	return newHost(b.t, &host.Options{History: history, Journal: journal}).Run(b.t.Context(), b.agent, req)
}

func (b *bureau) mustRun(req *host.Request) *host.RunResult {
	b.t.Helper()
	r, err := b.run(b.journal, req)
	if err != nil {
		b.t.Fatalf("Run = %v", err)
	}
	return r
}

// wantOnce holds the world outside to each tool having run once.
func (b *bureau) wantOnce(tools ...string) {
	b.t.Helper()
	var ran []string
	for what, n := range b.world {
		name, _, _ := strings.Cut(what, " ")
		if ran = append(ran, name); n != 1 {
			b.t.Errorf("%s happened %d times", what, n)
		}
	}
	slices.Sort(ran)
	slices.Sort(tools)
	if !slices.Equal(ran, tools) {
		b.t.Errorf("what has run is %v, want %v", ran, tools)
	}
}

// A question of an agent used as a tool is the run's, and the answer reaches it.
func TestAnAgentToolAsksAPerson(t *testing.T) {
	for depth := range 3 {
		for name, c := range map[string]struct {
			answer host.Answer
			says   string
			ran    []string
		}{
			"approved": {host.Answer{Decision: host.Approve}, "inner has 2 results", []string{"look", "note", "pay"}},
			"edited":   {host.Answer{Decision: host.Approve, Arguments: []byte(`{"amount":5}`)}, "inner has 2 results", []string{"look", "note", "pay"}},
			"denied":   {host.Answer{Decision: host.Deny, Reason: "too much"}, "inner has 2 results", []string{"look", "note"}},
			"replied":  {host.Answer{Decision: host.Reply, Value: []byte(`"paid by hand"`)}, "inner has 2 results", []string{"look", "note"}},
		} {
			t.Run(fmt.Sprintf("depth %d, %s", depth, name), func(t *testing.T) {
				b := newBureau(t, depth)
				r := b.mustRun(&host.Request{Text: "pay"})
				if r.FinishReason != chat.FinishInterrupted || len(r.Questions) != 1 {
					t.Fatalf("finished %s with %d questions", r.FinishReason, len(r.Questions))
				}
				q := r.Questions[0]
				if q.Agent != "inner" || q.Tool != "pay" || q.Kind != host.AskApproval || len(q.Via) != depth+1 || q.Via[0] != "call_2" {
					t.Errorf("the question is %+v", q)
				}
				asked, err := newHost(t, &host.Options{Journal: b.journal}).Questions(t.Context(), b.agent, "acme", r.Run)
				if diff := cmp.Diff(r.Questions, asked); err != nil || diff != "" {
					t.Errorf("the journal has other questions: %v\n%s", err, diff)
				}
				b.wantOnce("look", "note")
				c.answer.Question = q.ID
				first := r.Usage
				r = b.mustRun(&host.Request{Resume: r.Run, Answers: []host.Answer{c.answer}})
				want := "outer says: " + strings.Repeat("between says: ", depth) + c.says
				if r.Text() != want || r.FinishReason != chat.FinishStop {
					t.Errorf("it says %q and finishes %s, want %q", r.Text(), r.FinishReason, want)
				}
				b.wantOnce(c.ran...)
				if name == "edited" && b.order[len(b.order)-1] != "pay 5" {
					t.Errorf("done was %v", b.order)
				}
				if n := depth + 2; first.OutputTokens != n || r.Usage.OutputTokens != n {
					t.Errorf("the two runs use %d and %d tokens, want %d each: the first's are not counted again", first.OutputTokens, r.Usage.OutputTokens, n)
				}
				if n := len(b.inner.Requests()); n != 2 {
					t.Errorf("the inner model was asked %d times, want 2", n)
				}
				checkConversation(t, b.history.Messages("acme", r.Thread))
			})
		}
	}
}

// checkConversation holds a thread to calls with one result each.
func checkConversation(t *testing.T, messages []*host.Message) {
	t.Helper()
	open := map[string]bool{}
	for _, m := range messages {
		for _, c := range m.ToolCalls() {
			open[c.ID] = true
		}
		for _, r := range m.ToolResults() {
			if !open[r.ID] {
				t.Errorf("result %s has no open call", r.ID)
			}
			delete(open, r.ID)
		}
	}
	if len(open) > 0 {
		t.Errorf("calls without a result: %v", open)
	}
}

func TestWrongAnswersToAnAgentToolsQuestion(t *testing.T) {
	b := newBureau(t, 1)
	r := b.mustRun(&host.Request{Text: "pay"})
	id := r.Questions[0].ID
	for name, c := range map[string]struct {
		answers []host.Answer
		code    host.Code
	}{
		"none":                     {nil, host.InvalidArgument},
		"another question's":       {[]host.Answer{{Question: "made-up", Decision: host.Approve}}, host.PermissionDenied},
		"twice":                    {[]host.Answer{{Question: id, Decision: host.Approve}, {Question: id, Decision: host.Approve}}, host.InvalidArgument},
		"arguments that no schema": {[]host.Answer{{Question: id, Decision: host.Approve, Arguments: []byte(`{"amount":"all"}`)}}, host.InvalidArgument},
	} {
		if _, err := b.run(b.journal, &host.Request{Resume: r.Run, Answers: c.answers}); host.CodeOf(err) != c.code {
			t.Errorf("%s: %v; want code %s", name, err, c.code)
		}
	}
	answer := []host.Answer{{Question: id, Decision: host.Approve}}
	b.mustRun(&host.Request{Resume: r.Run, Answers: answer})
	if _, err := b.run(b.journal, &host.Request{Resume: r.Run, Answers: answer}); host.CodeOf(err) != host.Conflict {
		t.Errorf("answered twice: %v; want code %s", err, host.Conflict)
	}
	b.wantOnce("look", "note", "pay")
}

// Wherever the process is killed, before the question and behind the answer, what
// was done inside is not done again.
func TestAnAgentToolsQuestionSurvivesEveryCommit(t *testing.T) {
	for depth := range 2 {
		for lives, killed := 1, true; killed; lives++ {
			b := newBureau(t, depth)
			var r *host.RunResult
			r, killed = b.toTheEnd(&mortal{b.journal, lives})
			if want := "outer says: " + strings.Repeat("between says: ", depth) + "inner has 2 results"; r.Text() != want {
				t.Errorf("depth %d, lives %d: it says %q, want %q", depth, lives, r.Text(), want)
			}
			for what, n := range b.world {
				if n != 1 {
					t.Errorf("depth %d, lives %d: %s happened %d times", depth, lives, what, n)
				}
			}
			checkConversation(t, b.history.Messages("acme", r.Thread))
		}
	}
}

// toTheEnd runs with a journal that dies, goes on with one that lives, and answers
// what is asked: yes to what wants to run, and "done" about what may have run.
func (b *bureau) toTheEnd(journal host.Journal) (last *host.RunResult, killed bool) {
	b.t.Helper()
	req := &host.Request{Text: "pay", Durable: true}
	answering := req
	for range 20 {
		r, err := b.run(journal, req)
		switch {
		case err != nil && killed && host.CodeOf(err) == host.NotFound: // the run with the answers was not written down
			req = answering
			continue
		case err != nil && killed:
			b.t.Fatalf("goes on: %v", err)
		case err != nil:
			killed, journal = true, b.journal
			if r != nil {
				req = &host.Request{Resume: r.Run}
			}
			continue
		case r.FinishReason != chat.FinishInterrupted:
			return r, killed
		}
		var answers []host.Answer
		for _, q := range r.Questions {
			a := host.Answer{Question: q.ID, Decision: host.Approve}
			if q.Kind == host.AskUnknown {
				a.Decision, a.Value = host.Reply, []byte(fmt.Sprintf("%q", q.Tool+" done"))
			}
			answers = append(answers, a)
		}
		req = &host.Request{Resume: r.Run, Answers: answers}
		answering = req
	}
	b.t.Fatal("it does not come to an end")
	return nil, killed
}
