package plugins_test

// Scenario: the same five plugins in every language answer alike.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/pdk/js"
)

// plugins are the five, by the names of their sources and of their transcripts.
var plugins = []string{"translate", "scores", "redact", "triage", "remember"}

// A language says where its plugins are.
type language struct {
	name  string
	guest func(t testing.TB, plugin string) []byte
}

// languages are those that have a kit. What other compilers than Go's have built is in the
// repository; guests_test.go builds it again.
var languages = []language{
	{"go", func(t testing.TB, name string) []byte { return testcode.Build(t, "./go/"+name) }},
	{"js", func(t testing.TB, name string) []byte {
		wasm, err := js.Pack(file(t, "js/"+name+".js"))
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}},
	{"c", func(t testing.TB, name string) []byte { return file(t, "c/"+name+".wasm") }},
	{"rust", func(t testing.TB, name string) []byte { return file(t, "rust/"+name+".wasm") }},
	{"assemblyscript", func(t testing.TB, name string) []byte { return file(t, "assemblyscript/"+name+".wasm") }},
	{"zig", func(t testing.TB, name string) []byte { return file(t, "zig/"+name+".wasm") }},
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// eachPlugin runs a test for each plugin of each language.
func eachPlugin(t *testing.T, run func(t *testing.T, l language, name string)) {
	for _, l := range languages {
		for _, name := range plugins {
			t.Run(l.name+"/"+name, func(t *testing.T) { run(t, l, name) })
		}
	}
}

// granted is what an operator grants the plugins: each gets what it asks for of it.
var granted = plugin.Permissions{
	KV:      plugin.Write,
	HTTP:    []plugin.HTTPAccess{{Host: serverName, Port: serverPort, Methods: []string{"POST"}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
	Secrets: []plugin.SecretAccess{{Name: "translate_key", Hosts: []string{serverName}}},
}

func options(t testing.TB) *plugin.Options {
	return &plugin.Options{CacheDir: testcode.Dir(), Interpreters: [][]byte{js.Engine()}, Store: pluginkv.New(kv.NewMemory(), nil), Fetcher: translationServer(t),
		Limits: plugin.Limits{Timeout: time.Minute, StartTimeout: time.Minute}} // a busy machine does not run a call for seconds
}

func load(t testing.TB, wasm []byte, rights plugin.Permissions) *plugin.Plugin {
	t.Helper()
	runtime, err := plugin.NewRuntime(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runtime.Close(t.Context()) })
	p, err := runtime.Load(t.Context(), "five", wasm, &plugin.LoadOptions{Granted: rights})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A step of a transcript is one call. The steps follow one another on one plugin, with what
// the host keeps for it.
type step struct {
	claim, export string
	input         json.RawMessage
	output        json.RawMessage // nil if the call fails
	failure       json.RawMessage // the wanted members of the error
}

// transcript reads testdata/PLUGIN.txtar, whose sections are CLAIM/EXPORT.json and
// CLAIM/output.json or CLAIM/error.json.
func transcript(t testing.TB, name string) (steps []step) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		claim, section := path.Split(f.Name)
		switch section {
		case "output.json":
			steps[len(steps)-1].output = f.Data
		case "error.json":
			steps[len(steps)-1].failure = f.Data
		default:
			steps = append(steps, step{claim: strings.TrimSuffix(claim, "/"), export: strings.TrimSuffix(section, ".json"), input: bytes.TrimSpace(f.Data)})
		}
	}
	return steps
}

func TestTheFivePluginsAnswerAlikeInEveryLanguage(t *testing.T) {
	eachPlugin(t, func(t *testing.T, l language, name string) {
		p := load(t, l.guest(t, name), granted)
		opts := &plugin.CallOptions{Own: host.NewProviderState(nil)}
		for _, s := range transcript(t, name) {
			t.Run(s.claim, func(t *testing.T) { s.check(t, p, opts) })
		}
	})
}

// check makes the call of a step for the tenant in its scope.
func (s *step) check(t *testing.T, p *plugin.Plugin, opts *plugin.CallOptions) {
	var in struct{ Scope struct{ Tenant string } }
	if err := json.Unmarshal(s.input, &in); err != nil {
		t.Fatal(err)
	}
	result, err := p.Call(t.Context(), in.Scope.Tenant, s.export, s.input, opts)
	if err != nil {
		t.Fatalf("%s with %s: %v", s.export, s.input, err)
	}
	got, want := meant(decoded(t, result.Output)), decoded(t, s.output)
	if s.failure != nil {
		got, want = failure(got, decoded(t, s.failure))
	}
	if result.GuestError != (s.failure != nil) || !reflect.DeepEqual(got, want) {
		t.Errorf("%s with %s is answered with\n%s\nwant\n%s%s", s.export, s.input, result.Output, s.output, s.failure)
	}
}

// meant returns an answer without lists that say the same when they are absent.
func meant(answer any) any {
	if members, ok := answer.(map[string]any); ok {
		for _, name := range []string{"edits", "next"} {
			if list, ok := members[name].([]any); ok && len(list) == 0 {
				delete(members, name)
			}
		}
	}
	return answer
}

// failure returns of an error object the members that the wanted one has. That it is not
// retryable need not be said.
func failure(got, wanted any) (any, any) {
	have, _ := got.(map[string]any)
	want, _ := wanted.(map[string]any)
	want["retryable"] = want["retryable"] == true
	of := map[string]any{}
	for name := range want {
		of[name] = have[name]
	}
	of["retryable"] = have["retryable"] == true
	return of, want
}

func decoded(t *testing.T, document []byte) (v any) {
	t.Helper()
	if document == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, document)
	}
	return v
}

