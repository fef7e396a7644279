package host_test

// Scenario: models, routers and tools answer wrongly, and the run ends or continues as
// documented, with a conversation that can be read back.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// Wrong arguments of tools are in tool_bad_input_test.go, faults of adapters in
// history_bad_test.go, panics in run_events_panic_test.go, guests in host/plugin.

// A model that answers badly is told, or its answer is made fit to be kept: what
// is stored can be read back, and sent again, always.
func TestBadAnswersOfModels(t *testing.T) {
	call := func(id, name, arguments string) *host.ToolCall {
		return &host.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
	}
	calls := func(parts ...host.Part) hosttest.Reply { return hosttest.Reply{Parts: parts} }
	done := hosttest.Say("done")
	const work, unknown = "work: worked", `no: There is no tool "no"; the tools are: work.`
	const badJSON = "work: the arguments are not valid JSON"
	for name, c := range map[string]struct {
		replies []hosttest.Reply
		want    []string // the results, in order
		text    string
	}{
		"an unknown tool":               {[]hosttest.Reply{calls(call("1", "no", "{}")), done}, []string{unknown}, "done"},
		"an unknown tool beside one":    {[]hosttest.Reply{calls(call("1", "no", "{}"), call("2", "work", "{}")), done}, []string{unknown, work}, "done"},
		"an unknown tool, for ever":     {[]hosttest.Reply{calls(call("1", "no", "{}")), calls(call("2", "no", "{}")), calls(call("3", "no", "{}"))}, []string{unknown, unknown, unknown}, ""},
		"a tool without a name":         {[]hosttest.Reply{calls(call("1", "", "{}")), done}, []string{`unnamed: There is no tool "unnamed"; the tools are: work.`}, "done"},
		"one call twice":                {[]hosttest.Reply{calls(call("1", "work", "{}"), call("1", "work", "{}")), done}, []string{work}, "done"},
		"two calls of one id":           {[]hosttest.Reply{calls(call("1", "work", `{"n":1}`), call("1", "work", `{"n":2}`)), done}, []string{work, work}, "done"},
		"the id of an earlier answer":   {[]hosttest.Reply{calls(call("1", "work", "{}")), calls(call("1", "work", "{}")), done}, []string{work, work}, "done"},
		"no ids at all":                 {[]hosttest.Reply{calls(call("", "work", "{}"), call("", "work", "{}")), done}, []string{work, work}, "done"},
		"half a JSON":                   {[]hosttest.Reply{calls(call("1", "work", `{"n":`)), done}, []string{badJSON}, "done"},
		"no JSON":                       {[]hosttest.Reply{calls(call("1", "work", `n = 1`)), done}, []string{badJSON}, "done"},
		"no arguments":                  {[]hosttest.Reply{calls(call("1", "work", "")), done}, []string{work}, "done"},
		"nothing at all":                {[]hosttest.Reply{calls()}, nil, ""},
		"an empty text":                 {[]hosttest.Reply{calls(&host.Text{})}, nil, ""},
		"a result of a tool":            {[]hosttest.Reply{calls(&host.ToolResult{ID: "1", Name: "work", Content: json.RawMessage(`"mine"`)}, &host.Text{Text: "done"})}, nil, "done"},
		"data that is no JSON":          {[]hosttest.Reply{calls(&host.Data{Value: json.RawMessage("{")}, &host.Text{Text: "done"})}, nil, "done"},
		"a call, and says that it ends": {[]hosttest.Reply{{Parts: []host.Part{call("1", "work", "{}")}, FinishReason: chat.FinishStop}, done}, []string{work}, "done"},
		"no call, and says that it has": {[]hosttest.Reply{{Text: "done", FinishReason: chat.FinishToolCalls}}, nil, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			tool, err := host.NewRawTool(llm.ToolSpec{Name: "work", Parameters: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
				return &host.ToolOutput{Content: json.RawMessage(`"worked"`)}, nil
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			history := hosttest.NewHistory()
			agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(c.replies...), Tools: []*host.Tool{tool}, MaxRounds: 3, History: newHistory(t, history)})
			r, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, res := range r.Results[0].ToolResults() {
				got = append(got, res.Name+": "+res.ContentText())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if r.Text() != c.text {
				t.Errorf("the run ends with %q, want %q", r.Text(), c.text)
			}
			canBeReadBack(t, history.Messages("", "T"))
		})
	}
}

