package project_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// codeFiles are a project whose clerk writes the code of a script. more is added to the
// configuration, and settings are those of code.
func codeFiles(code, settings, more string) fstest.MapFS {
	return fstest.MapFS{
		"desk/agenthost.yaml": {Data: []byte("version: 1\nmodels: {m: {provider: scripted, rules: rules.yaml}}\nplugins: {guest: {path: guest.wasm}}\n" +
			"agents: {clerk: {tools: [guest, 'builtin:code'], code: {" + settings + "}}}\n" + more)},
		"desk/rules.yaml": {Data: []byte("rules:\n- {match: {after: run_code}, reply: {text: '${result}'}}\n" +
			"- {match: {tool: t}, reply: {text: the model is offered t}}\n" +
			"- {match: {tool: run_code}, reply: {calls: [{name: run_code, arguments: {code: '" + code + "'}}]}}\n")},
		"desk/guest.wasm": {Data: testguest.Modules()["result"]},
	}
}

func openCode(t *testing.T, files fstest.MapFS) (*project.Project, error) {
	t.Helper()
	cache := testcode.Project(t)
	p, err := project.Load(t.Context(), "desk", &project.Options{FS: files, Getenv: func(name string) string {
		return map[string]string{"AGENTHOST_CACHE": cache}[name]
	}})
	if err == nil {
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return p, err
}

func TestAnAgentOfAConfigurationWritesCode(t *testing.T) {
	for _, c := range []struct{ claim, code, settings, more, tenant, want string }{
		{claim: "the code calls the tools", code: `return [typeof tools.t, await tools.t()]`, want: `{"result":["function",{}]}`},
		{claim: "direct offers them to the model too", settings: "direct: true", want: "the model is offered t"},
		{claim: "keep is there if it is asked for", code: `return typeof keep`, settings: "keep: true", want: `{"result":"object"}`},
		{claim: "and not otherwise", code: `return typeof keep`, want: `{"result":"undefined"}`},
		{claim: "output bounds what it returns", code: `return "x".repeat(3000)`, settings: "output: 1KiB", want: "more than 1024"},
		{claim: "timeout bounds its time", code: `for (;;) {}`, settings: "timeout: 50ms", want: "50ms"},
		{claim: "console bounds what it writes", code: `console.log("x".repeat(3000))`, settings: "console: 100B", want: "left out"},
		{claim: "instructions bound it", code: `for (;;) {}`, settings: "instructions: 5000000", want: "Instructions of 5000000"},
		{claim: "a ceiling without tools bars them", code: `return await tools.t()`, more: "ceiling: {clock: true}\n", want: "not granted"},
		{claim: "a ceiling with them does not", code: `return await tools.t()`, more: "ceiling: {tools: [t]}\n", want: `{"result":{}}`},
		{claim: "a tenant's grants say which tools its code may call", code: `return await tools.t()`, more: "tenants: {acme: {grants: {'builtin:code': {tools: [other]}}}}\n", tenant: "acme", want: "not granted"},
		{claim: "a tenant without the engine has no code", code: `return 1`, more: "tenants: {poor: {plugins: [guest]}}\n", tenant: "poor", want: "no such plugin"},
		{claim: "a tenant with it has", code: `return 1`, more: "tenants: {rich: {plugins: [guest, 'builtin:code']}}\n", tenant: "rich", want: `{"result":1}`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			p, err := openCode(t, codeFiles(c.code, c.settings, c.more))
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), &host.Request{Tenant: c.tenant, Text: "go"})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Text(); !strings.Contains(got, c.want) {
				t.Errorf("the model reads %s, want in it %s", got, c.want)
			}
		})
	}
}

// A person is asked about a call that code makes, by the rules of the configuration.
func TestTheRulesOfAConfigurationHoldForTheCallsOfCode(t *testing.T) {
	p, err := openCode(t, codeFiles(`return await tools.t()`, "", "approve: [{tool: t, reason: it costs}]\ntool_options: [{tool: run_code, timeout: 20s}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), &host.Request{Thread: "T1", Text: "go"})
	if err != nil || len(r.Questions) != 1 || r.Questions[0].Tool != "t" || r.Questions[0].Reason != "it costs" {
		t.Fatalf("Run = %+v, %v, want the question about t", r, err)
	}
	r, err = p.Run(t.Context(), &host.Request{Resume: r.Run, Answers: []host.Answer{{Question: r.Questions[0].ID, Decision: host.Approve}}})
	if err != nil || r.Text() != `{"result":{}}` {
		t.Errorf("with the answer: %v, %v", r, err)
	}
}

func TestFaultsOfCodeNameTheirPlace(t *testing.T) {
	for more, want := range map[string]string{
		"agents: {a: {code: {keep: true}}}":                                            "tools: [builtin:code]",
		"agents: {a: {tools: ['builtin:code/run_code']}}":                              "write builtin:code",
		"agents: {a: {tools: ['builtin:code'], code: {memory: 1MiB}}}":                 "the engine alone needs",
		"agents: {a: {tools: ['builtin:code'], code: {instructions: -1}}}":             "negative",
		"agents: {a: {tools: ['builtin:code'], code: {speed: 1}}}":                     "speed",
		"agents: {a: {}}\nplugins: {code: {path: 'builtin:code'}}":                     "tools: [builtin:code]",
		"agents: {a: {tools: ['builtin:code']}}\nserve_mcp: {tools: ['builtin:code']}": "builtin:code",
	} {
		_, err := openCode(t, fstest.MapFS{"desk/agenthost.yaml": {Data: []byte("version: 1\n" + more + "\n")}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "agenthost.yaml:") {
			t.Errorf("%s\n%v\nwant its place and %s", more, err, want)
		}
	}
}

func TestAFileTellsWhichAgentsWriteCodeAndWhatBarsIt(t *testing.T) {
	files := codeFiles("", "", "ceiling: {}\nany_tenant: {plugins: ['builtin:code']}\ntenants: {poor: {plugins: [guest]}, rich: {}}\n")
	f, err := project.ReadFile(files, "desk")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.CodeAgents(); !slices.Equal(got, []string{"clerk"}) {
		t.Errorf("CodeAgents = %q", got)
	}
	if got, want := f.CodeBarred(), []string{"ceiling.tools", "tenants.poor.plugins"}; !slices.Equal(got, want) {
		t.Errorf("CodeBarred = %q, want %q", got, want)
	}
}
