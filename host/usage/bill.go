package usage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// Period is a day or a month of the calendar, in UTC.
type Period struct {
	keys kv.Key
	n    uint64 // yyyymmdd or yyyymm
}

// DayOf returns the day of a time, in UTC.
func DayOf(t time.Time) Period {
	year, month, day := t.UTC().Date()
	return Period{dayKeys, uint64(year*10_000 + int(month)*100 + day)}
}

// MonthOf returns the month of a time, in UTC.
func MonthOf(t time.Time) Period {
	year, month, _ := t.UTC().Date()
	return Period{monthKeys, uint64(year*100 + int(month))}
}

// ParsePeriod returns the period of a text: a day, as 2026-01-31, or a month, as 2026-01.
// Code invalid_argument for another.
func ParsePeriod(text string) (Period, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return DayOf(t), nil
	}
	t, err := time.Parse("2006-01", text)
	if err != nil {
		return Period{}, invalid("the period is neither a day nor a month: %.60q", text).WithHint("write 2026-01-31 or 2026-01")
	}
	return MonthOf(t), nil
}

func (p Period) prefix() kv.Key { return p.keys.WithUint(p.n) }

// LineItem is the sum of a bill's records of one key, agent and model. The line without
// agent and model has the amounts of runs beside the calls of models.
type LineItem struct {
	Key   string `json:"key,omitempty"`
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`

	Calls           int64 `json:"calls,omitempty"`
	InputTokens     int64 `json:"input_tokens,omitempty"`
	CachedTokens    int64 `json:"cached_tokens,omitempty"` // of InputTokens
	OutputTokens    int64 `json:"output_tokens,omitempty"`
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"` // of OutputTokens
	Money           int64 `json:"money,omitempty"`            // in billionths of the currency

	Runs         int64         `json:"runs,omitempty"`
	ToolCalls    int64         `json:"tool_calls,omitempty"`
	Instructions int64         `json:"instructions,omitempty"`
	HostCalls    int64         `json:"host_calls,omitempty"`
	HTTPRequests int64         `json:"http_requests,omitempty"`
	ModelTokens  int64         `json:"model_tokens,omitempty"`
	Time         time.Duration `json:"time_ns,omitempty"`
}

// Add adds v's amounts to i.
func (i *LineItem) Add(v *LineItem) {
	for _, f := range []struct {
		to *int64
		n  int64
	}{
		{&i.Calls, v.Calls}, {&i.InputTokens, v.InputTokens}, {&i.CachedTokens, v.CachedTokens}, {&i.OutputTokens, v.OutputTokens},
		{&i.ReasoningTokens, v.ReasoningTokens}, {&i.Money, v.Money}, {&i.Runs, v.Runs}, {&i.ToolCalls, v.ToolCalls},
		{&i.Instructions, v.Instructions}, {&i.HostCalls, v.HostCalls}, {&i.HTTPRequests, v.HTTPRequests}, {&i.ModelTokens, v.ModelTokens},
		{(*int64)(&i.Time), int64(v.Time)},
	} {
		*f.to += f.n
	}
}

// lines returns the line items that a record adds to.
func (r *Record) lines() []LineItem {
	rest := LineItem{Key: r.Key, ToolCalls: r.ToolCalls, Instructions: r.Instructions, HostCalls: r.HostCalls, HTTPRequests: r.HTTPRequests, ModelTokens: r.ModelTokens, Time: r.Time}
	if r.Run != "" {
		rest.Runs = 1
	}
	out := append(make([]LineItem, 0, 1+len(r.Calls)), rest)
	for _, c := range r.Calls {
		u := c.Usage
		out = append(out, LineItem{Key: r.Key, Agent: c.Agent, Model: c.Model, Calls: c.Calls, Money: c.Money,
			InputTokens: int64(u.InputTokens), CachedTokens: int64(u.CachedTokens), OutputTokens: int64(u.OutputTokens), ReasoningTokens: int64(u.ReasoningTokens)})
	}
	return out
}

// summing collects the sums that a transaction changes.
type summing struct {
	keys []kv.Key
	sums map[kv.Key]*LineItem
}

// add adds a record to the sums of its day and its month, which it reads first.
func (s *summing) add(ctx context.Context, d kv.Driver, partition string, r *Record) error {
	for _, line := range r.lines() {
		for _, p := range [2]Period{DayOf(r.Ended), MonthOf(r.Ended)} {
			key := p.prefix().With(line.Key, line.Agent, line.Model)
			sum := s.sums[key]
			if sum == nil {
				sum = &LineItem{Key: line.Key, Agent: line.Agent, Model: line.Model}
				e, err := d.Get(ctx, partition, key)
				if err == nil {
					err = decode(e.Value, sum)
				}
				if err != nil && !errors.Is(err, kv.ErrNotFound) {
					return err
				}
				if s.sums == nil {
					s.sums = map[kv.Key]*LineItem{}
				}
				s.sums[key], s.keys = sum, append(s.keys, key)
			}
			sum.Add(&line)
		}
	}
	return nil
}

func (s *summing) writes() []kv.Write {
	out := make([]kv.Write, 0, len(s.keys))
	for _, key := range s.keys {
		if raw, err := encode(s.sums[key]); err == nil { // numbers and names always encode
			out = append(out, kv.Put(key, raw))
		}
	}
	return out
}

