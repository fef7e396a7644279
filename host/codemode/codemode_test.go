package codemode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testhost"
	"github.com/agenthost/agenthost/pdk/js"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRuntime(t testing.TB, opts plugin.Options) *plugin.Runtime {
	t.Helper()
	opts.CacheDir, opts.Interpreters = testcode.Dir(), [][]byte{js.Engine()}
	rt, err := plugin.NewRuntime(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func newMode(t testing.TB, opts *codemode.Options) *codemode.Mode {
	t.Helper()
	own := codemode.Options{}
	if opts != nil {
		own = *opts
	}
	if own.Timeout == 0 {
		own.Timeout = time.Minute // a busy machine does not run code for seconds
	}
	m, err := codemode.New(t.Context(), newRuntime(t, plugin.Options{}), &own)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// add is a tool that adds two numbers.
func add() *host.Tool {
	return host.NewTool("add", "Adds two numbers.", func(_ context.Context, _ *host.Call, in struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}) (float64, error) {
		if in.A < 0 {
			return 0, host.Errorf(host.InvalidArgument, "no negative numbers")
		}
		return in.A + in.B, nil
	}, nil)
}

// codes are the replies of a model that runs each code in turn, and then says done.
func codes(list ...string) []hosttest.Reply {
	var replies []hosttest.Reply
	for _, code := range list {
		arguments, _ := json.Marshal(map[string]string{"code": code})
		replies = append(replies, hosttest.Call(codemode.ToolName, string(arguments)))
	}
	return append(replies, hosttest.Say("done"))
}

// runCodes has an agent with the mode and tools run codes, and returns what its model read of
// each call.
func runCodes(t testing.TB, m *codemode.Mode, tools []*host.Tool, list ...string) (answers []string, model *hosttest.Model) {
	t.Helper()
	all, err := m.Tools(tools...)
	if err != nil {
		t.Fatal(err)
	}
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: all})
	model = hosttest.NewModel(codes(list...)...)
	h := testhost.New(t, &host.Options{Model: model, Limits: host.Limits{MaxConsecutiveToolFailures: 1000, MaxRounds: 1000}})
	r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Results {
		for _, result := range m.ToolResults() {
			if result.Name == codemode.ToolName {
				answers = append(answers, answerText(result))
			}
		}
	}
	return answers, model
}

func answerText(r *host.ToolResult) string {
	if r.IsError {
		return "error: " + r.ContentText()
	}
	return r.ContentText()
}

