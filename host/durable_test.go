package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// mortal is a journal whose process dies: it stores a number of commits, and
// then nothing any more. What happens behind the last one that was stored is
// what happens in a process that is killed there.
type mortal struct {
	host.Journal
	lives int // commits that are stored
}

var errKilled = host.Errorf(host.Unavailable, "killed")

func (m *mortal) commit(fn func() error) error {
	if m.lives == 0 {
		return errKilled
	}
	m.lives--
	return fn()
}

func (m *mortal) CreateRun(ctx context.Context, rec *host.RunRecord) error {
	return m.commit(func() error { return m.Journal.CreateRun(ctx, rec) })
}

func (m *mortal) TakeRun(ctx context.Context, ref host.RunRef, steps int) (fence int64, err error) {
	err = m.commit(func() error { fence, err = m.Journal.TakeRun(ctx, ref, steps); return err })
	return fence, err
}

func (m *mortal) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	return m.commit(func() error { return m.Journal.AppendSteps(ctx, ref, at, steps) })
}

func (m *mortal) EndRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	return m.commit(func() error { return m.Journal.EndRun(ctx, ref, status, rest) })
}

// office is a network of two agents whose tools write down what they did in the
// world outside, where a crash takes nothing back.
type office struct {
	t       *testing.T
	history *hosttest.History
	journal *hosttest.Journal
	world   map[string]int // effects, by tool and idempotency key
	keys    map[string]bool
	asked   []string // what models were asked: the number of messages each saw
	routed  int
	told    bool // a model was told that an outcome is unknown
	net     *host.Network

	beforeLook func() // in the tool look
	unlocked   bool   // processes do not know of each other's turns
	eachRound  bool   // is stored in the thread
}

// answers is what the office's models say: it depends on what they see, not on
// how often they were asked.
type answers struct{ o *office }

func (answers) Name() string { return "deterministic" }

func (a answers) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	results := 0
	for _, m := range req.Messages {
		results += len(m.ToolResults())
		for _, r := range m.ToolResults() {
			a.o.told = a.o.told || strings.Contains(r.ContentText(), "not known") || strings.Contains(r.ContentText(), "unknown")
		}
	}
	key := fmt.Sprintf("%s after %d", req.Scope.Agent, results)
	a.o.asked = append(a.o.asked, key)
	call := func(id, tool string) host.Part {
		arguments := `{}`
		if tool == "helper" {
			arguments = `{"request":"charge"}`
		}
		return &host.ToolCall{ID: id, Name: tool, Arguments: json.RawMessage(arguments)}
	}
	parts := map[string][]host.Part{
		"first after 0":  {call("a", "charge"), call("b", "look"), call("c", "note")},
		"first after 3":  {call("d", "charge")},
		"first after 4":  {&host.Text{Text: "charged"}},
		"second after 4": {call("e", "note"), call("f", "helper")},
		"helper after 0": {call("g", "charge")},
		"helper after 1": {&host.Text{Text: "helped"}},
		"second after 6": {&host.Text{Text: "all done"}},
	}[key]
	return func(yield func(llm.Chunk, error) bool) {
		if parts == nil {
			yield(llm.Chunk{}, host.Errorf(host.Internal, "nobody expected to be asked as %s", key))
			return
		}
		yield(llm.Chunk{Response: &llm.Response{Parts: parts, FinishReason: chat.FinishStop, Usage: host.Usage{InputTokens: 10, OutputTokens: 1}}}, nil)
	}
}

func newOffice(t *testing.T) *office { return newOfficeOf(t, false) }

