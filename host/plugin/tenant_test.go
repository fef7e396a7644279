package plugin

// These tests are inside the package for its assembler.

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/longtest"
)

const readsState = `{"path":""}`

func loadAsking(t testing.TB, rt *Runtime, operation, request string, opts *LoadOptions) *Plugin {
	t.Helper()
	p, err := rt.Load(context.Background(), "p", asking(t, operation, request), opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// answer returns the code of the error that a tool call ends in, whether the
// guest told it or the host; "" for none.
func answerCode(t testing.TB, p *Plugin, tenant string) host.Code {
	t.Helper()
	r, err := p.Call(context.Background(), tenant, "tool", []byte("{}"), nil)
	if err == nil && r.GuestError {
		err = abi.NewGuestError(p.id, "tool", r.Output)
	}
	return host.CodeOf(err)
}

func TestWhatATenantMayDo(t *testing.T) {
	reads := Permissions{State: Read}
	for _, row := range []struct {
		name    string
		loaded  Permissions // with the plugin
		tenant  *Tenant
		any     *Tenant
		ceiling *Permissions
		want    host.Code
	}{
		{"nothing by default", Permissions{}, nil, nil, nil, host.PermissionDenied},
		{"what the plugin was loaded with", reads, nil, nil, nil, ""},
		{"a tenant's grants are in the place of the plugin's", reads, &Tenant{Grants: map[string]Permissions{"p": {}}}, nil, nil, host.PermissionDenied},
		{"a tenant is granted more than the plugin was loaded with", Permissions{}, &Tenant{Grants: map[string]Permissions{"p": reads}}, nil, nil, ""},
		{"grants of another plugin are not this one's", Permissions{}, &Tenant{Grants: map[string]Permissions{"q": reads}}, nil, nil, host.PermissionDenied},
		{"what any tenant is granted", Permissions{}, nil, &Tenant{Grants: map[string]Permissions{"p": reads}}, nil, ""},
		{"a tenant with settings is not any tenant", Permissions{}, &Tenant{}, &Tenant{Grants: map[string]Permissions{"p": reads}}, nil, host.PermissionDenied},
		{"no grant passes the ceiling", reads, nil, nil, &Permissions{Messages: true}, host.PermissionDenied},
		{"no tenant's grant passes the ceiling", Permissions{}, &Tenant{Grants: map[string]Permissions{"p": reads}}, nil, &Permissions{}, host.PermissionDenied},
		{"what the ceiling lets through", Permissions{State: Write}, nil, nil, &reads, ""},
		{"a tenant that has the plugin", reads, &Tenant{Plugins: []string{"q", "p"}}, nil, nil, ""},
		{"a tenant that does not", reads, &Tenant{Plugins: []string{"q"}}, nil, nil, host.NotFound},
		{"a tenant that has no plugin", reads, &Tenant{Plugins: []string{}}, nil, nil, host.NotFound},
		{"a tenant's limits", reads, &Tenant{Limits: Limits{Instructions: 100}}, nil, nil, host.ResourceExhausted},
	} {
		t.Run(row.name, func(t *testing.T) {
			opts := &Options{AnyTenant: row.any, Ceiling: row.ceiling}
			if row.tenant != nil {
				opts.Tenants = map[string]*Tenant{"acme": row.tenant}
			}
			p := loadAsking(t, startRuntime(t, opts), "state.get", readsState, &LoadOptions{Granted: row.loaded})
			if got := answerCode(t, p, "acme"); got != row.want {
				t.Errorf("a call ends in %q, want %q", got, row.want)
			}
		})
	}
}

func TestLimitsOfATenantAreNeverWider(t *testing.T) {
	own := Limits{Timeout: time.Hour, Instructions: 10, OutputBytes: 1 << 40, HostCalls: 5}
	got := own.within(Limits{}.withDefaults())
	want := Limits{}.withDefaults()
	want.Instructions, want.HostCalls = 10, 5
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("within: (-want +got)\n%s", diff)
	}
}

func TestAPluginOfOneTenant(t *testing.T) {
	p := loadAsking(t, startRuntime(t, nil), "", "", &LoadOptions{Tenants: []string{"acme"}})
	if _, err := p.Call(t.Context(), "acme", "tool", []byte("{}"), nil); err != nil {
		t.Errorf("its tenant: %v", err)
	}
	_, err := p.Call(t.Context(), "globex", "tool", []byte("{}"), nil)
	if host.CodeOf(err) != host.NotFound || strings.Contains(err.Error(), `"p"`) || strings.Contains(err.Error(), "acme") {
		t.Errorf("another tenant: %v, want not_found without a name", err)
	}
	if !p.Serves("acme") || p.Serves("globex") {
		t.Errorf("Serves: acme %v, globex %v", p.Serves("acme"), p.Serves("globex"))
	}
}

func TestSettingsOfTenantsAreChecked(t *testing.T) {
	rt := startRuntime(t, nil)
	for name, tenant := range map[string]*Tenant{
		"a limit of the module":      {Limits: Limits{MemoryBytes: 1 << 20}},
		"a negative limit":           {Limits: Limits{HostCalls: -1}},
		"a grant of no host":         {Grants: map[string]Permissions{"p": {HTTP: []HTTPAccess{{}}}}},
		"a grant of a host and port": {Grants: map[string]Permissions{"p": {HTTP: []HTTPAccess{{Host: "example.com:80"}}}}},
	} {
		if err := rt.SetTenant("acme", tenant); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), `"acme"`) {
			t.Errorf("%s: %v, want invalid_argument that names the tenant", name, err)
		}
	}
	if _, set := rt.Tenant("acme"); set {
		t.Error("settings that were refused are kept")
	}
}

