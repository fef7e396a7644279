package library

import (
	"context"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
)

// If is a condition of a change: the plugin has the revision that its caller has read, so
// that no change is made on top of one that the caller does not know. A change under a
// condition that does not hold fails with code conflict.
type If struct{ Revision uint64 }

// checkIf returns the error of a condition of r that does not hold.
func (r *record) checkIf(when []If) error {
	for _, c := range when {
		if r.Revision != c.Revision {
			return fault.Errorf(fault.Conflict, "plugin %q has changed since revision %d", r.ID, c.Revision).WithHint("read it again")
		}
	}
	return nil
}

// Activate makes a version of a plugin serve, on this host when it returns. The version is
// loaded and tried here first; after an error the version before serves. Codes are
// not_found, those of [plugin.Slot.Replace], and permission_denied if the version asks for
// more than the plugin is granted, and more than the version before asked for: grant it, or
// take the version without it with [Library.Accept].
func (l *Library) Activate(ctx context.Context, tenant, id, digest string, when ...If) (*Plugin, error) {
	return l.activate(ctx, tenant, id, digest, false, when)
}

// Accept makes a version serve like [Library.Activate], also one that asks for more than the
// plugin is granted: its uses of the rest fail with code permission_denied.
func (l *Library) Accept(ctx context.Context, tenant, id, digest string, when ...If) (*Plugin, error) {
	return l.activate(ctx, tenant, id, digest, true, when)
}

func (l *Library) activate(ctx context.Context, tenant, id, digest string, accepted bool, when []If) (*Plugin, error) {
	return l.change(ctx, tenant, id, when, func(r *record) error {
		v := r.Version(digest)
		if v == nil {
			return errNoVersion(id, digest)
		}
		if err := l.checkPlan(name{tenant, id}); err != nil {
			return err
		}
		if !accepted {
			if err := l.checkAsked(r, v); err != nil {
				return err
			}
		}
		r.serve(digest)
		return nil
	})
}

// checkAsked refuses a version that asks for more than it is granted and than the version
// that serves asked for.
func (l *Library) checkAsked(r *record, v *Version) error {
	known := []plugin.Permissions{l.granted(r)}
	if before := r.Version(r.Serving); before != nil {
		known = append(known, before.Asks)
	}
	missing := v.Asks.Widens(known...)
	if len(missing) == 0 {
		return nil
	}
	return fault.Errorf(fault.PermissionDenied, "plugin %q: the version asks for more than it is granted: %s", r.ID, strings.Join(missing, ", ")).
		WithHint("grant it, or accept the version without it")
}

// serve makes a version serve, and remembers the one before.
func (r *record) serve(digest string) {
	r.Previous = slices.DeleteFunc(r.Previous, func(d string) bool { return d == r.Serving || d == digest })
	if r.Serving != "" && r.Serving != digest {
		r.Previous = append(r.Previous, r.Serving)
	}
	r.Serving = digest
}

// Rollback makes the version serve that served before, and drops the one that serves from
// those to return to. Codes are those of [Library.Activate]; failed_precondition if no
// version served before.
func (l *Library) Rollback(ctx context.Context, tenant, id string, when ...If) (*Plugin, error) {
	return l.change(ctx, tenant, id, when, func(r *record) error {
		last := len(r.Previous) - 1
		if last < 0 {
			return fault.Errorf(fault.FailedPrecondition, "plugin %q has no version that served before", id).WithHint("activate one")
		}
		r.Serving, r.Previous = r.Previous[last], r.Previous[:last]
		return nil
	})
}

// Deactivate ends a plugin and keeps its versions: calls fail with code
// failed_precondition until one is activated. Calls in progress end on the version that
// they began on. Code not_found.
func (l *Library) Deactivate(ctx context.Context, tenant, id string, when ...If) (*Plugin, error) {
	return l.change(ctx, tenant, id, when, func(r *record) error {
		r.serve("")
		return nil
	})
}

// Grant sets the permissions that a plugin has where it asks for them; calls in progress
// lose those that are taken back. If the tenant's plan names plugins, Grant changes nothing,
// since the plan is the one place of their grants: it succeeds if the plan grants all of
// the permissions, and fails with code permission_denied otherwise. Other codes are
// not_found, and invalid_argument for permissions that make no sense.
func (l *Library) Grant(ctx context.Context, tenant, id string, granted plugin.Permissions, when ...If) (*Plugin, error) {
	granted = granted.Clone()
	if err := granted.Check(); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "grants of plugin %q: %w", id, err)
	}
	n, err := newName(tenant, id)
	if err != nil {
		return nil, err
	}
	if err := l.checkPlan(n); err != nil {
		return nil, err
	}
	if planned, _ := l.plan(n); planned != nil {
		if beyond := granted.Missing(*planned); len(beyond) > 0 {
			return nil, fault.Errorf(fault.PermissionDenied, "plugin %q: the plan does not grant %s", id, strings.Join(beyond, ", ")).
				WithHint("ask the operator of this service to change the plan")
		}
		p, err := l.Get(ctx, tenant, id)
		if err == nil {
			err = (&record{Plugin: *p}).checkIf(when)
		}
		return p, err
	}
	return l.change(ctx, tenant, id, when, func(r *record) error {
		r.Granted = granted
		return nil
	})
}

