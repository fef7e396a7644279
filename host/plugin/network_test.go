package plugin

// Scenario: guests serve as routers and tools of agent networks.

// Guests as routers and tools of networks: what a run does with what they say.
// These tests are inside the package for its assembler.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

func networkAgent(t testing.TB, name string, opts host.AgentOptions) *host.Agent {
	t.Helper()
	if opts.Description = "is " + name; opts.Model == nil {
		opts.Model = hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("done") })
	}
	a, err := host.NewAgent(name, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// runNetwork runs the agents a and b, with c on call, routed by a guest.
func runNetwork(t testing.TB, p *Plugin, req *host.Request) (*host.RunResult, error) {
	t.Helper()
	router, err := p.Router("", nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := host.NewNetwork("n", []*host.Agent{networkAgent(t, "a", host.AgentOptions{}), networkAgent(t, "b", host.AgentOptions{})}, &host.NetworkOptions{
		Router: router, MaxIterations: 3, OnCall: []*host.Agent{networkAgent(t, "c", host.AgentOptions{})},
		Model:   hosttest.NewModel(hosttest.Call("select_agent", `{"name":"b"}`), hosttest.Call("select_agent", `{"name":"a"}`), hosttest.Call("done", `{}`)),
		Routers: []host.Router{host.InOrder("line", "b", "a")}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	return h.Run(t.Context(), n, req)
}

// routerManifest is that of a plugin with one router.
const routerManifest = `{"abi":1,"name":"constant","routers":[{"name":"r"}]}`

// A router in a sandbox decides what one in Go decides, and whatever else it says
// ends the run with an error that names it.
func TestWhatGuestRoutersSay(t *testing.T) {
	rt := startRuntime(t, &Options{Limits: Limits{Instructions: 1_000_000}})
	says := func(output string) []byte {
		return constantGuest(t, routerManifest, map[abi.Export]answer{abi.Route: {output, 0}})
	}
	fails := func(output string) []byte {
		return constantGuest(t, routerManifest, map[abi.Export]answer{abi.Route: {output, 1}})
	}
	for _, c := range []struct {
		name string
		wasm []byte
		ran  []string
		end  host.FinishReason
		code host.Code
		says string
	}{
		{"nobody", says(`{}`), nil, chat.FinishStop, "", ""},
		{"nobody, and why", says(`{"next":[],"reason":"closed"}`), nil, chat.FinishStop, "", ""},
		{"the same for ever", says(`{"next":["a"]}`), []string{"a", "a", "a"}, chat.FinishMaxIterations, "", ""},
		{"two at a time", says(`{"next":["b","a"]}`), []string{"b", "a", "b"}, chat.FinishMaxIterations, "", ""},
		{"one on call", says(`{"next":["c"]}`), []string{"c", "c", "c"}, chat.FinishMaxIterations, "", ""},
		{"the network's model", says(`{"delegate":"default"}`), []string{"b", "a"}, chat.FinishStop, "", ""},
		{"another router", says(`{"delegate":"line"}`), []string{"b", "a"}, chat.FinishStop, "", ""},
		{"a stranger", says(`{"next":["z"]}`), nil, chat.FinishFailed, host.InvalidArgument, `router "r" names the agent "z", which network "n" does not have; its agents are: a, b, c`},
		{"the empty name", says(`{"next":[""]}`), nil, chat.FinishFailed, host.InvalidArgument, `names the agent ""`},
		{"a strange router", says(`{"delegate":"z"}`), nil, chat.FinishFailed, host.InvalidArgument, `delegates to "z", which network "n" does not have`},
		{"itself", says(`{"delegate":"r"}`), nil, chat.FinishFailed, host.InvalidArgument, `delegates to "r"`},
		{"too many", says(`{"next":[` + strings.Repeat(`"a",`, 64) + `"a"]}`), nil, chat.FinishFailed, host.ResourceExhausted, "more than 64 agents"},
		{"garbage", says(`route: a`), nil, chat.FinishFailed, host.Internal, `router "r": plugin "p": the output of agenthost_route is not what the ABI says`},
		{"nothing at all", says(``), nil, chat.FinishFailed, host.Internal, "is not what the ABI says"},
		{"an error", fails(`{"code":"unavailable","message":"no rules"}`), nil, chat.FinishFailed, host.Unavailable, "no rules"},
		{"a trap", constantGuest(t, routerManifest, nil), nil, chat.FinishFailed, host.Internal, `router "r": plugin "p"`},
		{"nothing, for ever", wasmtest.Assemble(t, "memory 1\nexport memory memory 0\ncustom agenthost.manifest "+quote(routerManifest)+"\nfunc $r agenthost_route i32 -> i32\nloop br 0 end unreachable"), nil, chat.FinishFailed, host.ResourceExhausted, "limit Instructions of 1000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := rt.Load(t.Context(), "p", c.wasm, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			r, err := runNetwork(t, p, &host.Request{Tenant: "acme", Text: "hi"})
			if host.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("Run: %v; want code %q and %q", err, c.code, c.says)
			}
			var ran []string
			for _, res := range r.Results {
				ran = append(ran, res.Agent)
			}
			if !slices.Equal(ran, c.ran) || r.FinishReason != c.end {
				t.Errorf("%q ran and the run ended with %q, want %q and %q", ran, r.FinishReason, c.ran, c.end)
			}
		})
	}
}

// A guest's patch is held to what a Go tool's is held to.
func TestPatchesOfGuestTools(t *testing.T) {
	rt := startRuntime(t, nil)
	schema, err := host.CompileSchema(json.RawMessage(`{"properties":{"n":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, patch, want string
		told              string // empty: it works
	}{
		{"applies", `[{"op":"replace","path":"/n","value":2}]`, `{"n":2}`, ""},
		{"leads nowhere", `[{"op":"replace","path":"/n","value":2},{"op":"remove","path":"/x"}]`, `{"n":1}`, `patch operation 1 (remove "/x"): there is nothing at "/x"`},
		{"fails its test", `[{"op":"test","path":"/n","value":7},{"op":"replace","path":"/n","value":8}]`, `{"n":1}`, `patch operation 0 (test "/n"): the value there is another`},
		{"does not fit the schema", `[{"op":"replace","path":"/n","value":"two"}]`, `{"n":1}`, "state would not fit its schema: /n: got string, want integer"},
		{"is none", `[{"op":"fly","path":"/n"}]`, `{"n":1}`, "state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := loadConstant(t, rt, everyKind, map[abi.Export]answer{abi.Tool: {`{"content":1,"state":` + c.patch + `}`, 0}})
			tools, err := p.Tools(nil)
			if err != nil {
				t.Fatal(err)
			}
			a := networkAgent(t, "a", host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("t", "{}")), Tools: tools, MaxRounds: 1})
			r := runOne(t, a, schema)
			if string(r.State) != c.want {
				t.Errorf("the state is %s, want %s", r.State, c.want)
			}
			if res := r.Results[0].ToolResults()[0]; res.IsError != (c.told != "") || !strings.Contains(res.ContentText(), c.told) {
				t.Errorf("the model is told %s, want %q", res.Content, c.told)
			}
		})
	}
}

// runOne runs an agent in a network of its own whose state is {"n":1}.
func runOne(t testing.TB, a *host.Agent, schema *host.Schema) *host.RunResult {
	t.Helper()
	n, err := host.NewNetwork("n", []*host.Agent{a}, &host.NetworkOptions{Router: host.InOrder("line", "a"), State: map[string]int{"n": 1}, StateSchema: schema})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(t.Context(), n, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// waitingStore is a store whose readers wait.
type waitingStore struct {
	Store
	asked chan struct{}
	wait  chan struct{}
}

func (s *waitingStore) Get(ctx context.Context, _ Owner, key string) (Item, error) {
	close(s.asked)
	select {
	case <-s.wait:
		return Item{}, host.Errorf(host.NotFound, "no %s", key)
	case <-ctx.Done():
		return Item{}, ctx.Err()
	}
}

// A tool in Go and one in a sandbox run at one time and change one place: the one
// that is done last is told so.
func TestAGuestToolThatWasOvertaken(t *testing.T) {
	store := &waitingStore{asked: make(chan struct{}), wait: make(chan struct{})}
	rt := startRuntime(t, &Options{Store: store})
	const request, output = `{"key":"k"}`, `{"content":1,"state":[{"op":"replace","path":"/n","value":2}]}`
	p, err := rt.Load(t.Context(), "p", handWritten(t, fmt.Sprintf(`
		custom agenthost.manifest %q
		data 100 "kv.get"
		data 200 %q
		data 300 %q
		---
		i32.const 100 i32.const 6 i32.const 200 i32.const %d call $host_call drop
		i32.const 300 i32.const %d call $output_write
		i32.const 0`, `{"abi":1,"name":"p","tools":[{"name":"slow","description":"","parameters":{}}],"permissions":{"state":"write","kv":"read"}}`, request, output, len(request), len(output))),
		&LoadOptions{Granted: Permissions{State: Write, KV: Read}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	tools, err := p.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := host.NewRawTool(llm.ToolSpec{Name: "quick"}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		<-store.asked
		defer close(store.wait)
		return &host.ToolOutput{}, call.State.Set("/n", 3)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := networkAgent(t, "a", host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("slow", "{}").Call("quick", "{}")), Tools: append(tools, quick), MaxRounds: 1})
	r := runOne(t, a, nil)
	if string(r.State) != `{"n":3}` {
		t.Errorf("the state is %s, want what quick has made of it", r.State)
	}
	const want = `The state at "/n" was changed by another call while this one ran; call the tool again.`
	if res := r.Results[0].ToolResults()[0]; !res.IsError || res.ContentText() != want {
		t.Errorf("slow's result is %s, want %q", res.Content, want)
	}
}

// One network with a guest's router and tools serves any number of runs of
// several tenants, which share nothing.
func TestRunsOfGuestsAtOnceShareNothing(t *testing.T) {
	rt := startRuntime(t, nil)
	routers := loadConstant(t, rt, everyKind, map[abi.Export]answer{abi.Route: {`{"next":["a"]}`, 0}})
	tools := loadConstant(t, rt, everyKind, map[abi.Export]answer{abi.Tool: {`{"content":1,"state":[{"op":"add","path":"/list/-","value":1}],"schedule":["b"]}`, 0}})
	router, err := routers.Router("", nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := tools.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		return hosttest.Call("t", "{}").Call("t", "{ }")
	})
	a := networkAgent(t, "a", host.AgentOptions{Model: model, Tools: list, MaxRounds: 1})
	n, err := host.NewNetwork("n", []*host.Agent{a, networkAgent(t, "b", host.AgentOptions{})}, &host.NetworkOptions{
		Router: router, MaxIterations: 4, State: map[string][]string{"list": {}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			tenant := fmt.Sprint("tenant", i%4)
			r, err := h.Run(t.Context(), n, &host.Request{Tenant: tenant, Text: "go", State: map[string]string{"me": tenant}})
			if err != nil {
				t.Error(err)
				return
			}
			// a, then what its two calls scheduled; the router adds an a after each.
			var ran []string
			for _, res := range r.Results {
				ran = append(ran, res.Agent)
			}
			if !slices.Equal(ran, []string{"a", "b", "b", "a"}) || r.FinishReason != chat.FinishMaxIterations {
				t.Errorf("%q ran and the run ended with %q", ran, r.FinishReason)
			}
			if want := `{"list":[1,1,1,1],"me":"` + tenant + `"}`; string(r.State) != want {
				t.Errorf("the state is %s, want %s", r.State, want)
			}
		})
	}
	wg.Wait()
}