func TestCodeAnswersWithWhatItReturns(t *testing.T) {
	m := newMode(t, nil)
	for _, c := range []struct{ claim, code, want string }{
		{"a value", `return 1 + 1`, `{"result":2}`},
		{"nothing", ``, `{"result":null}`},
		{"undefined", `return undefined`, `{"result":null}`},
		{"a tool", `return await tools.add({a: 1, b: 2})`, `{"result":3}`},
		{"many at once", `return (await Promise.all([1, 2, 3].map((n) => tools.add({a: n, b: n})))).join()`, `{"result":"2,4,6"}`},
		{"console", `console.log("a", {b: 1}); console.error(new TypeError("x")); return 1`, `{"result":1,"console":"a {\"b\":1}\nTypeError: x"}`},
		{"an error that is caught", `try { await tools.add({a: -1, b: 0}) } catch (e) { return [e.name, e.message, e.code, e.tool] }`,
			`{"result":["ToolError","no negative numbers","invalid_argument","add"]}`},
		{"the names of tools", `return Object.keys(tools)`, `{"result":["add"]}`},
		{"calls without await", `tools.add({a: 1, b: 1}); return "sent"`, `{"result":"sent"}`},
		{"awaits between calls", `let n = 0; for (let i = 0; i < 3; i++) n = await tools.add({a: n, b: i}); return n`, `{"result":3}`},
		{"a clock that each reading moves by a millisecond", `const a = Date.now(), b = Date.now(), c = +new Date(); return [b - a, c - b, new Date().getTimezoneOffset()]`, `{"result":[1,1,0]}`},
		{"an error with its line", "const a = 1;\nconst b = a;\nb.c.d();", `error: TypeError: cannot read property 'd' of undefined, at line 3, column 1 of the code`},
		{"an error of a function with its line", "function f() {\n  throw new RangeError('far')\n}\nf()", `error: RangeError: far, at line 2, column 13 of the code`},
		{"an error of syntax with its line", "const a = 1;\nlet = ;", `error: SyntaxError: unexpected token in expression: ';', at line 2, column 7 of the code`},
		{"an error after console", "console.log('so far'); throw new Error('no')", `error: Error: no, at line 1, column 34 of the code; console: so far`},
		{"an error of a tool with its words", `await tools.add({a: -1, b: 0})`, `error: ToolError: no negative numbers, at line 1, column 13 of the code`},
		{"an error of a tool with the line of its call", "const n = await tools.add({a: 1, b: 0});\nconst p = tools.add({a: -n, b: 0});\nawait null;\nawait p", `error: ToolError: no negative numbers, at line 2, column 26 of the code`},
		{"an error of a long list with the line of its loop", "\nawait Promise.all(Array.from({length: 100}, (_, i) =>\n  tools.add({a: 90 - i, b: 0})))", `error: ToolError: no negative numbers, at line 3, column 22 of the code`},
		{"an error behind many calls of two places with none", "\nconst l = [tools.add({a: 1, b: 0})];\nfor (let i = 0; i < 100; i++) l.push(tools.add({a: i, b: 0}));\nl.push(tools.add({a: -1, b: 0}));\nawait Promise.all(l)", `error: ToolError: no negative numbers`},
		{"a call that a function of the language makes", "\nawait Promise.all([{a: -1, b: 0}].map(tools.add))", `error: ToolError: no negative numbers, at line 2, column 39 of the code`},
		{"an error of JSON with the line that reads it", "const text = '{\\n\\n\\n\\n bad';\nJSON.parse(text)", `error: SyntaxError: Expected property name or '}' in JSON at position 6 (line 3 column 3), at line 2, column 12 of the code`},
		{"an error of an eval with its line outside", "\neval('\\n\\n\\n\\n\\n\\nnull.x')", `error: TypeError: cannot read property 'x' of null, at line 2, column 1 of the code`},
		{"console beside a result that is nearly too large", `console.log("x".repeat(8000)); return "x".repeat(60000).length + "x".repeat(60000)`, `{"result":"60000` + strings.Repeat("x", 60000) + `","console":"` + strings.Repeat("x", 8000) + `"}`},
		{"arguments that do not fit", `await tools.add({a: "x"})`, `error: ToolError: the arguments do not fit the schema: /: missing property 'b'`},
		{"another tool", `await tools.steal()`, `error: TypeError: not a function, at line 1, column 13 of the code`},
		{"itself", `return typeof tools.run_code`, `{"result":"undefined"}`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, _ := runCodes(t, m, []*host.Tool{add()}, c.code)
			if len(got) != 1 || got[0] != c.want && !(strings.HasPrefix(got[0], "error") && strings.HasPrefix(got[0], c.want)) {
				t.Errorf("%s\n got %q\nwant %q", c.code, got, c.want)
			}
		})
	}
}

// The clock of code starts when its call begins, and its random numbers are its own.
func TestCodeHasTheTimeAtWhichItBegan(t *testing.T) {
	before := time.Now()
	answers, _ := runCodes(t, newMode(t, nil), nil, `return [Date.now(), Math.random()]`, `return [Date.now(), Math.random()]`)
	after := time.Now()
	rolls := map[float64]bool{}
	for _, answer := range answers {
		var got struct{ Result [2]float64 }
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		if at := int64(got.Result[0]); at <= before.UnixMilli() || at > after.UnixMilli()+1 {
			t.Errorf("its clock shows %d between %d and %d", at, before.UnixMilli(), after.UnixMilli())
		}
		rolls[got.Result[1]] = true
	}
	if len(rolls) != 2 {
		t.Errorf("two codes have the random numbers %v", rolls)
	}
}

