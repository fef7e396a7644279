package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
)

// refundDesk is a program with an agent that refunds orders when a person agrees, on a
// journal that survives its process.
type refundDesk struct {
	t       *testing.T
	journal func() (host.Journal, func()) // of a new process, and its end
	terms   *host.QuestionTerms
	durable bool
	refunds []string
	told    string // by the tool to the model, last
}

type refundOrder struct {
	Order string `json:"order"`
}

// process runs fn in a process of its own.
func (d *refundDesk) process(fn func(h *host.Host, agent *host.Agent)) {
	d.t.Helper()
	journal, end := d.journal()
	defer end()
	refund := host.NewTool("refund", "Refunds an order.", func(_ context.Context, _ *host.Call, in refundOrder) (string, error) {
		d.refunds = append(d.refunds, in.Order)
		return "refunded " + in.Order, nil
	}, &host.ToolOptions{Approve: host.ApproveAlways("Refund it?"), Terms: func(_ context.Context, call *host.Call, q *host.Question) (*host.QuestionTerms, error) {
		if d.terms == nil {
			return nil, nil
		}
		var in refundOrder
		if err := json.Unmarshal(call.Arguments, &in); err != nil || q.Kind != host.AskApproval || q.Reason == "" {
			d.t.Errorf("terms of %+v: %v", q, err)
		}
		own := *d.terms
		own.Key = strings.ReplaceAll(own.Key, "ORDER", in.Order)
		return &own, nil
	}})
	agent := newAgent(d.t, &host.AgentOptions{Tools: []*host.Tool{refund}, Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		last := req.Messages[len(req.Messages)-1]
		if results := last.ToolResults(); len(results) > 0 {
			d.told = results[0].ContentText()
			return hosttest.Say("done")
		}
		return hosttest.Call("refund", `{"order":"`+last.Text()+`"}`)
	})})
	fn(newHost(d.t, &host.Options{Journal: journal}), agent)
}

func (d *refundDesk) ask(tenant, order string) (run string) {
	d.t.Helper()
	d.process(func(h *host.Host, agent *host.Agent) {
		result, err := h.Run(d.t.Context(), agent, &host.Request{Tenant: tenant, Text: order, Durable: d.durable})
		if err != nil || len(result.Questions) != 1 {
			d.t.Fatalf("%+v, %v", result, err)
		}
		run = result.Run
	})
	return run
}

// desks runs a test on a journal in memory, on threads in memory and on Badger.
func desks(t *testing.T, fn func(t *testing.T, d *refundDesk)) {
	for name, open := range map[string]func(t *testing.T) func() (host.Journal, func()){
		"journal": func(*testing.T) func() (host.Journal, func()) {
			j := hosttest.NewJournal()
			return func() (host.Journal, func()) { return j, func() {} }
		},
		"memory": func(*testing.T) func() (host.Journal, func()) {
			driver := kv.NewMemory()
			return func() (host.Journal, func()) { return threads.New(driver, nil), func() {} }
		},
		"badger": func(t *testing.T) func() (host.Journal, func()) {
			dir := t.TempDir()
			return func() (host.Journal, func()) {
				driver, err := badgerkv.Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				return threads.New(driver, nil), func() { _ = driver.Close() }
			}
		},
	} {
		for _, durable := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", durable"}[durable], func(t *testing.T) {
				fn(t, &refundDesk{t: t, journal: open(t), durable: durable})
			})
		}
	}
}

