package tenants_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/usage"
)

func wantCode(t testing.TB, doing string, err error, code fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); err == nil || got != code {
		t.Errorf("%s: %v (code %q), want code %q", doing, err, got, code)
	}
}

// full is a plan with something in each field.
func full() tenants.Plan {
	return tenants.Plan{
		Targets: []string{"support"}, Models: []string{},
		Plugins: map[string]plugin.Permissions{"pii": {}, "search": {KV: "read", Model: true}},
		Usage: usage.Plan{
			Window: usage.Every(time.Hour), MaxOutput: 100, Rate: 60, Burst: 2, MaxWait: time.Second,
			Limits: []usage.Limit{{Resource: usage.Money, Amount: usage.Units(50), Window: usage.CalendarMonth}, {Resource: usage.Tokens, Amount: 1000}},
		},
		Sandbox:   plugin.Limits{Timeout: time.Second, Instructions: 5_000_000_000, KVBytes: 1 << 20},
		Run:       host.Limits{RunTimeout: 90 * time.Second, MaxToolCalls: 3, RunInstructions: 1 << 40},
		Retention: tenants.Retention{MaxAge: tenants.Duration(720 * time.Hour), MaxThreads: 10, MaxBytes: 1 << 30},
	}
}

var samePlan = cmp.Options{cmp.AllowUnexported(usage.Window{}), cmpopts.EquateEmpty()}

func TestPlanSurvivesJSON(t *testing.T) {
	for name, want := range map[string]tenants.Plan{"full": full(), "zero": {}} {
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got tenants.Plan
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, raw)
		}
		if d := cmp.Diff(want, got, samePlan); d != "" {
			t.Errorf("%s: %s\n%s", name, d, raw)
		}
		if (got.Models == nil) != (want.Models == nil) {
			t.Errorf("%s: no models and each model are the same in %s", name, raw)
		}
		if err := got.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if raw, _ := json.Marshal(tenants.Plan{}); string(raw) != "{}" {
		t.Errorf("the zero plan is %s", raw)
	}
}

func TestBadPlansAreRefused(t *testing.T) {
	for _, text := range []string{
		`{"model":["a"]}`, `{"usage":{"limits":[{"resource":"Gold","amount":1}]}}`, `{"usage":{"window":"fortnight"}}`,
		`{"run":{"run_timeout":90}}`, `{"run":{"max_rounds":"90s"}}`, `{"run":{"max_rounds":1.5}}`, `{"run":{"rounds":1}}`, `{"run":{"max_rounds":[1]}}`,
		`{"sandbox":{"timeout":"soon"}}`, `{"plugins":{"a":{"sudo":true}}}`, `[]`, `{"run":{"max_rounds":99999999999999999999}}`,
	} {
		var p tenants.Plan
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s is a plan: %+v", text, p)
		} else if fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", text, err)
		}
	}
	many := make([]string, tenants.MaxListed+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, p := range map[string]tenants.Plan{
		"many targets": {Targets: many}, "a model twice": {Models: []string{"a", "a"}}, "an empty target": {Targets: []string{""}},
		"negative run limit": {Run: host.Limits{MaxRounds: -1}}, "negative sandbox limit": {Sandbox: plugin.Limits{Timeout: -1}},
		"a limit of the module": {Sandbox: plugin.Limits{MemoryBytes: 1}}, "negative retention": {Retention: tenants.Retention{MaxThreads: -1}},
		"usage": {Usage: usage.Plan{Rate: -1}},
	} {
		wantCode(t, name, p.Check(), fault.InvalidArgument)
	}
}

// FuzzPlanJSON: a plan that is read can be written and read again to the same bytes.
func FuzzPlanJSON(f *testing.F) {
	raw, err := json.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(raw), "{}", "null", `{"run":{"run_timeout":"1s"}}`, `{"plugins":{}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p, q tenants.Plan
		if json.Unmarshal([]byte(text), &p) != nil || p.Check() != nil {
			return
		}
		once, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("write %q: %v", text, err)
		}
		if err := json.Unmarshal(once, &q); err != nil {
			t.Fatalf("read %s: %v", once, err)
		}
		twice, err := json.Marshal(q)
		if err != nil || string(once) != string(twice) {
			t.Errorf("%s becomes %s, %v", once, twice, err)
		}
	})
}
