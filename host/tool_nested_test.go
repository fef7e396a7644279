package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/runevent"
)

// listOf reads a list as tests write it: "name arguments".
func listOf(list ...string) []nested.Call {
	calls := make([]nested.Call, len(list))
	for i, text := range list {
		name, arguments, _ := strings.Cut(text, " ")
		calls[i] = nested.Call{Name: name, Arguments: json.RawMessage(arguments)}
	}
	return calls
}

// told writes answers, a line each.
func told(answers []nested.Answer) string {
	lines := make([]string, len(answers))
	for i, a := range answers {
		lines[i] = string(a.Kind) + " "
		if a.Code != "" {
			lines[i] += string(a.Code) + " "
		}
		lines[i] += string(a.Content)
	}
	return strings.Join(lines, "\n")
}

// shop is an agent whose tool "script" calls others as a test says.
type shop struct {
	t       *testing.T
	history *hosttest.History
	journal *hosttest.Journal
	effects []string // in the world outside: tool, id and key
	tools   []*host.Tool
	calls   []string // that the script may make; nil: every one
	opts    host.Options
}

func newShop(t *testing.T) *shop {
	s := &shop{t: t, history: hosttest.NewHistory(), journal: hosttest.NewJournal(), calls: []string{nested.EveryTool}}
	type order struct {
		Order int `json:"order"`
	}
	var mu sync.Mutex // two calls of a list may pay at the same time
	effect := func(call *host.Call) {
		mu.Lock()
		defer mu.Unlock()
		s.effects = append(s.effects, call.Tool+" "+call.ID)
	}
	s.tools = []*host.Tool{
		host.NewTool("look", "", func(_ context.Context, _ *host.Call, in order) (string, error) {
			return fmt.Sprint("order ", in.Order), nil
		}, &host.ToolOptions{ReadOnly: true}),
		host.NewTool("fails", "", func(context.Context, *host.Call, struct{}) (string, error) {
			return "", host.Errorf(host.Unavailable, "The shop is closed.")
		}, nil),
		host.NewTool("pay", "", func(ctx context.Context, call *host.Call, in order) (*host.ToolOutput, error) {
			effect(call)
			if err := host.UpdateState(call.State, func(s *struct {
				Paid []int `json:"paid"`
			}) error {
				s.Paid = append(s.Paid, in.Order)
				return nil
			}); err != nil {
				return nil, err
			}
			if err := call.AddArtifact(host.Artifact{Name: call.ID, Parts: []host.Part{&host.Text{Text: "bill"}}}); err != nil {
				return nil, err
			}
			return &host.ToolOutput{Content: json.RawMessage(`"paid"`), Cost: &host.Cost{Instructions: 10}}, nil
		}, nil),
		host.NewTool("refund", "", func(_ context.Context, call *host.Call, _ order) (string, error) {
			effect(call)
			return "refunded", nil
		}, &host.ToolOptions{Approve: host.ApproveAlways("money goes out")}),
		host.NewTool("asks", "", func(_ context.Context, call *host.Call, _ struct{}) (*host.ToolOutput, error) {
			if len(call.Resumed) == 0 {
				return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "which one?"}}, nil
			}
			return &host.ToolOutput{Content: call.Resumed[0].Answer}, nil
		}, nil),
	}
	return s
}

// script returns the agent whose tool runs fn.
func (s *shop) agent(fn func(ctx context.Context, call *host.Call) (string, error), opts host.ToolOptions) *host.Agent {
	s.t.Helper()
	opts.Calls = s.calls
	script := host.NewTool("script", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) { return fn(ctx, call) }, &opts)
	return newAgent(s.t, &host.AgentOptions{Tools: append(slices.Clone(s.tools), script)})
}

// run runs the script once, as the model calls it.
func (s *shop) run(agent *host.Agent, req *host.Request) (*host.RunResult, error) {
	s.t.Helper()
	opts := s.opts
	opts.Model, opts.Journal = hosttest.NewModel(hosttest.Call("script", "{}"), hosttest.Say("done")), cmp2(opts.Journal, host.Journal(s.journal))
	if req.Resume != "" && len(req.Answers) > 0 {
		opts.Model = hosttest.NewModel(hosttest.Say("done"))
	}
	opts.History = newHistory(s.t, s.history)
	req.Tenant = "acme"
	if req.Text == "" && req.Resume == "" {
		req.Text, req.Thread = "go", "T1"
	}
	return newHost(s.t, &opts).Run(s.t.Context(), agent, req)
}

