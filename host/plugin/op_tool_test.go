package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// callingGuest assembles a guest whose tools make one request of tool.call, a number of
// times, and return the last response.
func callingGuest(t testing.TB, tools []string, permissions, request string, times int) []byte {
	t.Helper()
	list := make([]string, len(tools))
	for i, name := range tools {
		list[i] = fmt.Sprintf(`{"name":%q,"description":"","parameters":{}}`, name)
	}
	manifest := `{"abi":1,"name":"caller","requires":["tool.call"],"tools":[` + strings.Join(list, ",") + `],"permissions":` + permissions + `}`
	return wasmtest.Assemble(t, `
		import agenthost_v1 output_write i32 i32 as $output_write
		import agenthost_v1 host_call i32 i32 i32 i32 -> i64 as $host_call
		import agenthost_v1 host_read i32 i32 i32 -> i32 as $host_read
		memory 64
		export memory memory 0
		data 600 "tool.call"
		data 700 `+quote(`{"content":}`)+`
		data 1000 `+quote(request)+`
		custom agenthost.manifest `+quote(manifest)+`
		func $t agenthost_tool i32 -> i32 : i32 i64
		loop
		  i32.const 600 i32.const 9 i32.const 1000 i32.const `+strconv.Itoa(len(request))+` call $host_call local.set 2
		  local.get 1 i32.const 1 i32.add local.set 1
		  local.get 1 i32.const `+strconv.Itoa(times)+` i32.ne if br 1 end
		end
		i32.const 2097152 i32.const 0 local.get 2 i32.wrap_i64 call $host_read drop
		local.get 2 i64.const 4294967296 i64.div_u i32.wrap_i64
		if
		  i32.const 2097152 local.get 2 i32.wrap_i64 call $output_write
		  i32.const 1 return
		end
		i32.const 700 i32.const 11 call $output_write
		i32.const 2097152 local.get 2 i32.wrap_i64 call $output_write
		i32.const 711 i32.const 1 call $output_write
		i32.const 0
`)
}

// callerCase is a run in which a guest calls tools.
type callerCase struct {
	tools   []string // of the guest; the model calls the first
	asks    string   // permissions, as JSON
	granted Permissions
	request string
	times   int // the request is made; 0 is once
	limits  Limits
	opts    host.Options
	more    []*host.Tool
}

