package configfile

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/usage"
)

const withPrices = `version: 1
agents: {clerk: {}}
models: {big: {provider: openai, name: gpt-big}}
prices: {version: 2026-11, currency: USD, models: {big: {input: 2.50, cached: 0.25, output: 10, reasoning: 12, max_output: 2000}, small: {input: 0.1}}}
`

// Prices and budgets in several windows are those of the ledger. A model is priced by its
// name at its provider.
func TestPricesAndWindowsAreOfTheLedger(t *testing.T) {
	c, err := Parse(nil, "c.yaml", []byte(withPrices+`any_tenant: {budget: {window: 1h, tokens: 1000, max_output: 500}}
tenants: {acme: {budget: {money: 1.5, windows: {month: {money: 20, instructions: 7}, 24h: {tokens: 9, time: 2h, model_calls: 3, tool_calls: 4}}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got usage.Options
	if err := c.Usage(&got); err != nil {
		t.Fatal(err)
	}
	day := usage.Every(24 * time.Hour)
	want := usage.Options{
		Default: usage.Plan{Window: usage.Every(time.Hour), MaxOutput: 500, Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 1000}}},
		Tenants: map[string]*usage.Plan{"acme": {Limits: []usage.Limit{
			{Resource: usage.Money, Amount: usage.Units(1.5)},
			{Resource: usage.Tokens, Amount: 9, Window: day}, {Resource: usage.ModelCalls, Amount: 3, Window: day},
			{Resource: usage.ToolCalls, Amount: 4, Window: day}, {Resource: usage.Time, Amount: int64(2 * time.Hour), Window: day},
			{Resource: usage.Instructions, Amount: 7, Window: usage.CalendarMonth}, {Resource: usage.Money, Amount: usage.Units(20), Window: usage.CalendarMonth},
		}}},
		Prices: &usage.PriceTable{Version: "2026-11", Currency: "USD", Models: map[string]usage.Price{
			"gpt-big": {Input: usage.Units(2.5), Cached: usage.Units(0.25), Output: usage.Units(10), Reasoning: usage.Units(12), MaxOutput: 2000},
			"small":   {Input: usage.Units(0.1)},
		}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage.Window{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if l, err := usage.New(nil, &got); err != nil {
		t.Error(err)
	} else if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBadPricesAndWindowsAreRefused(t *testing.T) {
	const head = "version: 1\nagents: {clerk: {}}\n"
	for name, row := range map[string]struct{ text, want string }{
		"no version":             {head + "prices: {models: {m: {input: 1}}}\n", "c.yaml:3:1: the prices have no version"},
		"no models":              {head + "prices: {version: v1}\n", "c.yaml:3:1: the prices have no models"},
		"a negative price":       {head + "prices: {version: v1, models: {m: {output: -1}}}\n", `c.yaml:3:36: output of model "m" is -1, not from 0`},
		"a price of no number":   {head + "prices: {version: v1, models: {m: {output: .nan}}}\n", `output of model "m" is NaN`},
		"an unknown price":       {head + "prices: {version: v1, models: {m: {inptu: 1}}}\n", `unknown key "inptu"; did you mean "input"?`},
		"a window that is none":  {head + "tenants: {acme: {budget: {windows: {year: {tokens: 1}}}}}\n", `c.yaml:3:37: window "year" is neither a length nor a span of the calendar; write 90s, 24h, hour, day or month`},
		"a window of nothing":    {head + "tenants: {acme: {budget: {windows: {day: {}}}}}\n", `c.yaml:3:37: the window "day" limits nothing`},
		"a negative amount":      {head + "tenants: {acme: {budget: {windows: {day: {tokens: -1}}}}}\n", "c.yaml:3:37: the budget Tokens is -1"},
		"a window twice":         {head + "tenants: {acme: {budget: {windows: {60m: {tokens: 1}, 1h: {tokens: 2}}}}}\n", "the plan limits Tokens in 1h0m0s twice"},
		"money without prices":   {head + "any_tenant: {budget: {windows: {day: {money: 1}}}}\n", "c.yaml:3:39: a budget of money needs the prices of models"},
		"negative money":         {withPrices + "any_tenant: {budget: {money: -3}}\n", "c.yaml:5:23: money is -3, not from 0"},
		"an unknown resource":    {head + "any_tenant: {budget: {windows: {day: {tokn: 1}}}}\n", `unknown key "tokn"`},
		"a negative max_output":  {head + "any_tenant: {budget: {max_output: -1}}\n", "the budget MaxOutput of tenant"},
		"two names of one model": {strings.Replace(withPrices, "small:", "gpt-big:", 1), `the model "gpt-big" has two prices`},
	} {
		c, err := Parse(nil, "c.yaml", []byte(row.text))
		if err == nil {
			err = c.Usage(&usage.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}