// newOfficeOf is newOffice with agents that join the results of an answer's calls, or
// do not.
func newOfficeOf(t *testing.T, join bool) *office {
	o := &office{t: t, history: hosttest.NewHistory(), journal: hosttest.NewJournal(), world: map[string]int{}, keys: map[string]bool{}}
	effect := func(call *host.Call) { o.world[call.Tool+" "+call.ID]++; o.keys[call.IdempotencyKey] = true }
	charge := host.NewTool("charge", "", func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
		effect(call)
		return "charged", host.UpdateState(call.State, func(s *struct {
			Charged []string `json:"charged"`
		}) error {
			s.Charged = append(s.Charged, call.ID)
			return nil
		})
	}, nil)
	look := host.NewTool("look", "", func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
		effect(call)
		if o.beforeLook != nil {
			o.beforeLook()
		}
		return "seen", nil
	}, &host.ToolOptions{ReadOnly: true})
	note := host.NewTool("note", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		effect(call)
		if err := call.AddArtifact(host.Artifact{Name: "note " + call.ID, Parts: []host.Part{&host.Text{Text: call.ID}}}); err != nil {
			return "", err
		}
		return host.Step(ctx, "stamp "+call.ID, func(context.Context) (string, error) {
			o.world["stamp "+call.ID]++
			return "stamped " + call.ID, nil
		}, nil)
	}, &host.ToolOptions{Idempotent: true})
	helperAgent, err := host.NewAgent("helper", &host.AgentOptions{Description: "helps", Tools: []*host.Tool{charge}})
	if err != nil {
		t.Fatal(err)
	}
	helper, err := host.NewAgentTool(helperAgent, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools := []*host.Tool{charge, look, note, helper}
	first, err := host.NewAgent("first", &host.AgentOptions{Tools: tools, JoinResults: join})
	if err != nil {
		t.Fatal(err)
	}
	second, err := host.NewAgent("second", &host.AgentOptions{Tools: tools, JoinResults: join})
	if err != nil {
		t.Fatal(err)
	}
	router := host.RouterFunc("in turn", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		o.routed++
		if err := req.State.Set("/routed", req.CallCount); err != nil {
			return nil, err
		}
		return []*host.Route{host.Next("first"), host.Next("second"), nil}[req.CallCount], nil
	})
	if o.net, err = host.NewNetwork("office", []*host.Agent{first, second}, &host.NetworkOptions{Router: router, Durable: true}); err != nil {
		t.Fatal(err)
	}
	return o
}

// process runs a request in a process that dies after a number of commits.
func (o *office) process(lives int, req *host.Request) (*host.RunResult, error) {
	o.t.Helper()
	var adapter any = o.history
	if o.unlocked {
		adapter = struct {
			host.ThreadCreator
			host.UserMessageAppender
			host.HistoryLoader
			host.ResultAppender
		}{o.history, o.history, o.history, o.history}
	}
	history, err := host.NewHistory(adapter, &host.HistoryOptions{EachRound: o.eachRound})
	if err != nil {
		o.t.Fatal(err)
	}
	req.Tenant = "acme"
	h := newHost(o.t, &host.Options{Model: answers{o}, History: history, Journal: &mortal{o.journal, lives},
		Limits: host.Limits{ParallelTools: 1}})
	return h.Run(o.t.Context(), o.net, req)
}

// outcome is what a run leaves that anybody can see, without ids and times.
func (o *office) outcome(r *host.RunResult) string {
	var b strings.Builder
	for _, m := range o.history.Messages("acme", "T1") {
		fmt.Fprintf(&b, "%s %s:", m.Role, m.Agent)
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *host.Text:
				fmt.Fprintf(&b, " %s", p.Text)
			case *host.ToolCall:
				fmt.Fprintf(&b, " call %s", p.ID)
			case *host.ToolResult:
				fmt.Fprintf(&b, " %s=%s", p.ID, p.Content)
			}
		}
		b.WriteByte('\n')
	}
	for _, turn := range o.history.Turns() {
		fmt.Fprintf(&b, "turn %s, state %s, usage %+v, artifacts", turn.Status, turn.State, turn.Usage)
		for _, a := range turn.Artifacts {
			fmt.Fprintf(&b, " %s", a.Name)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "ends %s, tokens %d", r.FinishReason, r.Usage.Total())
	return b.String()
}