func TestTheFivePluginsFollowTheContract(t *testing.T) {
	longtest.Need(t, "the rules of the contract take a second for each plugin")
	eachPlugin(t, func(t *testing.T, l language, name string) {
		var calls []plugintest.Call
		for _, s := range transcript(t, name) {
			if s.output != nil {
				calls = append(calls, plugintest.Call{Export: s.export, Input: string(s.input)})
			}
		}
		plugintest.TestGuest(t, l.guest(t, name), &plugintest.Options{Granted: granted, Runtime: options(t), Calls: calls, Repeats: 100})
	})
}

func TestScoresAreListedBeyondOnePage(t *testing.T) {
	const players = 101 // a page of kv.list has 100
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			p := load(t, l.guest(t, "scores"), granted)
			for i := range players {
				if result, err := p.Call(t.Context(), "acme", "tool", fmt.Appendf(nil, `{"tool":"score","arguments":{"player":"p%03d","points":%d}}`, i, i), nil); err != nil || result.GuestError {
					t.Fatalf("score %d: %s, %v", i, result.Output, err)
				}
			}
			result, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"scores","arguments":{}}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			list, _ := decoded(t, result.Output).(map[string]any)["content"].([]any)
			if len(list) != players || fmt.Sprint(list[players-1]) != "map[player:p100 score:100]" {
				t.Errorf("%d scores are listed of %d: %.200s", len(list), players, result.Output)
			}
		})
	}
}

func TestTheFivePluginsHaveTheSameSchemas(t *testing.T) {
	schemas := map[string]string{}
	for _, l := range languages {
		for _, tool := range load(t, l.guest(t, "scores"), granted).Manifest().Tools {
			if tool.Name != "score" {
				continue
			}
			got, first := fmt.Sprint(decoded(t, tool.Parameters)), schemas[tool.Name]
			if first == "" {
				schemas[tool.Name] = got
			} else if got != first {
				t.Errorf("the arguments of %s in %s are %s, want %s", tool.Name, l.name, got, first)
			}
		}
	}
}