// A question is found by its tenant and key in another process, and answered there.
func TestQuestionsAreFoundAndAnsweredByKey(t *testing.T) {
	desks(t, func(t *testing.T, d *refundDesk) {
		d.terms = &host.QuestionTerms{Key: "refund ORDER", Timeout: time.Hour}
		run := d.ask("acme", "1042")
		d.ask("acme", "1043")
		d.ask("bolt", "1042")
		d.process(func(h *host.Host, agent *host.Agent) {
			found, err := h.FindQuestions(t.Context(), agent, "acme", "refund 1042")
			if err != nil || len(found) != 1 || found[0].Run != run || len(found[0].Questions) != 1 {
				t.Fatalf("%+v, %v", found, err)
			}
			q := found[0].Questions[0]
			if left := time.Until(*q.Expires); q.Key != "refund 1042" || left <= 0 || left > time.Hour {
				t.Errorf("question %+v", q)
			}
			for tenant, key := range map[string]string{"acme": "refund 7", "other": "refund 1042"} {
				if _, err := h.FindQuestions(t.Context(), agent, tenant, key); host.CodeOf(err) != host.NotFound {
					t.Errorf("%s, %s: %v", tenant, key, err)
				}
			}
			if _, err := h.FindQuestions(t.Context(), agent, "acme", ""); host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("no key: %v", err)
			}
		})
		d.process(func(h *host.Host, agent *host.Agent) {
			if n, err := h.SettleExpired(t.Context(), agent, "acme"); n != 0 || err != nil {
				t.Errorf("%d settled before their time, %v", n, err)
			}
			result, err := h.AnswerQuestion(t.Context(), agent, "refund 1042", host.Answer{Decision: host.Approve}, &host.Request{Tenant: "acme"})
			if err != nil || result.Text() != "done" || len(d.refunds) != 1 || d.refunds[0] != "1042" {
				t.Errorf("%+v, %v, refunded %v", result, err, d.refunds)
			}
			if _, err := h.AnswerQuestion(t.Context(), agent, "refund 1042", host.Answer{Decision: host.Approve}, &host.Request{Tenant: "acme"}); host.CodeOf(err) != host.NotFound {
				t.Errorf("answered again: %v", err)
			}
		})
		d.ask("acme", "1043")
		d.process(func(h *host.Host, agent *host.Agent) {
			if _, err := h.AnswerQuestion(t.Context(), agent, "refund 1043", host.Answer{Decision: host.Approve}, &host.Request{Tenant: "acme"}); host.CodeOf(err) != host.Conflict {
				t.Errorf("two questions of one key: %v", err)
			}
		})
	})
}

// After its time a question has its default for an answer, whoever comes, and the
// answer of a person is refused.
func TestExpiredQuestionsHaveTheirDefault(t *testing.T) {
	desks(t, func(t *testing.T, d *refundDesk) {
		d.terms = &host.QuestionTerms{Key: "k", Timeout: time.Nanosecond, Default: &host.Answer{Decision: host.Deny, Reason: "nobody was there"}}
		run := d.ask("acme", "1042")
		d.process(func(h *host.Host, agent *host.Agent) {
			_, err := h.AnswerQuestion(t.Context(), agent, "k", host.Answer{Decision: host.Approve}, &host.Request{Tenant: "acme"})
			if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "expired") {
				t.Errorf("a late answer: %v", err)
			}
			if n, err := h.SettleExpired(t.Context(), agent, "acme"); n != 1 || err != nil {
				t.Errorf("%d settled, %v; want 1", n, err)
			}
			if len(d.refunds) != 0 || !strings.Contains(d.told, "nobody was there") {
				t.Errorf("refunded %v, the model is told %q", d.refunds, d.told)
			}
			if n, err := h.SettleExpired(t.Context(), agent, "acme"); n != 0 || err != nil {
				t.Errorf("%d settled again, %v", n, err)
			}
			if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: run}); err == nil {
				t.Error("a settled run is resumed")
			}
		})
	})
}

// Without a default the run ends with the question, and nothing of it is left.
func TestExpiredQuestionsEndTheirRun(t *testing.T) {
	desks(t, func(t *testing.T, d *refundDesk) {
		d.terms = &host.QuestionTerms{Timeout: time.Nanosecond}
		run := d.ask("acme", "1042")
		d.process(func(h *host.Host, agent *host.Agent) {
			result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: run})
			if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(err.Error(), "has expired") || result.FinishReason != chat.FinishFailed || len(d.refunds) != 0 || d.told != "" {
				t.Errorf("%+v, %v, refunded %v, the model is told %q", result, err, d.refunds, d.told)
			}
			if n, err := h.SettleExpired(t.Context(), agent, "acme"); n != 0 || err != nil {
				t.Errorf("%d settled, %v", n, err)
			}
		})
		d.ask("acme", "1043")
		d.process(func(h *host.Host, agent *host.Agent) {
			if n, err := h.SettleExpired(t.Context(), agent, "acme"); n != 1 || err != nil {
				t.Errorf("%d settled, %v; want 1", n, err)
			}
		})
	})
}