func cmp2(a, b host.Journal) host.Journal {
	if a != nil {
		return a
	}
	return b
}

// answer returns what the model read of the script's last call.
func answerOf(r *host.RunResult) string {
	for _, result := range slices.Backward(r.Results) {
		if list := result.ToolResults(); len(list) > 0 {
			return list[len(list)-1].ContentText()
		}
	}
	return ""
}

func TestNestedCallsHaveTheOutcomesOfCalls(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		may  []string
		list []string
		want string // answers, or the error
	}{
		"results in the order of the calls": {nil, []string{`look {"order":1}`, `look {"order":2}`}, "result \"order 1\"\nresult \"order 2\""},
		"arguments by the schema":           {nil, []string{`look {"order":"x"}`}, `error invalid_argument "the arguments do not fit the schema: /order: got string, want integer"`},
		"a failure beside a result":         {nil, []string{`fails`, `look {"order":1}`}, "error unavailable \"The shop is closed.\"\nresult \"order 1\""},
		"a name that is no tool's":          {nil, []string{`invented`}, `error not_found "There is no tool \"invented\"; the tools are: look, fails, pay, refund, asks, script."`},
		"a name that is not granted":        {[]string{"look"}, []string{`look {"order":1}`, `pay {"order":1}`}, `permission_denied: The tool script may not call the tool "pay".`},
		"none granted":                      {[]string{}, []string{`look {"order":1}`}, `failed_precondition: The tool script can call no other tools here; name them in the tool's option Calls, or grant its plugin the permission tools; outside a run no tool can be called`},
		"itself":                            {nil, []string{`script`}, `failed_precondition: The tool script is called within itself: script, script.`},
		"no calls":                          {nil, nil, `invalid_argument: The tool script calls a list of no tools.`},
		"a flood":                           {nil, slices.Repeat([]string{`look {"order":1}`}, nested.MaxCalls+1), `resource_exhausted: The tool script calls 1025 tools in one list, more than 1024.`},
		"more than the run may call":        {nil, slices.Repeat([]string{`look {"order":1}`}, 1000), `resource_exhausted: run calls more tools than the limit MaxToolCalls of 1000`},
		"arguments that are no JSON":        {nil, []string{`look {`}, `invalid_argument: The arguments of the call of look are not valid JSON.`},
		"huge arguments":                    {nil, []string{`look {"order":1,"x":"` + long + `"}`}, `invalid_argument: The arguments of the call of look are 1048594 bytes long, more than the 1048576 that are allowed.`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			if c.may != nil {
				s.calls = c.may
			}
			var got string
			r, err := s.run(s.agent(func(ctx context.Context, call *host.Call) (string, error) {
				answers, err := call.CallTools(ctx, listOf(c.list...))
				if got = told(answers); err != nil {
					got = string(host.CodeOf(err)) + ": " + err.Error()
				}
				return "ended", nil
			}, host.ToolOptions{}), &host.Request{})
			if err != nil || r.FinishReason != chat.FinishStop {
				t.Fatalf("Run = %v, %v", r, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the script got (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNestedCallsAreCallsOfTheRun(t *testing.T) {
	s := newShop(t)
	var seen []string
	agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
		answers, err := call.CallTools(ctx, listOf(`pay {"order":1}`, `fails`, `pay {"order":2}`))
		for _, a := range call.Artifacts() {
			seen = append(seen, a.Name)
		}
		return told(answers), err
	}, host.ToolOptions{})
	s.opts.Model, s.opts.Limits.ParallelTools = hosttest.NewModel(hosttest.Call("script", "{}"), hosttest.Say("done")), 1
	var events []string
	var last *host.RunResult
	for ev, err := range newHost(t, &s.opts).Stream(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}) {
		if err != nil {
			t.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case *runevent.ToolStarted:
			events = append(events, fmt.Sprintf("%s started by %q", d.Name, d.Parent))
		case *runevent.ToolFinished:
			events = append(events, fmt.Sprintf("%s finished, of %q", d.Name, d.Parent))
		case *runevent.ArtifactMade:
			events = append(events, "artifact "+d.Artifact.Name)
		case *runevent.RunFinished:
			last = d.Result
		}
	}
	want := []string{`script started by ""`,
		`pay started by "call_1"`, "artifact call_1/0", `pay finished, of "call_1"`, `fails started by "call_1"`, `fails finished, of "call_1"`,
		`pay started by "call_1"`, "artifact call_1/2", `pay finished, of "call_1"`, `script finished, of ""`}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := string(last.State); got != `{"paid":[1,2]}` {
		t.Errorf("the state is %s", got)
	}
	if len(last.Artifacts) != 2 || !slices.Equal(seen, []string{"call_1/0", "call_1/2"}) {
		t.Errorf("the run has %d artifacts, the caller sees %v", len(last.Artifacts), seen)
	}
	if last.Cost.Instructions != 20 {
		t.Errorf("the run has used %d instructions, want those of both", last.Cost.Instructions)
	}
	if n := len(last.Results[0].ToolResults()); n != 1 {
		t.Errorf("history has %d results, want the one of the model's call", n)
	}
}

func TestNestedCallsRunAtOnceWithinTheAgentsBounds(t *testing.T) {
	for _, parallel := range []int{1, 3} {
		s := newShop(t)
		var running, most atomic.Int32
		s.tools = append(s.tools, host.NewTool("slow", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
			n := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			return "", nil
		}, nil))
		s.opts.Limits.ParallelTools = parallel
		synctest.Test(t, func(t *testing.T) {
			s.t = t
			if _, err := s.run(s.agent(func(ctx context.Context, call *host.Call) (string, error) {
				_, err := call.CallTools(ctx, listOf("slow", "slow", "slow", "slow"))
				return "", err
			}, host.ToolOptions{}), &host.Request{}); err != nil {
				t.Fatal(err)
			}
		})
		if int(most.Load()) != parallel {
			t.Errorf("ParallelTools %d: %d ran at once", parallel, most.Load())
		}
	}
}

func TestTimeOfNestedCallsIsNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.tools = append(s.tools, host.NewTool("slow", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "slept", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}, &host.ToolOptions{Timeout: 2 * time.Minute}), host.NewTool("slower", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, &host.ToolOptions{Timeout: time.Minute}))
		s.opts.Limits.ToolTimeout = 5 * time.Minute
		var got string
		var own error
		r, err := s.run(s.agent(func(ctx context.Context, call *host.Call) (string, error) {
			answers, err := call.CallTools(ctx, listOf("slow", "slower"))
			got = told(answers)
			if err == nil {
				<-ctx.Done() // its own second
				own = ctx.Err()
				err = own
			}
			return "", err
		}, host.ToolOptions{Timeout: time.Second}), &host.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if want := "result \"slept\"\nerror deadline_exceeded \"The tool slower took longer than 1m0s.\""; got != want {
			t.Errorf("the script got:\n%s\nwant:\n%s", got, want)
		}
		if !errors.Is(own, context.DeadlineExceeded) || answerOf(r) != "The tool script took longer than 1s." {
			t.Errorf("its context ended with %v, and the model reads %q", own, answerOf(r))
		}
	})
}

