package library

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/internal/changerow"
	"github.com/agenthost/agenthost/host/internal/modulekv"
	"github.com/agenthost/agenthost/host/kv"
)

// rows are the stored rows of a library.
type rows struct{ driver kv.Driver }

// changes returns the row of changes.
func (rs *rows) changes(ctx context.Context) (changerow.Row, error) {
	row, _, err := changerow.Read(ctx, rs.driver, partition, changesRow)
	return row, err
}

// manifest returns the manifest of a version; kv.ErrNotFound without one.
func (rs *rows) manifest(ctx context.Context, tenant, digest string) ([]byte, error) {
	e, err := rs.driver.Get(ctx, partition, manifestRows.With(tenant, digest))
	return e.Value, err
}

// read returns the record of a plugin with its revision; nil if there is none.
func (rs *rows) read(ctx context.Context, n name) (*record, uint64, error) {
	e, err := rs.driver.Get(ctx, partition, n.row())
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	r, err := decode(e)
	return r, e.Revision, err
}

// all returns the records of a tenant.
func (rs *rows) all(ctx context.Context, tenant string) (list []*record, err error) {
	for e, err := range kv.All(ctx, rs.driver, partition, kv.Range{Prefix: pluginRows.With(tenant)}) {
		if err != nil {
			return nil, err
		}
		r, err := decode(e)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func (rs *rows) modules(tenant string) modulekv.Modules {
	return modulekv.Modules{Driver: rs.driver, Partition: partition, Keys: moduleRows.With(tenant)}
}

// eachName calls fn with the names of all plugins.
func (rs *rows) eachName(ctx context.Context, fn func(name)) error {
	for e, err := range kv.All(ctx, rs.driver, partition, kv.Range{Prefix: idRows, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(idRows)
		id, rest, _ := rest.CutString()
		tenant, _, ok := rest.CutString()
		if ok {
			fn(name{tenant, id})
		}
	}
	return nil
}

// tenantState is all records of a tenant, with the row of changes at which they were read:
// a commit on condition of the row's revision is a commit on condition of them.
type tenantState struct {
	row      changerow.Row
	revision uint64 // of the row
	records  []*record
	taken    bool // another owner has the id of the name that the state was read for
}

func (s *tenantState) of(n name) *record {
	for _, r := range s.records {
		if r.ID == n.id {
			return r
		}
	}
	return nil
}

// names reports whether a version of any plugin is of a module.
func (s *tenantState) names(digest string) bool {
	return slices.ContainsFunc(s.records, func(r *record) bool { return r.Version(digest) != nil })
}

func (rs *rows) readState(ctx context.Context, n name) (*tenantState, error) {
	row, revision, err := changerow.Read(ctx, rs.driver, partition, changesRow)
	if err != nil {
		return nil, err
	}
	s := &tenantState{row: row, revision: revision}
	if s.records, err = rs.all(ctx, n.tenant); err != nil {
		return nil, err
	}
	r := kv.Range{Prefix: idRows.With(n.id), Limit: 2}
	if n.tenant != "" {
		r.Prefix = n.sharedRow()
	}
	page, err := rs.driver.Scan(ctx, partition, r)
	if err != nil {
		return nil, err
	}
	s.taken = slices.ContainsFunc(page.Entries, func(e kv.Entry) bool { return e.Key != n.idRow() })
	return s, nil
}

// commit writes a record together with the row of changes and other writes, if neither
// changed since the state was read. It sets the revision of the record.
func (rs *rows) commit(ctx context.Context, s *tenantState, r *record, grows int, conds []kv.Cond, more ...kv.Write) error {
	r.V = layout
	n := name{r.Tenant, r.ID}
	write := kv.Delete(n.row())
	if grows >= 0 {
		raw, err := kv.EncodeRecord(r)
		if err != nil {
			return err
		}
		write = kv.Put(n.row(), raw)
	}
	changes, err := kv.EncodeRecord(s.row.Add(n.String(), grows))
	if err != nil {
		return err
	}
	revision, err := kv.Apply(ctx, rs.driver, kv.Tx{
		Partition: partition,
		Conds:     append([]kv.Cond{kv.AtRevision(changesRow, s.revision), kv.AtRevision(n.row(), r.Revision)}, conds...),
		Writes:    append([]kv.Write{write, kv.Put(changesRow, changes)}, more...),
	})
	if err == nil {
		r.Revision = revision
	}
	return err
}

// loosen returns the writes that make modules loose which no record of a state names.
func loosen(s *tenantState, tenant string, digests []string) (free []string, writes []kv.Write, err error) {
	raw, err := kv.EncodeRecord(looseModule{V: layout, At: now()})
	if err != nil {
		return nil, nil, err
	}
	for _, digest := range digests {
		if !s.names(digest) {
			free = append(free, digest)
			writes = append(writes, kv.Put(looseRows.With(tenant, digest), raw), kv.Delete(manifestRows.With(tenant, digest)))
		}
	}
	return free, writes, nil
}

// removeLoose removes the modules below a prefix that a process left which was killed.
func (rs *rows) removeLoose(ctx context.Context, prefix kv.Key) error {
	old := map[name]uint64{} // the tenant and digest of each
	for e, err := range kv.All(ctx, rs.driver, partition, kv.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		var m looseModule
		if err := kv.DecodeRecord(e.Value, &m); err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(looseRows)
		tenant, rest, _ := rest.CutString()
		digest, _, ok := rest.CutString()
		if ok && time.Since(m.At) > looseAge {
			old[name{tenant, digest}] = e.Revision
		}
	}
	for of := range maps.Keys(old) {
		if err := rs.dropModule(ctx, of.tenant, of.id, old[of]); err != nil && !isRaced(err) {
			return err
		}
	}
	return nil
}

// dropModule removes a loose module unless a record names it. It changes nothing without
// the right to it, which is the revision of the loose module.
func (rs *rows) dropModule(ctx context.Context, tenant, digest string, revision uint64) error {
	row := looseRows.With(tenant, digest)
	right := kv.AtRevision(row, revision)
	records, err := rs.all(ctx, tenant)
	if err != nil {
		return err
	}
	if state := (tenantState{records: records}); !state.names(digest) {
		if err := rs.modules(tenant).Remove(ctx, digest, right); err != nil {
			return err
		}
	}
	_, err = kv.Apply(ctx, rs.driver, kv.Tx{Partition: partition, Quiet: true, Conds: []kv.Cond{right}, Writes: []kv.Write{kv.Delete(row)}})
	return err
}
