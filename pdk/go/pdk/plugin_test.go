package pdk_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

func TestCallArguments(t *testing.T) {
	var p pdk.Plugin
	p.Tool("t", "", parametersOf("a", "b", "c", "d", "e", "f"), func(c *pdk.Call) error {
		w := c.JSON().BeginArray().Str(c.String("a")).Int(int64(c.Int("b"))).Float(c.Float("b")).Float(c.Float("c")).Bool(c.Bool("d"))
		for _, name := range []string{"e", "f"} { // null and absent
			w.Str(c.String(name)).Int(int64(c.Int(name))).Float(c.Float(name)).Bool(c.Bool(name))
		}
		w.EndArray()
		return nil
	})
	host := pdktest.Host{Plugin: &p}
	got := host.Tool(t, "t", `{"a":"x\n","b":-7,"c":2.5,"d":true,"e":null}`)
	const want = `["x\n",-7,-7,2.5,true,"",0,0,false,"",0,0,false]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLastAnswerCounts(t *testing.T) {
	var p pdk.Plugin
	p.Tool("t", "", "", func(c *pdk.Call) error {
		c.Text("first")
		c.Return(`{"second":true}`)
		return nil
	})
	p.Tool("silent", "", "", func(*pdk.Call) error { return nil })
	host := pdktest.Host{Plugin: &p}
	if got := host.Tool(t, "t", "{}"); got != `{"second":true}` {
		t.Errorf("content %s, want the last one", got)
	}
	if got := host.Tool(t, "silent", "{}"); got != "null" {
		t.Errorf("content %s, want null from the tool that said nothing", got)
	}
}

func TestAnswered(t *testing.T) {
	var p pdk.Plugin
	p.Tool("t", "", "", func(c *pdk.Call) error {
		answer, ok := c.Answered()
		if !ok {
			c.Interrupt("sure?", "")
			return nil
		}
		c.Return(answer)
		return nil
	})
	host := pdktest.Host{Plugin: &p}
	if got := host.Run(t, "tool", `{"tool":"t"}`); got != `{"interrupt":{"reason":"sure?"}}` {
		t.Errorf("first: %s", got)
	}
	if got := host.Run(t, "tool", `{"tool":"t","resumed":[{"interrupt_id":"i","answer":{"yes":1}}]}`); got != `{"content":{"yes":1}}` {
		t.Errorf("resumed: %s", got)
	}
}

func TestUnknownNames(t *testing.T) {
	host := pdktest.Host{Plugin: fullPlugin()}
	for export, input := range map[string]pdk.Raw{
		"tool":    `{"tool":"nope"}`,
		"process": `{"processor":"nope","messages":[]}`,
		"route":   `{"router":"nope"}`,
		"provide": `{"provider":"nope"}`,
		"observe": `{"provider":"nope"}`,
	} {
		_, err := host.Call(export, input)
		if err == nil || err.Code != pdk.NotFound || !strings.Contains(err.Message, `"nope"`) {
			t.Errorf("%s(%s): %v, want not_found naming it", export, input, err)
		}
	}
}

func TestNothingRegistered(t *testing.T) {
	host := pdktest.Host{Plugin: &pdk.Plugin{}}
	for _, export := range []string{"tool", "process", "route", "provide", "observe", "dance"} {
		if _, err := host.Call(export, `{}`); err == nil || err.Code != pdk.Unimplemented {
			t.Errorf("%s: %v, want unimplemented", export, err)
		}
	}
	if got := host.Run(t, "describe", ""); got != `{"abi":1,"name":"","permissions":{}}` {
		t.Errorf("describe: %s", got)
	}
}

func TestRegisteredTwice(t *testing.T) {
	for name, register := range map[string]func(p *pdk.Plugin){
		"tool":      func(p *pdk.Plugin) { p.Tool("x", "", "", nil) },
		"processor": func(p *pdk.Plugin) { p.Processor("x", nil) },
		"outline":   func(p *pdk.Plugin) { p.OutlineProcessor("x", nil) },
		"router":    func(p *pdk.Plugin) { p.Router("x", nil) },
		"provider":  func(p *pdk.Plugin) { p.Provider("x", func(*pdk.Provide) error { return nil }) },
		"observer":  func(p *pdk.Plugin) { p.Observer("x", func(*pdk.Observe) error { return nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			var p pdk.Plugin
			register(&p)
			defer func() {
				if got, ok := recover().(string); !ok || !strings.Contains(got, "x is registered twice") {
					t.Errorf("panic %q, want one that says what is registered twice", got)
				}
			}()
			register(&p)
		})
	}
}

func TestProviderWithoutObserver(t *testing.T) {
	var p pdk.Plugin
	p.Provider("a", func(*pdk.Provide) error { return nil })
	p.Observer("b", func(*pdk.Observe) error { return nil })
	host := pdktest.Host{Plugin: &p}
	if got := host.Run(t, "observe", `{"provider":"a","messages":[]}`); got != `{}` {
		t.Errorf("observe of a provider that does not: %s", got)
	}
	if _, err := host.Call("provide", `{"provider":"b","messages":[]}`); err == nil || err.Code != pdk.NotFound {
		t.Errorf("provide of an observer that does not: %v, want not_found", err)
	}
}

func TestMapSendsBackOnlyWhatChanged(t *testing.T) {
	var p pdk.Plugin
	p.Processor("mask", func(c *pdk.Process) error {
		return c.Map(func(m *pdk.Message) error {
			for i := range m.Parts {
				m.Parts[i].Text = strings.ReplaceAll(m.Parts[i].Text, "secret", "***")
			}
			if m.Agent == "gone" {
				m.Parts = nil
			}
			return nil
		})
	})
	host := pdktest.Host{Plugin: &p, Messages: `[
		{"id":"1","role":"user","parts":[{"type":"text","text":"hello"}],"x":9007199254740993},
		{"id":"2","role":"user","parts":[{"type":"text","text":"a secret"},{"type":"odd","k":1}],"x":9007199254740993},
		{"id":"3","role":"assistant","agent":"gone","parts":[{"type":"text","text":"bye"}]},
		{"id":"4","role":"assistant","parts":[]}]`}
	done := host.Process(t, "mask", "")
	const want = `{"edits":[{"replace":{"at":1,"message":{"id":"2","role":"user","parts":[{"type":"text","text":"a ***"},{"type":"odd","k":1}],"x":9007199254740993}}},{"drop":[2,3]}]}`
	if done.Output != want {
		t.Errorf("got  %s\nwant %s", done.Output, want)
	}
	if got := ids(done.Messages); !slices.Equal(got, []string{"1", "2", "4"}) {
		t.Errorf("left are %q", got)
	}
}

func TestMapStopsAtAnError(t *testing.T) {
	var p pdk.Plugin
	p.Processor("strict", func(c *pdk.Process) error {
		return c.Map(func(m *pdk.Message) error { return pdk.Errorf(pdk.FailedPrecondition, "message %s", m.ID) })
	})
	host := pdktest.Host{Plugin: &p, Messages: `[{"id":"1","role":"user","parts":[]},{"id":"2","role":"user","parts":[]}]`}
	if err := host.ProcessError(t, "strict", ""); err.Code != pdk.FailedPrecondition || err.Message != "message 1" {
		t.Errorf("error %v, want that of the first message", err)
	}
}

func TestMapStringsReachesEveryText(t *testing.T) {
	var p pdk.Plugin
	p.Processor("mask", func(c *pdk.Process) error {
		c.MapStrings(func(text string) string { return strings.ReplaceAll(text, "4111", "****") })
		return nil
	})
	host := pdktest.Host{Plugin: &p, Messages: `[{"id":"4111","role":"assistant","parts":[
		{"type":"text","text":"4111"},{"type":"reasoning","text":"4111","signature":"4111"},
		{"type":"tool_call","id":"4111","name":"4111","arguments":{"4111":"4111","n":4111}},
		{"type":"tool_result","id":"4111","name":"4111","content":["4111",{"deep":"x4111\ny"}]},
		{"type":"media","media_type":"a/b","url":"4111"},
		{"type":"data","value":"4111"},
		{"type":"quote4111","quote":"4111","n":4111}]}]`}
	done := host.Process(t, "mask", "")
	requireSame(t, done.Messages[0].Raw(), `{"id":"4111","role":"assistant","parts":[
		{"type":"text","text":"****"},{"type":"reasoning","text":"****","signature":"4111"},
		{"type":"tool_call","id":"4111","name":"4111","arguments":{"4111":"****","n":4111}},
		{"type":"tool_result","id":"4111","name":"4111","content":["****",{"deep":"x****\ny"}]},
		{"type":"media","media_type":"a/b","url":"4111"},
		{"type":"data","value":"****"},
		{"type":"quote4111","quote":"****","n":4111}]}`)
}

func TestDropsMerge(t *testing.T) {
	var e pdk.Edits
	for i := range 5 {
		e.Drop(i, i+1)
	}
	e.Drop(7, 7)
	e.Drop(8, 9)
	e.DropPart(6, 0)
	e.Drop(9, 10)
	var got []string
	for _, one := range e.List() {
		got = append(got, fmt.Sprint(one.Kind, one.At, one.To))
	}
	if want := []string{"drop 0 5", "drop 8 9", "drop_part 6 0", "drop 9 10"}; !slices.Equal(got, want) {
		t.Errorf("edits %q, want %q", got, want)
	}
}

func TestWrongShapeIsRefused(t *testing.T) {
	called := 0
	count := func(*pdk.Process) error { called++; return nil }
	var p pdk.Plugin
	p.Processor("m", count)
	p.OutlineProcessor("o", count)
	host := pdktest.Host{Plugin: &p}
	const outline = `"outline":{"count":0,"roles":"","bytes":[],"chars":[],"parts":[],"tools":[]}`
	for _, input := range []pdk.Raw{
		`{"processor":"m",` + outline + `}`, `{"processor":"o","messages":[]}`, `{"processor":"m"}`, `{"processor":"o"}`,
		`{"processor":"m","messages":[],` + outline + `}`, `{"processor":"o","messages":[],` + outline + `}`,
	} {
		if _, err := host.Call("process", input); err == nil || err.Code != pdk.InvalidArgument {
			t.Errorf("%s: %v, want invalid_argument: a redaction must not fail open", input, err)
		}
	}
	if called != 0 {
		t.Errorf("handlers were called %d times", called)
	}
}

// TestKeptStrings keeps what the contract lets a handler keep, and looks at it
// after a call that has overwritten the input.
func TestKeptStrings(t *testing.T) {
	var kept []string
	var p pdk.Plugin
	p.Processor("p", func(c *pdk.Process) error {
		kept = append(kept, c.Name, string(c.Config), c.Model, c.Scope.Tenant, c.Scope.Run)
		return nil
	})
	buffer := make([]byte, 0, 200)
	for _, n := range []string{"1", "2", "2", "3"} {
		buffer = append(buffer[:0], `{"processor":"p","config":"c`+n+`","model":"m`+n+`","scope":{"tenant":"t`+n+`","run":"r"},"messages":[]}`...)
		if out, status := p.Call("process", buffer); status != 0 {
			t.Fatalf("%s", out)
		}
	}
	want := strings.Fields(`p "c1" m1 t1 r p "c2" m2 t2 r p "c2" m2 t2 r p "c3" m3 t3 r`)
	if !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

// TestNothingOfTheLastCallRemains runs a full request and then an empty one.
func TestNothingOfTheLastCallRemains(t *testing.T) {
	var p pdk.Plugin
	p.Tool("t", "", "", func(c *pdk.Call) error {
		if c.Arguments == "" && (c.State != "" || c.Config != "" || c.ID != "" || c.Scope != pdk.Scope{} || c.Resumed != nil || c.Provider != "") {
			t.Errorf("the call has %+v of the one before", c)
		}
		if c.Arguments != "" {
			c.Patch(pdk.Remove("/a"))
			c.Schedule("b")
			c.Artifact("c", "", pdk.TextPart("d"))
			c.Text("e")
		}
		return nil
	})
	host := pdktest.Host{Plugin: &p}
	full := host.Run(t, "tool", `{"tool":"t","provider":"v","call_id":"c","idempotency_key":"k","attempt":1,"arguments":{},"scope":{"tenant":"x"},"state":{},"state_revision":1,"config":1,"resumed":[{"interrupt_id":"i","answer":1}]}`)
	if want := pdk.Raw(`{"content":"e","state":[{"op":"remove","path":"/a"}],"artifacts":[{"name":"c","parts":[{"type":"text","text":"d"}]}],"schedule":["b"]}`); full != want {
		t.Errorf("got  %s\nwant %s", full, want)
	}
	if got := host.Run(t, "tool", `{"tool":"t"}`); got != `{"content":null}` {
		t.Errorf("second call: %s", got)
	}
}

func TestErrors(t *testing.T) {
	coded := pdk.Errorf(pdk.NotFound, "no %s %q in %d of %v%% (%v)", "order", "a\"b", 3, 4.5, errors.New("e"))
	if want := `no order "a\"b" in 3 of 4.5% (e)`; coded.Message != want {
		t.Errorf("Errorf: %s, want %s", coded.Message, want)
	}
	every := pdk.Errorf(pdk.Internal, "%v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v", 1, int8(2), int16(3), int32(4), int64(5), uint(6),
		uint8(7), uint16(8), uint32(9), uint64(1<<63), float32(0.5), true, nil, pdk.Raw("{}"), pdk.EditDrop, struct{}{})
	if want := "1 2 3 4 5 6 7 8 9 9223372036854775808 0.5 true nil {} drop (?)"; every.Message != want {
		t.Errorf("Errorf: %s, want %s", every.Message, want)
	}
	if got := pdk.Errorf(pdk.Internal, "%d %s%").Message; got != "%!d(missing) %!s(missing)%" {
		t.Errorf("Errorf with too few arguments: %s", got)
	}
	for _, c := range []struct {
		err  error
		want pdk.Code
	}{
		{nil, ""}, {errors.New("x"), pdk.Internal}, {coded, pdk.NotFound},
		{fmt.Errorf("while: %w", coded), pdk.NotFound}, {fmt.Errorf("a: %w", errors.New("b")), pdk.Internal},
	} {
		if got := pdk.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %q, want %q", c.err, got, c.want)
		}
	}
	var p pdk.Plugin
	p.Tool("plain", "", "", func(*pdk.Call) error { return errors.New("it is raining") })
	host := pdktest.Host{Plugin: &p}
	if got := host.ToolError(t, "plain", "{}"); got.Code != pdk.Internal || got.Message != "it is raining" {
		t.Errorf("a plain error is %v", got)
	}
}

func TestNoHostOutsideAModule(t *testing.T) {
	if _, err := pdk.HostCall("emit", "{}"); pdk.CodeOf(err) != pdk.Unavailable || !strings.Contains(err.Error(), "emit") {
		t.Errorf("HostCall without a host: %v, want unavailable", err)
	}
	pdk.Log(pdk.LevelInfo, "to nobody")
}

// TestSteadyStateDoesNotAllocate holds the kit to reusing its memory: in a guest
// a buffer allocated anew costs more than the work done in it.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	p := replaceAll()
	p.Tool("echo", "", "", func(c *pdk.Call) error { c.Text(c.String("name")); return nil })
	p.OutlineProcessor("o", func(c *pdk.Process) error { c.Drop(0, 1); return nil })
	for _, c := range []struct{ export, input string }{
		{"tool", `{"tool":"echo","call_id":"c1","arguments":{"name":"Ann"},"scope":{"tenant":"t","run":"r"},"config":{"a":1}}`},
		{"process", `{"processor":"all","config":1,"model":"m","messages":[` + history(20) + `]}`},
		{"process", `{"processor":"none","messages":[` + history(20) + `]}`},
		{"process", `{"processor":"o","outline":{"count":2,"roles":"ua","bytes":[1,2],"chars":[1,2],"parts":[1,1],"tools":[[1,0,"call","a","b"]]}}`},
	} {
		input := []byte(c.input)
		allocated := testing.AllocsPerRun(20, func() {
			if out, status := p.Call(c.export, input); status != 0 {
				t.Fatalf("%s", out)
			}
		})
		if allocated != 0 {
			t.Errorf("%s(%.40s...) allocates %v times", c.export, c.input, allocated)
		}
	}
}

func ids(messages []pdk.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

// TestManyEscapedStrings reads more escaped text than the kit reserves at once,
// with larger and smaller calls in turn: what was handed out must stay as it was
// until the handler returns.
func TestManyEscapedStrings(t *testing.T) {
	var p pdk.Plugin
	p.Processor("check", func(c *pdk.Process) error {
		for i, m := range c.Messages() {
			if want := fmt.Sprintf("line %d\nand more\t%d", i, i); m.Text() != want {
				return pdk.Errorf(pdk.DataLoss, "message %d is %q, want %q", i, m.Text(), want)
			}
		}
		return nil
	})
	for _, n := range []int{1, 3000, 10, 1000, 5000, 5000} {
		var messages []string
		for i := range n {
			messages = append(messages, fmt.Sprintf(`{"id":"%d","role":"user","parts":[{"type":"text","text":"line %d\nand more\t%d"}]}`, i, i, i))
		}
		host := pdktest.Host{Plugin: &p, Messages: pdk.Raw("[" + strings.Join(messages, ",") + "]")}
		host.Process(t, "check", "")
	}
}
