package configfile

import (
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/grantwords"
)

// The places where a grant can be, in block and flow style, with comments
// everywhere.
var editable = []string{
	"# head\nversion: 1\nagents: {clerk: {}} # of one\nplugins:\n  # the plugin\n  p:\n    path: x.wasm # here\n    # after the path\n  q: {path: y}\n",
	"version: 1\nagents: {clerk: {}}\nplugins:\n  p: {path: x.wasm, grant: {clock: true}} # flow\n",
	"version: 1\nagents: {clerk: {}}\nplugins:\n  p:\n    path: x.wasm\n    grant: # what it may\n      state: read # only that\n      # servers\n      http:\n        - https://a.example.com # the first\n      messages: true\n    limits: {timeout: 1s}\n# the end\n",
	"version: 1\nagents: {clerk: {}}\nplugins:\n  p:\n    grant:\n    path: x.wasm\n\n\nlimits: {run_tokens: 7}\n",
	"version: 1\nplugins: {p: {path: x.wasm}}\nagents:\n    clerk: {} # four spaces\ntenants:\n    acme:\n        limits: {timeout: 1s}\n",
	"version: 1\nagents: {clerk: {}}\nplugins: {p: {path: x}}\ntenants: {acme: {grants: {p: {}}}}\n",
}

var comments = regexp.MustCompile(`#[^\n]*`)

// What is granted is there afterwards, with everything that was there before and
// every comment; granting it again changes nothing.
func TestGrantsAreAddedToAnyConfiguration(t *testing.T) {
	words := []string{"state=read", "state=write", "kv=write", "messages", "clock", "random", "queue", "model",
		"http=https://b.example.com", "http=GET,POST https://*.c.example.com:8443",
		"http=GET http://d.internal at 10.1.0.0/16,192.168.7.1", "http=https://[fd00::7]:8443 at fd00::7", "secret=KEY@b.example.com,c.example.com", "operation=billing.charge", "operation=billing.refund", "tools=search", "tools=look_up"}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(editable).Draw(t, "text")
		grants := rapid.SliceOfNDistinct(rapid.SampledFrom(words), 1, 4, rapid.ID[string]).Draw(t, "grants")
		tenant := rapid.SampledFrom([]string{"", "acme", "be:ta", "true"}).Draw(t, "tenant")
		c := mustParse(t, text)
		at := Keys("plugins", "p", "grant")
		if tenant != "" {
			at = Keys("tenants", tenant, "grants", "p")
		}
		out, err := c.WithGrants(at, grants)
		if err != nil {
			t.Fatalf("withGrants(%v) of\n%s\n%v", grants, text, err)
		}
		edited := mustParse(t, string(out))
		got := mustGrants(t, edited, tenant)
		want := grantwords.Words(mustMerge(t, mustGrants(t, c, tenant), grants))
		if diff := cmp.Diff(want, grantwords.Words(got)); diff != "" {
			t.Fatalf("granting %v (-want +got):\n%s\nbefore:\n%s\nafter:\n%s", grants, diff, text, out)
		}
		for _, comment := range comments.FindAllString(text, -1) {
			if !strings.Contains(string(out), comment) {
				t.Fatalf("granting %v loses %q:\nbefore:\n%s\nafter:\n%s", grants, comment, text, out)
			}
		}
		if diff := cmp.Diff(without(t, text), without(t, string(out))); diff != "" {
			t.Fatalf("granting %v changes more than grants:\n%s", grants, diff)
		}
		if again, err := edited.WithGrants(at, grants); err != nil || string(again) != string(out) {
			t.Fatalf("granting %v twice: %v\n%s\nand then\n%s", grants, err, out, again)
		}
	})
}

func mustParse(t *rapid.T, text string) *Config {
	t.Helper()
	c, err := Parse(nil, "agenthost.yaml", []byte(text))
	if err != nil {
		t.Fatalf("parse\n%s\n%v", text, err)
	}
	return c
}

func mustGrants(t *rapid.T, c *Config, tenant string) plugin.Permissions {
	t.Helper()
	g := c.Plugins["p"].Grant
	if tenant != "" {
		g = c.Tenants[tenant].Grants["p"]
	}
	p, err := c.permissions(nil, g)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustMerge(t *rapid.T, p plugin.Permissions, words []string) plugin.Permissions {
	t.Helper()
	for _, w := range words {
		if err := grantwords.Add(&p, w); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// without is a configuration's value with no grants in it.
func without(t *rapid.T, text string) any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	delete(v["plugins"].(map[string]any)["p"].(map[string]any), "grant")
	tenants, _ := v["tenants"].(map[string]any)
	for name, of := range tenants {
		delete(of.(map[string]any), "grants")
		if len(of.(map[string]any)) == 0 {
			delete(tenants, name)
		}
	}
	if len(tenants) == 0 {
		delete(v, "tenants")
	}
	return v
}