func TestNestedCallsAreBoundedInDepthAndFormNoCycle(t *testing.T) {
	var tools []*host.Tool
	var got []string
	for i := range nested.MaxDepth + 1 {
		next := fmt.Sprintf("level%d", i+1)
		tools = append(tools, host.NewTool(fmt.Sprintf("level%d", i), "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
			if i == 1 {
				_, err := call.CallTools(ctx, listOf("level0"))
				got = append(got, err.Error())
			}
			_, err := call.CallTools(ctx, listOf(next))
			if err != nil {
				got = append(got, err.Error())
			}
			return "", err
		}, &host.ToolOptions{Calls: []string{nested.EveryTool}}))
	}
	model := hosttest.NewModel(hosttest.Call("level0", "{}"), hosttest.Say("done"))
	if _, err := newHost(t, &host.Options{Model: model}).Run(t.Context(), newAgent(t, &host.AgentOptions{Tools: tools}), &host.Request{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"The tool level0 is called within itself: level0, level1, level0.",
		"Tools call each other more than 4 deep: level0, level1, level2, level3, level4."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestNestedCallsThatAskInterruptTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		list   []string
		answer func(q *host.Question) host.Answer
		want   string // of the model's reading of the script
		after  []string
	}{
		"an approval that is given": {[]string{`pay {"order":1}`, `refund {"order":7}`, `pay {"order":2}`},
			func(*host.Question) host.Answer { return host.Answer{Decision: host.Approve} },
			"result \"paid\"\nresult \"refunded\"\nresult \"paid\"\nresult \"paid\"", []string{"pay call_1/0", "pay call_1/2", "refund call_1/1", "pay call_1/3"}},
		"an approval with other arguments": {[]string{`refund {"order":7}`},
			func(*host.Question) host.Answer {
				return host.Answer{Decision: host.Approve, Arguments: json.RawMessage(`{"order":8}`)}
			},
			"result \"refunded\"\nresult \"paid\"", []string{"refund call_1/0", "pay call_1/1"}},
		"a denial": {[]string{`pay {"order":1}`, `refund {"order":7}`},
			func(*host.Question) host.Answer { return host.Answer{Decision: host.Deny, Reason: "too much"} },
			"result \"paid\"\nerror permission_denied \"A person did not allow this call. Reason: too much\"\nresult \"paid\"", []string{"pay call_1/0", "pay call_1/2"}},
		"a question of the tool": {[]string{`asks`, `pay {"order":1}`},
			func(*host.Question) host.Answer {
				return host.Answer{Decision: host.Reply, Value: json.RawMessage(`"that one"`)}
			},
			"result \"that one\"\nresult \"paid\"\nresult \"paid\"", []string{"pay call_1/1", "pay call_1/2"}},
	} {
		for _, durable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, durable %v", name, durable), func(t *testing.T) {
				s := newShop(t)
				s.opts.Limits.ParallelTools = 1
				keys := map[string]bool{}
				agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
					keys[call.IdempotencyKey] = true
					if err := call.State.Set("/own", "from the beginning"); err != nil {
						return "", err
					}
					answers, err := call.CallTools(ctx, listOf(c.list...))
					if err != nil {
						return "not read", nil
					}
					more, err := call.CallTools(ctx, listOf(`pay {"order":9}`))
					return told(append(answers, more...)), err
				}, host.ToolOptions{})
				r, err := s.run(agent, &host.Request{Durable: durable})
				if err != nil || r.FinishReason != chat.FinishInterrupted || len(r.Questions) != 1 {
					t.Fatalf("Run = %+v, %v", r, err)
				}
				q := r.Questions[0]
				if q.Tool == "script" || !slices.Equal(q.Via, []string{"call_1"}) || !strings.HasPrefix(q.ToolCall, "call_1/") {
					t.Errorf("the question is %+v", q)
				}
				if strings.Contains(string(r.State), "own") {
					t.Errorf("the state of a caller that starts again is kept: %s", r.State)
				}
				answer := c.answer(q)
				answer.Question = q.ID
				r, err = s.run(agent, &host.Request{Resume: r.Run, Answers: []host.Answer{answer}, Durable: durable})
				if err != nil || r.FinishReason != chat.FinishStop {
					t.Fatalf("Run with the answer = %+v, %v", r, err)
				}
				if diff := cmp.Diff(c.want, answerOf(r)); diff != "" {
					t.Errorf("the script's result (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.after, s.effects); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
				if len(keys) != 1 {
					t.Errorf("the script had the keys %v", keys)
				}
			})
		}
	}
}