// Numbers that a double does not hold come to code as BigInts, if they are whole, and go out
// of it with all their digits.
func TestNumbersGoThroughCodeExactly(t *testing.T) {
	var got []string
	order := host.NewTool("order", "Gives an order.", func(context.Context, *host.Call, struct{}) (json.RawMessage, error) {
		return json.RawMessage(`{"id":12345678901234567890,"lines":[{"id":9007199254740993}],"price":0.1234567890123456789,"huge":1e400,"text":"9007199254740993"}`), nil
	}, nil)
	ship := host.NewTool("ship", "Ships an order.", func(_ context.Context, _ *host.Call, in struct {
		Order json.RawMessage `json:"order"`
	}) (bool, error) {
		got = append(got, string(in.Order))
		return true, nil
	}, nil)
	answers, _ := runCodes(t, newMode(t, &codemode.Options{Keep: true}), []*host.Tool{order, ship},
		`const {id} = await tools.order(); return [id, typeof id, String(id)]`,
		`const o = await tools.order(); keep.line = o.lines[0]; await tools.ship({order: o.id}); await tools.ship({order: o}); return o.price * 2`,
		`await tools.ship({order: [keep.line.id + 1n, {"9007199254740993": "9007199254740993 1e5"}]}); return keep`,
		`return {a: 2n ** 70n, b: [-(2n ** 64n), 1.5, 1e21, 16.000000000000001]}`)
	want := []string{`{"result":[12345678901234567890,"bigint","12345678901234567890"]}`, `{"result":0.24691357802469135}`,
		`{"result":{"line":{"id":9007199254740993}}}`, `{"result":{"a":1180591620717411303424,"b":[-18446744073709551616,1.5,1e+21,16]}}`}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("answers (-want +got)\n%s", diff)
	}
	want = []string{`12345678901234567890`, `{"id":12345678901234567890,"lines":[{"id":9007199254740993}],"price":0.12345678901234568,"huge":1e400,"text":"9007199254740993"}`,
		`[9007199254740994,{"9007199254740993":"9007199254740993 1e5"}]`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got)\n%s", diff)
	}
}

// Code that replaces what its engine answers with stays within the bounds: the host holds it
// to them.
func TestTheHostHoldsCodeToItsBounds(t *testing.T) {
	m := newMode(t, &codemode.Options{ResultBytes: 1000, ConsoleBytes: 100})
	const lie = `Promise.prototype.then = () => (async () => "0" + JSON.stringify({content: %s}))()`
	answers, _ := runCodes(t, m, nil, fmt.Sprintf(lie, `{result: "x".repeat(2000)}`), fmt.Sprintf(lie, `{result: 1, console: "é".repeat(2000)}`),
		`return "é".repeat(900)`, `console.log("é".repeat(90)); return 1`)
	cut := `{"result":1,"console":"` + strings.Repeat("é", 50) + ` … (the rest is left out)"}`
	want := []string{`error: the result has 2002 bytes, more than 1000: return a summary of it`, cut, `error: the result has 1802 bytes, more than 1000: return a summary of it`, cut}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The object tools has a member for each tool and no other.
func TestToolsHaveTheNamesOfToolsAlone(t *testing.T) {
	named := func(name string) *host.Tool {
		return host.NewTool(name, "", func(context.Context, *host.Call, struct{}) (bool, error) { return true, nil }, nil)
	}
	const code = `return ["", "\n", "a\nb", "undefined", "a", "b"].filter((name) => name in tools)`
	for _, row := range []struct {
		tools []*host.Tool
		want  string
	}{{nil, `{"result":[]}`}, {[]*host.Tool{named("a"), named("b")}, `{"result":["a","b"]}`}} {
		if got, _ := runCodes(t, newMode(t, nil), row.tools, code); !slices.Equal(got, []string{row.want}) {
			t.Errorf("with %d tools: %q, want %s", len(row.tools), got, row.want)
		}
	}
}

// A tool cannot take the name of another by a name that becomes the same identifier.
func TestToolsWhoseNamesAreIdentifiersKeepThem(t *testing.T) {
	named := func(name string) *host.Tool {
		return host.NewTool(name, "Is "+name+".", func(context.Context, *host.Call, struct{}) (string, error) { return name, nil }, nil)
	}
	answers, model := runCodes(t, newMode(t, nil), []*host.Tool{named("send-mail"), named("send_mail"), named("send-mail_")},
		`return Promise.all([tools.send_mail(), tools["send-mail"](), tools.send_mail_2()])`)
	if want := []string{`{"result":["send_mail","send-mail","send-mail"]}`}; !slices.Equal(answers, want) {
		t.Errorf("the tools answer %q, want %q", answers, want)
	}
	m := newMode(t, nil)
	tools, err := m.Tools(named("send-mail"))
	if err != nil {
		t.Fatal(err)
	}
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: append(tools, named("send_mail")), Model: hosttest.NewModel(codes(`return Promise.all([tools.send_mail(), tools.send_mail_2()])`)...)})
	h := testhost.New(t, nil)
	r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := answerText(r.Results[0].ToolResults()[0]), `{"result":["send-mail","send_mail"]}`; got != want {
		t.Errorf("beside a tool that is not declared they answer %s, want %s", got, want)
	}
	if text := model.Requests()[0].Tools[0].Description; !strings.Contains(text, "/** Is send_mail. */\n  function send_mail(") {
		t.Errorf("the description is\n%s", text)
	}
}

