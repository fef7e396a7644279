package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// desk is an agent with a tool that looks and one that refunds, which a person
// must agree to, on a history and a journal in memory.
type desk struct {
	t       *testing.T
	model   *hosttest.Model
	history *hosttest.History
	journal *hosttest.Journal
	agent   *host.Agent
	looked  int
	refunds []string // arguments and key
}

func newDesk(t *testing.T, opts *host.ToolOptions, replies ...hosttest.Reply) *desk {
	d := &desk{t: t, model: hosttest.NewModel(replies...), history: hosttest.NewHistory(), journal: hosttest.NewJournal()}
	look := host.NewTool("look", "looks", func(context.Context, *host.Call, struct{}) (string, error) {
		d.looked++
		return "order 7", nil
	}, nil)
	type order struct {
		Order  int `json:"order"`
		Amount int `json:"amount"`
	}
	refund := host.NewTool("refund", "refunds", func(_ context.Context, call *host.Call, in order) (string, error) {
		d.refunds = append(d.refunds, string(call.Arguments)+" "+call.IdempotencyKey)
		return "refunded", nil
	}, opts)
	d.agent = newAgent(t, &host.AgentOptions{Tools: []*host.Tool{look, refund}})
	return d
}

// host returns a new host, as a new process would be.
func (d *desk) host() *host.Host {
	history, err := host.NewHistory(d.history, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return newHost(d.t, &host.Options{Model: d.model, History: history, Journal: d.journal})
}

func (d *desk) run(req *host.Request) *host.RunResult {
	d.t.Helper()
	req.Tenant = "acme"
	r, err := d.host().Run(d.t.Context(), d.agent, req)
	if err != nil {
		d.t.Fatalf("Run = %v", err)
	}
	return r
}

// ask runs until the desk asks, which it must do once.
func (d *desk) ask() (*host.RunResult, *host.Question) {
	d.t.Helper()
	r := d.run(&host.Request{Thread: "T1", Text: "refund it"})
	if r.FinishReason != chat.FinishInterrupted || len(r.Questions) != 1 {
		d.t.Fatalf("Run ended with %s and %d questions, want interrupted and 1", r.FinishReason, len(r.Questions))
	}
	return r, r.Questions[0]
}

// conversation is what is stored, a line a part.
func (d *desk) conversation() []string {
	var out []string
	for _, m := range d.history.Messages("acme", "T1") {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *host.Text:
				out = append(out, string(m.Role)+": "+p.Text)
			case *host.ToolCall:
				out = append(out, "call "+p.Name+" "+string(p.Arguments))
			case *host.ToolResult:
				out = append(out, "result "+p.Name+": "+p.ContentText())
			}
		}
	}
	return out
}

func (d *desk) wantConversation(want ...string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.conversation()); diff != "" {
		d.t.Errorf("the thread has (-want +got):\n%s", diff)
	}
}

const refundArguments = `{"order":7,"amount":100}`

func refundReplies(after string) []hosttest.Reply {
	return []hosttest.Reply{hosttest.Say("").Call("look", "{}").Call("refund", refundArguments), hosttest.Say(after)}
}

func TestApprovalRunsTheCallOnce(t *testing.T) {
	d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("done")...)
	asked, q := d.ask()
	if q.Kind != host.AskApproval || q.Reason != "Refund?" || q.Tool != "refund" || string(q.Arguments) != refundArguments || q.Agent != d.agent.Name() {
		t.Errorf("question %+v", q)
	}
	if d.looked != 1 || len(d.refunds) != 0 {
		t.Errorf("before the answer: looked %d times, refunded %v; want once and never", d.looked, d.refunds)
	}
	r := d.run(&host.Request{Resume: asked.Run, Answers: []host.Answer{{Question: q.ID, Decision: host.Approve}}})
	if r.FinishReason != chat.FinishStop || r.Text() != "done" || r.Thread != "T1" || r.Run == asked.Run {
		t.Errorf("Run = %s %q in %s", r.FinishReason, r.Text(), r.Thread)
	}
	if d.looked != 1 || len(d.refunds) != 1 || !strings.Contains(d.refunds[0], asked.Run) {
		t.Errorf("looked %d times, refunded %v; want once each, under a key of the first run", d.looked, d.refunds)
	}
	d.wantConversation("user: refund it", "call look {}", "call refund "+refundArguments, "result look: order 7", "result refund: refunded", "assistant: done")
	if left := d.journal.Runs(); len(left) > 0 {
		t.Errorf("%d runs are left in the journal", len(left))
	}
}