// A thread whose question has expired has a failed turn, and goes on.
func TestExpiredQuestionsLeaveTheirThreadUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hosttest.NewHistory()
		ask := host.NewTool("ask", "Asks.", func(_ context.Context, c *host.Call, _ struct{}) (*host.ToolOutput, error) {
			return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "When?", Terms: &host.QuestionTerms{Timeout: time.Hour}}}, nil
		}, nil)
		agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{ask}, Model: hosttest.NewModel(hosttest.Call("ask", `{}`), hosttest.Say("never mind"))})
		h := newHost(t, &host.Options{History: newHistory(t, store), Journal: hosttest.NewJournal()})
		asked, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
		if err != nil || len(asked.Questions) != 1 {
			t.Fatalf("%+v, %v", asked, err)
		}
		if _, err := h.Run(t.Context(), agent, &host.Request{Resume: asked.Run}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("resumed without an answer before its time: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := h.Run(t.Context(), agent, &host.Request{Resume: asked.Run}); host.CodeOf(err) != host.DeadlineExceeded {
			t.Errorf("resumed after its time: %v", err)
		}
		turns := store.Turns()
		if len(turns) != 2 || turns[1].Status != chat.FinishFailed || turns[1].Error == nil || turns[1].Error.Code != host.DeadlineExceeded {
			t.Errorf("stored is %+v, want a failed turn behind the interrupted", turns)
		}
		if result, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Text: "and?"}); err != nil || result.Text() != "never mind" {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// Terms that cannot be met fail the call, not the run.
func TestBadTermsFailTheCall(t *testing.T) {
	for name, terms := range map[string]*host.QuestionTerms{
		"a long key":               {Key: strings.Repeat("k", 300)},
		"a negative timeout":       {Timeout: -1},
		"a timeout without end":    {Timeout: host.MaxQuestionTimeout + 1},
		"a default without a time": {Default: &host.Answer{Decision: host.Deny}},
		"a default that is none":   {Timeout: time.Hour, Default: &host.Answer{Decision: host.Reply, Value: json.RawMessage(`{`)}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &refundDesk{t: t, terms: terms, journal: func() (host.Journal, func()) { return hosttest.NewJournal(), func() {} }}
			d.process(func(h *host.Host, agent *host.Agent) {
				result, err := h.Run(t.Context(), agent, &host.Request{Text: "1042"})
				if err != nil || result.Text() != "done" || len(d.refunds) != 0 || d.told == "" {
					t.Errorf("%+v, %v, refunded %v, the model is told %q", result, err, d.refunds, d.told)
				}
			})
		})
	}
}

// plainJournal is a journal that finds no questions.
type plainJournal struct{ host.Journal }

func TestJournalsThatFindNoQuestions(t *testing.T) {
	j := plainJournal{hosttest.NewJournal()}
	d := &refundDesk{t: t, durable: true, terms: &host.QuestionTerms{Key: "k", Timeout: time.Nanosecond, Default: &host.Answer{Decision: host.Approve}},
		journal: func() (host.Journal, func()) { return j, func() {} }}
	run := d.ask("acme", "1042")
	d.process(func(h *host.Host, agent *host.Agent) {
		if _, err := h.FindQuestions(t.Context(), agent, "acme", "k"); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("by key: %v", err)
		}
		if result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: run}); err != nil || result.Text() != "done" || len(d.refunds) != 1 {
			t.Errorf("by its run: %+v, %v, refunded %v", result, err, d.refunds)
		}
	})
}

// endless is a journal whose process dies when a run has ended.
type endless struct {
	*hosttest.Journal
	dead bool
}

func (e *endless) EndRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	if e.dead && status == host.RunEnded {
		return host.Errorf(host.Unavailable, "the process has died")
	}
	return e.Journal.EndRun(ctx, ref, status, rest)
}

// A process that dies while it settles a question leaves a run that is settled the
// same way, whatever the time is then.
func TestSettledQuestionsStaySettledAcrossACrash(t *testing.T) {
	for name, terms := range map[string]*host.QuestionTerms{
		"by a default": {Timeout: time.Nanosecond, Default: &host.Answer{Decision: host.Approve}},
		"by its end":   {Timeout: time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			j := &endless{Journal: hosttest.NewJournal()}
			d := &refundDesk{t: t, terms: terms, journal: func() (host.Journal, func()) { return j, func() {} }}
			run := d.ask("acme", "1042")
			want := host.Code("")
			if terms.Default == nil {
				want = host.DeadlineExceeded
			}
			settle := func(run string) {
				t.Helper()
				d.process(func(h *host.Host, agent *host.Agent) {
					if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: run}); host.CodeOf(err) != want {
						t.Errorf("resumed: %v, want code %q", err, want)
					}
				})
			}
			j.dead = true
			settle(run)
			left := j.Runs()
			if len(left) != 1 || left[0].Status != host.RunOpen || left[0].Answers != run {
				t.Fatalf("left are %+v, want the run that settles", left)
			}
			j.dead = false
			settle(left[0].Run)
			if left := j.Runs(); len(left) != 0 {
				t.Errorf("left are %+v", left)
			}
		})
	}
}