// A process that dies behind any commit leaves a run that goes on with what was
// committed, and ends as if nothing had happened. What may not happen twice has
// not, or a person was asked.
func TestDurableRunSurvivesEveryCommit(t *testing.T) {
	for _, eachRound := range []bool{false, true} {
		for _, join := range []bool{false, true} {
			t.Run(fmt.Sprintf("each round stored %t, results joined %t", eachRound, join), func(t *testing.T) { surviveEveryCommit(t, eachRound, join) })
		}
	}
}

func surviveEveryCommit(t *testing.T, eachRound, join bool) {
	whole := newOfficeOf(t, join)
	whole.eachRound = eachRound
	r, err := whole.process(1000, &host.Request{Thread: "T1", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	want := whole.outcome(r)
	if whole.routed != 3 || len(whole.journal.Runs()) > 0 {
		t.Fatalf("%d routes, %d runs left:\n%s", whole.routed, len(whole.journal.Runs()), want)
	}
	finished := 0
	for lives := 1; finished < 2 && lives < 100; lives++ {
		t.Run(fmt.Sprint("killed after ", lives), func(t *testing.T) {
			o := newOfficeOf(t, join)
			o.eachRound = eachRound
			r, err := o.process(lives, &host.Request{Thread: "T1", Text: "go"})
			if err == nil && len(o.journal.Runs()) == 0 {
				finished++
				return
			}
			asked := false
			for len(o.journal.Runs()) > 0 {
				left := o.journal.Runs()[0]
				req := &host.Request{Resume: left.Run}
				if left.Status == host.RunInterrupted {
					asked = true
					for _, q := range r.Questions {
						if q.Kind != host.AskUnknown || q.Tool != "charge" {
							t.Fatalf("question %+v", q)
						}
						req.Answers = append(req.Answers, host.Answer{Question: q.ID, Decision: host.Reply, Value: json.RawMessage(`"charged"`)})
					}
				}
				if r, err = o.process(1000, req); err != nil {
					t.Fatalf("resume: %v", err)
				}
			}
			for what, n := range o.world {
				once := strings.HasPrefix(what, "charge") || strings.HasPrefix(what, "stamp")
				if n > 2 || once && n > 1 {
					t.Errorf("%s happened %d times", what, n)
				}
			}
			if len(o.keys) != len(whole.keys) {
				t.Errorf("%d idempotency keys, want %d: a call that is made again has its old one", len(o.keys), len(whole.keys))
			}
			if got := o.outcome(r); !asked && !o.told && got != want {
				t.Errorf("it ends otherwise (-want +got):\n%s", cmp.Diff(want, got))
			}
			if n := len(o.asked) - len(whole.asked); n > 1 {
				t.Errorf("models were asked %d times more than without a crash; want at most the one answer that was lost", n)
			}
			o.eachOnce()
		})
	}
	if finished < 2 {
		t.Error("the run has more commits than anybody expected")
	}
}

// eachOnce holds the thread to having each message and each result once.
func (o *office) eachOnce() {
	o.t.Helper()
	var calls, results []string
	for _, m := range o.history.Messages("acme", "T1") {
		for _, c := range m.ToolCalls() {
			calls = append(calls, c.ID)
		}
		for _, r := range m.ToolResults() {
			results = append(results, r.ID)
		}
	}
	slices.Sort(calls)
	slices.Sort(results)
	if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(calls, want) || !slices.Equal(results, want) {
		o.t.Errorf("the thread has the calls %v and the results %v, want each once", calls, results)
	}
}

// crash runs a durable request whose process dies after a number of commits and
// returns the run that is left.
func (o *office) crash(lives int) string {
	o.t.Helper()
	if _, err := o.process(lives, &host.Request{Thread: "T1", Text: "go"}); err == nil {
		o.t.Fatal("the process did not die")
	}
	left := o.journal.Runs()
	if len(left) != 1 {
		o.t.Fatalf("%d runs are left, want one", len(left))
	}
	return left[0].Run
}

// lateOwner is a journal in which the owner of a run adds a step before another takes it.
type lateOwner struct {
	host.Journal
	step json.RawMessage
}

func (l *lateOwner) TakeRun(ctx context.Context, ref host.RunRef, steps int) (int64, error) {
	if err := l.Journal.AppendSteps(ctx, ref, steps, []json.RawMessage{l.step}); err != nil {
		return 0, err
	}
	return l.Journal.TakeRun(ctx, ref, steps)
}

// A process that was only slow writes down that a call has begun, between another's look at
// the run and its taking: the other would make that call again as one that has not begun.
func TestARunIsNotTakenWithoutTheStepsOfASlowOwner(t *testing.T) {
	o := newOffice(t)
	run := o.crash(chargeBegun)
	rec, err := o.journal.ReadRun(t.Context(), "acme", run)
	if err != nil {
		t.Fatal(err)
	}
	written := len(rec.Steps)
	last := rec.Steps[written-1]
	earlier := hosttest.NewJournal()
	rec.Steps = rec.Steps[:written-1]
	if err := earlier.CreateRun(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	history, err := host.NewHistory(o.history, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, &host.Options{Model: answers{o}, History: history, Journal: &lateOwner{earlier, last}})
	charged := o.world["charge a"]
	_, err = h.Run(t.Context(), o.net, &host.Request{Tenant: "acme", Resume: run})
	if host.CodeOf(err) != host.Conflict {
		t.Errorf("Run = %v, want conflict", err)
	}
	if rec, err = earlier.ReadRun(t.Context(), "acme", run); err != nil || rec.Fence != 1 || len(rec.Steps) != written {
		t.Errorf("the run has the owner %d and %d steps, %v, want its first owner and %d", rec.Fence, len(rec.Steps), err, written)
	}
	if got := o.world["charge a"]; got != charged {
		t.Errorf("it was charged %d times more", got-charged)
	}
}

// chargeBegun is how many commits a process makes until the first charge has
// begun: the run, the first answer, the call.
const chargeBegun = 3

func TestUnknownOutcomeIsAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		answer  host.Answer
		charges int
		result  string
	}{
		"it has happened": {host.Answer{Decision: host.Reply, Value: json.RawMessage(`"seen on the bill"`)}, 1, `a="seen on the bill"`},
		"again":           {host.Answer{Decision: host.Approve}, 2, `a="charged"`},
		"leave it":        {host.Answer{Decision: host.Deny}, 1, `a="It is not known whether this call took effect: the process ended while it ran. It was not repeated."`},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			run := o.crash(chargeBegun)
			r, err := o.process(1000, &host.Request{Resume: run})
			if err != nil || r.Run != run || r.FinishReason != chat.FinishInterrupted || len(r.Questions) != 1 {
				t.Fatalf("resume = %+v, %v; want the same run to ask", r, err)
			}
			if q := r.Questions[0]; q.Kind != host.AskUnknown || q.Tool != "charge" || q.ToolCall != "a" || o.world["look b"] != 1 {
				t.Errorf("question %+v, world %v; want one about the charge, and the rest of its batch done", q, o.world)
			}
			c.answer.Question = r.Questions[0].ID
			if r, err = o.process(1000, &host.Request{Resume: run, Answers: []host.Answer{c.answer}}); err != nil || r.FinishReason != chat.FinishStop {
				t.Fatalf("resume = %+v, %v", r, err)
			}
			if o.world["charge a"] != c.charges || o.world["look b"] != 1 {
				t.Errorf("world %v, want %d charges", o.world, c.charges)
			}
			if got := o.outcome(r); !strings.Contains(got, c.result) {
				t.Errorf("want %s in:\n%s", c.result, got)
			}
			if len(o.keys) != 6 {
				t.Errorf("%d idempotency keys, want the same one for the charge that was repeated", len(o.keys))
			}
			o.eachOnce()
		})
	}
}