func TestNestedCallsThatDifferFromTheJournalFailTheCaller(t *testing.T) {
	for name, second := range map[string][]string{
		"another name":    {`look {"order":1}`, `refund {"order":7}`},
		"other arguments": {`pay {"order":2}`, `refund {"order":7}`},
		"another order":   {`refund {"order":7}`, `pay {"order":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			attempts := 0
			agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
				list := second
				if attempts++; attempts == 1 {
					list = []string{`pay {"order":1}`, `refund {"order":7}`}
				}
				_, err := call.CallTools(ctx, listOf(list...))
				if attempts > 1 && host.CodeOf(err) != host.Conflict {
					t.Errorf("CallTools = %v, want conflict", err)
				}
				return "hides it", nil
			}, host.ToolOptions{})
			r, err := s.run(agent, &host.Request{})
			if err != nil {
				t.Fatal(err)
			}
			r, err = s.run(agent, &host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := answerOf(r); !strings.Contains(got, "when the run got there before") {
				t.Errorf("the model reads %q", got)
			}
			if want := []string{"pay call_1/0"}; !slices.Equal(s.effects, want) {
				t.Errorf("effects %v, want %v", s.effects, want)
			}
		})
	}
}

// Another attempt of the caller repeats no call that has its outcome.
func TestNestedCallsAreNotRepeatedByAnotherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		r, err := s.run(s.agent(func(ctx context.Context, call *host.Call) (string, error) {
			answers, err := call.CallTools(ctx, listOf(`pay {"order":1}`))
			if err == nil && call.Attempt < 3 {
				err = host.Errorf(host.Unavailable, "again")
			}
			return told(answers), err
		}, host.ToolOptions{Retries: 3}), &host.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.effects, []string{"pay call_1/0"}) || string(r.State) != `{"paid":[1]}` || len(r.Artifacts) != 1 || r.Cost.Instructions != 10 {
			t.Errorf("effects %v, state %s, %d artifacts, %d instructions", s.effects, r.State, len(r.Artifacts), r.Cost.Instructions)
		}
	})
}

// A process is killed behind each commit of a durable run, and another continues: no
// nested call has its effect twice, unless the person says so who is asked.
func TestNestedCallsOfADurableRunHaveTheirEffectsOnce(t *testing.T) {
	for lives := 1; lives < 12; lives++ {
		t.Run(fmt.Sprint("killed behind commit ", lives), func(t *testing.T) {
			s := newShop(t)
			s.opts.Limits.ParallelTools = 1
			agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
				answers, err := call.CallTools(ctx, listOf(`pay {"order":1}`, `look {"order":3}`, `pay {"order":2}`))
				if err != nil {
					return "", err
				}
				more, err := call.CallTools(ctx, listOf(`pay {"order":9}`))
				return told(append(answers, more...)), err
			}, host.ToolOptions{OnlyCalls: true})
			s.opts.Journal = &mortal{s.journal, lives}
			r, err := s.run(agent, &host.Request{Run: "r1", Thread: "T1", Text: "go", Durable: true})
			if err == nil {
				if lives < 9 {
					t.Fatalf("the process ended with %+v", r)
				}
				return
			}
			s.opts.Journal = s.journal
			r, err = s.resumeAfterKill(agent)
			if err != nil {
				t.Fatalf("another process: %v", err)
			}
			if r.FinishReason == chat.FinishInterrupted { // it cannot be known whether one took effect
				if q := r.Questions[0]; q.Kind != host.AskUnknown || q.Tool != "pay" {
					t.Fatalf("it asks %+v", q)
				}
				r, err = s.run(agent, &host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"paid"`)}}})
				if err != nil {
					t.Fatal(err)
				}
			}
			if want := "result \"paid\"\nresult \"order 3\"\nresult \"paid\"\nresult \"paid\""; answerOf(r) != want {
				t.Errorf("the script's result is:\n%s", answerOf(r))
			}
			counts := map[string]int{}
			for _, e := range s.effects {
				counts[e]++
			}
			for e, n := range counts {
				if n != 1 {
					t.Errorf("effect %s happened %d times", e, n)
				}
			}
			if len(counts) != 3 {
				t.Errorf("effects %v", s.effects)
			}
		})
	}
}