// A run whose other question still stands waits for its answer, and is no failure of
// who settles.
func TestSettlingLeavesRunsThatAskSomethingElse(t *testing.T) {
	day := host.NewTool("day", "Asks.", func(_ context.Context, c *host.Call, in struct {
		Terms bool `json:"terms"`
	}) (*host.ToolOutput, error) {
		if len(c.Resumed) > 0 {
			return &host.ToolOutput{Content: c.Resumed[0].Answer}, nil
		}
		ask := &host.Interrupt{Reason: "Which day?"}
		if in.Terms {
			ask.Terms = &host.QuestionTerms{Timeout: time.Nanosecond, Default: &host.Answer{Decision: host.Reply, Value: json.RawMessage(`"monday"`)}}
		}
		return &host.ToolOutput{Interrupt: ask}, nil
	}, nil)
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{day}, Model: hosttest.NewModel(hosttest.Call("day", `{"terms":true}`).Call("day", `{"terms":false}`), hosttest.Say("done"))})
	h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
	asked, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"})
	if err != nil || len(asked.Questions) != 2 {
		t.Fatalf("%+v, %v", asked, err)
	}
	if n, err := h.SettleExpired(t.Context(), agent, "acme"); n != 0 || err != nil {
		t.Errorf("%d settled, %v; want none, and no error", n, err)
	}
	r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: asked.Run, Answers: []host.Answer{{Question: asked.Questions[1].ID, Decision: host.Reply, Value: json.RawMessage(`"friday"`)}}})
	if err != nil || r.Text() != "done" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Questions are a tenant's also where they are looked for: a host of several tenants
// has none without one.
func TestQuestionsOfNoTenantAreNotLookedFor(t *testing.T) {
	h, err := host.New(&host.Options{Journal: hosttest.NewJournal()})
	if err != nil {
		t.Fatal(err)
	}
	agent := newAgent(t, nil)
	for tenant, code := range map[string]host.Code{"": host.Unauthenticated, host.DefaultTenant: host.InvalidArgument, "acme": host.NotFound} {
		if _, err := h.FindQuestions(t.Context(), agent, tenant, "k"); host.CodeOf(err) != code {
			t.Errorf("FindQuestions for tenant %q: %v, want code %s", tenant, err, code)
		}
		if _, err := h.SettleExpired(t.Context(), agent, tenant); host.CodeOf(err) != code && code != host.NotFound {
			t.Errorf("SettleExpired for tenant %q: %v, want code %s", tenant, err, code)
		}
	}
}

// A call that fails for its terms leaves the state as if it had not run.
func TestBadTermsTakeChangesBack(t *testing.T) {
	ask := host.NewTool("ask", "Asks.", func(_ context.Context, c *host.Call, _ struct{}) (*host.ToolOutput, error) {
		return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "When?", Terms: &host.QuestionTerms{Timeout: -1}}}, c.State.Set("/asked", true)
	}, nil)
	for name, opts := range map[string]*host.ToolOptions{"of the tool's question": nil, "of an approval": {Approve: host.ApproveAlways("May it?"),
		Terms: func(context.Context, *host.Call, *host.Question) (*host.QuestionTerms, error) {
			return &host.QuestionTerms{Timeout: -1}, nil
		}}} {
		t.Run(name, func(t *testing.T) {
			tool := ask
			if opts != nil {
				var err error
				if tool, err = ask.With(opts); err != nil {
					t.Fatal(err)
				}
			}
			agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{tool}, Model: hosttest.NewModel(hosttest.Call("ask", `{}`), hosttest.Say("never mind"))})
			r, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"})
			if err != nil || r.Text() != "never mind" || string(r.State) != `{}` {
				t.Errorf("Run = %q, the state is %s: %v", r.Text(), r.State, err)
			}
		})
	}
}