// A run whose owner was taken for dead, and was not, stores nothing more.
func TestOldOwnerStoresNothing(t *testing.T) {
	o := newOffice(t)
	var slow *host.RunResult
	var taken error
	o.beforeLook = func() { // the first owner hangs here, and another takes its run
		o.beforeLook = nil
		slow, taken = o.process(1000, &host.Request{Resume: o.journal.Runs()[0].Run})
	}
	o.unlocked = true
	r, err := o.process(1000, &host.Request{Thread: "T1", Text: "go"})
	if taken != nil || slow.FinishReason != chat.FinishStop {
		t.Fatalf("the second owner: %+v, %v", slow, taken)
	}
	if host.CodeOf(err) != host.Conflict && host.CodeOf(err) != host.NotFound {
		t.Errorf("the first owner = %+v, %v, want to be told", r, err)
	}
	if len(o.history.Turns()) != 1 {
		t.Errorf("%d turns are stored, want the second owner's", len(o.history.Turns()))
	}
	o.eachOnce()
}

func TestResumeOfARunThatLostItsThread(t *testing.T) {
	o := newOffice(t)
	run := o.crash(2)
	if _, err := o.history.AppendUserMessage(t.Context(), &host.HistoryRequest{Tenant: "acme", Thread: "T1", Input: host.UserText("and?")}); err != nil {
		t.Fatal(err)
	}
	_, err := o.process(1000, &host.Request{Resume: run})
	if host.CodeOf(err) != host.Conflict || len(o.journal.Runs()) > 0 || len(o.asked) > 1 {
		t.Errorf("resume = %v, %d runs left, models asked %d times; want a conflict, none, and no more than before", err, len(o.journal.Runs()), len(o.asked))
	}
}

