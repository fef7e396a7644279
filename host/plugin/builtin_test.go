package plugin_test

// Scenario: the shipped modules match their sources, stay small, and run in the sandbox.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
	"github.com/agenthost/agenthost/plugins/historytest"
	"github.com/agenthost/agenthost/plugins/summarizer"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// committedModules are the modules that the repository holds, so that the
// program needs no toolchain, by the directories of their sources.
var committedModules = map[string]string{
	"plugins/toolcallfilter/guest":      "plugins/toolcallfilter/toolcallfilter.wasm",
	"plugins/tokenlimiter/guest":        "plugins/tokenlimiter/tokenlimiter.wasm",
	"plugins/summarizer/guest":          "plugins/summarizer/summarizer.wasm",
	"examples/piimask":                  "examples/piimask/piimask.wasm",
	"examples/orderdesk/plugins/orders": "examples/orderdesk/plugins/orders/orders.wasm",
	"examples/orderdesk/plugins/desk":   "examples/orderdesk/plugins/desk/desk.wasm",
	"examples/preferences/plugin":       "examples/preferences/preferences.wasm",
}

// A module that is not what its source builds would be a program that no one
// can read.
func TestCommittedModulesAreWhatTheirSourcesBuild(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build the modules again")
	}
	rt := newRuntime(t, nil)
	for source, file := range committedModules {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			committed, err := os.ReadFile(atRoot(file))
			if err != nil {
				t.Fatal(err)
			}
			// Another release of the toolchain builds other bytes.
			if version := runtime.Version(); !bytes.Contains(committed, []byte(version)) {
				t.Skipf("needs the toolchain that %s was built with; this is %s", file, version)
			}
			built, err := rt.Build(t.Context(), atRoot(source), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(built, committed) {
				t.Errorf("%s (%d bytes) is not what %s builds (%d bytes); from the repository's root, run\n"+
					"\tgo run ./cmd/agenthost plugin build %[3]s -o %[1]s", file, len(committed), source, len(built))
			}
		})
	}
}

// The shipped modules are small, for every installation carries them.
func TestShippedModulesAreSmall(t *testing.T) {
	const most = 2_200_000
	for name, wasm := range map[string][]byte{"toolcallfilter": toolcallfilter.Wasm, "tokenlimiter": tokenlimiter.Wasm, "summarizer": summarizer.Wasm} {
		if len(wasm) > most {
			t.Errorf("%s has %d bytes, want at most %d", name, len(wasm), most)
		}
	}
}

func atRoot(path string) string { return filepath.Join("..", "..", filepath.FromSlash(path)) }