// RemoveVersion removes a version of a plugin with its module. Codes are not_found, and
// failed_precondition if the version serves.
func (l *Library) RemoveVersion(ctx context.Context, tenant, id, digest string, when ...If) (*Plugin, error) {
	return l.changeAndRemove(ctx, tenant, id, when, []string{digest}, func(r *record) error {
		if r.Version(digest) == nil {
			return errNoVersion(id, digest)
		}
		if r.Serving == digest {
			return fault.Errorf(fault.FailedPrecondition, "the version of plugin %q serves", id).WithHint("activate another one first, or remove the plugin")
		}
		r.Versions = slices.DeleteFunc(slices.Clone(r.Versions), func(v Version) bool { return v.Digest == digest })
		r.Previous = slices.DeleteFunc(slices.Clone(r.Previous), func(d string) bool { return d == digest })
		return nil
	})
}

// change changes the record of a plugin and deploys it on this host. fn is called again
// after a change by another host.
func (l *Library) change(ctx context.Context, tenant, id string, when []If, fn func(*record) error) (*Plugin, error) {
	return l.changeAndRemove(ctx, tenant, id, when, nil, fn)
}

// changeAndRemove is change with modules that the changed record does not name any more.
func (l *Library) changeAndRemove(ctx context.Context, tenant, id string, when []If, digests []string, fn func(*record) error) (*Plugin, error) {
	n, err := newName(tenant, id)
	if err != nil {
		return nil, err
	}
	d, err := l.host.enter(ctx, n)
	if err != nil {
		return nil, err
	}
	defer l.host.leave(n, d)
	for range maxAttempts {
		r, free, err := l.tryChange(ctx, d, n, digests, func(r *record) error {
			if err := r.checkIf(when); err != nil {
				return err
			}
			return fn(r)
		})
		if isRaced(err) {
			continue
		}
		if err != nil {
			return nil, kverror.Wrap(err, "change plugin %q", id)
		}
		l.removeModules(ctx, tenant, free, r.Revision)
		return l.shown(r), nil
	}
	return nil, errTooMany()
}

// tryChange deploys a change, and then commits it. It returns the modules that are free to
// be removed.
func (l *Library) tryChange(ctx context.Context, d *deployment, n name, digests []string, fn func(*record) error) (r *record, free []string, err error) {
	state, err := l.rows.readState(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	if r = state.of(n); r == nil {
		return nil, nil, errNoPlugin(n.id)
	}
	if err := fn(r); err != nil {
		return nil, nil, err
	}
	r.Changed = now()
	free, writes, err := loosen(state, n.tenant, digests)
	if err != nil {
		return nil, nil, err
	}
	if err = l.host.deploy(ctx, d, n, r); err == nil {
		err = l.rows.commit(ctx, state, r, 0, nil, writes...)
	}
	if err != nil {
		l.host.deployLater(n) // as the store says
	}
	return r, free, err
}

// Remove removes a plugin with all of its versions. Calls in progress end on the version
// that they began on. Code not_found.
func (l *Library) Remove(ctx context.Context, tenant, id string, when ...If) error {
	n, err := newName(tenant, id)
	if err != nil {
		return err
	}
	d, err := l.host.enter(ctx, n)
	if err != nil {
		return err
	}
	defer l.host.leave(n, d)
	for range maxAttempts {
		free, revision, err := l.tryRemove(ctx, n, when)
		if isRaced(err) {
			continue
		}
		if err != nil {
			return kverror.Wrap(err, "remove plugin %q", id)
		}
		err = l.host.deploy(ctx, d, n, nil)
		l.removeModules(ctx, tenant, free, revision)
		return err
	}
	return errTooMany()
}

// tryRemove returns the modules that are free to be removed, and the revision at which they
// became loose.
func (l *Library) tryRemove(ctx context.Context, n name, when []If) (free []string, revision uint64, err error) {
	state, err := l.rows.readState(ctx, n)
	if err != nil {
		return nil, 0, err
	}
	r := state.of(n)
	if r == nil {
		return nil, 0, errNoPlugin(n.id)
	}
	if err := r.checkIf(when); err != nil {
		return nil, 0, err
	}
	var digests []string
	for _, v := range r.Versions {
		digests = append(digests, v.Digest)
	}
	state.records = slices.DeleteFunc(state.records, func(other *record) bool { return other == r })
	free, writes, err := loosen(state, n.tenant, digests)
	if err != nil {
		return nil, 0, err
	}
	err = l.rows.commit(ctx, state, r, -1, nil, append(writes, kv.Delete(n.idRow()))...)
	return free, r.Revision, err
}

// removeModules removes modules that became loose at a revision, as far as that works: the
// rest is removed by a later upload or start.
func (l *Library) removeModules(ctx context.Context, tenant string, digests []string, revision uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for _, digest := range digests {
		if err := l.rows.dropModule(ctx, tenant, digest, revision); err != nil && !isRaced(err) { // it is uploaded again
			l.opts.Logger.WarnContext(ctx, "a module that no plugin uses is not removed yet", "digest", digest, "error", err)
		}
	}
}