func TestATranslationNeedsWhatWasGranted(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			wasm := l.guest(t, "translate")
			for missing, rights := range map[string]plugin.Permissions{"http": {Secrets: granted.Secrets}, "secrets": {HTTP: granted.HTTP}} {
				result, err := load(t, wasm, rights).Call(t.Context(), "acme", "tool", []byte(`{"tool":"translate","arguments":{"text":"x","to":"de"}}`), nil)
				if err != nil || !result.GuestError || decoded(t, result.Output).(map[string]any)["code"] != string(host.PermissionDenied) {
					t.Errorf("without %s the tool answers %s, %v; want permission_denied", missing, result.Output, err)
				}
			}
		})
	}
}

// hostile are inputs and conversations that a plugin must answer in some way: with a result,
// or an error, and within the limits of a call.
func hostile(name string) (inputs []plugintest.Call) {
	texts := []string{`"\ud800@\ud800.x"`, `"\u0000@\u0000"`, `5`, `null`, `[["x"]]`, `{"":{}}`}
	for _, piece := range []string{"a", "@", ".", "1 ", "1-", "a@", "@a.", "a.b@c-", "É@", `\n`, `\\`} {
		texts = append(texts, `"`+strings.Repeat(piece, longtest.Alone(4_000, 20_000)/len(piece))+`"`)
	}
	for _, text := range texts {
		message := fmt.Sprintf(`{"id":"m1","role":"user","parts":[{"type":"text","text":%s}]}`, text)
		switch name {
		case "translate":
			inputs = append(inputs, plugintest.Call{Export: "tool", Input: fmt.Sprintf(`{"tool":"translate","arguments":{"text":%s,"to":%s}}`, text, text)})
		case "scores":
			inputs = append(inputs, plugintest.Call{Export: "tool", Input: fmt.Sprintf(`{"tool":"score","arguments":{"player":%s,"points":1e400}}`, text)},
				plugintest.Call{Export: "tool", Input: fmt.Sprintf(`{"tool":"score","arguments":%s}`, text)})
		case "redact":
			inputs = append(inputs, plugintest.Call{Export: "process", Input: fmt.Sprintf(`{"processor":"redact","model":"m","messages":[%s,{"role":"user","parts":[{"type":"data","value":{"x":[%s]}}]}]}`, message, text)})
		case "triage":
			inputs = append(inputs, plugintest.Call{Export: "route", Input: fmt.Sprintf(`{"router":"triage","config":{"rules":[{"agent":"a","words":[%s]}],"otherwise":"b"},"input":%s,"call_count":0,"stack":[],"agents":[]}`, text, message)},
				plugintest.Call{Export: "route", Input: fmt.Sprintf(`{"router":"triage","config":%s,"call_count":0,"stack":[],"agents":[]}`, text)})
		case "remember":
			inputs = append(inputs, plugintest.Call{Export: "observe", Input: fmt.Sprintf(`{"provider":"remember","messages":[%s],"responses":[]}`, strings.Replace(message, `"text":"`, `"text":"Remember: `, 1))},
				plugintest.Call{Export: "provide", Input: `{"provider":"remember","messages":[]}`})
		}
	}
	if name == "translate" {
		for _, page := range []string{"", "null", "{}", `{\"text\":5}`, strings.Repeat("[", 5_000), `\"` + strings.Repeat("x", 100_000) + `\"`, `{\"text\":\"\\ud800\"}`} {
			inputs = append(inputs, plugintest.Call{Export: "tool", Input: `{"tool":"translate","arguments":{"text":"page: ` + page + `","to":"de"}}`})
		}
		inputs = append(inputs, plugintest.Call{Export: "tool", Input: `{"tool":"translate","arguments":{"text":"bytes","to":"de"}}`})
	}
	return inputs
}

func TestHostileInputsAreAnsweredWithinTheLimits(t *testing.T) {
	eachPlugin(t, func(t *testing.T, l language, name string) {
		p := load(t, l.guest(t, name), granted)
		opts := &plugin.CallOptions{Own: host.NewProviderState(nil)}
		for _, c := range hostile(name) {
			if _, err := p.Call(t.Context(), "acme", c.Export, []byte(c.Input), opts); err != nil {
				t.Errorf("%s with %.100s: %v", c.Export, c.Input, err)
			}
		}
	})
}