// resumeAfterKill continues the run with a model that answers by what it sees.
func (s *shop) resumeAfterKill(agent *host.Agent) (*host.RunResult, error) {
	opts := s.opts
	opts.History = newHistory(s.t, s.history)
	opts.Model = hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		for _, m := range req.Messages {
			if len(m.ToolResults()) > 0 {
				return hosttest.Say("done")
			}
		}
		return hosttest.Call("script", "{}")
	})
	return newHost(s.t, &opts).Run(s.t.Context(), agent, &host.Request{Tenant: "acme", Resume: "r1"})
}

// An agent that is a tool can be called, and asks through its caller.
func TestNestedCallsOfAgents(t *testing.T) {
	s := newShop(t)
	helper, err := host.NewAgent("helper", &host.AgentOptions{Description: "helps", Tools: s.tools,
		Model: hosttest.NewModel(hosttest.Call("refund", `{"order":1}`), hosttest.Say("helped"))})
	if err != nil {
		t.Fatal(err)
	}
	tool, err := host.NewAgentTool(helper, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.tools = append(s.tools, tool)
	agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
		answers, err := call.CallTools(ctx, listOf(`pay {"order":1}`, `helper {"request":"help"}`))
		return told(answers), err
	}, host.ToolOptions{})
	r, err := s.run(agent, &host.Request{})
	if err != nil || r.FinishReason != chat.FinishInterrupted {
		t.Fatalf("Run = %+v, %v", r, err)
	}
	q := r.Questions[0]
	if q.Agent != "helper" || !slices.Equal(q.Via, []string{"call_1", "call_1/1"}) {
		t.Errorf("the question is %+v", q)
	}
	r, err = s.run(agent, &host.Request{Resume: r.Run, Answers: []host.Answer{{Question: q.ID, Decision: host.Approve}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "result \"paid\"\nresult \"helped\""; answerOf(r) != want {
		t.Errorf("the script's result is:\n%s", answerOf(r))
	}
	if len(s.effects) != 2 {
		t.Errorf("effects %v", s.effects)
	}
}

// A client that keeps the checkpoint could remove the outcomes of completed calls from it.
func TestNestedCallsAskNobodyThroughAClientsCheckpoint(t *testing.T) {
	s := newShop(t)
	agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
		answers, err := call.CallTools(ctx, listOf(`asks`, `refund {"order":1}`))
		return told(answers), err
	}, host.ToolOptions{})
	model := hosttest.NewModel(hosttest.Call("script", "{}"), hosttest.Say("done"))
	r, err := newHost(t, &host.Options{Model: model}).Run(t.Context(), agent, &host.Request{Text: "go", ClientCheckpoint: true})
	if err != nil {
		t.Fatal(err)
	}
	want := "error failed_precondition \"The tool asks cannot ask a person here.\"\nerror permission_denied \"A person must agree to this call, and cannot be asked here.\""
	if answerOf(r) != want {
		t.Errorf("the script's result is:\n%s", answerOf(r))
	}
}