// Bill is what a tenant used in a period: Items by key, agent and model, in that order, and
// their Total.
type Bill struct {
	Tenant string     `json:"tenant"`
	Items  []LineItem `json:"items"`
	Total  LineItem   `json:"total"`
}

// ByKey returns the sum of the items of each key, in the order of keys.
func (b *Bill) ByKey() []LineItem {
	sums := []LineItem{}
	for i := range b.Items {
		item := &b.Items[i]
		if n := len(sums); n == 0 || sums[n-1].Key != item.Key { // the items are in the order of keys
			sums = append(sums, LineItem{Key: item.Key})
		}
		sums[len(sums)-1].Add(item)
	}
	return sums
}

// BillOf returns a tenant's bill of a day or a month. It has the closed records of this
// host, and those that other hosts have settled: each settles within its FlushInterval. A
// record belongs to the period in which it ended. Codes: invalid_argument for a tenant that
// there cannot be, unavailable if the store does not answer.
func (l *Ledger) BillOf(ctx context.Context, tenant string, p Period) (*Bill, error) {
	partition, err := l.settled(ctx, tenant)
	if err != nil {
		return nil, err
	}
	b := &Bill{Tenant: partition, Items: []LineItem{}}
	for e, err := range kv.All(ctx, l.driver, partition, kv.Range{Prefix: p.prefix(), Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, storeError(err, tenant)
		}
		var item LineItem
		if err := decode(e.Value, &item); err != nil {
			return nil, err
		}
		b.Total.Add(&item)
		b.Items = append(b.Items, item)
	}
	return b, nil
}

// settled settles this host's closed records of a tenant and returns its partition.
func (l *Ledger) settled(ctx context.Context, tenant string) (partition string, err error) {
	a := l.Account(tenant)
	if a.refused != nil {
		return "", a.refused
	}
	return a.partition, a.flush(ctx)
}

// Export returns at most limit settled records of a tenant that follow the one with the Seq
// after, in the order of Seq; 0 begins with the first, and a limit of 0 is 100. The Seq of
// the last one is the cursor of the next page: no record comes later with a smaller one.
// Records with another Key are left out if key is not "". more says that records follow.
// Codes: invalid_argument for a tenant or a limit that there cannot be, unavailable if the
// store does not answer.
func (l *Ledger) Export(ctx context.Context, tenant, key string, after uint64, limit int) (records []Record, more bool, err error) {
	limit = cmp.Or(limit, kv.DefaultScanLimit)
	if limit < 1 || limit > kv.MaxScanLimit {
		return nil, false, invalid("the limit of records is %d", limit).WithHint("use at most %d", kv.MaxScanLimit)
	}
	partition, err := l.settled(ctx, tenant)
	if err != nil {
		return nil, false, err
	}
	r := kv.Range{Prefix: recordKeys, After: recordKeys.WithUint(after), Limit: limit}
	for e, err := range kv.All(ctx, l.driver, partition, r) {
		if err != nil {
			return nil, false, storeError(err, tenant)
		}
		var rec Record
		if err := decode(e.Value, &rec); err != nil {
			return nil, false, err
		}
		if key != "" && rec.Key != key {
			continue
		}
		if len(records) == limit {
			return records, true, nil
		}
		records = append(records, rec)
	}
	return records, false, nil
}

// Use is the use of a limit in its present window.
type Use struct {
	Limit  Limit
	Spent  int64     // settled by all hosts, and counted on this one
	Leased int64     // to other hosts, which may use it or give it back
	Ends   time.Time // of the window; zero if none has begun
}

// Used returns the use of each limit of a tenant's plan, in the order of resources. It
// writes nothing. The errors are those of BillOf.
func (l *Ledger) Used(ctx context.Context, tenant string) ([]Use, error) {
	a := l.Account(tenant)
	if a.refused != nil {
		return nil, a.refused
	}
	now := l.now()
	w, _, err := readWindows(ctx, l.driver, a.partition, now)
	if err != nil {
		return nil, storeError(err, tenant)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
	out := make([]Use, 0, len(a.counters))
	for _, c := range a.counters {
		b := cmp.Or(w.Windows[c.id], &window{})
		out = append(out, Use{Limit: c.limit, Spent: b.Spent + c.used, Leased: w.leasedByOthers(a.lease, c.id), Ends: b.Ends})
	}
	slices.SortStableFunc(out, func(x, y Use) int { return cmp.Compare(x.Limit.Resource, y.Limit.Resource) })
	return out, nil
}

// SpentOf returns the use of a resource in the first of its limits' windows.
func SpentOf(uses []Use, r Resource) int64 {
	for _, u := range uses {
		if u.Limit.Resource == r {
			return u.Spent
		}
	}
	return 0
}

// Erasing returns the part of a ledger that is to be told of the deletion of a tenant whose
// partition the store erases: package erasure takes it. It is named "usage".
func (l *Ledger) Erasing() Erasing { return Erasing{l} }

// Erasing implements erasure.Part for a ledger: see [Ledger.Erasing].
type Erasing struct{ ledger *Ledger }

// Name returns "usage".
func (Erasing) Name() string { return "usage" }

// Erase forgets a tenant's use on this host. The store erases the rest.
func (e Erasing) Erase(_ context.Context, tenant string) error {
	partition, err := host.TenantPartition(tenant)
	if err == nil {
		e.ledger.forget(partition)
	}
	return err
}

// Find returns 0: all usage of a tenant is in its partition of the store.
func (Erasing) Find(context.Context, string) (int, error) { return 0, nil }