func TestAnswersToAnApproval(t *testing.T) {
	for name, c := range map[string]struct {
		answer  host.Answer
		result  string
		refunds []string
	}{
		"deny":            {host.Answer{Decision: host.Deny}, "A person did not allow this call.", nil},
		"deny and say so": {host.Answer{Decision: host.Deny, Reason: "too much"}, "A person did not allow this call. Reason: too much", nil},
		"edit":            {host.Answer{Decision: host.Approve, Arguments: json.RawMessage(`{"order":7,"amount":50}`)}, "refunded", []string{`{"order":7,"amount":50}`}},
		"from outside":    {host.Answer{Decision: host.Reply, Value: json.RawMessage(`{"by":"bank"}`)}, `{"by":"bank"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("done")...)
			asked, q := d.ask()
			c.answer.Question = q.ID
			d.run(&host.Request{Resume: asked.Run, Answers: []host.Answer{c.answer}})
			got := d.conversation()
			if want := "result refund: " + c.result; got[4] != want {
				t.Errorf("the model is told %q, want %q", got[4], want)
			}
			var refunds []string
			for _, r := range d.refunds {
				arguments, _, _ := strings.Cut(r, " ")
				refunds = append(refunds, arguments)
			}
			if diff := cmp.Diff(c.refunds, refunds); diff != "" {
				t.Errorf("refunds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	approve := func(id string) host.Answer { return host.Answer{Question: id, Decision: host.Approve} }
	for name, c := range map[string]struct {
		request func(run, question string) *host.Request
		code    host.Code
	}{
		"none": {func(run, _ string) *host.Request { return &host.Request{Resume: run} }, host.InvalidArgument},
		"forged": {func(run, _ string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{approve("5f3c0f3e-0000-4000-8000-000000000000")}}
		}, host.PermissionDenied},
		"by the call's id": {func(run, _ string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{approve("call_2")}}
		}, host.PermissionDenied},
		"twice": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{approve(q), {Question: q, Decision: host.Deny}}}
		}, host.InvalidArgument},
		"undecided": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{{Question: q}}}
		}, host.InvalidArgument},
		"arguments that do not fit": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{{Question: q, Decision: host.Approve, Arguments: json.RawMessage(`{"order":"x"}`)}}}
		}, host.InvalidArgument},
		"arguments that are not JSON": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{{Question: q, Decision: host.Approve, Arguments: json.RawMessage(`{"order":`)}}}
		}, host.InvalidArgument},
		"arguments without end": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{{Question: q, Decision: host.Approve, Arguments: json.RawMessage(`"` + strings.Repeat("x", host.DefaultLimits().ArgumentBytes) + `"`)}}}
		}, host.ResourceExhausted},
		"a value that is not JSON": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{{Question: q, Decision: host.Reply, Value: json.RawMessage(`{`)}}}
		}, host.InvalidArgument},
		"a denial with arguments": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Answers: []host.Answer{{Question: q, Decision: host.Deny, Arguments: json.RawMessage(`{}`)}}}
		}, host.InvalidArgument},
		"with a new message": {func(run, q string) *host.Request {
			return &host.Request{Resume: run, Text: "and", Answers: []host.Answer{approve(q)}}
		}, host.InvalidArgument},
		"to an unknown run": {func(_, q string) *host.Request {
			return &host.Request{Resume: "r0", Answers: []host.Answer{approve(q)}}
		}, host.NotFound},
		"to no run": {func(_, q string) *host.Request {
			return &host.Request{Thread: "T1", Text: "x", Answers: []host.Answer{approve(q)}}
		}, host.InvalidArgument},
		"of another tenant": {func(run, q string) *host.Request {
			return &host.Request{Tenant: "other", Resume: run, Answers: []host.Answer{approve(q)}}
		}, host.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("done")...)
			asked, q := d.ask()
			req := c.request(asked.Run, q.ID)
			if req.Tenant == "" {
				req.Tenant = "acme"
			}
			before := d.conversation()
			_, err := d.host().Run(t.Context(), d.agent, req)
			if host.CodeOf(err) != c.code {
				t.Errorf("Run = %v, want code %s", err, c.code)
			}
			if diff := cmp.Diff(before, d.conversation()); diff != "" || len(d.refunds) > 0 {
				t.Errorf("it changed something: refunds %v, thread %s", d.refunds, diff)
			}
			d.run(&host.Request{Resume: asked.Run, Answers: []host.Answer{approve(q.ID)}}) // the right one still counts
			if len(d.refunds) != 1 {
				t.Errorf("refunded %v, want once", d.refunds)
			}
		})
	}
}

func TestAnswersCountOnce(t *testing.T) {
	d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("done")...)
	asked, q := d.ask()
	req := &host.Request{Tenant: "acme", Resume: asked.Run, Answers: []host.Answer{{Question: q.ID, Decision: host.Approve}}}
	d.run(req)
	if _, err := d.host().Run(t.Context(), d.agent, req); host.CodeOf(err) != host.Conflict || len(d.refunds) != 1 {
		t.Errorf("the second time: %v, refunds %v; want a conflict and one", err, d.refunds)
	}
}

func TestAnswersToAThreadThatMovedOn(t *testing.T) {
	d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("never mind then")...)
	asked, q := d.ask()
	d.run(&host.Request{Thread: "T1", Text: "never mind"})
	_, err := d.host().Run(t.Context(), d.agent, &host.Request{Tenant: "acme", Resume: asked.Run, Answers: []host.Answer{{Question: q.ID, Decision: host.Approve}}})
	if host.CodeOf(err) != host.Conflict || len(d.refunds) > 0 {
		t.Errorf("Run = %v, refunds %v; want a conflict and none", err, d.refunds)
	}
}

func TestAnswersToAnotherTarget(t *testing.T) {
	d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("done")...)
	asked, q := d.ask()
	other, err := host.NewAgent("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.host().Run(t.Context(), other, &host.Request{Tenant: "acme", Resume: asked.Run, Answers: []host.Answer{{Question: q.ID, Decision: host.Approve}}})
	if host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Run = %v, want failed_precondition", err)
	}
}

func TestWithoutAJournalNothingCanBeResumed(t *testing.T) {
	d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("done")...)
	h := newHost(t, &host.Options{Model: d.model})
	r, err := h.Run(t.Context(), d.agent, &host.Request{Text: "refund it"})
	if err != nil || r.FinishReason != chat.FinishInterrupted || len(r.Questions) != 1 {
		t.Fatalf("Run = %+v, %v", r, err)
	}
	_, err = h.Run(t.Context(), d.agent, &host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Deny}}})
	if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "Journal") {
		t.Errorf("Run = %v, want failed_precondition and what to do", err)
	}
}

// Without a history the conversation itself is left in the journal.
func TestApprovalWithoutAHistory(t *testing.T) {
	d := newDesk(t, &host.ToolOptions{Approve: host.ApproveAlways("Refund?")}, refundReplies("done")...)
	h := newHost(t, &host.Options{Model: d.model, Journal: d.journal})
	asked, err := h.Run(t.Context(), d.agent, &host.Request{Text: "refund it"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(t.Context(), d.agent, &host.Request{Resume: asked.Run, Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Approve}}})
	if err != nil || r.Text() != "done" || len(d.refunds) != 1 {
		t.Errorf("Run = %+v, %v, refunds %v", r, err, d.refunds)
	}
	if got := len(d.model.Requests()[1].Messages); got != 4 {
		t.Errorf("the model saw %d messages, want the question, its calls and two results", got)
	}
}

// doublingSchema returns a small schema that takes for ever.
func doublingSchema() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	return `{"$ref":"#/$defs/a0","$defs":{` + b.String() + `"a60":{"type":"object"}}}`
}

func TestRulesOfApproval(t *testing.T) {
	large, err := host.CompileSchema(json.RawMessage(`{"properties":{"amount":{"minimum":100}}}`))
	if err != nil {
		t.Fatal(err)
	}
	small, err := host.CompileSchema(json.RawMessage(`{"properties":{"amount":{"maximum":99}}}`))
	if err != nil {
		t.Fatal(err)
	}
	endless, err := host.CompileSchema(json.RawMessage(doublingSchema()))
	if err != nil {
		t.Fatal(err)
	}
	fails := func(context.Context, *host.Call) (string, error) {
		return "", host.Errorf(host.Unavailable, "no rules today")
	}
	panics := func(context.Context, *host.Call) (string, error) { panic("rule") }
	for name, c := range map[string]struct {
		tool, network, host host.ApprovalRule
		want                string // the question's reason, or what the model is told
	}{
		"none":                   {nil, nil, nil, "refunded"},
		"arguments that fit":     {host.ApproveWhen(large, "much"), nil, nil, "? much"},
		"arguments that do not":  {host.ApproveWhen(small, "little"), nil, nil, "refunded"},
		"arguments without end":  {host.ApproveWhen(endless, "endless"), nil, nil, "whether refund may run cannot be decided: the schema takes too many checks"},
		"of the network":         {nil, host.ApproveWhen(large, "network"), nil, "? network"},
		"of the host":            {nil, nil, host.ApproveWhen(large, "host"), "? host"},
		"the host's comes first": {host.ApproveAlways("tool"), host.ApproveAlways("network"), host.ApproveAlways("host"), "? host"},
		"one that fails":         {fails, nil, nil, "whether refund may run cannot be decided: no rules today"},
		"one that panics":        {nil, panics, nil, "whether refund may run cannot be decided: The tool refund failed."},
	} {
		t.Run(name, func(t *testing.T) {
			var ran int
			refund, err := host.NewRawTool(llm.ToolSpec{Name: "refund", Parameters: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *host.Call) (*host.ToolOutput, error) {
					ran++
					return &host.ToolOutput{Content: json.RawMessage(`"refunded"`)}, nil
				}, &host.ToolOptions{Approve: c.tool})
			if err != nil {
				t.Fatal(err)
			}
			agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{refund}})
			once := host.RouterFunc("once", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
				if req.CallCount > 0 {
					return nil, nil
				}
				return host.Next(agent.Name()), nil
			})
			net, err := host.NewNetwork("net", []*host.Agent{agent}, &host.NetworkOptions{Router: once, Approve: c.network})
			if err != nil {
				t.Fatal(err)
			}
			model := hosttest.NewModel(hosttest.Say("").Call("refund", `{"amount":100}`), hosttest.Say("done"))
			r, err := newHost(t, &host.Options{Model: model, Approve: c.host}).Run(t.Context(), net, &host.Request{Text: "go"})
			if err != nil {
				t.Fatal(err)
			}
			if reason, asks := strings.CutPrefix(c.want, "? "); asks {
				if len(r.Questions) != 1 || r.Questions[0].Reason != reason || ran > 0 {
					t.Errorf("questions %+v, ran %d times; want %q and never", r.Questions, ran, reason)
				}
				return
			}
			if got := r.Results[0].ToolResults()[0].ContentText(); got != c.want {
				t.Errorf("the model is told %q, want %q", got, c.want)
			}
		})
	}
}

// A tool that asks is called again with each answer; the key stays.
func TestToolThatAsksTwice(t *testing.T) {
	var seen []string
	book, err := host.NewRawTool(llm.ToolSpec{Name: "book", Parameters: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
			answers := ""
			for _, r := range call.Resumed {
				answers += " " + string(r.Answer)
			}
			seen = append(seen, string(call.Arguments)+answers)
			switch len(call.Resumed) {
			case 0:
				return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "Which day?"}}, nil
			case 1:
				return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "Which hour?", Data: json.RawMessage(`[9,10]`)}}, nil
			}
			return &host.ToolOutput{Content: json.RawMessage(`"booked"`)}, nil
		}, &host.ToolOptions{Approve: host.ApproveAlways("Book?")})
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.NewModel(hosttest.Say("").Call("book", `{"n":1}`), hosttest.Say("see you"))
	h := newHost(t, &host.Options{Model: model, Journal: hosttest.NewJournal()})
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{book}})
	r, err := h.Run(t.Context(), agent, &host.Request{Text: "book"})
	for _, a := range []struct {
		reason string
		answer host.Answer
	}{
		{"Book?", host.Answer{Decision: host.Approve, Arguments: json.RawMessage(`{"n":2}`)}},
		{"Which day?", host.Answer{Decision: host.Reply, Value: json.RawMessage(`"monday"`)}},
		{"Which hour?", host.Answer{Decision: host.Reply, Value: json.RawMessage(`9`)}},
	} {
		if err != nil || len(r.Questions) != 1 || r.Questions[0].Reason != a.reason {
			t.Fatalf("Run = %+v, %v; want the question %q", r, err, a.reason)
		}
		a.answer.Question = r.Questions[0].ID
		r, err = h.Run(t.Context(), agent, &host.Request{Resume: r.Run, Answers: []host.Answer{a.answer}})
	}
	if err != nil || r.Text() != "see you" {
		t.Errorf("Run = %+v, %v", r, err)
	}
	if diff := cmp.Diff([]string{`{"n":2}`, `{"n":2} "monday"`, `{"n":2} "monday" 9`}, seen); diff != "" {
		t.Errorf("the tool saw (-want +got):\n%s", diff)
	}
}

// Who routes sees one run, whatever was asked in between.
func TestAnsweredRunGoesOnInItsNetwork(t *testing.T) {
	var routed []string
	ask, err := host.NewClientTool(llm.ToolSpec{Name: "locate", Parameters: json.RawMessage(`{"type":"object"}`)})
	if err != nil {
		t.Fatal(err)
	}
	first, err := host.NewAgent("first", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := host.NewAgent("second", &host.AgentOptions{Tools: []*host.Tool{ask}})
	if err != nil {
		t.Fatal(err)
	}
	router := host.RouterFunc("in turn", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		var done []string
		for _, r := range req.Results {
			done = append(done, r.Agent)
		}
		var n int
		if _, err := req.State.Get("/n", &n); err != nil {
			return nil, err
		}
		routed = append(routed, strings.Join(done, " "))
		if err := req.State.Set("/n", n+1); err != nil {
			return nil, err
		}
		return map[int]*host.Route{0: host.Next("first", "second", "first")}[req.CallCount], nil
	})
	net, err := host.NewNetwork("net", []*host.Agent{first, second}, &host.NetworkOptions{Router: router})
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Say("").Call("locate", "{}"), hosttest.Say("two"), hosttest.Say("three"))
	h := newHost(t, &host.Options{Model: model, Journal: hosttest.NewJournal()})
	asked, err := h.Run(t.Context(), net, &host.Request{Text: "go"})
	if err != nil || len(asked.Questions) != 1 || asked.Questions[0].Kind != host.AskResult {
		t.Fatalf("Run = %+v, %v", asked, err)
	}
	r, err := h.Run(t.Context(), net, &host.Request{Resume: asked.Run,
		Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"Lyon"`)}}})
	if err != nil || r.Text() != "three" || len(r.Results) != 2 || r.Results[0].Agent != "second" {
		t.Fatalf("Run = %+v, %v", r, err)
	}
	if diff := cmp.Diff([]string{"", "first", "first second", "first second first"}, routed); diff != "" {
		t.Errorf("the router saw (-want +got):\n%s", diff)
	}
	if string(r.State) != `{"n":4}` {
		t.Errorf("state %s", r.State)
	}
}