func TestNestedListsRunOneAfterTheOther(t *testing.T) {
	s := newShop(t)
	var inner error
	var again func()
	s.tools = append(s.tools, host.NewTool("back", "", func(context.Context, *host.Call, struct{}) (string, error) {
		again()
		return "", nil
	}, nil))
	_, err := s.run(s.agent(func(ctx context.Context, call *host.Call) (string, error) {
		again = func() { _, inner = call.CallTools(ctx, listOf(`look {"order":1}`)) }
		_, err := call.CallTools(ctx, listOf("back"))
		return "", err
	}, host.ToolOptions{}), &host.Request{})
	if err != nil || host.CodeOf(inner) != host.FailedPrecondition {
		t.Errorf("Run = %v; a list while another runs: %v", err, inner)
	}
}

// The instructions of a call count once, however deep it stands.
func TestNestedCallsCountTheirInstructionsOnceAtEachDepth(t *testing.T) {
	s := newShop(t)
	s.tools = append(s.tools, host.NewTool("middle", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		answers, err := call.CallTools(ctx, listOf(`pay {"order":1}`))
		return told(answers), err
	}, &host.ToolOptions{Calls: []string{"pay"}}))
	s.opts.Limits.RunInstructions = 25 // two payments take 20
	var got string
	r, err := s.run(s.agent(func(ctx context.Context, call *host.Call) (string, error) {
		if _, err := call.CallTools(ctx, listOf("middle", `pay {"order":2}`)); err != nil {
			return "", err
		}
		answers, err := call.CallTools(ctx, listOf(`look {"order":3}`))
		got = told(answers)
		return "", err
	}, host.ToolOptions{}), &host.Request{})
	if err != nil || r.Cost.Instructions != 20 || got != `result "order 3"` {
		t.Errorf("Run = %v, the last call is answered %q; want it made, for the limit is not reached", err, got)
	}
}