func TestSettingsAreCopied(t *testing.T) {
	rt := startRuntime(t, nil)
	mine := &Tenant{Grants: map[string]Permissions{"p": {HTTP: []HTTPAccess{{Host: "a.example"}}}}, Plugins: []string{"p"}}
	if err := rt.SetTenant("acme", mine); err != nil {
		t.Fatal(err)
	}
	mine.Grants["p"].HTTP[0].Host = "b.example"
	mine.Plugins[0] = "q"
	got, _ := rt.Tenant("acme")
	if got.Grants["p"].HTTP[0].Host != "a.example" || got.Plugins[0] != "p" {
		t.Errorf("what the caller changed afterwards is in the settings: %+v", got)
	}
}

// Grants change under calls that run; each sees the old or the new ones.
func TestGrantsChangeWhileServing(t *testing.T) {
	rt := startRuntime(t, nil)
	p := loadAsking(t, rt, "state.get", readsState, nil)
	granted := &Tenant{Grants: map[string]Permissions{"p": {State: Read}}}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if code := answerCode(t, p, "acme"); code != "" && code != host.PermissionDenied {
					t.Errorf("a call ends in %q", code)
					return
				}
			}
		})
	}
	for i := range 100 {
		set := func() error { return rt.SetTenant("acme", granted) }
		if i%2 == 1 {
			set = func() error { return rt.ResetTenant("acme") }
		}
		if err := set(); err != nil {
			t.Error(err)
		}
		want := host.Code("")
		if i%2 == 1 {
			want = host.PermissionDenied
		}
		if got := answerCode(t, p, "acme"); got != want {
			t.Errorf("after change %d a call ends in %q, want %q", i, got, want)
		}
	}
	close(stop)
	callers.Wait()
	if err := p.Grant(Permissions{State: Read}); err != nil {
		t.Fatal(err)
	}
	if got := answerCode(t, p, "globex"); got != "" {
		t.Errorf("after a grant for everybody a call ends in %q", got)
	}
}

func TestDenialsAreLoggedOnceAMinuteAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		rt := startRuntime(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		p := loadAsking(t, rt, "state.get", readsState, nil)
		log.Reset()
		logged := func() int { n := strings.Count(log.String(), "plugin was denied"); log.Reset(); return n }
		for range 10 {
			answerCode(t, p, "acme")
		}
		if !strings.Contains(log.String(), `plugin=p tenant=acme grant="state=read"`) {
			t.Errorf("the log does not say who needs what: %s", log.String())
		}
		if n := logged(); n != 1 {
			t.Errorf("10 denials are %d lines, want 1", n)
		}
		answerCode(t, p, "globex")
		if n := logged(); n != 1 {
			t.Errorf("another tenant's denial is %d lines, want 1", n)
		}
		time.Sleep(denialLogEvery)
		answerCode(t, p, "acme")
		if n := logged(); n != 1 {
			t.Errorf("a denial after a minute is %d lines, want 1", n)
		}
		if got := p.Usage("acme").Denied["state=read"]; got != 11 {
			t.Errorf("%d denials are counted for the tenant, want 11", got)
		}
		if got := p.Denials()["state=read"]; got != 12 {
			t.Errorf("%d denials are counted in all, want 12", got)
		}
	})
}

func TestDenialsOfManyHostsAreBounded(t *testing.T) {
	_, s := bound(t, Permissions{})
	s.plugin.runtime.opts.Logger = slog.New(slog.DiscardHandler)
	for i := range 10 * maxDenied {
		_ = s.denied(fmt.Sprintf("http: https://h%d.example:443", i), "ask it")
	}
	denied := s.plugin.Usage("").Denied
	if len(denied) != maxDenied+1 || denied[othersDenied] != 9*maxDenied {
		t.Errorf("%d grants are remembered and %d denials of others, want %d and %d", len(denied), denied[othersDenied], maxDenied+1, 9*maxDenied)
	}
	_, s = bound(t, Permissions{})
	s.plugin.runtime.opts.Logger = slog.New(slog.DiscardHandler)
	s.noteDenied("secret="+strings.Repeat("N", 60_000), nil)
	for grant := range s.plugin.Usage("").Denied {
		if len(grant) > 600 {
			t.Errorf("what a guest names is remembered in %d bytes", len(grant))
		}
	}
}

