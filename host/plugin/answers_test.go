package plugin

// Scenario: guests give fixed answers, right and broken, to every call.

// Guests that answer the same whatever they are asked. These tests are inside
// the package for its assembler, and for the envelopes that the host writes.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// answer is what an export of a guest returns.
type answer struct {
	output string
	code   int
}

const everyKind = `{"abi":1,"name":"constant","tools":[{"name":"t","description":"","parameters":{}}],` +
	`"processors":[{"name":"p"},{"name":"o","input":"outline"}],"routers":[{"name":"r"}],"providers":[{"name":"c"}],` +
	`"permissions":{"state":"write","messages":true}}`

// constantGuest assembles a guest with a manifest section, or none, that has
// every export and gives the answers; other exports trap.
func constantGuest(t testing.TB, manifest string, answers map[abi.Export]answer) []byte {
	t.Helper()
	var text, functions strings.Builder
	at := 16
	for e := range abi.ExportCount {
		params := "i32 "
		if e == abi.Describe {
			params = ""
		}
		fmt.Fprintf(&functions, "func $f%d %s %s-> i32\n", e, e, params)
		a, ok := answers[e]
		if !ok {
			functions.WriteString("unreachable\n")
			continue
		}
		fmt.Fprintf(&text, "data %d %q\n", at, a.output)
		fmt.Fprintf(&functions, "i32.const %d i32.const %d call $output_write i32.const %d\n", at, len(a.output), a.code)
		at += len(a.output)
	}
	if manifest != "" {
		fmt.Fprintf(&text, "custom agenthost.manifest %q\n", manifest)
	}
	return wasmtest.Assemble(t, fmt.Sprintf("import agenthost_v1 output_write i32 i32 as $output_write\nmemory %d\nexport memory memory 0\n", at/pageBytes+1)+
		text.String()+functions.String())
}