// builtin returns the processor of a shipped plugin with a configuration.
func builtin(t testing.TB, rt *plugin.Runtime, wasm []byte, config string) host.Processor {
	t.Helper()
	p, err := load(t, rt, "builtin", wasm, nil).Processor("", &plugin.PartOptions{Config: json.RawMessage(config)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// byteCounter counts a token for every three bytes, exactly, in any encoding.
type byteCounter struct{}

func (byteCounter) EncodingFor(string) (string, bool) { return "o200k_base", true }

func (byteCounter) CountTokens(_ context.Context, _ string, text []byte) (int, error) {
	return (len(text) + 2) / 3, nil
}

// The shipped plugins in the sandbox. They share a runtime, for compiling them
// takes longer than all the rest.
func TestShippedPlugins(t *testing.T) {
	rt := newRuntime(t, nil)
	t.Run("are their functions", func(t *testing.T) { testFunctions(t, rt) })
	t.Run("keep the rules of processors", func(t *testing.T) { testRules(t, rt) })
	t.Run("refuse wrong configurations", func(t *testing.T) { testConfigurations(t, rt) })
	t.Run("count as they are told", func(t *testing.T) { testCounts(t, rt) })
	t.Run("leave own rounds alone", func(t *testing.T) { testOwnRounds(t, rt) })
}

// In the sandbox a shipped plugin does what its function does outside.
func testFunctions(t *testing.T, rt *plugin.Runtime) {
	for _, config := range []string{
		`{}`, `{"persistResults":true}`, `{"exclude":["a"]}`, `{"exclude":["a","c"],"persistResults":true}`,
		`{"include":["b"],"persistResults":true}`, `{"include":[]}`,
	} {
		filter, err := toolcallfilter.New(pdk.Raw(config))
		if err != nil {
			t.Fatal(err)
		}
		sandboxed := builtin(t, rt, toolcallfilter.Wasm, config)
		t.Run("toolcallfilter "+config, rapid.MakeCheck(func(t *rapid.T) {
			compare(t, sandboxed, func(o *pdk.Outline, e *pdk.Edits) (pdk.Raw, error) {
				return filter.Apply(o, e).JSON(), nil
			})
		}))
	}
	for _, config := range []string{`40`, `{"limit":70,"reserve":20,"oversize":"empty"}`, `{"limit":30,"useTiktoken":false,"encoding":"gpt2"}`} {
		limiter, err := tokenlimiter.New(pdk.Raw(config))
		if err != nil {
			t.Fatal(err)
		}
		sandboxed := builtin(t, rt, tokenlimiter.Wasm, config)
		t.Run("tokenlimiter "+config, rapid.MakeCheck(func(t *rapid.T) {
			compare(t, sandboxed, func(o *pdk.Outline, e *pdk.Edits) (pdk.Raw, error) {
				report, err := limiter.Apply(o, e)
				return report.JSON(), err
			})
		}))
	}
}

// compare runs a processor in the sandbox and natively on a random conversation.
// The host applies the sandbox's edits, and refuses a conversation that they
// leave worse.
func compare(t *rapid.T, sandboxed host.Processor, native func(*pdk.Outline, *pdk.Edits) (pdk.Raw, error)) {
	draw := rapid.SampledFrom([]func(*rapid.T) []pdk.Message{historytest.Draw, historytest.DrawAny}).Draw(t, "draw")
	messages := draw(t)
	view := llm.NewView(hostMessages(messages), "gpt-4o", byteCounter{})
	view.Own = rapid.IntRange(0, len(messages)).Draw(t, "own")
	var edits pdk.Edits
	report, nativeErr := native(outlineOf(t, messages, view), &edits)
	got, done, err := llm.Process(context.Background(), sandboxed, view)
	if nativeErr != nil || err != nil {
		if want := host.Code(pdk.CodeOf(nativeErr)); host.CodeOf(err) != want {
			t.Fatalf("%s: sandbox says %v, the function %v", historytest.Format(messages), err, nativeErr)
		}
		return
	}
	want, err := pdktest.Apply(messages, edits.List())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(historytest.Format(want), historytest.Format(guestMessages(got))); diff != "" {
		t.Fatalf("%s (-function +sandbox):\n%s", historytest.Format(messages), diff)
	}
	if string(done.Report) != string(report) {
		t.Fatalf("sandbox reports %s, the function %s", done.Report, report)
	}
}

// outlineOf returns the outline that the sandbox is given.
func outlineOf(t interface{ Fatal(...any) }, messages []pdk.Message, view *host.View) *pdk.Outline {
	o := pdktest.NewOutline(messages, nil)
	o.Own = view.Own
	for i, m := range view.Messages {
		o.Bytes[i], o.Chars[i] = m.Size()
	}
	tokens, err := view.Tokens(context.Background(), "o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	o.Tokens, o.Encoding = tokens, "o200k_base"
	return o
}

func hostMessages(messages []pdk.Message) []*host.Message {
	out := []*host.Message{}
	for _, m := range messages {
		h := host.NewMessage(host.Role(m.Role))
		h.ID = m.ID
		for _, p := range m.Parts {
			switch p.Type {
			case pdk.PartToolCall:
				h.Parts = append(h.Parts, &host.ToolCall{ID: p.ID, Name: p.Name, Arguments: json.RawMessage(p.Arguments)})
			case pdk.PartToolResult:
				h.Parts = append(h.Parts, &host.ToolResult{ID: p.ID, Name: p.Name, Content: json.RawMessage(p.Content)})
			default:
				h.Parts = append(h.Parts, &host.Text{Text: p.Text})
			}
		}
		out = append(out, h)
	}
	return out
}

func guestMessages(messages []*host.Message) []pdk.Message {
	var out []pdk.Message
	for _, m := range messages {
		g := pdk.NewMessage(string(m.Role))
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *host.ToolCall:
				g.Parts = append(g.Parts, pdk.ToolCallPart(p.ID, p.Name, pdk.Raw(p.Arguments)))
			case *host.ToolResult:
				g.Parts = append(g.Parts, pdk.ToolResultPart(p.ID, p.Name, pdk.Raw(p.Content)))
			case *host.Text:
				g.Parts = append(g.Parts, pdk.TextPart(p.Text))
			}
		}
		out = append(out, g)
	}
	return out
}

func testRules(t *testing.T, rt *plugin.Runtime) {
	for _, test := range []struct {
		wasm         []byte
		name, config string
	}{
		{toolcallfilter.Wasm, "toolcallfilter", `{}`},
		{toolcallfilter.Wasm, "toolcallfilter", `{"exclude":["debug_tool"],"persistResults":true}`},
		{toolcallfilter.Wasm, "toolcallfilter", `{"include":["debug_tool"],"persistResults":true}`},
		{tokenlimiter.Wasm, "tokenlimiter", `1000`},
	} {
		t.Run(test.name+" "+test.config, func(t *testing.T) {
			hosttest.TestProcessor(t, builtin(t, rt, test.wasm, test.config), nil)
		})
	}
}

// A configuration that is wrong is refused when the processor is made, and what
// a schema cannot say when it first runs.
func testConfigurations(t *testing.T, rt *plugin.Runtime) {
	filter, limiter := load(t, rt, "filter", toolcallfilter.Wasm, nil), load(t, rt, "limiter", tokenlimiter.Wasm, nil)
	for _, test := range []struct {
		plugin  *plugin.Plugin
		config  string
		refused bool
	}{
		{filter, ``, false},
		{filter, `{}`, false},
		{filter, `{"include":["a"]}`, false},
		{filter, `{"include":[],"exclude":["a"]}`, false},
		{filter, `{"include":["a"],"exclude":["b"]}`, true},
		{filter, `{"include":["a"],"exclude":[]}`, true},
		{filter, `{"exclude":"a"}`, true},
		{filter, `{"persistResults":1}`, true},
		{filter, `{"exlude":["a"]}`, true},
		{filter, `8000`, true},
		{limiter, `8000`, false},
		{limiter, `{"limit":8000,"encoding":"model","useTiktoken":true,"tokenizer":"mine","reserve":100,"oversize":"error"}`, false},
		{limiter, ``, true},
		{limiter, `{}`, true},
		{limiter, `0`, true},
		{limiter, `-5`, true},
		{limiter, `1.5`, true},
		{limiter, `"8000"`, true},
		{limiter, `{"limit":0}`, true},
		{limiter, `{"limit":8000,"encoding":"cl200k"}`, true},
		{limiter, `{"limit":8000,"oversize":"drop"}`, true},
		{limiter, `{"limit":8000,"limits":1}`, true},
	} {
		_, err := test.plugin.Processor("", &plugin.PartOptions{Config: json.RawMessage(test.config)})
		if want := map[bool]host.Code{true: host.InvalidArgument}[test.refused]; host.CodeOf(err) != want {
			t.Errorf("config %s of %s: %v, want code %q", test.config, test.plugin.ID(), err, want)
		}
	}
	view := llm.NewView([]*host.Message{host.UserText("hello")}, "gpt-4o", byteCounter{})
	_, _, err := llm.Process(t.Context(), builtin(t, rt, tokenlimiter.Wasm, `{"limit":5,"reserve":5}`), view)
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(fmt.Sprint(err), "reserve is 5") {
		t.Errorf("reserve as large as the limit: %v", err)
	}
}

// A custom tokenizer and the model's encoding reach the limiter.
func testCounts(t *testing.T, rt *plugin.Runtime) {
	for _, test := range []struct {
		config, want string
		counter      host.TokenCounter
	}{
		{`{"limit":100,"tokenizer":"mine"}`, `"type":"CustomTokenizer"`, byteCounter{}},
		{`{"limit":100,"encoding":"cl100k_base"}`, `"info":{"encoding":"cl100k_base","type":"TiktokenTokenizer"`, byteCounter{}},
		{`{"limit":100,"encoding":"model"}`, `"info":{"encoding":"o200k_base","type":"TiktokenTokenizer"`, byteCounter{}},
		{`{"limit":100}`, `"approximate":true`, nil},
	} {
		view := llm.NewView([]*host.Message{host.UserText("hello")}, "gpt-4o", test.counter)
		_, done, err := llm.Process(t.Context(), builtin(t, rt, tokenlimiter.Wasm, test.config), view)
		if err != nil || !strings.Contains(string(done.Report), test.want) {
			t.Errorf("config %s: report %s, %v, want %s", test.config, done.Report, err, test.want)
		}
	}
}

// BenchmarkShipped runs the shipped processors one after the other over a
// conversation of 2,000 messages, half of them with calls or results, whose texts
// are short or long. Tokens are counted by the real tables, once and before. Beside
// the chain stand the functions themselves outside the sandbox, on outlines that
// are made already. The bars are 4 ms for the chain, and that long texts take at
// most a tenth more.
func BenchmarkShipped(b *testing.B) {
	rt := newRuntime(b, nil)
	counter := must[*tokens.Counter](b)(tokens.New(nil))
	filter, limiter := builtin(b, rt, toolcallfilter.Wasm, shippedFilter), builtin(b, rt, tokenlimiter.Wasm, shippedLimiter)
	var calls []func()
	var micros, instructions [4]int64
	for i, size := range []int{10, 10_000} {
		messages := longConversation(size)
		process := func(view []*host.Message, set ...host.Processor) []*host.Message {
			for n, p := range set {
				out, done, err := llm.Process(b.Context(), p, llm.NewView(view, "gpt-4o", counter))
				if err != nil {
					b.Fatal(err)
				}
				view = out
				micros[2*i+n] += done.Cost.DurationUS
				instructions[2*i+n] = done.Cost.Instructions
			}
			return view
		}
		process(messages, filter, limiter) // counts
		native := nativeChain(b, messages, process(messages, filter), counter)
		calls = append(calls, func() { process(messages, filter, limiter) }, native)
	}
	clear(micros[:])
	n := 0
	m := sideBySide(b, append(calls, func() { n++ })...)
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	b.ReportMetric(ms(m[0]), "10B-ms")
	b.ReportMetric(ms(m[1]), "10B-native-ms")
	b.ReportMetric(ms(m[2]), "10kB-ms")
	b.ReportMetric(ms(m[3]), "10kB-native-ms")
	b.ReportMetric(float64(m[2])/float64(m[0]), "times-10B")
	b.ReportMetric(float64(micros[0])/1000/float64(n), "filter-sandbox-ms")
	b.ReportMetric(float64(micros[1])/1000/float64(n), "limiter-sandbox-ms")
	b.ReportMetric(float64(instructions[0]+instructions[1]), "instructions")
	b.ReportMetric(0, "ns/op")
}

const (
	shippedFilter  = `{"exclude":["fetch"]}`
	shippedLimiter = `8000`
)

// longConversation has 2,000 messages, each with as many bytes of text.
func longConversation(size int) []*host.Message {
	const round = "u:where | a:search#1 fetch#2 | t:=search#1 | t:=fetch#2"
	messages := hostMessages(historytest.Parse(strings.Repeat(round+" | ", 499) + round))
	text := strings.Repeat("lorem ipsum dolor ", size/18+1)[:size]
	for _, m := range messages {
		switch p := m.Parts[0].(type) {
		case *host.Text:
			p.Text = text
		case *host.ToolCall:
			p.Arguments = json.RawMessage(strconv.Quote(text))
		case *host.ToolResult:
			p.Content = json.RawMessage(strconv.Quote(text))
		}
	}
	return messages
}

// nativeChain returns what both processors do, as functions of outlines.
func nativeChain(b *testing.B, all, filtered []*host.Message, counter host.TokenCounter) func() {
	config := func(s string) pdk.Raw { return pdk.Raw(s) }
	filter := must[*toolcallfilter.Filter](b)(toolcallfilter.New(config(shippedFilter)))
	limiter := must[*tokenlimiter.Limiter](b)(tokenlimiter.New(config(shippedLimiter)))
	first := outlineOf(b, guestMessages(all), llm.NewView(all, "gpt-4o", counter))
	second := outlineOf(b, guestMessages(filtered), llm.NewView(filtered, "gpt-4o", counter))
	return func() {
		var edits, more pdk.Edits
		filter.Apply(first, &edits)
		if _, err := limiter.Apply(second, &more); err != nil || len(edits.List()) == 0 || len(more.List()) == 0 {
			b.Fatal("the functions edit nothing", err)
		}
	}
}
