package plugin

// Scenario: guests call operations of the embedding program, by the contract's host_call
// and as Extism user functions.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/hostfunc"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

const billingManifest = `{"abi":1,"name":"ops","tools":[{"name":"t","description":"","parameters":{}}],"permissions":{"operations":["billing.charge","billing.slow","billing.panic","billing.refund"]}}`

// billing are operations of a program. charge answers with the tenant that is charged.
func billing(calls *atomic.Int64) []hostfunc.Operation {
	return []hostfunc.Operation{
		{Name: "billing.charge", Price: 7_000, RequestBytes: 64, Available: func(tenant string) bool { return tenant != "closed" },
			Do: func(_ context.Context, scope host.Scope, request json.RawMessage) (json.RawMessage, error) {
				calls.Add(1)
				if strings.Contains(string(request), "refuse") {
					return nil, host.Errorf(host.FailedPrecondition, "the card has expired")
				}
				return fmt.Appendf(nil, `{"charged":%q,"request":%s}`, scope.Tenant, request), nil
			}},
		{Name: "billing.slow", Timeout: 20 * time.Millisecond, Do: func(ctx context.Context, _ host.Scope, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		{Name: "billing.panic", Do: func(context.Context, host.Scope, json.RawMessage) (json.RawMessage, error) { panic("hush") }},
		{Name: "billing.refund", Do: func(context.Context, host.Scope, json.RawMessage) (json.RawMessage, error) { return nil, nil }},
	}
}

func TestAnOperationOfTheEmbedderIsHeldToItsGrant(t *testing.T) {
	var calls atomic.Int64
	rt := startRuntime(t, &Options{Operations: billing(&calls)})
	wasm := opsGuest(t, billingManifest)
	all := Permissions{Operations: []string{"billing.charge", "billing.slow", "billing.panic"}}
	for _, c := range []struct {
		claim   string
		tenant  string
		granted Permissions
		op      string
		want    string
		code    host.Code
		says    string
	}{
		{"a granted one runs for the call's tenant", "acme", all, `billing.charge {"cents":1}`, `{"charged":"acme","request":{"cents":1}}`, "", ""},
		{"one that is not granted is refused", "acme", Permissions{}, `billing.charge {}`, "", host.PermissionDenied, `not granted "operation=billing.charge"`},
		{"another grant is none for it", "acme", all, `billing.refund {}`, "", host.PermissionDenied, "operation=billing.refund"},
		{"a tenant without it has no such operation", "closed", all, `billing.charge {}`, "", host.Unimplemented, `this host has no operation "billing.charge"`},
		{"an unknown one is unimplemented", "acme", all, `billing.steal {}`, "", host.Unimplemented, `this host has no operation "billing.steal"`},
		{"a request is JSON", "acme", all, `billing.charge {`, "", host.InvalidArgument, "not valid JSON"},
		{"a request is bounded", "acme", all, `billing.charge "` + strings.Repeat("x", 80) + `"`, "", host.ResourceExhausted, "more than the 64"},
		{"the program's error is the guest's", "acme", all, `billing.charge "refuse"`, "", host.FailedPrecondition, "the card has expired"},
		{"one that takes too long ends", "acme", all, `billing.slow {}`, "", host.DeadlineExceeded, "longer than its timeout of 20ms"},
		{"a panic is an error without its text", "acme", all, `billing.panic {}`, "", host.Internal, "internal error"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			p, err := rt.Load(t.Context(), "ops", wasm, &LoadOptions{Granted: c.granted})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			before := calls.Load()
			out, err := runOp(t.Context(), p, c.tenant, c.op, nil)
			if host.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) || err == nil && out != c.want {
				t.Errorf("%.60s = %q, %v, want %q, or %s that says %q", c.op, out, err, c.want, c.code, c.says)
			}
			ran := c.code == "" || c.code == host.FailedPrecondition
			if (calls.Load() > before) != ran {
				t.Errorf("the program's function ran %d times", calls.Load()-before)
			}
			for range 2 { // the instance, or the next one, serves
				if out, err := runOp(t.Context(), p, "acme", `billing.nothing {}`, nil); host.CodeOf(err) != host.Unimplemented {
					t.Errorf("the next call: %q, %v", out, err)
				}
			}
		})
	}
}