// What a run has made counts against its limits after a question as before it, in
// the run that goes on and in one whose process ended.
func TestLimitsOfArtifactsGoOnAfterAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		limits host.Limits
		says   string
	}{
		"RunArtifacts":     {host.Limits{RunArtifacts: 3}, "RunArtifacts of 3"},
		"RunArtifactBytes": {host.Limits{RunArtifactBytes: 1300}, "RunArtifactBytes of 1300"},
	} {
		t.Run(name, func(t *testing.T) {
			journal, model := hosttest.NewJournal(), hosttest.NewModel(hosttest.Call("make", `{}`), hosttest.Call("ask", `{}`), hosttest.Call("make", `{}`), hosttest.Call("make", `{}`), hosttest.Say("done"))
			artifact := host.Artifact{Name: "a", Parts: []host.Part{&host.Text{Text: strings.Repeat("x", 300)}}}
			make := host.NewTool("make", "makes", func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
				return "made", call.AddArtifact(artifact)
			}, nil)
			ask, err := host.NewRawTool(llm.ToolSpec{Name: "ask"}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
				if len(call.Resumed) > 0 {
					return nil, nil
				}
				return &host.ToolOutput{Artifacts: []host.Artifact{artifact}, Interrupt: &host.Interrupt{Reason: "why"}}, nil
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{make, ask}})
			h := newHost(t, &host.Options{Model: model, Journal: journal, Limits: c.limits})
			asked, err := h.Run(t.Context(), agent, &host.Request{Text: "go"})
			if err != nil || len(asked.Questions) != 1 {
				t.Fatalf("Run = %+v, %v, want a question", asked, err)
			}
			r, err := h.Run(t.Context(), agent, &host.Request{Resume: asked.Run, Answers: []host.Answer{{Question: asked.Questions[0].ID, Decision: host.Reply, Value: []byte(`"yes"`)}}})
			if err != nil {
				t.Fatal(err)
			}
			told := contents(r)
			if last := told[len(told)-1]; !strings.Contains(last, c.says) || !strings.Contains(strings.Join(told[:len(told)-1], " "), "made") {
				t.Errorf("the model is told %q, want the third to be made and %q", told, c.says)
			}
		})
	}
}
