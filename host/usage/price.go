package usage

import (
	"maps"
	"math"
	"math/bits"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/instrument"
)

// unit is one of the currency in which prices are.
const unit = 1_000_000_000

// DefaultMaxOutput is how many tokens an answer may have at most if neither the request,
// the price of its model nor the plan has a number.
const DefaultMaxOutput = 4096

// Units returns an amount of money, such as 2.50, in billionths of the currency: the unit
// of all amounts of money in this package.
func Units(amount float64) int64 { return int64(math.Round(amount * unit)) }

// Price is what a model costs: the price of a million tokens of each kind, in billionths of
// the currency (see [Units]).
type Price struct {
	Input     int64
	Cached    int64 // of input that the provider had in its cache; 0 is the price of input
	Output    int64
	Reasoning int64 // of output; 0 is the price of output

	// MaxOutput is how many tokens an answer has at most if the request has no number of
	// its own (4,096).
	MaxOutput int
}

// PriceTable has the prices of models. It is not changed after it was given to a ledger.
type PriceTable struct {
	Version  string           // in records, with each call that it has priced
	Currency string           // such as "USD"; for readers of bills
	Models   map[string]Price // by the name of the model
}

// clone returns a copy with the defaults, or an error of code invalid_argument.
func (t *PriceTable) clone() (*PriceTable, error) {
	if t == nil {
		return &PriceTable{}, nil
	}
	c := &PriceTable{Version: t.Version, Currency: t.Currency, Models: maps.Clone(t.Models)}
	for model, p := range c.Models {
		for _, v := range []int64{p.Input, p.Cached, p.Output, p.Reasoning, int64(p.MaxOutput)} {
			if v < 0 {
				return nil, invalid("price of model %q: a number is negative", model)
			}
		}
		if p.Cached == 0 {
			p.Cached = p.Input
		}
		if p.Reasoning == 0 {
			p.Reasoning = p.Output
		}
		if p.MaxOutput == 0 {
			p.MaxOutput = DefaultMaxOutput
		}
		c.Models[model] = p
	}
	if len(c.Models) > 0 && c.Version == "" {
		return nil, invalid("the price table has no version").WithHint("name one: each record of usage has the version that it was priced by")
	}
	return c, nil
}

// maxOutput returns the most tokens of an answer of a model without a number in the request.
func (t *PriceTable) maxOutput(model string) int {
	if p, ok := t.Models[model]; ok {
		return p.MaxOutput
	}
	return DefaultMaxOutput
}

// of returns what a call costs, rounded up; 0 for a model without a price.
func (t *PriceTable) of(model string, u host.Usage) int64 {
	p, ok := t.Models[model]
	if !ok {
		return 0
	}
	cached, reasoning := min(u.CachedTokens, u.InputTokens), min(u.ReasoningTokens, u.OutputTokens)
	var sum int64
	for _, part := range [4]struct {
		tokens int
		price  int64
	}{{u.InputTokens - cached, p.Input}, {cached, p.Cached}, {u.OutputTokens - reasoning, p.Output}, {reasoning, p.Reasoning}} {
		sum = addUp(sum, millionths(part.tokens, part.price))
	}
	return sum
}

// Price returns what a call of a model costs by the table of prices, for a host's instrument;
// the zero Money for a model without a price.
func (l *Ledger) Price(model string, u host.Usage) instrument.Money {
	t := l.prices.Load()
	if _, ok := t.Models[model]; !ok {
		return instrument.Money{}
	}
	return instrument.Money{Amount: t.of(model, u.Bounded()), Currency: t.Currency}
}

// millionths returns tokens*price/1,000,000, rounded up and at most the largest number.
func millionths(tokens int, price int64) int64 {
	if tokens <= 0 || price <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(price))
	lo, carry := bits.Add64(lo, 999_999, 0)
	if hi += carry; hi >= 1_000_000 {
		return math.MaxInt64
	}
	n, _ := bits.Div64(hi, lo, 1_000_000)
	return int64(min(n, math.MaxInt64))
}

// addUp returns a+b for numbers that are not negative, at most the largest number.
func addUp(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
