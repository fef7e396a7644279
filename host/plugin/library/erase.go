package library

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Name implements the Part of package host/erasure.
func (l *Library) Name() string { return "plugins" }

// Erase removes all plugins of a tenant with their modules. Requests of the tenant must have
// ended: a plugin that one uploads meanwhile may stay. It may be repeated.
func (l *Library) Erase(ctx context.Context, tenant string) error {
	if err := host.ValidateTenant(tenant); err != nil {
		return err
	}
	records, err := l.rows.all(ctx, tenant)
	if err != nil {
		return kverror.Wrap(err, "erase the plugins of tenant %q", tenant)
	}
	for _, r := range records {
		if err := l.Remove(ctx, tenant, r.ID); err != nil && fault.CodeOf(err) != fault.NotFound {
			return err
		}
	}
	for _, prefix := range moduleData(tenant) {
		if err := kv.Remove(ctx, l.rows.driver, partition, prefix); err != nil {
			return kverror.Wrap(err, "erase the plugins of tenant %q", tenant)
		}
	}
	return nil
}

// moduleData are the prefixes of a tenant's rows about modules.
func moduleData(tenant string) []kv.Key {
	return []kv.Key{manifestRows.With(tenant), moduleRows.With(tenant), looseRows.With(tenant)}
}

// Find counts the stored entries of a tenant's plugins.
func (l *Library) Find(ctx context.Context, tenant string) (n int, err error) {
	if err := host.ValidateTenant(tenant); err != nil {
		return 0, err
	}
	for _, prefix := range append(moduleData(tenant), pluginRows.With(tenant)) {
		for _, err := range kv.All(ctx, l.rows.driver, partition, kv.Range{Prefix: prefix}) {
			if err != nil {
				return n, kverror.Wrap(err, "look for plugins of tenant %q", tenant)
			}
			n++
		}
	}
	return n, nil
}

// ExportedVersion is a version in an export.
type ExportedVersion struct {
	Plugin   string          `json:"plugin"` // its id
	Digest   string          `json:"digest"`
	Manifest json.RawMessage `json:"manifest,omitempty"`
	Module   []byte          `json:"module"`
}

// Export yields the plugins of a tenant: a *[Plugin], and an *[ExportedVersion] for each of its
// versions. The first error ends it. It is an Exporter of package host/tenants.
func (l *Library) Export(ctx context.Context, tenant string) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		if err := checkTenant(tenant); err != nil {
			yield(nil, err)
			return
		}
		records, err := l.rows.all(ctx, tenant)
		if err != nil {
			yield(nil, kverror.Wrap(err, "export the plugins"))
			return
		}
		for _, r := range records {
			if !yield(l.shown(r), nil) {
				return
			}
			for _, v := range r.Versions {
				out, err := l.rows.exported(ctx, r, v.Digest)
				if err != nil {
					yield(nil, kverror.Wrap(err, "export plugin %q", r.ID))
					return
				}
				if !yield(out, nil) {
					return
				}
			}
		}
	}
}

// Exporter returns [Library.Export] of a driver on which no library is open: it reads the
// rows, and loads no plugin. plans is that of [Options].
func Exporter(driver kv.Driver, plans Plans) func(ctx context.Context, tenant string) iter.Seq2[any, error] {
	return (&Library{rows: &rows{driver: kv.Checked(driver)}, opts: Options{Plans: plans}}).Export
}

func (rs *rows) exported(ctx context.Context, r *record, digest string) (*ExportedVersion, error) {
	manifest, err := rs.manifest(ctx, r.Tenant, digest)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return nil, err
	}
	out := &ExportedVersion{Plugin: r.ID, Digest: digest, Manifest: manifest}
	out.Module, err = rs.modules(r.Tenant).Get(ctx, digest)
	return out, err
}
