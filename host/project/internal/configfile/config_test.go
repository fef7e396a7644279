package configfile

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

func TestParseConfigReadsEverything(t *testing.T) {
	c, err := Parse(nil, "dir/agenthost.yaml", []byte(`
version: 1
default: desk
models:
  m: {provider: openai, name: gpt-4o-mini, base_url: "http://localhost:1/v1", key_env: KEY, timeout: 1m30s}
plugins:
  p:
    path: ../p.wasm
    grant: {state: write, messages: true}
    limits: {timeout: 500ms, memory: 32MiB, instructions: 1000000, output: 4kB, instances: 2}
    config: {a: [1, "x"]}
agents:
  clerk: &clerk {description: d, tools: [p/t], processors: [{use: p, config: 10, on_failure: skip}]}
networks:
  desk: {agents: [clerk], router: p, state: {n: 12345678901234567890}}
limits: {run_tokens: 5, run_timeout: 1h, tool_calls: 7, input: 2MiB, state: 1KiB}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := plugin.Limits{Timeout: 500 * time.Millisecond, MemoryBytes: 32 << 20, Instructions: 1_000_000, OutputBytes: 4000, Instances: 2}
	if diff := cmp.Diff(want, c.Plugins["p"].Limits.Limits()); diff != "" {
		t.Errorf("plugin limits (-want +got):\n%s", diff)
	}
	wantHost := host.Limits{RunTokens: 5, RunTimeout: time.Hour, MaxToolCalls: 7, InputBytes: 2 << 20, StateBytes: 1 << 10}
	if diff := cmp.Diff(wantHost, c.Limits.Limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	grants, err := c.Granted("p")
	if want := (plugin.Permissions{State: plugin.Write, Messages: true}); err != nil || !cmp.Equal(want, grants) {
		t.Errorf("grants = %+v, %v, want %+v", grants, err, want)
	}
	if got := time.Duration(c.Models["m"].Timeout); got != 90*time.Second {
		t.Errorf("timeout of the model = %s", got)
	}
	if got := c.FilePath(c.Plugins["p"].Path); got != "p.wasm" {
		t.Errorf("path = %q, want that beside the configuration's directory", got)
	}
	if got := c.DefaultTarget(); got != "desk" {
		t.Errorf("target() = %q", got)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	const head = "version: 1\nagents: {clerk: {}}\n"
	for name, row := range map[string]struct{ text, want string }{
		"an unknown key":             {head + "modles: {}\n", `c.yaml:3:1: unknown key "modles"; did you mean "models"?`},
		"an unknown key in a flow":   {head + "plugins: {p: {grant: {clok: true}}}\n", `c.yaml:3:23: unknown key "clok"; did you mean "clock"?`},
		"an unknown key in a list":   {"version: 1\nagents: {a: {processors: [{use: p, confg: 1}]}}\n", `c.yaml:2:36: unknown key "confg"; did you mean "config"?`},
		"a key that was removed":     {head + "history: {address_env: DATABASE_URL}\n", `c.yaml:3:11: the key "address_env" exists no more; a command's --data says where`},
		"a key twice":                {head + "model: a\nmodel: b\n", `c.yaml:4:1: mapping key "model" already defined at [3:1]`},
		"a wrong type":               {"version: 1\nagents: {a: {max_rounds: lots}}\n", "c.yaml:2:26: a whole number is due here, not text"},
		"a list for a text":          {"version: 1\nmodel: [a]\nagents: {a: {}}\n", "c.yaml:2:8: "},
		"a negative duration":        {head + "limits: {run_timeout: -1s}\n", `c.yaml:3:23: "-1s" is not a duration such as 500ms or 2s`},
		"a number as a duration":     {head + "limits: {run_timeout: 10}\n", `c.yaml:3:23: "10" is not a duration`},
		"a list as a duration":       {head + "limits: {run_timeout: [1s]}\n", `is not a duration`},
		"a size with a wrong unit":   {head + "limits: {input: 1MebiByte}\n", `c.yaml:3:17: "1MebiByte" is not a size`},
		"broken YAML":                {"version: 1\nagents: {\n", "c.yaml:"},
		"tabs":                       {"version: 1\nagents:\n\tclerk: {}\n", "c.yaml:3:1: "},
		"a later version":            {"version: 7\nagents: {a: {}}\n", "c.yaml:1:1: version is 7, and this program knows 1"},
		"nothing":                    {"", "c.yaml: it has no version; write: version: 1"},
		"only a comment":             {"# soon\n", "c.yaml: it has no version"},
		"a name for two things":      {head + "networks: {clerk: {agents: [clerk]}}\n", `c.yaml:3:12: "clerk" is both an agent and a network`},
		"a default that is not":      {head + "default: clark\n", `c.yaml:3:1: network or agent "clark" does not exist; did you mean "clerk"?`},
		"a default unlike all":       {head + "default: xyz\n", `"xyz" does not exist; there are: clerk`},
		"a model without a provider": {head + "models: {m: {}}\n", `c.yaml:3:10: provider of model "m" is ""`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(nil, "c.yaml", []byte(row.text))
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("parseConfig(%q) = %v, want %q", row.text, err, row.want)
			}
			if got := host.CodeOf(err); got != host.InvalidArgument {
				t.Errorf("its code is %s", got)
			}
		})
	}
}

func TestReadConfigFindsTheFile(t *testing.T) {
	files := fstest.MapFS{
		"project/agenthost.yaml": {Data: []byte("version: 1\nagents: {clerk: {}}\n")},
		"large.yaml":             {Data: make([]byte, maxConfigBytes+1)},
	}
	for where, code := range map[string]host.Code{
		"project": "", "project/agenthost.yaml": "", ".": host.NotFound, "nowhere": host.NotFound, "large.yaml": host.InvalidArgument,
	} {
		if _, err := Read(files, where); host.CodeOf(err) != code {
			t.Errorf("readConfig(%q) = %v, want code %q", where, err, code)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("version: 1\nagents: {clerk: {tools: [a/b]}}\n")
	f.Add("version: 1\nplugins: {p: {limits: {memory: 1MiB, timeout: 2s}}}\n")
	f.Add("a: &x [*x]\n")
	f.Add("models: !!map {m: ? y : z}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(nil, "c.yaml", []byte(text))
		if (c == nil) == (err == nil) {
			t.Errorf("parseConfig = %v, %v", c, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "c.yaml:") {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
