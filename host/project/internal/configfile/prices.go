package configfile

import (
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host/usage"
)

// Prices is the price table of models.
type Prices struct {
	Version  string           `yaml:"version"`
	Currency string           `yaml:"currency"`
	Models   map[string]Price `yaml:"models"` // by the names of models here or at their providers
}

// Price is what a million tokens of a model cost.
type Price struct {
	Input     float64 `yaml:"input"`
	Cached    float64 `yaml:"cached"`
	Output    float64 `yaml:"output"`
	Reasoning float64 `yaml:"reasoning"`
	MaxOutput int     `yaml:"max_output"`
}

// The bounds of the price of a million tokens, and of a budget of money.
const (
	maxPrice = 1_000_000
	maxMoney = 1_000_000_000
)

// priceTable returns the configured prices, nil if there are none. A price of a model of the
// configuration is that of the model's name at its provider, which calls are recorded with.
func (c *Config) priceTable() (*usage.PriceTable, error) {
	at := Keys("prices")
	if len(c.Prices.Models) == 0 {
		if c.Prices.Version != "" || c.Prices.Currency != "" {
			return nil, c.ErrorAt(at, "the prices have no models").WithHint("write: models: {NAME: {input: 2.50, output: 10}}")
		}
		return nil, nil
	}
	if c.Prices.Version == "" {
		return nil, c.ErrorAt(at, "the prices have no version").WithHint("write: version: 2026-11; each record of usage has the version that it was priced by")
	}
	t := &usage.PriceTable{Version: c.Prices.Version, Currency: c.Prices.Currency, Models: map[string]usage.Price{}}
	for _, name := range slices.Sorted(maps.Keys(c.Prices.Models)) {
		p, at := c.Prices.Models[name], at.To("models", name)
		for _, f := range []struct {
			key string
			v   float64
		}{{"input", p.Input}, {"cached", p.Cached}, {"output", p.Output}, {"reasoning", p.Reasoning}, {"max_output", float64(p.MaxOutput)}} {
			if !(f.v >= 0 && f.v <= maxPrice) {
				return nil, c.ErrorAt(at.To(f.key), "%s of model %q is %v, not from 0 to %d", f.key, name, f.v, maxPrice).WithHint("write the price of a million tokens, such as 2.50")
			}
		}
		provider := name
		if m, ok := c.Models[name]; ok && m.Name != "" {
			provider = m.Name
		}
		if _, twice := t.Models[provider]; twice {
			return nil, c.ErrorAt(at, "the model %q has two prices", provider).WithHint("a model has one by its name here or by its name at its provider; keep one")
		}
		t.Models[provider] = usage.Price{
			Input: usage.Units(p.Input), Cached: usage.Units(p.Cached), Output: usage.Units(p.Output), Reasoning: usage.Units(p.Reasoning), MaxOutput: p.MaxOutput,
		}
	}
	return t, nil
}
