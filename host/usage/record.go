package usage

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Record is the use of one run, or, without Run, of a tenant's sandboxed code beside runs:
// its start, its description and its compiling. It is JSON in the store.
type Record struct {
	Seq          uint64    `json:"seq,omitempty"` // position among the tenant's records, from 1: the cursor of Export
	Run          string    `json:"run,omitempty"`
	Key          string    `json:"key,omitempty"` // of the caller: see host.Request.Key
	Network      string    `json:"network,omitempty"`
	Thread       string    `json:"thread,omitempty"`
	Began        time.Time `json:"began"`
	Ended        time.Time `json:"ended"`
	PriceVersion string    `json:"price_version,omitempty"` // of the price table; "" if no call was priced

	Calls        []ModelUse    `json:"calls,omitempty"` // by agent and model, in the order of their first call
	ToolCalls    int64         `json:"tool_calls,omitempty"`
	Instructions int64         `json:"instructions,omitempty"`
	HostCalls    int64         `json:"host_calls,omitempty"`
	HTTPRequests int64         `json:"http_requests,omitempty"`
	ModelTokens  int64         `json:"model_tokens,omitempty"` // of the models that sandboxed code has asked
	Time         time.Duration `json:"time_ns,omitempty"`
}

// ModelUse is the use of one model by one agent.
type ModelUse struct {
	Agent string     `json:"agent,omitempty"` // "" for a router
	Model string     `json:"model"`
	Calls int64      `json:"calls"`
	Usage host.Usage `json:"usage"`
	Money int64      `json:"money,omitempty"` // in billionths of the currency
}

// The bounds of a record.
const (
	// maxUses is how many agents and models a record names; the use of others is
	// summed under otherUses.
	maxUses      = 64
	otherUses    = "(others)"
	sandboxAgent = "(plugins)" // of calls of models by sandboxed code
	maxNameBytes = 200
)

// amount returns what a record has of a resource.
func (r *Record) amount(of Resource) (n int64) {
	switch of {
	case ToolCalls:
		return r.ToolCalls
	case Instructions:
		return r.Instructions
	case HostCalls:
		return r.HostCalls
	case HTTPRequests:
		return r.HTTPRequests
	case ModelTokens:
		return r.ModelTokens
	case Time:
		return int64(r.Time)
	}
	for _, c := range r.Calls {
		switch {
		case of == Money:
			n = addUp(n, c.Money)
		case c.Agent == sandboxAgent: // its tokens are ModelTokens
		case of == Tokens:
			n += int64(c.Usage.Total())
		case of == ModelCalls:
			n += c.Calls
		}
	}
	return n
}

// add adds n of a resource that is a number of the record. Calls of models have addCall.
func (r *Record) add(of Resource, n int64) {
	switch of {
	case ToolCalls:
		r.ToolCalls += n
	case Instructions:
		r.Instructions += n
	case HostCalls:
		r.HostCalls += n
	case HTTPRequests:
		r.HTTPRequests += n
	case ModelTokens:
		r.ModelTokens += n
	case Time:
		r.Time += time.Duration(n)
	}
}

// addCall adds a call of a model.
func (r *Record) addCall(agent, model string, u host.Usage, money int64) {
	i := slices.IndexFunc(r.Calls, func(c ModelUse) bool { return c.Agent == agent && c.Model == model })
	if i < 0 && len(r.Calls) >= maxUses-1 && agent != otherUses {
		r.addCall(otherUses, otherUses, u, money)
		return
	}
	if i < 0 {
		i = len(r.Calls)
		r.Calls = append(r.Calls, ModelUse{Agent: agent, Model: model})
	}
	c := &r.Calls[i]
	c.Calls++
	c.Usage = c.Usage.Add(u)
	c.Money = addUp(c.Money, money)
}

// isZero reports whether nothing was used.
func (r *Record) isZero() bool {
	return len(r.Calls) == 0 && r.ToolCalls == 0 && r.Instructions == 0 && r.HostCalls == 0 && r.HTTPRequests == 0 && r.ModelTokens == 0 && r.Time == 0
}

// clip returns a name that fits a key and a record.
func clip(name string) string {
	if len(name) > maxNameBytes {
		name = name[:maxNameBytes]
	}
	return strings.ToValidUTF8(name, "")
}

// formatJSON is the first byte of a stored value.
const formatJSON = 1

// encode returns a value of the store.
func encode(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(append(make([]byte, 0, len(raw)+1), formatJSON), raw...), nil
}

// entry is a record in memory until it is settled.
type entry struct {
	account *Account
	n       uint64 // its number in the account; 0 until it is closed
	rec     Record
	pieces  []piece // of the counters that it has used
	inline  [6]piece
	offered bool      // to the commit of its turn
	stored  bool      // under its own key, by that commit
	rides   time.Time // until when it may still be stored by such a commit
}

// piece is the part of a counter's use that belongs to a record.
type piece struct {
	counter *counter
	epoch   uint64 // the window of the counter
	n       int64
}

// use counts n for the record's use of a counter.
func (e *entry) use(c *counter, n int64) {
	for i := range e.pieces {
		p := &e.pieces[i]
		if p.counter == c {
			if p.epoch != c.epoch {
				p.epoch, p.n = c.epoch, 0
			}
			p.n += n
			return
		}
	}
	if e.pieces == nil {
		e.pieces = e.inline[:0]
	}
	e.pieces = append(e.pieces, piece{c, c.epoch, n})
}

// amount returns the record's use of a counter in the counter's present window.
func (e *entry) amount(c *counter) int64 {
	for _, p := range e.pieces {
		if p.counter == c && p.epoch == c.epoch {
			return p.n
		}
	}
	return 0
}