// A router reads the conversation as long as it is granted that, and has then used it;
// a processor needs no grant.
func TestARouterReadsWhatItIsGranted(t *testing.T) {
	p, err := startRuntime(t, nil).Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{Messages: true}})
	if err != nil {
		t.Fatal(err)
	}
	view := llm.NewView([]*host.Message{host.UserText("one")}, "", byteCounter{})
	ask := func(router bool, op, request string) host.Code {
		_, err := viewOperations{baseOperations{binding: p.bindings.of("acme")}, view, router}.operate(t.Context(), op, []byte(request))
		return host.CodeOf(err)
	}
	const get, count = `{"indices":[0]}`, `{"texts":["one"]}`
	if got := ask(false, "messages.get", get); got != "" || p.Usage("acme").Used.Messages {
		t.Errorf("a processor is told %q and has used %+v", got, p.Usage("acme").Used)
	}
	if got := ask(true, "messages.get", get); got != "" || !p.Usage("acme").Used.Messages {
		t.Errorf("a router is told %q and has used %+v", got, p.Usage("acme").Used)
	}
	if err := p.Grant(Permissions{}); err != nil {
		t.Fatal(err)
	}
	for op, request := range map[string]string{"messages.get": get, "tokens.count": count} {
		if got := ask(true, op, request); got != host.PermissionDenied {
			t.Errorf("%s of a router that the grant was taken from: %q, want permission_denied", op, got)
		}
		if got := ask(false, op, request); got != "" {
			t.Errorf("%s of a processor: %q", op, got)
		}
	}
}

func TestUsageSaysWhatIsUsed(t *testing.T) {
	rt := startRuntime(t, nil)
	p := loadAsking(t, rt, "state.get", readsState, &LoadOptions{Granted: Permissions{State: Write, Messages: true, Clock: true}})
	answerCode(t, p, "acme")
	want := Usage{Asked: p.Manifest().Permissions, Granted: Permissions{State: Write, Messages: true}, Used: Permissions{State: Read}}
	if diff := cmp.Diff(want, p.Usage("acme")); diff != "" {
		t.Errorf("Usage of the tenant that called: (-want +got)\n%s", diff)
	}
	if got := p.Usage("globex").Used; got.State != "" {
		t.Errorf("a tenant that did not call has used %+v", got)
	}
	p.Close()
	again := loadAsking(t, rt, "state.get", readsState, nil)
	if got := again.Usage("acme").Used; got.State != Read {
		t.Errorf("the next version has used %+v, want what the last one did", got)
	}
}

func TestBudgetsEndAndRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := startRuntime(t, nil)
		if err := rt.Ledger().SetPlan("acme", budget{usage.Instructions: 10_000_000}.plan(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		p, err := rt.Load(t.Context(), "hand", handWritten(t, `loop br 0 end unreachable`), &LoadOptions{Limits: Limits{Instructions: 4_000_000}})
		if err != nil {
			t.Fatal(err)
		}
		call := func(tenant string) error {
			_, err := p.Call(t.Context(), tenant, "tool", nil, nil)
			return err
		}
		for i := range 2 {
			if err := call("acme"); err == nil || !strings.Contains(err.Error(), "limit Instructions of 4000000") {
				t.Fatalf("call %d: %v, want the call's own limit", i, err)
			}
		}
		time.Sleep(4 * time.Second)
		for _, what := range []string{"the call that uses it up", "the next one"} {
			err := call("acme")
			used := usedUp(err)
			if used == nil || host.CodeOf(err) != host.ResourceExhausted || !fault.AsError(err).Retryable {
				t.Fatalf("%s: %v, want a budget error that is retryable", what, err)
			}
			want := &usage.ExhaustedError{Tenant: "acme", Resource: usage.Instructions, Limit: 10_000_000, Window: usage.Every(10 * time.Second), Refill: 6 * time.Second}
			if *used != *want {
				t.Errorf("%s: %+v, want %+v", what, used, want)
			}
			if !strings.Contains(err.Error(), "refilled in 6s") {
				t.Errorf("%s: %v does not say when", what, err)
			}
		}
		if n := spentBy(t, rt, "acme", usage.Instructions); n < 10_000_000 || n > 10_000_000+2*callmeter.FuelQuantum {
			t.Errorf("%d instructions are spent", n)
		}
		if err := call("globex"); err == nil || !strings.Contains(err.Error(), "limit Instructions of 4000000") {
			t.Errorf("another tenant: %v, want only its call's own limit", err)
		}
		time.Sleep(6 * time.Second)
		if err := call("acme"); err == nil || !strings.Contains(err.Error(), "limit Instructions of 4000000") {
			t.Errorf("after the refill: %v, want the call's own limit", err)
		}
	})
}