// canBeReadBack holds messages to what providers want of a conversation, and to
// coming back from JSON.
func canBeReadBack(t testing.TB, messages []*host.Message) {
	t.Helper()
	var raw []byte
	for _, m := range messages {
		raw = append(m.AppendJSON(append(raw, ',')), '\n')
	}
	back, err := chat.DecodeMessages([]byte("[" + strings.TrimPrefix(string(raw), ",") + "]"))
	if err != nil || len(back) != len(messages) {
		t.Fatalf("what is stored does not come back: %v\n%s", err, raw)
	}
	open := map[string]bool{}
	for _, m := range back {
		for _, c := range m.ToolCalls() {
			if open[c.ID] {
				t.Errorf("two calls are open with the id %s", c.ID)
			}
			open[c.ID] = true
		}
		for _, res := range m.ToolResults() {
			if !open[res.ID] {
				t.Errorf("result %s follows no call", res.ID)
			}
			delete(open, res.ID)
		}
	}
	if len(open) > 0 {
		t.Errorf("calls without a result: %v", open)
	}
}

// A model that routes is told what is wrong with its answer, and asked again a
// few times.
func TestBadAnswersOfRoutingModels(t *testing.T) {
	choose := func(arguments string) hosttest.Reply { return hosttest.Call("select_agent", arguments) }
	done := hosttest.Call("done", "{}")
	const strangers = `There is no agent "z"; choose one of: a.`
	for name, c := range map[string]struct {
		replies []hosttest.Reply
		ran     []string
		told    string // what it is told of its first answer
		code    host.Code
	}{
		"an invented name":         {[]hosttest.Reply{choose(`{"name":"z"}`), choose(`{"name":"a"}`), done}, []string{"a"}, strangers, ""},
		"invented names for ever":  {[]hosttest.Reply{choose(`{"name":"z"}`), choose(`{"name":"y"}`), choose(`{"name":"x"}`)}, nil, strangers, host.Unavailable},
		"a name in other letters":  {[]hosttest.Reply{choose(`{"name":"A"}`), choose(`{"name":"a"}`), done}, []string{"a"}, `There is no agent "A"; choose one of: a.`, ""},
		"no name":                  {[]hosttest.Reply{choose(`{}`), choose(`{"name":"a"}`), done}, []string{"a"}, `There is no agent ""; choose one of: a.`, ""},
		"a name that is a number":  {[]hosttest.Reply{choose(`{"name":7}`), choose(`{"name":"a"}`), done}, []string{"a"}, "The arguments cannot be read; name must be a string.", ""},
		"half a JSON":              {[]hosttest.Reply{choose(`{"name":"a`), choose(`{"name":"a"}`), done}, []string{"a"}, "The arguments cannot be read; name must be a string.", ""},
		"an invented tool":         {[]hosttest.Reply{hosttest.Call("stop", "{}"), done}, nil, `There is no tool "stop"; call select_agent or done.`, ""},
		"two choices":              {[]hosttest.Reply{choose(`{"name":"a"}`).Call("done", "{}"), done}, []string{"a"}, "", ""},
		"two choices, one is none": {[]hosttest.Reply{choose(`{"name":"z"}`).Call("select_agent", `{"name":"a"}`), done}, nil, strangers, ""},
		"text":                     {[]hosttest.Reply{hosttest.Say("a, I think")}, nil, "", ""},
		"nothing at all":           {[]hosttest.Reply{{}}, nil, "", ""},
		"done, with garbage":       {[]hosttest.Reply{hosttest.Call("done", `{"summary":`)}, nil, "", ""},
		"an error":                 {[]hosttest.Reply{hosttest.Fail(host.Errorf(host.Unavailable, "down"))}, nil, "", host.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			model := hosttest.NewModel(c.replies...)
			n := newNetwork(t, []*host.Agent{agentNamed(t, "a", "is a")}, &host.NetworkOptions{Model: model})
			r, err := newHost(t, nil).Run(t.Context(), n, &host.Request{Text: "hi"})
			if host.CodeOf(err) != c.code {
				t.Errorf("Run: %v, want code %q", err, c.code)
			}
			if diff := cmp.Diff(c.ran, ranIn(r)); diff != "" {
				t.Errorf("who ran (-want +got):\n%s", diff)
			}
			if model.Left() > 0 {
				t.Errorf("the model was not asked %d times", model.Left())
			}
			if c.told == "" {
				return
			}
			messages := model.Requests()[1].Messages
			for _, m := range messages[len(messages)-len((&host.Message{Parts: asParts(c.replies[0].Calls)}).ToolCalls()):] {
				if res := m.ToolResults(); len(res) != 1 || !res[0].IsError || res[0].ContentText() != c.told {
					t.Errorf("it is told %s, want %q", encode(m), c.told)
				}
			}
		})
	}
}

