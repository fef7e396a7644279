package pdktest_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// operations is a plugin with one tool that runs the operation it is told to.
func operations() *pdk.Plugin {
	var p pdk.Plugin
	p.Tool("call", "", "{}", func(c *pdk.Call) error {
		response, err := pdk.HostCall(c.String("op"), c.Arg("request"))
		if err != nil {
			return err
		}
		c.Return(response)
		return nil
	})
	return &p
}

func call(op, request string) pdk.Raw {
	return pdk.Raw(`{"op":"` + op + `","request":` + request + `}`)
}

func TestStateOperations(t *testing.T) {
	host := pdktest.Host{Plugin: operations(), State: `{"a":{"b":[1,2]},"n":9007199254740993,"":0,"x/y~z":5}`}
	for _, c := range []struct {
		op, request, want string
	}{
		{"state.get", `{}`, `{"value":{"":0,"a":{"b":[1,2]},"n":9007199254740993,"x/y~z":5},"revision":0}`},
		{"state.get", `{"path":"/a/b/1"}`, `{"value":2,"revision":0}`},
		{"state.get", `{"path":"/"}`, `{"value":0,"revision":0}`},
		{"state.get", `{"path":"/x~1y~0z"}`, `{"value":5,"revision":0}`},
		{"state.patch", `{"patch":[{"op":"add","path":"/a/b/0","value":0},{"op":"add","path":"/a/b/-","value":3},{"op":"test","path":"/a/b","value":[0,1,2,3]}]}`, `{"revision":1}`},
		{"state.patch", `{"patch":[{"op":"move","from":"/a/b","path":"/c"},{"op":"copy","from":"/c/0","path":"/d"},{"op":"replace","path":"/c/1","value":"x"}],"revision":1}`, `{"revision":2}`},
		{"state.patch", `{"patch":[{"op":"remove","path":"/c/0"},{"op":"remove","path":"/n"},{"op":"remove","path":"/a"},{"op":"remove","path":"/"},{"op":"remove","path":"/x~1y~0z"}]}`, `{"revision":3}`},
		{"state.get", `{"path":""}`, `{"value":{"c":["x",2,3],"d":0},"revision":3}`},
		{"state.patch", `{"patch":[{"op":"replace","path":"","value":{"new":true}}]}`, `{"revision":4}`},
	} {
		if got := host.Tool(t, "call", call(c.op, c.request)); string(got) != c.want {
			t.Errorf("%s %s\ngot  %s\nwant %s", c.op, c.request, got, c.want)
		}
	}
	if host.State != `{"new":true}` {
		t.Errorf("state is %s", host.State)
	}
}

func TestFailedPatchChangesNothing(t *testing.T) {
	host := pdktest.Host{Plugin: operations(), State: `{"a":[1]}`, Revision: 5}
	for request, want := range map[string]pdk.Code{
		`{"patch":[{"op":"add","path":"/b","value":1},{"op":"remove","path":"/nowhere"}]}`:   pdk.NotFound,
		`{"patch":[{"op":"add","path":"/b","value":1},{"op":"test","path":"/a","value":2}]}`: pdk.Conflict,
		`{"patch":[{"op":"add","path":"/b","value":1}],"revision":4}`:                        pdk.Conflict,
		`{"patch":[{"op":"add","path":"/a/2","value":1}]}`:                                   pdk.NotFound,
		`{"patch":[{"op":"replace","path":"/a/-","value":1}]}`:                               pdk.NotFound,
		`{"patch":[{"op":"remove","path":"/a/0"},{"op":"add","path":"/a/0/x","value":1}]}`:   pdk.NotFound,
		`{"patch":[{"op":"replace","path":"/nowhere","value":1}]}`:                           pdk.NotFound,
		`{"patch":[{"op":"swap","path":"/a"}]}`:                                              pdk.InvalidArgument,
		`{"patch":[{"op":"remove","path":"/a/0"},{"op":"remove","path":"/a/0"}]}`:            pdk.NotFound,
		`{"patch":[{"op":"move","from":"/nowhere","path":"/a"}]}`:                            pdk.NotFound,
		`{"patch":[{"op":"add","path":"/a/x","value":1}]}`:                                   pdk.NotFound,
		`{"patch":[{"op":"remove","path":"/a/0/deeper"}]}`:                                   pdk.NotFound,
	} {
		if got := host.ToolError(t, "call", call("state.patch", request)); got.Code != want {
			t.Errorf("%s: %v, want %s", request, got, want)
		}
	}
	if host.State != `{"a":[1]}` || host.Revision != 5 {
		t.Errorf("state is %s at %d", host.State, host.Revision)
	}
	if got := host.ToolError(t, "call", call("state.get", `{"path":"/a/1"}`)); got.Code != pdk.NotFound {
		t.Errorf("state.get of nowhere: %v", got)
	}
}

func TestToolStateIsApplied(t *testing.T) {
	var p pdk.Plugin
	p.Tool("count", "", "", func(c *pdk.Call) error {
		n, _ := c.State.Get("n").Int()
		var w pdk.Writer
		c.Patch(pdk.Set("/n", w.Int(n+1).Value()))
		return nil
	})
	host := pdktest.Host{Plugin: &p}
	for range 3 {
		host.Tool(t, "count", "{}")
	}
	if host.State != `{"n":3}` || host.Revision != 3 {
		t.Errorf("state is %s at %d", host.State, host.Revision)
	}
}