// What is begun and stopped again and again counts as well.
func TestStartingInstancesIsBilled(t *testing.T) {
	rt := startRuntime(t, &Options{Ledger: newLedger(t, budget{usage.Instructions: 5_000_000}.plan(0))})
	wasm := handWritten(t, `memory 1 4
		---
		unreachable
		func $init _initialize -> : i32
		loop local.get 0 i32.const 1 i32.add local.set 0 local.get 0 i32.const 200000 i32.lt_u br_if 0 end`)
	p, err := rt.Load(t.Context(), "hand", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		_, err := p.Call(t.Context(), "acme", "tool", nil, nil)
		if usedUp(err) != nil {
			if i < 2 {
				t.Errorf("call %d already ends in %v", i, err)
			}
			return
		}
	}
	t.Error("20 calls that trap start an instance each and no budget ends")
}

func TestHostCallsHaveABudget(t *testing.T) {
	rt := startRuntime(t, &Options{Ledger: newLedger(t, budget{usage.HostCalls: 2}.plan(0))})
	p := loadAsking(t, rt, "state.get", readsState, &LoadOptions{Granted: Permissions{State: Read}})
	for i, want := range []host.Code{"", "", host.ResourceExhausted} {
		if got := answerCode(t, p, "acme"); got != want {
			t.Errorf("call %d ends in %q, want %q", i, got, want)
		}
	}
	_, err := p.Call(t.Context(), "acme", "tool", []byte("{}"), nil)
	if used := usedUp(err); used == nil || used.Resource != usage.HostCalls {
		t.Errorf("the next call: %v, want the budget HostCalls", err)
	}
	if got := answerCode(t, p, "globex"); got != "" {
		t.Errorf("another tenant's call ends in %q", got)
	}
}

func TestBudgetsShrinkAndGrowWhileServing(t *testing.T) {
	rt := startRuntime(t, nil)
	p := loadAsking(t, rt, "", "", nil)
	set := func(n int64) {
		setBudget(t, rt, "acme", budget{usage.Instructions: n})
	}
	for _, row := range []struct {
		budget int64
		want   host.Code
	}{{1_000_000, ""}, {1, host.ResourceExhausted}, {1_000_000, ""}} {
		set(row.budget)
		if got := answerCode(t, p, "acme"); got != row.want {
			t.Errorf("under a budget of %d a call ends in %q, want %q", row.budget, got, row.want)
		}
	}
}

func TestTenantsWithoutUseAreForgotten(t *testing.T) {
	ts, err := newTenants(&Options{Tenants: map[string]*Tenant{"kept": {}}})
	if err != nil {
		t.Fatal(err)
	}
	open := func(id string) *account { return ts.account(id, func(*account) {}) }
	open("bound").bindings.Add(1)
	for i := range 3 * keptAccounts {
		open(fmt.Sprint(i))
	}
	if n := len(ts.accounts); n > keptAccounts+2 {
		t.Errorf("%d accounts are kept, want at most %d", n, keptAccounts+2)
	}
	for _, id := range []string{"kept", "bound"} {
		if ts.accounts[id] == nil {
			t.Errorf("the account %q is forgotten", id)
		}
	}
}

// An account is not forgotten between being looked up and being claimed: what is set
// for a tenant stays, and a plugin and the operator mean the same account.
func TestAccountsAreClaimedAtOnce(t *testing.T) {
	rt := startRuntime(t, nil)
	ts := rt.tenants
	forget := func(n int) { // all that may be forgotten, as with the next account beyond those that are kept
		ts.mu.Lock()
		ts.sweepAt = 0
		ts.mu.Unlock()
		ts.account(fmt.Sprint("another ", n), func(*account) {})
	}
	p, err := rt.Load(t.Context(), "x", handWritten(t, "i32.const 0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
				forget(n)
			}
		}
	})
	tries := 2_000
	if longtest.Enabled() {
		tries = 20_000
	}
	for i := range tries {
		set, bound := fmt.Sprint("set ", i), fmt.Sprint("bound ", i)
		if err := rt.SetTenant(set, &Tenant{}); err != nil {
			t.Fatal(err)
		}
		if _, own := rt.Tenant(set); !own {
			t.Fatalf("what was set for a tenant is lost, at number %d", i)
		}
		_ = rt.ResetTenant(set)
		s := p.bindings.of(bound)
		if ts.account(bound, func(*account) {}) != s.account {
			t.Fatalf("a tenant has two accounts, at number %d", i)
		}
	}
	close(done)
	sweeping.Wait()
}