// A list that is refused leaves no trace: the tool can make a shorter one.
func TestNestedListsThatAreRefusedAreNotCounted(t *testing.T) {
	large := `look {"order":1,"x":"` + strings.Repeat("x", nested.MaxRunBytes/2) + `"}`
	for name, c := range map[string]struct {
		limits  host.Limits
		refused []string
	}{
		"more than the run may call": {host.Limits{MaxToolCalls: 3}, slices.Repeat([]string{`look {"order":1}`}, 4)},
		"more than the run may keep": {host.Limits{ArgumentBytes: nested.MaxRunBytes}, []string{large, large}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			var reserved int
			s.opts.Limits, s.opts.Ledger = c.limits, reserving{&hosttest.Ledger{}, &reserved}
			var refused error
			var got string
			if _, err := s.run(s.agent(func(ctx context.Context, call *host.Call) (string, error) {
				_, refused = call.CallTools(ctx, listOf(c.refused...))
				answers, err := call.CallTools(ctx, listOf(`fails`, `look {"order":2}`))
				got = told(answers)
				return "", err
			}, host.ToolOptions{}), &host.Request{}); err != nil {
				t.Fatal(err)
			}
			if want := "error unavailable \"The shop is closed.\"\nresult \"order 2\""; host.CodeOf(refused) != host.ResourceExhausted || got != want {
				t.Errorf("the list is refused with %v, and a shorter one answered\n%s\nwant\n%s", refused, got, want)
			}
			if reserved != 3 {
				t.Errorf("the tenant's record has %d calls, want the script and its two", reserved)
			}
		})
	}
}

// reserving is a ledger that counts the calls of tools.
type reserving struct {
	host.Ledger
	tools *int
}

func (l reserving) OpenRun(scope host.Scope, key string) host.UsageRecord {
	return reservingRecord{l.Ledger.OpenRun(scope, key), l.tools}
}

type reservingRecord struct {
	host.UsageRecord
	tools *int
}

func (r reservingRecord) ReserveTools(_ context.Context, n int) error {
	*r.tools += n
	return nil
}

// A caller that starts again has the arguments that a person gave it.
func TestNestedCallsThatAskKeepTheArgumentsThatAPersonGaveTheCaller(t *testing.T) {
	for _, durable := range []bool{false, true} {
		s := newShop(t)
		var amounts []int
		s.tools = append(s.tools, host.NewTool("charge", "", func(ctx context.Context, call *host.Call, in struct {
			Amount int `json:"amount"`
		}) (string, error) {
			amounts = append(amounts, in.Amount)
			_, err := call.CallTools(ctx, listOf("asks"))
			return "charged", err
		}, &host.ToolOptions{Calls: []string{"asks"}, Approve: host.ApproveAlways("money")}))
		agent := newAgent(t, &host.AgentOptions{Tools: s.tools})
		s.opts.Journal, s.opts.History = s.journal, newHistory(t, s.history)
		run := func(req *host.Request, replies ...hosttest.Reply) *host.RunResult {
			t.Helper()
			req.Tenant, req.Durable, s.opts.Model = "acme", durable, hosttest.NewModel(replies...)
			r, err := newHost(t, &s.opts).Run(t.Context(), agent, req)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := run(&host.Request{Thread: "T1", Text: "go"}, hosttest.Call("charge", `{"amount":1000}`))
		r = run(&host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve, Arguments: json.RawMessage(`{"amount":10}`)}}}, hosttest.Say("done"))
		run(&host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`"this one"`)}}}, hosttest.Say("done"))
		if !slices.Equal(amounts, []int{10, 10}) {
			t.Errorf("durable %v: it ran with %v, want the person's 10 each time", durable, amounts)
		}
	}
}

