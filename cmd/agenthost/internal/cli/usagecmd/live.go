package usagecmd

import (
	"context"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/usage"
)

// The local routes of a host.
const (
	billOp    = "usage.bill"
	recordsOp = "usage.records"
	limitsOp  = "usage.limits"
)

// billArgs name a tenant and a period, as 2026-01-31 or 2026-01.
type billArgs struct {
	Tenant string `json:"tenant"`
	Period string `json:"period"`
}

// recordsArgs name a page of records.
type recordsArgs struct {
	Tenant string `json:"tenant"`
	Key    string `json:"key,omitempty"`
	After  uint64 `json:"after,omitempty"`
	Limit  int    `json:"limit"`
}

// recordsPage is a page of records.
type recordsPage struct {
	Records []usage.Record `json:"records"`
	More    bool           `json:"more"`
}

// limitsArgs name a tenant.
type limitsArgs struct {
	Tenant string `json:"tenant"`
}

// limitUse is the use of a limit in its present window.
type limitUse struct {
	Resource string `json:"resource"`
	Window   string `json:"window"`
	Amount   int64  `json:"amount"`
	Spent    int64  `json:"spent"`
	Reserved int64  `json:"reserved,omitempty"` // leased to hosts
	Left     int64  `json:"left"`
	Ends     string `json:"ends,omitempty"`
}

// limits are the limits of a tenant.
type limits struct {
	Limits []limitUse `json:"limits"`
	Plan   bool       `json:"plan"` // the tenant has a record with a plan
}

// reports reads the usage of tenants.
type reports struct {
	ledger  *usage.Ledger
	tenants *tenants.Store
}

// Routes are the local routes of the usage on a running host, whose records are there
// before they are settled, and whose limits are also those of its configuration.
func Routes(a *project.Project) []control.Route {
	r := &reports{a.Ledger(), a.Tenants()}
	return []control.Route{
		control.Do(billOp, "Read a tenant's bill.", r.bill),
		control.Do(recordsOp, "List a tenant's records of usage.", r.records),
		control.Do(limitsOp, "Read the use of a tenant's limits.", r.limits),
	}
}

func (r *reports) bill(ctx context.Context, args billArgs) (*usage.Bill, error) {
	period, err := usage.ParsePeriod(args.Period)
	if err != nil {
		return nil, err
	}
	return r.ledger.BillOf(ctx, args.Tenant, period)
}

func (r *reports) records(ctx context.Context, args recordsArgs) (*recordsPage, error) {
	list, more, err := r.ledger.Export(ctx, args.Tenant, args.Key, args.After, args.Limit)
	if list == nil {
		list = []usage.Record{}
	}
	return &recordsPage{list, more}, err
}

func (r *reports) limits(ctx context.Context, args limitsArgs) (*limits, error) {
	used, err := r.ledger.Used(ctx, args.Tenant)
	if err != nil {
		return nil, err
	}
	out := &limits{Limits: []limitUse{}}
	_, out.Plan = r.tenants.Plan(args.Tenant)
	for _, u := range used {
		l := limitUse{Resource: u.Limit.Resource.Key(), Window: u.Limit.Window.String(), Amount: u.Limit.Amount, Spent: u.Spent, Reserved: u.Leased,
			Left: max(u.Limit.Amount-u.Spent-u.Leased, 0)}
		if !u.Ends.IsZero() {
			l.Ends = u.Ends.UTC().Format(timeFormat)
		}
		out.Limits = append(out.Limits, l)
	}
	return out, nil
}
