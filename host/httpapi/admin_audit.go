package httpapi

import (
	"io"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
)

// AuditPage is the answer of GET /v1/admin/audit.
type AuditPage struct {
	Entries []*audit.Entry `json:"entries" description:"the last one first"`
	Next    string         `json:"next,omitempty" description:"the cursor of the next page; absent if this is the last. A page may have fewer entries than the limit, also none"`
}

// AuditHead is the end of the chain of the audit log.
type AuditHead struct {
	Seq uint64 `json:"seq" description:"the number of the last entry; 0 if there is none"`
	Sum string `json:"sum" description:"the sum of that entry and all before it, in hexadecimal digits"`
}

// auditHandlers answer the routes of the audit log.
type auditHandlers struct{ log *audit.Log }

func (h *auditHandlers) routes() []*route {
	seq := param{name: "seq", kind: "integer", doc: "with sum: a head that was kept elsewhere, such as the last line of an export"}
	sum := param{name: "sum", kind: "string", doc: "the sum of that head"}
	text := func(name, doc string) param { return param{name: name, kind: "string", doc: doc} }
	return []*route{
		{method: "GET", path: "/v1/admin/audit", id: "listAudit", scope: ReadAudit,
			query: []param{text("tenant", "entries about that tenant"), text("actor", "entries of that caller, such as key/abcd2345"), text("action", "entries of that action, such as tenant.suspend"),
				text("object", "entries about that thing, such as key/abcd2345"), text("from", "the first time, as 2026-01-31T00:00:00Z"), text("to", "the first time that is too late"), limitParam, cursorParam},
			summary: "List the audit log.", answer: AuditPage{}, handle: h.list},
		{method: "GET", path: "/v1/admin/audit/verify", id: "verifyAudit", scope: ReadAudit, stream: true, query: []param{seq, sum},
			summary: "Read the whole audit log, and answer its head if no entry was removed, moved or changed.", answer: AuditHead{}, handle: h.verify},
		{method: "GET", path: "/v1/admin/audit/export", id: "exportAudit", scope: ReadAudit, audit: "audit.export", stream: true, query: []param{seq, sum},
			summary: "Export the entries after a head, each verified, as lines of JSON with its sum.", raw: "application/x-ndjson", handle: h.export},
	}
}

func (h *auditHandlers) list(c *call) error {
	f := &audit.Filter{Tenant: c.query.text("tenant"), Actor: c.query.text("actor"), Action: c.query.text("action"), Object: c.query.text("object")}
	var err error
	if f.Limit, err = c.query.integer("limit"); err != nil {
		return err
	}
	if f.From, err = c.query.time("from"); err != nil {
		return err
	}
	if f.To, err = c.query.time("to"); err != nil {
		return err
	}
	if cursor := c.query.text("cursor"); cursor != "" {
		if f.Before, err = strconv.ParseUint(cursor, 10, 64); err != nil || f.Before == 0 {
			return host.Errorf(host.InvalidArgument, "the cursor is not that of a page: %.60q", cursor)
		}
	}
	page, err := h.log.List(c.ctx, f)
	if err != nil {
		return err
	}
	answer := AuditPage{Entries: page.Entries}
	if page.Next > 0 {
		answer.Next = strconv.FormatUint(page.Next, 10)
	}
	return c.answer(answer)
}

// head returns the head that the request names; the zero Head without one.
func (h *auditHandlers) head(c *call) (head audit.Head, err error) {
	seq, sum := c.query.text("seq"), c.query.text("sum")
	if seq == "" && sum == "" {
		return head, nil
	}
	if head.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil || sum == "" {
		return head, host.Errorf(host.InvalidArgument, "a head is a seq and a sum").WithHint("send both, as verifyAudit answers them")
	}
	return head, head.Sum.UnmarshalText([]byte(sum))
}

func (h *auditHandlers) verify(c *call) error {
	known, err := h.head(c)
	if err != nil {
		return err
	}
	var heads []audit.Head
	if known.Seq > 0 {
		heads = append(heads, known)
	}
	head, err := h.log.Verify(c.ctx, heads...)
	if err != nil {
		return err
	}
	return c.answer(AuditHead{head.Seq, head.Sum.String()})
}

func (h *auditHandlers) export(c *call) error {
	after, err := h.head(c)
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	return c.file("audit.ndjson", "application/x-ndjson", func(w io.Writer) error {
		_, err := h.log.Export(c.ctx, after, w)
		return err
	})
}