func TestResumesThatAreRefused(t *testing.T) {
	o := newOffice(t)
	run := o.crash(2)
	for name, c := range map[string]struct {
		req  host.Request
		code host.Code
	}{
		"an open run asks nothing": {host.Request{Resume: run, Answers: []host.Answer{{Question: "q", Decision: host.Deny}}}, host.InvalidArgument},
		"with another thread":      {host.Request{Resume: run, Thread: "T2"}, host.InvalidArgument},
		"of no run":                {host.Request{Resume: "none"}, host.NotFound},
	} {
		if _, err := o.process(1000, &c.req); host.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if r, err := o.process(1000, &host.Request{Resume: run}); err != nil || r.FinishReason != chat.FinishStop {
		t.Errorf("resume = %+v, %v", r, err)
	}
	if _, err := o.process(1000, &host.Request{Resume: run}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("resume of a run that has ended = %v, want failed_precondition", err)
	}
}

func TestDamagedJournal(t *testing.T) {
	for _, steps := range [][]string{
		{}, {`{`}, {`{}`}, {`{"route":{"next":["first"]}}`}, {`{"begin":{"v":1,"state":{}}}`, `{"begin":{"v":1}}`},
		{`{"begin":{"v":1,"state":{}}}`, `{"answer":{"agent":"first"}}`}, {`{"begin":{"v":1,"state":{}}}`, `{"call":{"id":"x"}}`},
		{`{"begin":{"v":1,"state":{}}}`, `{"agent":{}}`}, {`{"begin":{"v":1,"state":{}}}`, `{"dance":{}}`},
		{`{"begin":{"v":1,"state":{}}}`, `{"state":[{"op":"remove","path":"/no"}],"route":{"next":[]}}`},
		{`{"begin":{"v":1,"from":{"calls":[null],"agent":"first"}}}`},
		{`{"begin":{"v":1,"state":{}}}`, `{"answer":{"first":true,"agent":"stranger","message":{"role":"assistant","parts":[]}}}`},
		{`{"begin":{"v":2,"state":{}}}`},
	} {
		o := newOffice(t)
		rec := &host.RunRecord{Ref: host.RunRef{Tenant: "acme", Thread: "T1", Run: "r1"}, Target: "office", Status: host.RunOpen}
		for _, s := range steps {
			rec.Steps = append(rec.Steps, json.RawMessage(s))
		}
		if err := o.journal.CreateRun(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if _, err := o.process(1000, &host.Request{Resume: "r1"}); host.CodeOf(err) != host.DataLoss && host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("steps %s: %v, want data_loss or failed_precondition", steps, err)
		}
	}
}

func TestDurableWithoutAJournal(t *testing.T) {
	_, err := newHost(t, &host.Options{Model: says("hi")}).Run(t.Context(), newAgent(t, nil), &host.Request{Text: "go", Durable: true})
	if host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Run = %v, want failed_precondition", err)
	}
}