func TestAnOperationOfTheEmbedderIsPricedAndReported(t *testing.T) {
	var calls atomic.Int64
	rt := startRuntime(t, &Options{Operations: billing(&calls)})
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, billingManifest), &LoadOptions{Granted: Permissions{Operations: []string{"billing.charge"}}})
	if err != nil {
		t.Fatal(err)
	}
	cost := func(op string) int64 {
		r, err := p.Call(t.Context(), "acme", "tool", []byte(op), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Cost.Instructions
	}
	if n := cost(`billing.charge {}`) - cost(`billing.absent {}`); n < 7_000 || n > 8_000 {
		t.Errorf("a call costs %d instructions more than an unknown operation, want its price of 7,000", n)
	}
	if _, err := runOp(t.Context(), p, "acme", `billing.refund {}`, nil); host.CodeOf(err) != host.PermissionDenied {
		t.Fatal(err)
	}
	u := p.Usage("acme")
	if diff := cmp.Diff([]string{"billing.charge"}, u.Used.Operations); diff != "" || u.Denied["operation=billing.refund"] != 1 {
		t.Errorf("usage is %+v", u)
	}
	if got := p.Granted().Words(); !slices.Equal(got, []string{"operation=billing.charge"}) {
		t.Errorf("granted is %q", got)
	}
}

func TestACeilingHoldsForOperationsOfTheEmbedder(t *testing.T) {
	var calls atomic.Int64
	rt := startRuntime(t, &Options{Operations: billing(&calls), Ceiling: &Permissions{Operations: []string{"billing.refund"}}})
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, billingManifest), &LoadOptions{Granted: Permissions{Operations: []string{"billing.charge", "billing.refund"}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := runOp(t.Context(), p, "acme", `billing.charge {}`, nil); host.CodeOf(err) != host.PermissionDenied || calls.Load() > 0 {
		t.Errorf("beyond the ceiling: %q, %v", out, err)
	}
	if out, err := runOp(t.Context(), p, "acme", `billing.refund {}`, nil); err != nil || out != "{}" {
		t.Errorf("under the ceiling: %q, %v", out, err)
	}
}

func TestAPluginThatCannotLiveWithoutAnOperationIsRefused(t *testing.T) {
	var calls atomic.Int64
	with, without := startRuntime(t, &Options{Operations: billing(&calls)}), startRuntime(t, nil)
	wasm := constantGuest(t, `{"abi":1,"name":"n","requires":["billing.charge"]}`, nil)
	if _, err := with.Load(t.Context(), "x", wasm, nil); err != nil {
		t.Errorf("where the operation is: %v", err)
	}
	if problems := with.Check(t.Context(), "x", wasm, nil); len(problems) > 0 {
		t.Errorf("where the operation is, Check says %v", problems)
	}
	_, err := without.Load(t.Context(), "x", wasm, nil)
	if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), `needs the operation "billing.charge", which this host does not have`) {
		t.Errorf("where it is not: %v", err)
	}
	if problems := without.Check(t.Context(), "x", wasm, nil); len(problems) != 1 {
		t.Errorf("where it is not, Check says %v", problems)
	}
	if _, err := with.Load(t.Context(), "x", wasm, &LoadOptions{Owner: "closed"}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("for a tenant that does not have it: %v", err)
	}
	if in, err := Inspect(wasm); err != nil || in.ManifestError != nil {
		t.Errorf("Inspect: %+v, %v", in, err)
	}
}

func TestOperationsOfTheEmbedderAreNoneOfTheContract(t *testing.T) {
	for _, op := range Operations() {
		namespace, _, _ := strings.Cut(op, ".")
		if !slices.Contains(hostfunc.Reserved(), namespace) {
			t.Errorf("the namespace of %s is not reserved: a program could have taken it", op)
		}
	}
	if _, err := NewRuntime(t.Context(), &Options{Operations: []hostfunc.Operation{{Name: "kv.get"}}}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a runtime with an operation of the contract's name: %v", err)
	}
}

// extismBilling assembles an Extism plugin that calls billing_charge with a text.
func extismBilling(t testing.TB, function, request string) []byte {
	body := say(0, request) + `
		local.get 0 call $billing local.tee 1
		local.get 1 call $length call $output_set
		i32.const 0`
	return wasmtest.Assemble(t, extismImports()+"import "+extism.UserModule+" "+function+` i64 -> i64 as $billing
		func $run run -> i32 : i64 i64
		`+body+"\nmemory 1 4\nexport memory memory 0\n"+`custom agenthost.manifest `+
		quote(`{"abi":1,"name":"ops","tools":[{"name":"t","export":"run"}],"permissions":{"operations":["billing.charge"]}}`)+"\n")
}

