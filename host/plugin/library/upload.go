package library

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/internal/modulekv"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// Upload reads a module, checks, compiles and describes it with nothing granted, and keeps
// it as a version of a plugin, which is made if it does not exist. The version does not
// serve until [Library.Activate]. Uploading a module that the plugin has returns its version.
//
// The signatures are those of the module for Options.Trusts, which is asked before anything of
// the module is read.
//
// After an error nothing is kept. Codes:
//
//   - invalid_argument for bytes that are no module or beyond a limit, and for a manifest
//     that is wrong or above [MaxManifestBytes];
//   - failed_precondition for a module that is made for another kind of host;
//   - those of a call of a plugin, for a module that fails or breaks a limit when it
//     describes itself;
//   - permission_denied if the plan of the tenant does not have the plugin, and that of
//     Options.Trusts;
//   - already_exists if the id is that of a shared plugin or, for a shared one, in use by a
//     tenant;
//   - resource_exhausted, which names the limit, for more versions, plugins or bytes than
//     the Options allow, and for more than 4 uploads of a tenant, or 32 of all, at one time
//     on this host;
//   - conflict if the same module is uploaded or removed by another request at the same
//     time.
func (l *Library) Upload(ctx context.Context, tenant, id string, module io.Reader, signatures ...[]byte) (*Version, error) {
	n, err := newName(tenant, id)
	if err != nil {
		return nil, err
	}
	if err := l.checkPlan(n); err != nil {
		return nil, err
	}
	if err := l.uploads.begin(tenant); err != nil {
		return nil, err
	}
	defer l.uploads.end(tenant)
	wasm, err := readModule(module, min(l.opts.Limits.ModuleBytes, modulekv.MaxBytes))
	if err != nil {
		return nil, err
	}
	if l.opts.Trusts != nil {
		if err := l.opts.Trusts(ctx, tenant, wasm, signatures); err != nil {
			return nil, err
		}
	}
	u := &upload{name: n, wasm: wasm, digest: modulekv.Digest(wasm)}
	if present, err := l.checkRoom(ctx, u); present != nil || err != nil {
		return present, err
	}
	if err := l.describe(ctx, u); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	if err := l.rows.removeLoose(ctx, looseRows.With(tenant)); err != nil {
		return nil, kverror.Wrap(err, "store plugin %q", id)
	}
	return l.store(ctx, u)
}

// upload is a module on its way into the store.
type upload struct {
	name     name
	wasm     []byte
	digest   string
	version  Version
	manifest json.RawMessage
	loose    uint64 // the revision of its loose module
}

// uploads counts the uploads in progress on this host.
type uploads struct {
	mu sync.Mutex
	of map[string]int // by tenant
}

func (u *uploads) begin(tenant string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := 0
	for _, n := range u.of {
		all += n
	}
	if all >= maxUploads || u.of[tenant] >= tenantUploads {
		e := fault.Errorf(fault.ResourceExhausted, "there are as many uploads in progress as one host takes").WithHint("try again when they have ended")
		e.Retryable, e.RetryAfter = true, uploadRetry
		return e
	}
	u.of[tenant]++
	return nil
}

func (u *uploads) end(tenant string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[tenant]--; u.of[tenant] == 0 {
		delete(u.of, tenant)
	}
}

// readModule reads an upload of at most limit bytes.
func readModule(r io.Reader, limit int) ([]byte, error) {
	wasm, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fault.Wrap(err, "read the module")
	}
	if len(wasm) > limit {
		return nil, fault.Errorf(fault.InvalidArgument, "the module is more than the limit ModuleBytes of %d", limit).
			WithHint("make the module smaller: strip it, drop what it does not use")
	}
	return wasm, nil
}

// describe fills in what a module says of itself.
func (l *Library) describe(ctx context.Context, u *upload) error {
	if err := l.host.beginWork(ctx); err != nil {
		return err
	}
	defer l.host.endWork()
	p, err := l.host.runtime.Load(ctx, u.name.id, u.wasm, &plugin.LoadOptions{Owner: u.name.tenant, Limits: l.opts.Limits})
	if err != nil {
		return err
	}
	defer p.Close()
	u.version, u.manifest = newVersion(u.wasm, p.Manifest()), p.Manifest().JSON()
	if len(u.manifest) > MaxManifestBytes {
		return fault.Errorf(fault.InvalidArgument, "the manifest of plugin %q has %d bytes, more than %d", u.name.id, len(u.manifest), MaxManifestBytes).
			WithHint("shorten its descriptions and schemas")
	}
	summary, err := json.Marshal(u.version)
	if err != nil {
		return fault.Wrap(err, "describe plugin %q", u.name.id)
	}
	if len(summary) > maxSummaryBytes {
		return fault.Errorf(fault.InvalidArgument, "the names, description and permissions in the manifest of plugin %q have %d bytes, more than %d", u.name.id, len(summary), maxSummaryBytes).
			WithHint("shorten the description, or make two plugins of it")
	}
	return nil
}