// loadConstant loads a constant guest that is granted what it asks for.
func loadConstant(t testing.TB, rt *Runtime, manifest string, answers map[abi.Export]answer) *Plugin {
	t.Helper()
	p, err := rt.Load(context.Background(), "constant", constantGuest(t, manifest, answers),
		&LoadOptions{Granted: Permissions{State: Write, Messages: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ask has a constant guest answer through the adapter of an export.
func ask(t testing.TB, p *Plugin, e abi.Export, opts *PartOptions) (any, error) {
	t.Helper()
	ctx := context.Background()
	state, err := host.NewState(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	scope := host.Scope{Tenant: "a"}
	switch e {
	case abi.Tool:
		handler, err := p.toolHandler(p.manifest.Tool("t"), "", opts.config())
		if err != nil {
			return nil, err
		}
		return handler(ctx, host.NewCall("t", json.RawMessage("{}"), state))
	case abi.Process:
		pr, err := p.Processor("p", opts)
		if err != nil {
			return nil, err
		}
		return pr.Process(ctx, &host.View{Scope: scope, Messages: []*host.Message{host.UserText("a")}})
	case abi.Route:
		r, err := p.Router("", opts)
		if err != nil {
			return nil, err
		}
		return r.Route(ctx, &host.RouteRequest{Scope: scope, State: state})
	case abi.Provide:
		c, err := p.Provider("", opts)
		if err != nil {
			return nil, err
		}
		return c.Provide(ctx, &host.ProvideRequest{Scope: scope, State: state})
	case abi.Observe:
		c, err := p.Provider("", opts)
		if err != nil {
			return nil, err
		}
		return c.(host.Observer).Observe(ctx, &host.ObserveRequest{ProvideRequest: host.ProvideRequest{Scope: scope, State: state}})
	}
	t.Fatalf("nobody asks %s", e)
	return nil, nil
}

func TestBrokenAnswersAreErrors(t *testing.T) {
	rt := startRuntime(t, nil)
	for _, c := range []struct {
		name   string
		export abi.Export
		answer answer
		want   host.Code
		says   string
	}{
		{"no output", abi.Tool, answer{"", 0}, host.Internal, "the output of agenthost_tool is not what the ABI says"},
		{"null", abi.Tool, answer{"null", 0}, host.Internal, "not an object"},
		{"not UTF-8", abi.Tool, answer{"{\"content\":\"\xff\"}", 0}, host.Internal, "not valid UTF-8"},
		{"a byte order mark", abi.Tool, answer{"\ufeff{}", 0}, host.Internal, "not what the ABI says"},
		{"two values", abi.Tool, answer{"{}{}", 0}, host.Internal, "not what the ABI says"},
		{"a NUL at the end", abi.Tool, answer{"{}\x00", 0}, host.Internal, "not what the ABI says"},
		{"deep nesting", abi.Tool, answer{`{"content":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", 0}, host.Internal, "depth"},
		{"an operation on the state that is none", abi.Tool, answer{`{"content":1,"state":[{"op":"fly"}]}`, 0}, host.Internal, "state"},
		{"an artifact that is none", abi.Tool, answer{`{"content":1,"artifacts":[{"parts":[{"type":""}]}]}`, 0}, host.Internal, "artifact"},
		{"both messages and edits", abi.Process, answer{`{"messages":[],"edits":[]}`, 0}, host.Internal, "both messages and edits"},
		{"messages of an unknown role", abi.Process, answer{`{"messages":[{"role":"robot","parts":[]}]}`, 0}, host.Internal, "role"},
		{"an unknown edit", abi.Process, answer{`{"edits":[{"redact":[0,1]}]}`, 0}, host.Internal, "edit"},
		{"both next and delegate", abi.Route, answer{`{"next":["a"],"delegate":"default"}`, 0}, host.Internal, "both names agents and delegates"},
		{"next of numbers", abi.Route, answer{`{"next":[1]}`, 0}, host.Internal, "next"},
		{"a tool that nobody has", abi.Provide, answer{`{"tools":["rm"]}`, 0}, host.Internal, `offers the tool "rm"`},
		{"messages that are none", abi.Provide, answer{`{"messages":[{}]}`, 0}, host.Internal, `output of provider "c"`},
		{"an observer that is not JSON", abi.Observe, answer{`done`, 0}, host.Internal, "agenthost_observe"},

		{"a guest's error", abi.Tool, answer{`{"code":"not_found","message":"no order","hint":"look again","retryable":true}`, 1}, host.NotFound, "no order; look again"},
		{"a guest's error of an unknown code", abi.Tool, answer{`{"code":"on_holiday","message":"gone"}`, 1}, host.Internal, "gone"},
		{"a guest's error with colours", abi.Tool, answer{`{"code":"not_found","message":"a\u001b[31mb"}`, 1}, host.NotFound, "a [31mb"},
		{"a guest's error without a message", abi.Route, answer{`{"code":"not_found"}`, 1}, host.Internal, "returned an error without a message"},
		{"a guest's error whose names are shouted", abi.Route, answer{`{"CODE":"not_found","Message":"gone"}`, 1}, host.Internal, "returned an error without a message"},
		{"a guest's error that is not JSON", abi.Process, answer{`oops`, 1}, host.Internal, "returned an error without a message"},
		{"a guest's error that is not UTF-8", abi.Process, answer{"{\"code\":\"conflict\",\"message\":\"\xff\"}", 1}, host.Internal, "returned an error without a message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := loadConstant(t, rt, everyKind, map[abi.Export]answer{c.export: c.answer})
			_, err := ask(t, p, c.export, nil)
			if host.CodeOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("code %q, error %v; want %q, %q", host.CodeOf(err), err, c.want, c.says)
			}
			var guest *GuestError
			if want := c.answer.code == 1 && !strings.Contains(c.says, "without"); errors.As(err, &guest) != want {
				t.Errorf("%T is a *GuestError: %t, want %t", err, !want, want)
			}
			checkAlike(t, p, c.export, err)
		})
	}
}

// checkAlike wants an answer to be refused where a run refused it. What a provider
// may offer only a run knows.
func checkAlike(t *testing.T, p *Plugin, e abi.Export, inRun error) {
	t.Helper()
	name := e.String()[len(abi.ExportPrefix):]
	r, err := p.Call(t.Context(), "a", name, []byte(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var guest *GuestError
	want := host.CodeOf(inRun)
	if errors.As(inRun, &guest) || strings.Contains(inRun.Error(), "offers the tool") {
		want = ""
	}
	if err := p.CheckAnswer(name, []byte(`{}`), r); host.CodeOf(err) != want {
		t.Errorf("the answer is found to be wrong: %v, want code %q", err, want)
	}
}

func TestNamesInAnswersAreCaseSensitive(t *testing.T) {
	p := loadConstant(t, startRuntime(t, nil), everyKind, map[abi.Export]answer{
		abi.Route: {`{"next":["a"],"Next":["b"],"REASON":"c"}`, 0}, abi.Tool: {`{"Content":1,"content":2,"CONTENT":3}`, 0}})
	got, err := ask(t, p, abi.Route, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := got.(*host.Route); len(r.Next) != 1 || r.Next[0] != "a" || r.Reason != "" {
		t.Errorf("route %+v, want the agent a and no reason", r)
	}
	got, err = ask(t, p, abi.Tool, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := got.(*host.ToolOutput); string(out.Content) != "2" {
		t.Errorf("content %s, want 2", out.Content)
	}
}

func TestResultsAreHeldToTheirSchema(t *testing.T) {
	manifest := `{"abi":1,"name":"n","tools":[{"name":"t","description":"","result":{"type":"object","required":["n"]}}]}`
	rt := startRuntime(t, nil)
	for output, want := range map[string]host.Code{
		`{"content":{"n":1}}`:              "",
		`{"content":{"m":1}}`:              host.Internal,
		`{}`:                               host.Internal,
		`{"interrupt":{"reason":"well?"}}`: "",
	} {
		p := loadConstant(t, rt, manifest, map[abi.Export]answer{abi.Tool: {output, 0}})
		_, err := ask(t, p, abi.Tool, nil)
		if host.CodeOf(err) != want {
			t.Errorf("%s: %v, want code %q", output, err, want)
		}
		if err := p.CheckAnswer("tool", []byte(`{"tool":"t"}`), &CallResult{Output: []byte(output)}); host.CodeOf(err) != want {
			t.Errorf("%s is found to be wrong: %v, want code %q", output, err, want)
		}
	}
}

func TestProvidersOfferWhatIsTheirs(t *testing.T) {
	granted, err := host.NewRawTool(llm.ToolSpec{Name: "clock"}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := loadConstant(t, startRuntime(t, nil), everyKind, map[abi.Export]answer{abi.Provide: {`{"tools":["clock","t"]}`, 0}})
	got, err := ask(t, p, abi.Provide, &PartOptions{Tools: []*host.Tool{granted}})
	if err != nil {
		t.Fatal(err)
	}
	if tools := got.(*host.Provided).Tools; len(tools) != 2 || tools[0] != granted || tools[1].Name != "t" {
		t.Errorf("tools %v, want the granted clock and the plugin's t", tools)
	}
}

func TestConfigurationsAreChecked(t *testing.T) {
	manifest := `{"abi":1,"name":"n","routers":[{"name":"r","config":{"type":"object","required":["first"]}}],"tools":[{"name":"t","description":""}]}`
	p := loadConstant(t, startRuntime(t, nil), manifest, nil)
	for config, says := range map[string]string{``: "first", `{}`: "first", `{`: "is not JSON", `[]`: `config of router "r" of plugin "constant"`} {
		_, err := p.Router("", &PartOptions{Config: json.RawMessage(config)})
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("config %s: %v, want invalid_argument that says %s", config, err, says)
		}
	}
	if _, err := p.Router("r", &PartOptions{Config: json.RawMessage(`{"first":1}`)}); err != nil {
		t.Error(err)
	}
	if _, err := p.Tools(&PartOptions{Config: json.RawMessage(`{`)}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a tool's configuration that is not JSON: %v", err)
	}
	for _, err := range []error{second(p.Router("x", nil)), second(p.Tool("x", nil)), second(p.Processor("x", nil))} {
		if host.CodeOf(err) != host.NotFound || !strings.Contains(err.Error(), "it offers") {
			t.Errorf("a part that is not there: %v, want not_found that says what is", err)
		}
	}
	if _, err := p.Provider("", nil); host.CodeOf(err) != host.NotFound || !strings.Contains(err.Error(), `plugin "constant" has no provider; name a plugin`) {
		t.Errorf("a provider of a plugin that has none: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestManifestsAreChecked(t *testing.T) {
	rt := startRuntime(t, nil)
	for _, c := range []struct {
		manifest string
		want     host.Code
		says     string
	}{
		{`{"abi":1,"name":"n","tools":[{"name":"a b","description":""}]}`, host.InvalidArgument, `tool name "a b"`},
		{`{"abi":1,"name":"n","tools":[{"name":"` + strings.Repeat("x", 65) + `","description":""}]}`, host.InvalidArgument, "1 to 64 letters"},
		{`{"abi":1,"name":"n","tools":[{"Name":"a"}]}`, host.InvalidArgument, "empty or given twice"},
		{`{"abi":1,"name":"n","routers":[{"name":"a"},{"name":"a"}]}`, host.InvalidArgument, "empty or given twice"},
		{`{"abi":1,"name":"n","processors":[{"name":"a","tokens":{}}]}`, host.InvalidArgument, "exactly one of"},
		{`{"abi":1,"name":"n","processors":[{"name":"a","tokens":{"model":true,"encoding":"o200k_base"}}]}`, host.InvalidArgument, "exactly one of"},
		{`{"abi":1,"name":"n","requires":["time.travel"]}`, host.FailedPrecondition, `the operation "time.travel"`},
		{`{"abi":7,"name":"n"}`, host.FailedPrecondition, "this host speaks 1"},
		{`null`, host.InvalidArgument, "manifest"},
		{"{\"abi\":1,\"name\":\"\xff\"}", host.InvalidArgument, "UTF-8"},
		{`{"abi":1,"name":"` + strings.Repeat("x", abi.MaxManifestBytes) + `"}`, host.InvalidArgument, "more than 1048576"},
	} {
		for _, described := range []bool{false, true} {
			wasm := constantGuest(t, c.manifest, nil)
			if described {
				wasm = constantGuest(t, "", map[abi.Export]answer{abi.Describe: {c.manifest, 0}})
			}
			_, err := rt.Load(t.Context(), "x", wasm, nil)
			if host.CodeOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("described: %t, %.80s: %v, want %s that says %s", described, c.manifest, err, c.want, c.says)
			}
		}
	}
	if len(rt.compiler.codes) != 0 || len(rt.plugins) != 0 {
		t.Errorf("%d codes and %d plugins are left of what was refused", len(rt.compiler.codes), len(rt.plugins))
	}
}

// What the manifest lists, an export must serve.
func TestManifestsOfferOnlyWhatIsExported(t *testing.T) {
	rt := startRuntime(t, nil)
	for part, name := range map[string]string{
		`"processors":[{"name":"a"}]`:               "agenthost_process",
		`"routers":[{"name":"a"}]`:                  "agenthost_route",
		`"providers":[{"name":"a"}]`:                "agenthost_provide",
		`"providers":[{"name":"a","observe":true}]`: "agenthost_provide",
	} {
		manifest := `{"abi":1,"name":"n",` + part + `}`
		_, err := rt.Load(t.Context(), "x", handWritten(t, fmt.Sprintf("custom agenthost.manifest %q\n---\ni32.const 0", manifest)), nil)
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %v, want invalid_argument that names %s", part, err, name)
		}
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for _, l := range []Limits{{Timeout: -1}, {MaxIdle: -1}, {MemoryBytes: 1000}, {MemoryBytes: 5 << 30}, {TableEntries: 1 << 33}} {
		if _, err := NewRuntime(t.Context(), &Options{Limits: l}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("limits %+v: %v, want invalid_argument", l, err)
		}
	}
	if got, want := (Limits{}).over(Limits{}.withDefaults()), (Limits{}).withDefaults(); got != want {
		t.Errorf("no limits over the defaults are %+v, want the defaults %+v", got, want)
	}
}