func TestAnOperationOfTheEmbedderIsAnExtismUserFunction(t *testing.T) {
	var calls atomic.Int64
	rt := startRuntime(t, &Options{Operations: billing(&calls)})
	granted := &LoadOptions{Granted: Permissions{Operations: []string{"billing.charge"}}}
	call := func(tenant, request string, opts *LoadOptions) (string, error) {
		p, err := rt.Load(t.Context(), "ext", extismBilling(t, "billing_charge", request), opts)
		if err != nil {
			return "", err
		}
		defer p.Close()
		r, err := p.Call(t.Context(), tenant, "run", nil, nil)
		if err == nil && r.GuestError {
			err = abi.NewGuestError("ext", "run", r.Output)
		}
		return string(r.Output), err
	}
	if out, err := call("acme", `{"cents":1}`, granted); err != nil || out != `{"charged":"acme","request":{"cents":1}}` {
		t.Errorf("granted: %q, %v", out, err)
	}
	for claim, c := range map[string]struct {
		tenant, request string
		opts            *LoadOptions
		code            host.Code
		says            string
	}{
		"not granted":             {"acme", `{}`, nil, host.PermissionDenied, "operation=billing.charge"},
		"a tenant without it":     {"closed", `{}`, granted, host.Unimplemented, "no operation"},
		"an error of the program": {"acme", `"refuse"`, granted, host.FailedPrecondition, "the card has expired"},
		"no JSON":                 {"acme", `{`, granted, host.InvalidArgument, "not valid JSON"},
	} {
		if out, err := call(c.tenant, c.request, c.opts); host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v, want %s that says %q", claim, out, err, c.code, c.says)
		}
	}
	_, err := rt.Load(t.Context(), "ext", extismBilling(t, "billing_steal", `{}`), granted)
	if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "a function of another host") || !strings.Contains(fault.AsError(err).Hint, "billing_charge") {
		t.Errorf("a function that is none: %v", err)
	}
}

func TestHostileUsesOfAnOperationLeaveTheHostServing(t *testing.T) {
	var calls atomic.Int64
	rt := startRuntime(t, &Options{Operations: billing(&calls)})
	flood := func(op, request string) string { // an endless loop of calls
		return `
		loop
		i32.const 0 i32.const ` + fmt.Sprint(len(op)) + ` i32.const ` + fmt.Sprint(len(op)) + ` i32.const ` + fmt.Sprint(len(request)) + `
		call $host_call drop br 0
		end i32.const 0`
	}
	guest := func(op, request string) []byte {
		return wasmtest.Assemble(t, `
		import agenthost_v1 host_call i32 i32 i32 i32 -> i64 as $host_call
		memory 1
		export memory memory 0
		custom agenthost.manifest `+quote(billingManifest)+`
		data 0 `+quote(op+request)+`
		func $f agenthost_tool i32 -> i32 :
		`+flood(op, request)+"\n")
	}
	for _, c := range []struct {
		claim, op, request string
		limits             Limits
		code               host.Code
	}{
		{"a flood of calls", "billing.charge", `{}`, Limits{HostCalls: 200}, host.ResourceExhausted},
		{"a flood that costs instructions", "billing.charge", `{}`, Limits{Instructions: 1_000_000}, host.ResourceExhausted},
		{"a flood of what is refused", "billing.refund", `{}`, Limits{HostCalls: 200}, host.ResourceExhausted},
		{"a flood of what waits", "billing.slow", `{}`, Limits{Timeout: 100 * time.Millisecond}, host.DeadlineExceeded},
		{"a flood of panics", "billing.panic", `{}`, Limits{HostCalls: 200}, host.ResourceExhausted},
		{"a request that is deep", "billing.charge", strings.Repeat("[", 60), Limits{HostCalls: 200}, host.ResourceExhausted},
	} {
		t.Run(c.claim, func(t *testing.T) {
			p, err := rt.Load(t.Context(), "ops", guest(c.op, c.request), &LoadOptions{Limits: c.limits, Granted: Permissions{Operations: []string{"billing.charge", "billing.slow", "billing.panic"}}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for range 2 {
				if _, err := p.Call(t.Context(), "acme", "tool", nil, nil); host.CodeOf(err) != c.code {
					t.Errorf("ends in %v, want %s", err, c.code)
				}
			}
		})
	}
}
