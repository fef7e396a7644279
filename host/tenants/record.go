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

func decode(value []byte, v any, version *int) error {
	if err := kv.DecodeRecord(value, v); err != nil {
		return err
	}
	if *version > layout {
		return kv.ErrFormat
	}
	return nil
}
