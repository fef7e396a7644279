package httpapi

import (
	"strconv"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/usage"
)

// Bill is the answer of GET /v1/usage, and of the route of administrators.
type Bill struct {
	Period string           `json:"period" description:"a day, as 2026-01-31, or a month, as 2026-01, in UTC"`
	Items  []usage.LineItem `json:"items" description:"by key, agent and model"`
	Total  usage.LineItem   `json:"total"`
}

// UsageRecords is the answer of GET /v1/usage/records.
type UsageRecords struct {
	Records []usage.Record `json:"records"`
	Next    string         `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last"`
}

// Limits is the answer of GET /v1/usage/limits.
type Limits struct {
	Limits []LimitUse `json:"limits"`
}

// LimitUse is the use of one limit of a tenant's plan in its present window.
type LimitUse struct {
	Resource string    `json:"resource"`
	Amount   int64     `json:"amount" description:"the limit, in the unit of its resource"`
	Spent    int64     `json:"spent"`
	Reserved int64     `json:"reserved,omitempty" description:"leased to other hosts"`
	Ends     time.Time `json:"ends,omitzero" description:"of the window; absent if none has begun"`
}

// usageHandlers answer the routes of usage.
type usageHandlers struct{ ledger *usage.Ledger }

// routes returns the routes of the caller's usage.
func (h *usageHandlers) routes() []*route {
	return h.routesAt("/v1/usage", "usage", "", "Read the bill of a day or a month.", "List the records of usage, one of each run, in their order.", "Read how much of each limit of the plan is used.")
}

// adminRoutes returns the same routes of the tenant in the path.
func (h *usageHandlers) adminRoutes() []*route {
	return h.routesAt("/v1/admin/tenants/{tenant}/usage", "", "Tenant", "Read a tenant's bill of a day or a month.", "List the records of a tenant's usage, in their order.", "Read how much of each limit of a tenant's plan is used.")
}

func (h *usageHandlers) routesAt(path, group, whose, bill, records, limits string) []*route {
	period := param{name: "period", kind: "string", doc: "a day, as 2026-01-31, or a month, as 2026-01, in UTC; absent is this month"}
	by := param{name: "by", kind: "string", doc: "key: one item for each key", values: []string{"key"}}
	key := param{name: "key", kind: "string", doc: "records of that key"}
	recordsID, limitsID := "usageRecords", "usageLimits"
	if whose != "" {
		recordsID, limitsID = "tenantUsageRecords", "tenantUsageLimits"
	}
	return []*route{
		{method: "GET", path: path, id: "get" + whose + "Usage", group: group, scope: ReadUsage, query: []param{period, by},
			summary: bill, answer: Bill{}, handle: h.getUsage},
		{method: "GET", path: path + "/records", id: recordsID, group: group, scope: ReadUsage, query: []param{key, limitParam, cursorParam},
			summary: records, answer: UsageRecords{}, handle: h.usageRecords},
		{method: "GET", path: path + "/limits", id: limitsID, group: group, scope: ReadUsage,
			summary: limits, answer: Limits{}, handle: h.usageLimits},
	}
}

// period returns the day or month that the request names.
func (h *usageHandlers) period(c *call) (name string, p usage.Period, err error) {
	name = c.query.text("period")
	if name == "" {
		name = time.Now().UTC().Format("2006-01")
	}
	p, err = usage.ParsePeriod(name)
	return name, p, err
}

func (h *usageHandlers) getUsage(c *call) error {
	if err := c.whole(); err != nil {
		return err
	}
	name, period, err := h.period(c)
	if err != nil {
		return err
	}
	bill, err := h.ledger.BillOf(c.ctx, c.tenant(), period)
	if err != nil {
		return err
	}
	switch by := c.query.text("by"); by {
	case "":
	case "key":
		bill.Items = bill.ByKey()
	default:
		return host.Errorf(host.InvalidArgument, "a bill is not split by %.60q", by).WithHint("write by=key, or leave it out")
	}
	return c.answer(Bill{Period: name, Items: bill.Items, Total: bill.Total})
}

func (h *usageHandlers) usageRecords(c *call) error {
	if err := c.whole(); err != nil {
		return err
	}
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	var after uint64
	if cursor := c.query.text("cursor"); cursor != "" {
		if after, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return host.Errorf(host.InvalidArgument, "the cursor is not that of a page: %.60q", cursor)
		}
	}
	records, more, err := h.ledger.Export(c.ctx, c.tenant(), c.query.text("key"), after, limit)
	if err != nil {
		return err
	}
	page := UsageRecords{Records: records}
	if records == nil {
		page.Records = []usage.Record{}
	}
	if more && len(records) > 0 {
		page.Next = strconv.FormatUint(records[len(records)-1].Seq, 10)
	}
	return c.answer(page)
}

func (h *usageHandlers) usageLimits(c *call) error {
	if err := c.whole(); err != nil {
		return err
	}
	used, err := h.ledger.Used(c.ctx, c.tenant())
	if err != nil {
		return err
	}
	answer := Limits{Limits: []LimitUse{}}
	for _, u := range used {
		answer.Limits = append(answer.Limits, LimitUse{
			Resource: u.Limit.Resource.Key(), Amount: u.Limit.Amount, Spent: u.Spent, Reserved: u.Leased, Ends: u.Ends,
		})
	}
	return c.answer(answer)
}