func TestStepOutsideARunJustRuns(t *testing.T) {
	n, err := host.Step(t.Context(), "x", func(context.Context) (int, error) { return 3, nil }, nil)
	if n != 3 || err != nil {
		t.Errorf("Step = %d, %v", n, err)
	}
}

func TestStepsOfARun(t *testing.T) {
	ran := map[string]int{}
	step := func(ctx context.Context, name string, fail bool) (int, error) {
		return host.Step(ctx, name, func(context.Context) (int, error) {
			ran[name]++
			if fail {
				return 0, errors.New("no")
			}
			return ran[name], nil
		}, nil)
	}
	try := tool("try", func(ctx context.Context, _ *host.Call) (string, error) {
		a, _ := step(ctx, "a", false)
		b, _ := step(ctx, "a", false)
		_, err := step(ctx, "b", true)
		c, _ := step(ctx, "b", false)
		return fmt.Sprint(a, b, err, c), nil
	})
	model := hosttest.NewModel(hosttest.Call("try", "{}"), hosttest.Say("done"))
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{try}})
	for _, durable := range []bool{false, true} {
		clear(ran)
		r, err := newHost(t, &host.Options{Model: model, Journal: hosttest.NewJournal()}).Run(t.Context(), agent, &host.Request{Text: "go", Durable: durable})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Results[0].ToolResults()[0].ContentText(); got != "1 1 no 2" {
			t.Errorf("durable %v: %s, want 1 1 no 2", durable, got)
		}
		model = hosttest.NewModel(hosttest.Call("try", "{}"), hosttest.Say("done"))
	}
}

// keyed is a ledger that notes whose credential each run's use is recorded by.
type keyed struct {
	host.Ledger
	keys *[]string
}

func (keyed) AdmitRun(context.Context, string, string) error { return nil }

func (k keyed) OpenRun(_ host.Scope, key string) host.UsageRecord {
	*k.keys = append(*k.keys, key)
	return nil
}

// The process that continues a run knows nothing of the request that began it.
func TestAContinuedRunIsRecordedByTheCredentialThatBeganIt(t *testing.T) {
	journal := hosttest.NewJournal()
	var keys []string
	agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say("lost"), hosttest.Say("done"))})
	on := func(j host.Journal) *host.Host {
		return newHost(t, &host.Options{Journal: j, Ledger: keyed{keys: &keys}})
	}
	if _, err := on(&mortal{journal, 1}).Run(t.Context(), agent, &host.Request{Run: "r1", Key: "website", Text: "hi", Durable: true}); err == nil {
		t.Fatal("the process lives")
	}
	if _, err := on(journal).Run(t.Context(), agent, &host.Request{Resume: "r1"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"website", "website"}; !slices.Equal(keys, want) {
		t.Errorf("use is recorded by %q, want %q", keys, want)
	}
}
