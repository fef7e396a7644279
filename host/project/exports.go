package project

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"

	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/tenants"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/host/usage"
)

// Exports are the stores whose data of a tenant an export has. A nil one is left out.
type Exports struct {
	Threads *threads.Store
	Memory  *memory.Store
	Keys    *keys.Store // without the secrets
	Ledger  *usage.Ledger
	Audit   *audit.Log
	Plugins func(ctx context.Context, tenant string) iter.Seq2[any, error] // such as library.Exporter
	More    []tenants.Exporter
}

// Exports returns the stores of the project.
func (p *Project) Exports(credentials *keys.Store) *Exports {
	return &Exports{Threads: p.threads, Memory: p.memories.own, Keys: credentials, Ledger: p.ledger, Audit: p.Audit(),
		Plugins: library.Exporter(p.data.Driver, p.tenants.store)}
}

// Exporters returns the parts of [tenants.Store.Export]: "thread", in the form of
// transfer.FormatThread, "memory", "key", "usage", "audit" and "plugin", of which a line is a
// plugin or one of its versions with its module. One thread or module at a time is in memory.
func (e *Exports) Exporters() (parts []tenants.Exporter) {
	add := func(part string, export func(context.Context, string, func(any) bool) error) {
		parts = append(parts, tenants.Exporter{Part: part, Export: func(ctx context.Context, tenant string) iter.Seq2[any, error] {
			return func(yield func(any, error) bool) {
				left := false
				err := export(ctx, tenant, func(data any) bool {
					left = !yield(data, nil)
					return !left
				})
				if err != nil && !left {
					yield(nil, err)
				}
			}
		}})
	}
	if e.Threads != nil {
		add("thread", e.threads)
	}
	if e.Memory != nil {
		add("memory", e.memories)
	}
	if e.Keys != nil {
		add("key", e.keys)
	}
	if e.Ledger != nil {
		add("usage", e.usage)
	}
	if e.Audit != nil {
		add("audit", e.audit)
	}
	if e.Plugins != nil {
		parts = append(parts, tenants.Exporter{Part: "plugin", Export: e.Plugins})
	}
	return append(parts, e.More...)
}

func (e *Exports) threads(ctx context.Context, tenant string, yield func(any) bool) error {
	of, opts := e.Threads.For(tenant), &threads.ListOptions{Limit: threads.MaxListLimit}
	for {
		page, err := of.List(ctx, opts)
		if err != nil {
			return err
		}
		for _, t := range page.Threads {
			var out bytes.Buffer
			if err := transfer.Export(ctx, of, t.ID, transfer.FormatThread, &out); err != nil {
				return err
			}
			if !yield(json.RawMessage(out.Bytes())) {
				return nil
			}
		}
		if opts.Cursor = page.Next; opts.Cursor == "" {
			return nil
		}
	}
}

// exportedMemory is a memory with its vector, if it has one of the present embedder.
type exportedMemory struct {
	*memory.Memory
	Vector *memory.Vector `json:"vector,omitempty"`
}

func (e *Exports) memories(ctx context.Context, tenant string, yield func(any) bool) error {
	scopes, err := e.Memory.Scopes(ctx, memory.Scope{Tenant: tenant})
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		opts := &memory.ListOptions{Limit: memory.MaxListed}
		for {
			list, err := e.Memory.List(ctx, scope, opts)
			if err != nil {
				return err
			}
			for _, m := range list {
				vector, err := e.Memory.Vector(ctx, scope, m.ID)
				if err != nil {
					return err
				}
				if opts.After = m.ID; !yield(exportedMemory{m, vector}) {
					return nil
				}
			}
			if len(list) < opts.Limit {
				break
			}
		}
	}
	return nil
}

func (e *Exports) keys(ctx context.Context, tenant string, yield func(any) bool) error {
	for after := ""; ; {
		page, next, err := e.Keys.Of(tenant).List(ctx, after, 0)
		if err != nil {
			return err
		}
		for _, k := range page {
			if !yield(k) {
				return nil
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

func (e *Exports) usage(ctx context.Context, tenant string, yield func(any) bool) error {
	for after := uint64(0); ; {
		records, more, err := e.Ledger.Export(ctx, tenant, "", after, 0)
		if err != nil {
			return err
		}
		for _, r := range records {
			if after = r.Seq; !yield(r) {
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}

// audit yields the entries about a tenant, the last one first.
func (e *Exports) audit(ctx context.Context, tenant string, yield func(any) bool) error {
	filter := &audit.Filter{Tenant: tenant, Limit: audit.MaxListLimit}
	for {
		page, err := e.Audit.List(ctx, filter)
		if err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if !yield(entry) {
				return nil
			}
		}
		if filter.Before = page.Next; filter.Before == 0 {
			return nil
		}
	}
}