func TestOtherOperations(t *testing.T) {
	host := pdktest.Host{
		Plugin:   operations(),
		Messages: `[{"id":"1","role":"user","parts":[],"x":1.0},{"id":"2","role":"assistant","parts":[]}]`,
		Ops: map[string]func(pdk.Raw) (pdk.Raw, *pdk.Error){
			"kv.get": func(request pdk.Raw) (pdk.Raw, *pdk.Error) { return `{"value":` + request.Get("key") + `}`, nil },
		},
	}
	for _, c := range []struct{ op, request, want string }{
		{"messages.get", `{"indices":[1,0,1]}`, `{"messages":[{"id":"2","role":"assistant","parts":[]},{"id":"1","role":"user","parts":[],"x":1.0},{"id":"2","role":"assistant","parts":[]}]}`},
		{"tokens.count", `{"texts":["abcde",""]}`, `{"tokens":[2,0],"encoding":"o200k_base","exact":true}`},
		{"tokens.count", `{"texts":[],"encoding":"cl100k_base"}`, `{"tokens":[],"encoding":"cl100k_base","exact":true}`},
		{"emit", `{"kind":"k","data":[1]}`, `{}`},
		{"step.begin", `{"name":"a"}`, `{"done":false}`},
		{"step.end", `{"name":"a","result":[1]}`, `{}`},
		{"step.begin", `{"name":"a"}`, `{"done":true,"result":[1]}`},
		{"kv.get", `{"key":"a"}`, `{"value":"a"}`},
	} {
		if got := host.Tool(t, "call", call(c.op, c.request)); string(got) != c.want {
			t.Errorf("%s %s\ngot  %s\nwant %s", c.op, c.request, got, c.want)
		}
	}
	for op, want := range map[string]pdk.Code{"http.fetch": pdk.Unimplemented, "messages.get": pdk.InvalidArgument, "tokens.count": pdk.InvalidArgument} {
		if got := host.ToolError(t, "call", call(op, `{"indices":[2],"texts":[1]}`)); got.Code != want {
			t.Errorf("%s: %v, want %s", op, got, want)
		}
	}
	if len(host.Events) != 1 || host.Events[0] != (pdktest.Event{Kind: "k", Data: "[1]"}) {
		t.Errorf("events %v", host.Events)
	}
	if len(host.Calls) != 11 {
		t.Errorf("%d operations were counted: %v", len(host.Calls), host.Calls)
	}
}

func TestOutlineProcessorReadsMessages(t *testing.T) {
	var p pdk.Plugin
	p.OutlineProcessor("peek", func(c *pdk.Process) error {
		last := c.Outline().Len() - 1
		messages, err := pdk.MessagesGet(last)
		if err != nil {
			return err
		}
		count, err := pdk.TokensCount("", messages[0].Text(), "")
		if err != nil {
			return err
		}
		if count.Tokens[0] != c.Outline().Tokens[last] || count.Tokens[1] != 0 {
			return pdk.Errorf(pdk.Internal, "counted %d, the outline says %d", count.Tokens[0], c.Outline().Tokens[last])
		}
		m := messages[0]
		m.Parts[0].Text += "!"
		c.Replace(last, m)
		c.Report(`{"exact":true}`)
		return nil
	}).Tokens.Model = true
	host := pdktest.Host{
		Plugin:   &p,
		Tokens:   func(text string) int { return len(strings.Fields(text)) },
		Messages: `[{"id":"1","role":"user","parts":[]},{"id":"2","role":"user","parts":[{"type":"text","text":"a b c"}]}]`,
	}
	done := host.Process(t, "peek", "")
	if got := done.Messages[1].Text(); got != "a b c!" {
		t.Errorf("text %q", got)
	}
	if done.Report != `{"exact":true}` {
		t.Errorf("report %s", done.Report)
	}
}

func TestOutlineWithoutTokens(t *testing.T) {
	var p pdk.Plugin
	p.OutlineProcessor("o", func(c *pdk.Process) error {
		if c.Outline().Tokens != nil || c.Outline().Encoding != "" {
			return pdk.Errorf(pdk.Internal, "tokens nobody asked for")
		}
		return nil
	})
	host := pdktest.Host{Plugin: &p, Messages: `[{"id":"1","role":"user","parts":[]}]`}
	host.Process(t, "o", "")
}

func TestHostsInParallel(t *testing.T) {
	p := operations()
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			host := pdktest.Host{Plugin: p}
			for i := 1; i <= 50; i++ {
				host.Tool(t, "call", call("emit", `{"kind":"k","data":1}`))
				if len(host.Events) != i {
					t.Fatalf("%d events after %d calls", len(host.Events), i)
				}
			}
		})
	}
}

func TestUnknownErrorCode(t *testing.T) {
	var p pdk.Plugin
	p.Tool("f", "", "", func(*pdk.Call) error { return &pdk.Error{Code: "on_holiday", Message: "m"} })
	host := pdktest.Host{Plugin: &p}
	if got := host.ToolError(t, "f", "{}"); got.Code != pdk.Internal || !strings.Contains(got.Message, "on_holiday") {
		t.Errorf("%v, want internal, naming the code", got)
	}
}