func asParts(calls []*host.ToolCall) []host.Part {
	parts := make([]host.Part, len(calls))
	for i, c := range calls {
		parts[i] = c
	}
	return parts
}

// Whatever a router in code does, the run ends, and says what it was.
func TestBadRouters(t *testing.T) {
	does := func(fn func(ctx context.Context, req *host.RouteRequest) (*host.Route, error)) host.Router {
		return host.RouterFunc("bad", fn)
	}
	says := func(r *host.Route) host.Router {
		return does(func(context.Context, *host.RouteRequest) (*host.Route, error) { return r, nil })
	}
	for name, c := range map[string]struct {
		router host.Router
		ran    int
		end    host.FinishReason
		code   host.Code
		says   string
	}{
		"names nobody":           {says(nil), 0, chat.FinishStop, "", ""},
		"names an empty list":    {says(&host.Route{Next: []string{}}), 0, chat.FinishStop, "", ""},
		"names a stranger":       {says(host.Next("z")), 0, chat.FinishFailed, host.InvalidArgument, `router "bad" names the agent "z", which network "n" does not have; its agents are: a`},
		"names a stranger, late": {says(host.Next("a", "z")), 0, chat.FinishFailed, host.InvalidArgument, `the agent "z"`},
		"names an empty name":    {says(host.Next("")), 0, chat.FinishFailed, host.InvalidArgument, `the agent ""`},
		"goes on for ever":       {says(host.Next("a")), 3, chat.FinishMaxIterations, "", ""},
		"fills the stack":        {says(host.Next(strings.Split(strings.Repeat("a", 33), "")...)), 1, chat.FinishFailed, host.ResourceExhausted, "more than 64 agents"},
		"delegates to itself":    {says(&host.Route{Delegate: "bad"}), 0, chat.FinishFailed, host.InvalidArgument, `delegates to "bad"`},
		"fails": {does(func(context.Context, *host.RouteRequest) (*host.Route, error) { return nil, fmt.Errorf("no rules") }),
			0, chat.FinishFailed, host.Internal, `router "bad": no rules`},
		"fails with a code": {does(func(context.Context, *host.RouteRequest) (*host.Route, error) {
			return nil, host.Errorf(host.NotFound, "no rules")
		}), 0, chat.FinishFailed, host.NotFound, `router "bad": no rules`},
		"panics": {does(func(context.Context, *host.RouteRequest) (*host.Route, error) { panic("no rules") }),
			0, chat.FinishFailed, host.Internal, `router "bad": it panicked: no rules`},
		"never returns": {does(func(ctx context.Context, _ *host.RouteRequest) (*host.Route, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
			0, chat.FinishFailed, host.DeadlineExceeded, "limit RunTimeout of 1m0s"},
		"spoils its request": {does(func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
			if req.CallCount > 0 && (req.Last == nil || req.Last.Agent != "a" || len(req.Results) != req.CallCount || req.Agents[0].Name != "a") {
				return nil, fmt.Errorf("it sees its own writing: %+v", req)
			}
			for i := range req.Results {
				req.Results[i] = nil
			}
			req.Agents[0].Name, req.Last = "z", nil
			clear(req.Stack)
			clear(req.Messages)
			return host.Next("a"), nil
		}), 3, chat.FinishMaxIterations, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := host.NewAgent("a", &host.AgentOptions{Model: answering("x")})
				if err != nil {
					t.Fatal(err)
				}
				n := newNetwork(t, []*host.Agent{a}, &host.NetworkOptions{Router: c.router, MaxIterations: 3})
				r, err := newHost(t, &host.Options{Limits: host.Limits{RunTimeout: time.Minute}}).Run(t.Context(), n, &host.Request{Text: "hi"})
				if host.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("Run: %v; want code %q and %q", err, c.code, c.says)
				}
				if len(r.Results) != c.ran || r.FinishReason != c.end || slices.Contains(r.Results, nil) {
					t.Errorf("%d agents ran and the run ended with %q, want %d and %q", len(r.Results), r.FinishReason, c.ran, c.end)
				}
			})
		})
	}
}