// Calls that code has begun and does not await are made when it returns, and not when it has
// failed: the model reads only the failure, and would have them made once more.
func TestCodeThatThrowsMakesNoMoreCalls(t *testing.T) {
	var made []string
	note := host.NewTool("note", "Notes a text.", func(_ context.Context, _ *host.Call, in struct {
		Text string `json:"text"`
	}) (bool, error) {
		made = append(made, in.Text)
		return true, nil
	}, nil)
	answers, _ := runCodes(t, newMode(t, nil), []*host.Tool{note},
		`tools.note({text: "returns"}); return 1`,
		`tools.note({text: "throws"}); throw new Error("no")`,
		`await tools.note({text: "awaited"}); tools.note({text: "throws later"}); null.x`)
	if want := []string{"returns", "awaited"}; !slices.Equal(made, want) || answers[0] != `{"result":1}` {
		t.Errorf("%q makes the calls %q, want %q", answers, made, want)
	}
}

// Code gets the media of a tool as message parts, which it can give to other tools.
func TestCodeReadsTheMediaOfATool(t *testing.T) {
	chart := host.NewTool("chart", "Draws a chart.", func(context.Context, *host.Call, struct{}) (*host.ToolOutput, error) {
		return &host.ToolOutput{Content: json.RawMessage(`"a chart"`), Media: []*chat.Media{{MediaType: "image/png", Data: []byte{1, 2}}}}, nil
	}, nil)
	var uploaded []byte
	upload := host.NewTool("upload", "Uploads a file.", func(_ context.Context, _ *host.Call, in struct {
		Data []byte `json:"data"`
	}) (bool, error) {
		uploaded = in.Data
		return true, nil
	}, nil)
	got, _ := runCodes(t, newMode(t, nil), []*host.Tool{add(), chart, upload},
		`return await tools.chart()`,
		`const { content, media } = await tools.chart.whole(); return [content, media.length, media[0].type, media[0].media_type, await tools.upload({ data: media[0].data })]`,
		`return await tools.add.whole({a: 1, b: 2})`,
		`try { await tools.add.whole({a: -1, b: 2}) } catch (e) { return e.code }`)
	want := []string{`{"result":"a chart"}`, `{"result":["a chart",1,"media","image/png",true]}`, `{"result":{"content":3,"media":[]}}`, `{"result":"invalid_argument"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !bytes.Equal(uploaded, []byte{1, 2}) {
		t.Errorf("upload has %v", uploaded)
	}
}

func TestCodeDeclaresTheToolsOfItsAgent(t *testing.T) {
	m := newMode(t, nil)
	got, model := runCodes(t, m, []*host.Tool{add()}, `return 1`)
	if len(got) != 1 {
		t.Fatal(got)
	}
	asked := model.Requests()[0]
	if len(asked.Tools) != 1 || asked.Tools[0].Name != codemode.ToolName {
		t.Errorf("the model is offered %+v, want run_code alone", asked.Tools)
	}
	want := "declare namespace tools {\n  /** Adds two numbers. */\n  function add(args: {\n    a: number;\n    b: number;\n  }): Promise<any>;\n}"
	if !strings.Contains(asked.Tools[0].Description, want) {
		t.Errorf("the description is\n%s\nwant in it\n%s", asked.Tools[0].Description, want)
	}
	direct := newMode(t, &codemode.Options{Direct: true, Name: "js"})
	tools, err := direct.Tools(add())
	if err != nil || len(tools) != 2 || tools[0].Name != "js" {
		t.Errorf("Tools = %v, %v", tools, err)
	}
}

// That tools are not offered saves tokens, and is no bar: the model may call them as its code may,
// by the same rules. A tool that the agent does not have neither can call.
func TestAModelMayCallTheToolsOfItsCodeByTheSameRules(t *testing.T) {
	refund := host.NewTool("refund", "Refunds.", func(context.Context, *host.Call, struct{}) (bool, error) { return true, nil }, &host.ToolOptions{Approve: host.ApproveAlways("money goes out")})
	tools, err := newMode(t, nil).Tools(add(), refund)
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.NewModel(hosttest.Call("add", `{"a":1,"b":2}`), hosttest.Call("steal", `{}`), codes(`return typeof tools.steal`)[0], hosttest.Call("refund", `{}`))
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: tools, Model: model})
	h := testhost.New(t, nil)
	r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil || len(r.Questions) != 1 || r.Questions[0].Tool != "refund" {
		t.Fatalf("Run = %+v, %v, want the question about the refund", r, err)
	}
	results := r.Results[0].ToolResults()
	if len(results) != 3 || answerText(results[0]) != "3" || !results[1].IsError || answerText(results[2]) != `{"result":"undefined"}` {
		t.Errorf("the model reads %+v", results)
	}
	for i, req := range model.Requests() {
		if len(req.Tools) != 1 || req.Tools[0].Name != codemode.ToolName {
			t.Errorf("request %d offers %+v, want run_code alone", i, req.Tools)
		}
	}
}

func TestManyToolsAreFoundBySearch(t *testing.T) {
	var tools []*host.Tool
	for i := range 300 {
		tools = append(tools, host.NewTool("service_"+strconv.Itoa(i), "Asks service "+strconv.Itoa(i)+" for its invoices.", func(context.Context, *host.Call, struct{}) (int, error) { return i, nil }, nil))
	}
	m := newMode(t, nil)
	got, model := runCodes(t, m, tools, `return search_tools("service 217")[0]`, `return await tools.service_217()`, `return [search_tools("zebra").length, search_tools("").length]`)
	want := []string{`{"result":{"name":"service_217","declaration":"/** Asks service 217 for its invoices. */\nfunction service_217(args?: { [key: string]: unknown }): Promise<any>;\n"}}`, `{"result":217}`, `{"result":[0,20]}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if text := model.Requests()[0].Tools[0].Description; !strings.Contains(text, "There are 300 tools. search_tools(query)") || len(text) > 2000 {
		t.Errorf("the description has %d bytes: %.2000s", len(text), text)
	}
}

func TestCodeKeepsWhatItIsTold(t *testing.T) {
	code := []string{`keep.n = (keep.n ?? 0) + 1; return keep.n`, `keep.n = (keep.n ?? 0) + 1; return keep.n`}
	got, _ := runCodes(t, newMode(t, &codemode.Options{Keep: true}), nil, append(code, `keep.n = 100; throw new Error("no")`, `return keep`, `keep.x = "x".repeat(40000)`, `keep = 7`)...)
	want := []string{`{"result":1}`, `{"result":2}`, `error: Error: no, at line 1, column 25 of the code`, `{"result":{"n":2}}`, `error: the code keeps 40014 bytes, more than 32768: keep less, and take the rest from the tools again`, `{"result":null}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with Keep (-want +got)\n%s", diff)
	}
	got, _ = runCodes(t, newMode(t, nil), nil, `globalThis.n = 1; return typeof keep`, `return [typeof keep, typeof n]`)
	if diff := cmp.Diff([]string{`{"result":"undefined"}`, `{"result":["undefined","undefined"]}`}, got); diff != "" {
		t.Errorf("without (-want +got)\n%s", diff)
	}
}

// Two codes of one answer of the model run at the same time, and each keeps what it has changed.
func TestCodesAtTheSameTimeKeepTheirOwnMembers(t *testing.T) {
	var arrived atomic.Int64
	both := make(chan struct{})
	meet := host.NewTool("meet", "Waits for the other.", func(ctx context.Context, _ *host.Call, _ struct{}) (bool, error) {
		if arrived.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}, nil)
	tools, err := newMode(t, &codemode.Options{Keep: true}).Tools(meet)
	if err != nil {
		t.Fatal(err)
	}
	replies := codes(`keep.both = 1; keep.gone = 1; keep.stays = 1`, `await tools.meet(); keep.a = 1; keep.both = 2`, `return keep`)
	replies[1] = replies[1].Call(codemode.ToolName, `{"code":"await tools.meet(); keep.b = 1; delete keep.gone"}`)
	model := hosttest.NewModel(replies...)
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: tools, Model: model})
	h := testhost.New(t, nil)
	r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	results := r.Results[0].ToolResults()
	if got, want := answerText(results[len(results)-1]), `{"result":{"a":1,"b":1,"both":2,"stays":1}}`; got != want {
		t.Errorf("the next code finds %s, want %s", got, want)
	}
}

// A person is asked in the middle of a code's calls. The code starts again with the answer,
// and what it had done before is not done again.
func TestCodeThatAsksAPersonIsResumedWithoutASecondEffect(t *testing.T) {
	for _, durable := range []bool{false, true} {
		for decision, want := range map[host.Decision]string{
			host.Approve: `{"result":["paid 1","refunded 7","paid 2"],"console":"rolled true"}`,
			host.Deny:    `{"result":["paid 1","A person did not allow this call.","paid 2"],"console":"rolled true"}`,
		} {
			var effects []string
			var rolls []string
			order := func(done string) func(context.Context, *host.Call, struct {
				Order int `json:"order"`
			}) (string, error) {
				return func(_ context.Context, call *host.Call, in struct {
					Order int `json:"order"`
				}) (string, error) {
					effects = append(effects, done+" "+strconv.Itoa(in.Order))
					return done + " " + strconv.Itoa(in.Order), nil
				}
			}
			note := host.NewTool("note", "Notes a number.", func(_ context.Context, _ *host.Call, in struct {
				Text string `json:"text"`
			}) (bool, error) {
				rolls = append(rolls, in.Text)
				return true, nil
			}, nil)
			all, err := newMode(t, nil).Tools(note, host.NewTool("pay", "Pays.", order("paid"), nil), host.NewTool("refund", "Refunds.", order("refunded"), &host.ToolOptions{Approve: host.ApproveAlways("money goes out")}))
			if err != nil {
				t.Fatal(err)
			}
			agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: all})
			code := `
				console.log("rolled", await tools.note({text: [Math.random(), Date.now()].join()}));
				const first = await tools.pay({order: 1});
				const second = await tools.refund({order: 7}).catch((e) => e.message);
				return [first, second, await tools.pay({order: 2})];`
			history := testhost.NewHistory(t, hosttest.NewHistory())
			h := testhost.New(t, &host.Options{Model: hosttest.NewModel(codes(code)...), History: history, Journal: hosttest.NewJournal()})
			r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "T1", Text: "go", Durable: durable})
			if err != nil || len(r.Questions) != 1 || r.Questions[0].Tool != "refund" || string(r.Questions[0].Arguments) != `{"order":7}` {
				t.Fatalf("Run = %+v, %v, want the question about the refund", r, err)
			}
			r, err = h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: r.Run, Durable: durable, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: decision}}})
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, m := range r.Results {
				for _, result := range m.ToolResults() {
					got = answerText(result)
				}
			}
			if got != want {
				t.Errorf("%s, durable %t: the model reads %s, want %s", decision, durable, got, want)
			}
			once := []string{"paid 1", "refunded 7", "paid 2"}
			if decision == host.Deny {
				once = []string{"paid 1", "paid 2"}
			}
			if diff := cmp.Diff(once, effects); diff != "" || len(rolls) != 1 {
				t.Errorf("%s, durable %t: effects (-want +got)\n%s and %d notes", decision, durable, diff, len(rolls))
			}
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, o := range []*codemode.Options{{Timeout: -1}, {Instructions: -1}, {MemoryBytes: 1 << 20}, {ResultBytes: -1}, {ConsoleBytes: -1}, {DeclarationBytes: -1}, {Instances: -1}} {
		if err := o.Check(); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := (*codemode.Options)(nil).Check(); err != nil {
		t.Error(err)
	}
}