// checkRoom refuses an upload early, and returns the version if the plugin has the module.
func (l *Library) checkRoom(ctx context.Context, u *upload) (*Version, error) {
	state, err := l.rows.readState(ctx, u.name)
	if err != nil {
		return nil, kverror.Wrap(err, "store plugin %q", u.name.id)
	}
	if r := state.of(u.name); r != nil {
		if v := l.shown(r).Version(u.digest); v != nil {
			return v, nil
		}
	}
	return nil, l.checkLimits(state, u)
}

// checkLimits refuses an upload that is beyond a limit, or whose id is another owner's.
func (l *Library) checkLimits(s *tenantState, u *upload) error {
	r, o := s.of(u.name), &l.opts
	sizes := map[string]int{u.digest: len(u.wasm)}
	for _, other := range s.records {
		for _, v := range other.Versions {
			sizes[v.Digest] = v.Bytes
		}
	}
	sum := int64(0)
	for _, size := range sizes {
		sum += int64(size)
	}
	switch {
	case s.taken:
		return fault.Errorf(fault.AlreadyExists, "there is a plugin %q already", u.name.id).WithHint("choose another id")
	case r != nil && len(r.Versions) >= o.Versions:
		return fault.Errorf(fault.ResourceExhausted, "plugin %q has %d versions, as many as the limit Versions allows", u.name.id, len(r.Versions)).
			WithHint("remove one that does not serve")
	case r == nil && len(s.records) >= o.Plugins:
		return fault.Errorf(fault.ResourceExhausted, "there are %d plugins, as many as the limit Plugins allows", len(s.records)).WithHint("remove one")
	case sum > o.TenantBytes:
		return fault.Errorf(fault.ResourceExhausted, "the modules of all plugins would have %d bytes, more than the limit TenantBytes of %d", sum, o.TenantBytes).
			WithHint("remove versions that do not serve, or make the module smaller")
	}
	return nil
}

// store stores the module, then the record that names it.
func (l *Library) store(ctx context.Context, u *upload) (v *Version, err error) {
	doing := func(err error) error { return kverror.Wrap(err, "store plugin %q", u.name.id) }
	raw, err := kv.EncodeRecord(looseModule{V: layout, At: now()})
	if err != nil {
		return nil, doing(err)
	}
	row := looseRows.With(u.name.tenant, u.digest)
	if u.loose, err = kv.Apply(ctx, l.rows.driver, kv.Tx{Partition: partition, Quiet: true, Writes: []kv.Write{kv.Put(row, raw)}}); err != nil {
		return nil, doing(err)
	}
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = l.rows.dropModule(ctx, u.name.tenant, u.digest, u.loose) // a later upload or start removes the rest
	}()
	right := kv.AtRevision(row, u.loose)
	if err := l.rows.modules(u.name.tenant).Put(ctx, u.digest, u.wasm, right); err != nil {
		return nil, errSameModule(err, u, doing)
	}
	for range maxAttempts {
		state, err := l.rows.readState(ctx, u.name)
		if err != nil {
			return nil, doing(err)
		}
		if err := l.checkPlan(u.name); err != nil { // the tenant may have been deleted since the upload began
			return nil, err
		}
		if err := l.checkLimits(state, u); err != nil {
			return nil, err
		}
		r, grows := state.of(u.name), 0
		if r == nil {
			r, grows = &record{Plugin: Plugin{Tenant: u.name.tenant, ID: u.name.id}}, 1
		}
		if r.Version(u.digest) == nil {
			r.Versions = append(r.Versions, u.version)
		}
		r.Changed = now()
		err = l.rows.commit(ctx, state, r, grows, []kv.Cond{right},
			kv.Put(manifestRows.With(u.name.tenant, u.digest), u.manifest), kv.Put(u.name.idRow(), nil), kv.Delete(row))
		if isRaced(err) {
			if _, looseErr := kv.Apply(ctx, l.rows.driver, kv.Tx{Partition: partition, Conds: []kv.Cond{right}}); looseErr != nil {
				return nil, errSameModule(looseErr, u, doing)
			}
			continue
		}
		if err != nil {
			return nil, doing(err)
		}
		return l.shown(r).Version(u.digest), nil
	}
	return nil, errTooMany()
}

// errSameModule is the error of an upload that has lost the right to its module.
func errSameModule(err error, u *upload, doing func(error) error) error {
	if isRaced(err) {
		return fault.Errorf(fault.Conflict, "the same module of plugin %q is uploaded or removed by another request", u.name.id).WithHint("try again")
	}
	return doing(err)
}