// A process is killed behind each commit of a durable run: what a caller changes in the state,
// before its calls and between them, is changed once.
func TestNestedCallersThatStartAgainChangeTheStateOnce(t *testing.T) {
	for lives := 1; ; lives++ {
		s := newShop(t)
		s.tools = append(s.tools, host.NewTool("book", "", func(_ context.Context, call *host.Call, in struct {
			Order int `json:"order"`
		}) (string, error) {
			return "booked", host.UpdateState(call.State, func(s *struct {
				Booked []int `json:"booked"`
			}) error {
				s.Booked = append(s.Booked, in.Order)
				return nil
			})
		}, &host.ToolOptions{Idempotent: true}))
		visit := func(call *host.Call) error {
			return host.UpdateState(call.State, func(s *struct {
				Visits int `json:"visits"`
			}) error {
				s.Visits++
				return nil
			})
		}
		agent := s.agent(func(ctx context.Context, call *host.Call) (string, error) {
			for i := range 3 {
				if err := visit(call); err != nil {
					return "", err
				}
				if _, err := call.CallTools(ctx, listOf(fmt.Sprintf(`book {"order":%d}`, i))); err != nil {
					return "", err
				}
			}
			return "visited", visit(call)
		}, host.ToolOptions{OnlyCalls: true})
		s.opts.Journal = &mortal{s.journal, lives}
		r, err := s.run(agent, &host.Request{Run: "r1", Thread: "T1", Text: "go", Durable: true})
		survived := err == nil
		for again := 1; err != nil && again < 20; again++ { // the next process is killed as well, a commit later each time
			s.opts.Journal = &mortal{s.journal, again}
			r, err = s.resumeAfterKill(agent)
		}
		if err != nil {
			t.Fatalf("killed behind commit %d: %v", lives, err)
		}
		if got, want := string(r.State), `{"booked":[0,1,2],"visits":4}`; got != want || answerOf(r) != "visited" {
			t.Errorf("killed behind commit %d: the state is %s, want %s; the script says %q", lives, got, want, answerOf(r))
		}
		if survived {
			if lives < 6 {
				t.Errorf("the run has only %d commits", lives)
			}
			return
		}
	}
}

// A tool may call others with a context that outlives its own.
func TestNestedCallsEndWithTheRunOfTheirCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var took time.Duration
		slow := host.NewTool("slow", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			took = time.Since(began)
			return "", ctx.Err()
		}, nil)
		script := host.NewTool("script", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
			_, err := call.CallTools(context.WithoutCancel(ctx), listOf("slow"))
			return "", err
		}, &host.ToolOptions{Calls: []string{"slow"}})
		agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{slow, script}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newHost(t, &host.Options{Model: hosttest.NewModel(hosttest.Call("script", "{}"))}).Run(ctx, agent, &host.Request{Text: "go"})
		synctest.Wait()
		if host.CodeOf(err) != host.DeadlineExceeded || took != time.Second {
			t.Errorf("Run = %v; the nested call ended after %s, want the second of the run", err, took)
		}
	})
}

func TestToolEndIsCalledOnceForACallerThatWaited(t *testing.T) {
	s := newShop(t)
	ended := 0
	script := host.NewTool("script", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		answers, err := call.CallTools(ctx, listOf("asks"))
		return told(answers), err
	}, &host.ToolOptions{Calls: []string{"asks"}})
	agent := newAgent(t, &host.AgentOptions{Tools: append(slices.Clone(s.tools), script), Hooks: host.Hooks{
		ToolEnd: func(_ context.Context, at *host.ToolEndHook) error {
			if at.Tool == "script" {
				ended++
			}
			return nil
		}}})
	r, err := s.run(agent, &host.Request{})
	if err != nil || r.FinishReason != chat.FinishInterrupted || ended != 0 {
		t.Fatalf("Run = %+v, %v; ToolEnd was called %d times for a tool that waits", r, err, ended)
	}
	_, err = s.run(agent, &host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Reply, Value: json.RawMessage(`1`)}}})
	if err != nil || ended != 1 {
		t.Errorf("Run = %v; ToolEnd was called %d times", err, ended)
	}
}
