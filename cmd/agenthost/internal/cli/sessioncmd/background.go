package sessioncmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Turns in the background, for clients over the control socket, and the recovery of an
// earlier host's turns when a host starts.

// maxWait is how long one request waits for a turn. A client that waits longer asks
// again, so that a connection without a reader is not held.
const maxWait = 10 * time.Second

// backgroundArgs name a turn in the background by its snapshot, or ask for those
// of a tenant.
type backgroundArgs struct {
	Target   string `json:"target,omitempty"` // "": any
	Tenant   string `json:"tenant,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
}

// turnStatus is the status of a turn in the background.
type turnStatus struct {
	Snapshot string          `json:"snapshot"`
	Status   sessions.Status `json:"status"`
}

// names returns the names of the targets that a request may mean.
func (v *Served) names(target string) []string {
	if target != "" {
		return []string{target}
	}
	return v.app.Targets()
}

// list returns the turns of a tenant that are in the background, the oldest first.
func (v *Served) list(ctx context.Context, args backgroundArgs) ([]*sessions.Snapshot, error) {
	all := []*sessions.Snapshot{}
	for _, name := range v.names(args.Target) {
		s, err := v.Service(name)
		if err != nil {
			return nil, err
		}
		turns, err := s.Background(ctx, v.app.Tenant(args.Tenant))
		if err != nil {
			return nil, err
		}
		all = append(all, turns...)
	}
	slices.SortStableFunc(all, func(a, b *sessions.Snapshot) int { return a.Created.Compare(b.Created) })
	return all, nil
}

// find returns the service of a turn, and completes the turn's id.
func (v *Served) find(ctx context.Context, args *backgroundArgs) (*sessions.Service, *sessions.Snapshot, error) {
	var last error
	turns, err := v.list(ctx, *args)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(turns))
	for i, t := range turns {
		ids[i] = t.ID
	}
	if args.Snapshot, err = lookup.ID("turn", args.Snapshot, ids); err != nil {
		return nil, nil, err
	}
	for _, name := range v.names(args.Target) {
		s, err := v.Service(name)
		if err != nil {
			return nil, nil, err
		}
		snap, err := s.Snapshot(ctx, &sessions.SnapshotRequest{Tenant: v.app.Tenant(args.Tenant), Snapshot: args.Snapshot, WithoutState: true})
		switch {
		case err == nil && (snap.Agent == s.Name() || snap.Agent == ""):
			return s, snap, nil
		case err == nil:
			err = host.Errorf(host.NotFound, "there is no snapshot %.300q", args.Snapshot)
		case host.CodeOf(err) != host.NotFound:
			return nil, nil, err
		}
		last = err
	}
	return nil, nil, last
}

// status returns the snapshot of a turn, without its session.
func (v *Served) status(ctx context.Context, args backgroundArgs) (*sessions.Snapshot, error) {
	_, snap, err := v.find(ctx, &args)
	return snap, err
}

// wait returns a turn's snapshot when the turn has ended, or the present one after
// maxWait.
func (v *Served) wait(ctx context.Context, args backgroundArgs) (*sessions.Snapshot, error) {
	s, snap, err := v.find(ctx, &args)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	ended, err := s.Wait(waiting, &sessions.SnapshotRequest{Tenant: v.app.Tenant(args.Tenant), Snapshot: args.Snapshot})
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return snap, nil
	}
	return ended, err
}

func (v *Served) abort(ctx context.Context, args backgroundArgs) (*turnStatus, error) {
	s, _, err := v.find(ctx, &args)
	if err != nil {
		return nil, err
	}
	status, err := s.Abort(ctx, v.app.Tenant(args.Tenant), args.Snapshot)
	return &turnStatus{args.Snapshot, status}, err
}

// Recover continues the turns in the background and the durable runs of a host that has
// ended: this process owns the directory, so no other one runs them. It reports the turns,
// and the runs that cannot be continued. Unreadable turns and runs stay, and are reported.
// On a database it takes over the turns of other hosts that end, until Close.
func (v *Served) Recover(ctx context.Context, where string, report func(string, ...any)) error {
	if v.app.Member() != nil {
		return v.watchHosts(ctx, report)
	}
	if v.app.Data().Badger() == nil {
		return nil
	}
	var found interruptedWork
	for tenant, err := range v.app.Data().Tenants(ctx) {
		if err != nil {
			return host.Errorf(host.CodeOf(err), "look for what was interrupted: %w", err)
		}
		if err := v.recoverTenant(ctx, tenant, &found, report); err != nil {
			return err
		}
	}
	found.print(where, report)
	return nil
}

// interruptedWork counts the turns and runs that a killed host left unfinished.
type interruptedWork struct {
	turns, runs               int
	tenantsTurns, tenantsRuns []string
}

func (v *Served) recoverTenant(ctx context.Context, tenant string, found *interruptedWork, report func(string, ...any)) error {
	inBackground := map[string]bool{}
	for _, name := range v.app.Targets() {
		s, err := v.Service(name)
		if err != nil {
			return err
		}
		n, err := s.Adopt(ctx, tenant)
		if err != nil {
			report("a turn in the background of %s, tenant %s: %s", name, termtext.Printable(tenant), ui.ErrorText(err))
		}
		if n > 0 {
			found.turns += n
			found.tenantsTurns = append(found.tenantsTurns, tenant)
		}
		turns, err := s.Background(ctx, tenant)
		if err != nil {
			return err
		}
		for _, t := range turns {
			run, _, _ := strings.Cut(t.ID, ":")
			inBackground[run] = true
		}
	}
	runs, err := v.app.Threads().For(tenant).Runs(ctx)
	if err != nil {
		report("the interrupted runs of tenant %s: %s", termtext.Printable(tenant), ui.ErrorText(err))
		return nil
	}
	n := 0
	for _, r := range runs {
		if r.Status != host.RunOpen || inBackground[r.Run] {
			continue
		}
		if err := v.app.Runs().Continue(ctx, r); err != nil {
			report("run %s of tenant %s: %s", termtext.Printable(r.Run), termtext.Printable(tenant), ui.ErrorText(err))
			n++
		}
	}
	if n > 0 {
		found.runs += n
		found.tenantsRuns = append(found.tenantsRuns, tenant)
	}
	return nil
}

// print reports the work, with the commands that list it.
func (w *interruptedWork) print(where string, report func(string, ...any)) {
	if w.turns > 0 {
		report("going on with %s in the background that a host has left: %s session list %s%s", ui.Plural(w.turns, "turn"), ui.Self(), where, tenantWords(w.tenantsTurns))
	}
	if w.runs > 0 {
		report("%s interrupted: %s thread runs %s%s", wasWere(w.runs, "run"), ui.Self(), where, tenantWords(w.tenantsRuns))
	}
}

func wasWere(n int, noun string) string {
	if n == 1 {
		return ui.Plural(n, noun) + " was"
	}
	return ui.Plural(n, noun) + " were"
}

// tenantWords names the only tenant concerned, or counts the tenants.
func tenantWords(tenants []string) string {
	all := slices.Compact(slices.Sorted(slices.Values(tenants)))
	switch {
	case len(all) == 1 && all[0] == cli.DefaultTenant:
		return ""
	case len(all) == 1:
		return " --tenant " + termtext.ShellWord(all[0])
	}
	return " (of " + ui.Plural(len(all), "tenant") + ": --tenant " + termtext.ShellWord(all[0]) + ", and others)"
}