func (c *callerCase) agent(t testing.TB, rt *Runtime) *host.Agent {
	t.Helper()
	if c.tools == nil {
		c.tools = []string{"script"}
	}
	p, err := rt.Load(t.Context(), "caller", callingGuest(t, c.tools, c.asks, c.request, max(c.times, 1)), &LoadOptions{Granted: c.granted, Limits: c.limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	tools, err := p.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: append(tools, c.more...)})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

// run runs the agent until its end, and returns what the model read of its call.
func (c *callerCase) run(t testing.TB, agent *host.Agent, req *host.Request) (*host.RunResult, string) {
	t.Helper()
	opts := c.opts
	opts.SingleTenant = true
	if opts.Model == nil {
		opts.Model = hosttest.NewModel(hosttest.Call(c.tools[0], "{}"), hosttest.Say("done"))
	}
	h, err := host.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(t.Context(), agent, req)
	if err != nil {
		t.Fatal(err)
	}
	if results := r.Results[len(r.Results)-1].ToolResults(); len(results) > 0 {
		return r, string(results[0].Content)
	}
	return r, ""
}

func lookTool(looked *atomic.Int64) *host.Tool {
	return host.NewTool("look", "", func(_ context.Context, _ *host.Call, in struct {
		At string `json:"at"`
	}) (string, error) {
		looked.Add(1)
		return "seen " + in.At, nil
	}, nil)
}

func TestGuestsCallToolsThatAreGranted(t *testing.T) {
	const all = `{"tools":["*"]}`
	for name, c := range map[string]struct {
		asks    string
		granted []string
		request string
		want    string
	}{
		"by name":               {`{"tools":["look"]}`, []string{"look"}, `{"calls":[{"name":"look","arguments":{"at":"a"}},{"name":"look","arguments":{"at":"b"}}]}`, `{"results":[{"kind":"result","content":"seen a"},{"kind":"result","content":"seen b"}]}`},
		"each":                  {all, []string{"*"}, `{"calls":[{"name":"look","arguments":{"at":"a"}}]}`, `{"results":[{"kind":"result","content":"seen a"}]}`},
		"of each, one":          {all, []string{"look"}, `{"calls":[{"name":"look","arguments":{"at":"a"}}]}`, `{"results":[{"kind":"result","content":"seen a"}]}`},
		"a failure":             {all, []string{"*"}, `{"calls":[{"name":"look","arguments":{}}]}`, `{"results":[{"kind":"error","content":"the arguments do not fit the schema: /: missing property 'at'","is_error":true,"code":"invalid_argument"}]}`},
		"none is no permission": {all, nil, `{"calls":[{"name":"look","arguments":{"at":"a"}}]}`, `"plugin \"caller\" may not call the tool look: it is not granted \"tools=look\""`},
		"another":               {all, []string{"other"}, `{"calls":[{"name":"look","arguments":{"at":"a"}}]}`, `"plugin \"caller\" may not call the tool look: it is not granted \"tools=look\""`},
		"not what is not asked": {`{"tools":["other"]}`, []string{"*"}, `{"calls":[{"name":"look","arguments":{"at":"a"}}]}`, `"plugin \"caller\" may not call the tool look: it is not granted \"tools=look\""`},
		"none is itself":        {all, []string{"*"}, `{"calls":[{"name":"script"}]}`, `"The tool script is called within itself: script, script."`},
		"an unknown name":       {all, []string{"*"}, `{"calls":[{"name":"x"}]}`, `{"results":[{"kind":"error","content":"There is no tool \"x\"; the tools are: script, look.","is_error":true,"code":"not_found"}]}`},
		"a flood":               {all, []string{"*"}, `{"calls":[` + strings.Repeat(`{"name":"look"},`, nested.MaxCalls) + `{"name":"look"}]}`, `"The tool script calls 1025 tools in one list, more than 1024."`},
	} {
		t.Run(name, func(t *testing.T) {
			var looked atomic.Int64
			run := callerCase{asks: c.asks, granted: Permissions{Tools: c.granted}, request: c.request, more: []*host.Tool{lookTool(&looked)}}
			_, got := run.run(t, run.agent(t, startRuntime(t, nil)), &host.Request{Text: "go"})
			if got != c.want {
				t.Errorf("the model reads\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A guest that calls tools without end has no more calls than the run, and the host serves
// the next one.
func TestGuestThatFloodsIsHeldToTheRunsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		opts   host.Limits
		want   string
		most   int64
	}{
		"calls of the run":    {Limits{HostCalls: 1 << 20}, host.Limits{MaxToolCalls: 50}, `"run calls more tools than the limit MaxToolCalls of 50"`, 49},
		"calls of operations": {Limits{HostCalls: 20}, host.Limits{}, `"plugin \"caller\": agenthost_tool made more than the limit HostCalls of 20"`, 20},
		"instructions":        {Limits{Instructions: 1_000_000, HostCalls: 1 << 20}, host.Limits{}, `"plugin \"caller\": agenthost_tool used up the limit Instructions of 1000000"`, 20},
		"bytes of a request":  {Limits{ResponseBytes: 40, HostCalls: 100}, host.Limits{}, `"request of tool.call is 50 bytes, more than the limit ResponseBytes of 40"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var looked atomic.Int64
			run := callerCase{asks: `{"tools":["*"]}`, granted: Permissions{Tools: []string{"*"}}, request: `{"calls":[{"name":"look","arguments":{"at":"a"}}]}`,
				times: 100, limits: c.limits, opts: host.Options{Limits: c.opts}, more: []*host.Tool{lookTool(&looked)}}
			agent := run.agent(t, startRuntime(t, nil))
			for range 2 {
				looked.Store(0)
				if _, got := run.run(t, agent, &host.Request{Text: "go"}); got != c.want || looked.Load() > c.most {
					t.Errorf("after %d calls the model reads %s, want %s", looked.Load(), got, c.want)
				}
			}
		})
	}
}

// A tool may be of the plugin that calls it, also where one call of it runs at a time, or where
// its tenant may have no second call in progress.
func TestGuestCallsItsOwnPluginWithOneInstance(t *testing.T) {
	for name, opts := range map[string]*Options{"one instance": {Running: 1}, "one call of the runtime": {Running: 1, Calls: 2}} {
		t.Run(name, func(t *testing.T) {
			c := callerCase{tools: []string{"first", "second", "third"}, asks: `{"tools":["*"]}`, granted: Permissions{Tools: []string{"*"}},
				request: `{"calls":[{"name":"second"},{"name":"third"}]}`, limits: Limits{Instances: 1, Waiting: 4, Timeout: 2 * time.Second}}
			agent := c.agent(t, startRuntime(t, opts))
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, got := c.run(t, agent, &host.Request{Text: "go"})
				// The second and the third wait for each other's place one level below the first.
				if n := strings.Count(got, "within itself"); n != 2 || strings.Contains(got, "resource_exhausted") {
					t.Errorf("the model reads %s; want the two calls, which end at those within themselves", got)
				}
				if took := time.Since(start); took > 0 {
					t.Errorf("a call has waited for %s", took)
				}
			})
		})
	}
}

// The calls of two plugins, of which one call runs at a time, all hold places when they call
// the other plugin, and those call the first one again.
func TestGuestsOfTwoPluginsThatCallEachOtherWaitForNoneOfTheirCallers(t *testing.T) {
	const runs = 4 // one of each plugin gives its place to another, and that keeps its own
	var arrived atomic.Int64
	met := make(chan struct{})
	rt := startRuntime(t, &Options{Running: 1, Calls: 8})
	var tools []*host.Tool
	for plugin, other := range map[string]string{"a": "b", "b": "a"} {
		inner := other + "_in"
		tools = append(tools, host.NewTool("to_"+other, "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
			if arrived.Add(1) == runs {
				close(met)
			}
			select {
			case <-met:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			answers, err := call.CallTools(ctx, []nested.Call{{Name: inner}})
			if err != nil {
				return "", err
			}
			return string(answers[0].Code) + string(answers[0].Content), nil
		}, &host.ToolOptions{Calls: []string{inner}}))
		p, err := rt.Load(t.Context(), plugin, callingGuest(t, []string{plugin + "_out", plugin + "_in"}, `{"tools":["*"]}`, `{"calls":[{"name":"to_`+other+`"}]}`, 1),
			&LoadOptions{Granted: Permissions{Tools: []string{"*"}}, Limits: Limits{Instances: 1, Waiting: 4}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		own, err := p.Tools(nil)
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, own...)
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	var working sync.WaitGroup
	for i := range runs {
		outer := string("ab"[i%2]) + "_out"
		working.Go(func() {
			h, err := host.New(&host.Options{SingleTenant: true, Model: hosttest.NewModel(hosttest.Call(outer, "{}"), hosttest.Say("done"))})
			if err != nil {
				t.Error(err)
				return
			}
			r, err := h.Run(t.Context(), agent, &host.Request{Text: "go"})
			if err != nil {
				t.Error(err)
				return
			}
			if got := string(r.Results[0].ToolResults()[0].Content); !strings.Contains(got, "more than 4 deep") {
				t.Errorf("%s reads %s; want that only the call that is too deep is refused", outer, got)
			}
		})
	}
	working.Wait()
}

// An instance is stopped when a tool that it calls asks a person. The call starts again
// with the answer, and nothing that was done happens twice.
func TestGuestThatCallsAToolThatAsksStartsAgain(t *testing.T) {
	var looked atomic.Int64
	paid := 0
	pay := host.NewTool("pay", "", func(context.Context, *host.Call, struct{}) (string, error) { paid++; return "paid", nil },
		&host.ToolOptions{Approve: host.ApproveAlways("money")})
	journal, history := hosttest.NewJournal(), hosttest.NewHistory()
	h, err := host.NewHistory(history, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := callerCase{asks: `{"tools":["*"]}`, granted: Permissions{Tools: []string{"*"}}, request: `{"calls":[{"name":"look","arguments":{"at":"a"}},{"name":"pay"}]}`,
		more: []*host.Tool{lookTool(&looked), pay}, opts: host.Options{Journal: journal, History: h, Model: hosttest.NewModel(hosttest.Call("script", "{}"), hosttest.Say("done"))}}
	agent := c.agent(t, startRuntime(t, nil))
	r, _ := c.run(t, agent, &host.Request{Thread: "T1", Text: "go"})
	if r.FinishReason != chat.FinishInterrupted || r.Questions[0].Tool != "pay" {
		t.Fatalf("Run = %+v", r)
	}
	_, got := c.run(t, agent, &host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}})
	if want := `{"results":[{"kind":"result","content":"seen a"},{"kind":"result","content":"paid"}]}`; got != want || looked.Load() != 1 || paid != 1 {
		t.Errorf("the model reads %s; looked %d times, paid %d times", got, looked.Load(), paid)
	}
}

// The time of tools that a guest calls is not its own.
func TestGuestsTimeStandsStillWhileItCallsTools(t *testing.T) {
	const timeout = time.Second
	slow := host.NewTool("slow", "", func(context.Context, *host.Call, struct{}) (string, error) {
		time.Sleep(2 * timeout)
		return "slept", nil
	}, nil)
	c := callerCase{asks: `{"tools":["slow"]}`, granted: Permissions{Tools: []string{"slow"}}, request: `{"calls":[{"name":"slow"}]}`,
		limits: Limits{Timeout: timeout}, more: []*host.Tool{slow}}
	agent := c.agent(t, startRuntime(t, nil))
	synctest.Test(t, func(t *testing.T) {
		_, got := c.run(t, agent, &host.Request{Text: "go"})
		if want := `{"results":[{"kind":"result","content":"slept"}]}`; got != want {
			t.Errorf("the model reads %s", got)
		}
	})
}

// BenchmarkToolCall has a guest call a tool in Go 1,000 times, one after the other and in
// one list, and a tool in Go do the same. Beside them a model makes the calls in one answer,
// and the function is called as it stands. host-ns/call is the time within the calls of tools,
// without the guest.
func BenchmarkToolCall(b *testing.B) {
	const times, modelTimes = 1000, 100 // an answer may call 128
	var looked, within atomic.Int64     // calls, and the nanoseconds within them
	answer := &host.ToolOutput{Content: json.RawMessage(`"seen a"`)}
	look, err := host.NewRawTool(lookTool(&looked).ToolSpec, func(context.Context, *host.Call) (*host.ToolOutput, error) { looked.Add(1); return answer, nil }, nil)
	if err != nil {
		b.Fatal(err)
	}
	timed := func(began time.Time) { within.Add(time.Since(began).Nanoseconds()) }
	request := `{"calls":[{"name":"look","arguments":{"at":"a"}}]}`
	limits := host.Limits{MaxToolCalls: 1 << 20}
	rt := startRuntime(b, nil)
	p, err := rt.Load(b.Context(), "caller", callingGuest(b, []string{"guest"}, `{"tools":["look"]}`, request, times), &LoadOptions{Granted: Permissions{Tools: []string{"look"}}, Limits: Limits{HostCalls: 2 * times}})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	inGuest := func(name string, p *Plugin) *host.Tool {
		operate := func(ctx context.Context, op string, request []byte, next Operation) ([]byte, error) {
			defer timed(time.Now())
			return next(ctx, op, request)
		}
		tool, err := host.NewRawTool(llm.ToolSpec{Name: name}, func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
			_, err := p.Call(ctx, call.Scope.Tenant, "tool", []byte(`{"tool":"`+name+`"}`), &CallOptions{Call: call, Operate: operate})
			return &host.ToolOutput{}, err
		}, &host.ToolOptions{Calls: []string{"look"}})
		if err != nil {
			b.Fatal(err)
		}
		return tool
	}
	guest := inGuest("guest", p)
	lists, err := rt.Load(b.Context(), "lists", callingGuest(b, []string{"guests_list"}, `{"tools":["look"]}`,
		`{"calls":[`+strings.Repeat(`{"name":"look","arguments":{"at":"a"}},`, times-1)+`{"name":"look","arguments":{"at":"a"}}]}`, 1), &LoadOptions{Granted: Permissions{Tools: []string{"look"}}})
	if err != nil {
		b.Fatal(err)
	}
	defer lists.Close()
	guestsList := inGuest("guests_list", lists)
	inGo := host.NewTool("go", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		defer timed(time.Now())
		for range times {
			if _, err := call.CallTools(ctx, []nested.Call{{Name: "look", Arguments: json.RawMessage(`{"at":"a"}`)}}); err != nil {
				return "", err
			}
		}
		return "", nil
	}, &host.ToolOptions{Calls: []string{"look"}})
	list := host.NewTool("list", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		calls := make([]nested.Call, times)
		for i := range calls {
			calls[i] = nested.Call{Name: "look", Arguments: json.RawMessage(`{"at":"a"}`)}
		}
		defer timed(time.Now())
		_, err := call.CallTools(ctx, calls)
		return "", err
	}, &host.ToolOptions{Calls: []string{"look"}})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{look, guest, guestsList, inGo, list}})
	if err != nil {
		b.Fatal(err)
	}
	model := hosttest.Say("")
	for range modelTimes {
		model = model.Call("look", `{"at":"a"}`)
	}
	for _, from := range []struct {
		name  string
		reply hosttest.Reply
		times int64
	}{
		{"guest", hosttest.Call("guest", "{}"), times}, {"guest list", hosttest.Call("guests_list", "{}"), times},
		{"go", hosttest.Call("go", "{}"), times}, {"go list", hosttest.Call("list", "{}"), times}, {"model", model, modelTimes},
	} {
		b.Run(from.name, func(b *testing.B) {
			within.Store(0)
			for b.Loop() {
				h, err := host.New(&host.Options{SingleTenant: true, Limits: limits, Model: hosttest.NewModel(from.reply, hosttest.Say("done"))})
				if err != nil {
					b.Fatal(err)
				}
				looked.Store(0)
				_, err = h.Run(b.Context(), agent, &host.Request{Text: "go"})
				if err != nil || looked.Load() != from.times {
					b.Fatalf("%v, %d calls", err, looked.Load())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(from.times), "ns/call")
			if n := within.Load(); n > 0 { // the host's part: the tool takes no time, and the guest is not in it
				b.ReportMetric(float64(n)/float64(b.N)/float64(from.times), "host-ns/call")
			}
		})
	}
	b.Run("function", func(b *testing.B) {
		var in struct{ At string }
		for b.Loop() {
			for range times {
				if err := json.Unmarshal([]byte(`{"at":"a"}`), &in); err != nil {
					b.Fatal(err)
				}
				looked.Add(1)
				if _, err := json.Marshal("seen " + in.At); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/times, "ns/call")
	})
}
