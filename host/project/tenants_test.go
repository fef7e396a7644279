package project_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/usage"
)

// The plan of a record takes the place of the configuration's settings until the record
// goes, also when the configuration is saved meanwhile.
func TestPlansOfTenants(t *testing.T) {
	const text = "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n"
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("agenthost.yaml", text+"tenants: {acme: {budget: {tool_calls: 9}}, globex: {budget: {tool_calls: 9}}}\n")
	write("rules.yaml", "rules: [{match: {}, reply: {text: It was sent yesterday.}}]\n")
	p, err := project.Load(t.Context(), dir, &project.Options{Replaceable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	reload := project.NewReloader(p, t.Logf)
	reload.Watch()
	run := func(tenant string) host.Code {
		t.Helper()
		_, err := p.Run(t.Context(), &host.Request{Tenant: tenant, Thread: "t1", Text: "hi"})
		if err == nil {
			return ""
		}
		return host.CodeOf(err)
	}
	want := func(when, tenant string, code host.Code) {
		t.Helper()
		if got := run(tenant); got != code {
			t.Errorf("%s: a run of %s ends with %q, want %q", when, tenant, got, code)
		}
	}
	want("without a record", "acme", "")

	store := p.Tenants()
	noModels := tenants.Plan{Models: []string{}}
	if _, err := store.Create(t.Context(), "acme", &tenants.Spec{Plan: noModels}); err != nil {
		t.Fatal(err)
	}
	want("with a plan without models", "acme", host.PermissionDenied)
	want("beside it", "globex", "")

	plan := func(change tenants.Plan) {
		t.Helper()
		if _, err := store.Change(t.Context(), "acme", func(t *tenants.Tenant) error { t.Plan = change; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	plan(tenants.Plan{Usage: usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 1}}}})
	want("with a budget of one token", "acme", host.ResourceExhausted)
	write("agenthost.yaml", text+"tenants: {acme: {budget: {tool_calls: 8}}, globex: {budget: {tokens: 1}}}\n")
	reload.Refresh(t.Context())
	want("after the configuration is saved", "acme", host.ResourceExhausted)
	want("after the configuration is saved", "globex", host.ResourceExhausted)

	plan(tenants.Plan{})
	want("with a plan that bounds nothing", "acme", "")
	if _, err := store.Suspend(t.Context(), "acme", "the invoice is open"); err != nil {
		t.Fatal(err)
	}
	want("suspended", "acme", host.PermissionDenied)
	if err := store.Delete(t.Context(), "acme", p.Erasures()); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Erasures().Prove(t.Context(), "acme"); err != nil || !r.Gone {
		t.Errorf("Prove = %+v, %v", r, err)
	}
	want("behind its deletion", "acme", host.PermissionDenied)
	if r, err := p.Erasures().Prove(t.Context(), "acme"); err != nil || !r.Gone {
		t.Errorf("Prove after another request = %+v, %v", r, err)
	}
}

// A price that is saved while the host serves is that of the next call, under the new
// version; one that makes no sense leaves the table as it was.
func TestSavedPricesAreThoseOfTheNextCalls(t *testing.T) {
	const text = "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n"
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("agenthost.yaml", text)
	write("rules.yaml", "rules: [{match: {}, reply: {text: It was sent yesterday.}}]\n")
	p, err := project.Load(t.Context(), dir, &project.Options{Replaceable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	var said []string
	reload := project.NewReloader(p, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	reload.Watch()
	for i, c := range []struct {
		saved   string // beside the text
		version string // of the call's record
		priced  bool
		says    string
	}{
		{"", "", false, ""},
		{"prices: {version: v1, models: {scripted: {input: 1, output: 2}}}\n", "v1", true, "prices and MCP servers are taken"},
		{"prices: {version: v2, models: {scripted: {input: 1000, output: 2000}}}\n", "v2", true, "prices and MCP servers are taken"},
		{"prices: {version: v3, models: {scripted: {input: -1}}}\n", "v2", true, "stays as it was"},
		{"tenants: {acme: {budget: {money: 0.000001}}}\nprices: {version: v4, models: {scripted: {input: 1000}}}\n", "", false, "prices and MCP servers are taken"},
		{"", "", false, "prices and MCP servers are taken"},
	} {
		said = nil
		write("agenthost.yaml", text+c.saved)
		reload.Refresh(t.Context())
		if all := strings.Join(said, "\n"); !strings.Contains(all, c.says) || strings.Contains(all, "start again") {
			t.Errorf("save %d: it says %q, want %q", i, all, c.says)
		}
		_, err := p.Run(t.Context(), &host.Request{Tenant: "acme", Thread: fmt.Sprint("t", i), Text: "hi"})
		if strings.Contains(c.saved, "money") {
			if host.CodeOf(err) != host.ResourceExhausted {
				t.Errorf("save %d: a run for more money than is left: %v", i, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("save %d: %v", i, err)
		}
		records, _, err := p.Ledger().Export(t.Context(), "acme", "", 0, 100)
		at := slices.IndexFunc(records, func(r usage.Record) bool { return r.Thread == fmt.Sprint("t", i) })
		if err != nil || at < 0 || len(records[at].Calls) != 1 {
			t.Fatalf("save %d: records %+v, %v", i, records, err)
		}
		last := records[at]
		if last.PriceVersion != c.version || (last.Calls[0].Money > 0) != c.priced {
			t.Errorf("save %d: a call costs %d by version %q, want version %q", i, last.Calls[0].Money, last.PriceVersion, c.version)
		}
	}
}

func TestPlansKeepLimitsOfRuns(t *testing.T) {
	p := loadInMemory(t)
	spec := &tenants.Spec{Plan: tenants.Plan{Run: host.Limits{MaxToolCalls: 3}}}
	if _, err := p.Tenants().Create(t.Context(), "acme", spec); err != nil {
		t.Fatal(err)
	}
	if l := p.Tenants().Limits("acme"); l.MaxToolCalls != 3 {
		t.Errorf("Limits = %+v", l)
	}
	if _, err := p.Run(t.Context(), &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
		t.Error(err)
	}
}
