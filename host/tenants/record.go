package tenants

import (
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
)

// MaxTenants is the most tenants of a store. Each host has their records in memory.
const MaxTenants = 100_000

// Status says whether a tenant is served.
type Status string

// The statuses.
const (
	Active    Status = "active"
	Suspended Status = "suspended" // it begins no run
	Deleting  Status = "deleting"  // its data is being removed, which nothing stops
)

// Tenant is a customer of the host.
type Tenant struct {
	ID      string    `json:"id"` // the name of the tenant in every store: see host.ValidateTenant
	Name    string    `json:"name,omitempty"`
	Status  Status    `json:"status"`
	Reason  string    `json:"reason,omitempty"` // of the suspension
	Created time.Time `json:"created"`
	Changed time.Time `json:"changed"`
	Plan    Plan      `json:"plan"`

	// Revision grows with each change of the tenant, for requests on condition of it.
	Revision uint64 `json:"revision"`
}

// clone returns a copy that shares nothing with t.
func (t *Tenant) clone() *Tenant {
	out := *t
	out.Plan = t.Plan.clone()
	return &out
}

func (t *Tenant) check() error {
	for _, f := range []struct{ name, text string }{{"name of a tenant", t.Name}, {"reason of a suspension", t.Reason}} {
		if f.text == "" {
			continue
		}
		if err := chat.ValidateID(f.name, f.text, MaxNameBytes); err != nil {
			return err
		}
	}
	return t.Plan.Check()
}

// partition is that of all records. No tenant can have its name.
const partition = "agenthost/tenants"

// Where things are in the partition:
//
//	tenant/<id>  the record
//	changes      the number of the last change, and the tenants of the last ones
//
// Each change writes both, on condition of both revisions.
var (
	tenantRows = kv.NewKey("tenant")
	changesRow = kv.NewKey("changes")
)

const layout = 1

// record is the stored form of a tenant.
type record struct {
	V int `json:"v"`
	Tenant
}

// changes tell hosts which records they have to read again. A host that has missed more
// than there are reads all.
type changes struct {
	V     int      `json:"v"`
	Seq   uint64   `json:"seq"`   // of the last change
	Count int      `json:"count"` // of tenants
	IDs   []string `json:"ids"`   // of the last changes, the last one at the end
}

// maxChanges is how many changes the row has.
const maxChanges = 256

// add returns the changes with another one.
func (c changes) add(id string, grows int) changes {
	ids := append(c.IDs[max(0, len(c.IDs)-maxChanges+1):len(c.IDs):len(c.IDs)], id)
	return changes{V: layout, Seq: c.Seq + 1, Count: c.Count + grows, IDs: ids}
}

// since returns the tenants that changed after a change, or false if the row does not
// reach back so far.
func (c changes) since(seq uint64) ([]string, bool) {
	if c.Seq < seq || c.Seq-seq > uint64(len(c.IDs)) {
		return nil, false
	}
	return c.IDs[uint64(len(c.IDs))-(c.Seq-seq):], true
}

func decode(value []byte, v any, version *int) error {
	if err := kv.DecodeRecord(value, v); err != nil {
		return err
	}
	if *version > layout {
		return kv.ErrFormat
	}
	return nil
}
