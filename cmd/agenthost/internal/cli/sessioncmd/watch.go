package sessioncmd

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/sessions"
)

// sweepEvery is how often a host looks for turns of dead hosts without having seen one
// die: some die before it starts, and some turns could not be taken over.
const sweepEvery = 10 * time.Second

// watchHosts takes over the turns in the background of the other hosts of a database that
// die or are stopped, until Close. report is called by a goroutine.
func (v *Served) watchHosts(ctx context.Context, report func(string, ...any)) error {
	released := make(chan struct{}, 1)
	err := v.app.Member().Subscribe(ctx, sessions.ReleasedTopic, func() {
		select {
		case released <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	ctx, v.stopWatch = context.WithCancel(context.WithoutCancel(ctx))
	v.watching.Go(func() { v.watch(ctx, released, report) })
	return nil
}

// watch takes lost turns over until its context ends. It reports a failure once.
func (v *Served) watch(ctx context.Context, released <-chan struct{}, report func(string, ...any)) {
	member := v.app.Member()
	tick := time.NewTicker(member.WatchInterval())
	defer tick.Stop()
	var deaths int64
	var swept time.Time
	failing := false
	for first, pending := true, true; ; {
		died, err := member.Deaths(ctx)
		if err == nil {
			pending, deaths = pending || died != deaths, died
		}
		if err == nil && (pending || time.Since(swept) >= sweepEvery) {
			if first {
				err = v.recoverAll(ctx)
			} else {
				err = v.recoverLost(ctx)
			}
			first = first && err != nil
			pending, swept = err != nil, time.Now()
		}
		if err != nil && !failing && ctx.Err() == nil {
			report("turns in the background of other hosts are not continued yet: %s", ui.ErrorText(err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-released:
			pending = true
		case <-tick.C:
		}
	}
}

// recoverAll takes over what ended before this host started, by hosts of earlier versions
// too, which the index of turns does not have.
func (v *Served) recoverAll(ctx context.Context) error {
	var failed []error
	for tenant, err := range v.app.Data().Tenants(ctx) {
		if err != nil {
			return err
		}
		for _, name := range v.app.Targets() {
			s, err := v.Service(name)
			if err == nil {
				_, err = s.Recover(ctx, tenant)
			}
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// recoverLost takes over the turns of hosts that have ended.
func (v *Served) recoverLost(ctx context.Context) error {
	var failed []error
	for _, name := range v.app.Targets() {
		s, err := v.Service(name)
		if err == nil {
			_, err = s.RecoverLost(ctx)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