// A patch of the state that does not apply fails its call and changes nothing,
// whichever way it takes.
func TestBadPatchesOfTools(t *testing.T) {
	for name, c := range map[string]struct {
		patch []host.PatchOp
		says  string
	}{
		"of what is not there":   {ops(t, `replace /x 1`), `patch operation 0 (replace "/x"): there is nothing`},
		"in part":                {ops(t, `replace /n 2`, `remove /x`), `patch operation 1 (remove "/x"): there is nothing`},
		"a test that fails":      {ops(t, `replace /n 2`, `test /n 1`), `the value there is another`},
		"an unknown operation":   {[]host.PatchOp{{Op: "increment", Path: "/n"}}, "no such operation"},
		"a value that is none":   {[]host.PatchOp{{Op: "add", Path: "/x", Value: json.RawMessage("{")}}, "value"},
		"a pointer that is none": {ops(t, `replace n 1`), "does not start with /"},
		"past the end":           {ops(t, `add /l/7 1`), "index 7 is past the end"},
		"below a number":         {ops(t, `add /n/x 1`), "its parent is a number"},
		"into itself":            {ops(t, `move /o /o/x`), "into itself"},
		"of the whole":           {ops(t, `replace  7`), "not a JSON object"},
		"without end":            {slices.Repeat(ops(t, `add /l/- 1`), 10_001), "more than 10000"},
		"too large":              {[]host.PatchOp{{Op: "add", Path: "/x", Value: json.RawMessage(`"` + strings.Repeat("x", host.DefaultLimits().StateBytes) + `"`)}}, "limit StateBytes of 262144"},
	} {
		t.Run(name, func(t *testing.T) {
			returns, err := host.NewRawTool(llm.ToolSpec{Name: "returns"}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
				return &host.ToolOutput{State: c.patch, Schedule: []string{"clerk"}, Artifacts: []host.Artifact{{Name: "a"}}}, nil
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			patches := tool("patches", func(_ context.Context, call *host.Call) (string, error) { return "", call.State.Patch(c.patch) })
			agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("returns", "{}").Call("patches", "{}")), Tools: []*host.Tool{returns, patches}, MaxRounds: 1})
			const state = `{"l":[1],"n":1,"o":{}}`
			r, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi", State: json.RawMessage(state)})
			if err != nil {
				t.Fatal(err)
			}
			if string(r.State) != state || len(r.Artifacts) != 0 || len(r.Results) != 1 {
				t.Errorf("it leaves the state %s, %d artifacts and %d runs of agents", r.State, len(r.Artifacts), len(r.Results))
			}
			for _, res := range r.Results[0].ToolResults() {
				if !res.IsError || !strings.Contains(res.ContentText(), c.says) {
					t.Errorf("%s is told %s, want %q", res.Name, res.Content, c.says)
				}
			}
		})
	}
}
