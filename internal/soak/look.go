//go:build unix

package soak

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// look reads what hosts have stored.
type look struct {
	driver kv.Driver
	store  *threads.Store
	member *cluster.Member // which never registers
	index  *cluster.Owners
}

func newLook(ctx context.Context, address string) (*look, error) {
	driver, err := openStore(ctx, address)
	if err != nil {
		return nil, err
	}
	member, err := cluster.New(driver, nil)
	if err != nil {
		_ = driver.Close()
		return nil, err
	}
	return &look{driver: driver, store: threads.New(driver, nil), member: member, index: cluster.NewOwners(driver, "runs")}, nil
}

func (l *look) close() {
	_ = l.member.Close()
	_ = l.driver.Close()
}

// messages returns the messages of the turns' threads.
func (l *look) messages(ctx context.Context, turns []Turn) (map[string][]*chat.Message, error) {
	out := map[string][]*chat.Message{}
	store := l.store.For(tenant)
	for _, t := range turns {
		if _, read := out[t.Thread]; read {
			continue
		}
		out[t.Thread] = nil
		for m, err := range store.Messages(ctx, t.Thread, threads.At{}) {
			if host.CodeOf(err) == host.NotFound {
				break
			}
			if err != nil {
				return nil, err
			}
			out[t.Thread] = append(out[t.Thread], m)
		}
	}
	return out, nil
}

// openRuns returns the durable runs of turns that the journal has, with a description of
// what it has of each.
func (l *look) openRuns(ctx context.Context, turns []Turn) (map[string]OpenRun, error) {
	out := map[string]OpenRun{}
	for _, t := range turns {
		if !t.Durable {
			continue
		}
		rec, err := l.store.ReadRun(ctx, tenant, t.Name)
		if host.CodeOf(err) == host.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := l.describe(ctx, rec)
		if err != nil {
			return nil, err
		}
		out[t.Name] = OpenRun{Asks: rec.Status == host.RunInterrupted, Text: text}
	}
	return out, nil
}

func (l *look) describe(ctx context.Context, rec *host.RunRecord) (string, error) {
	registered, err := l.member.Stored(ctx, rec.Host)
	if err != nil {
		return "", err
	}
	owners, err := l.index.All(ctx)
	if err != nil {
		return "", err
	}
	indexed := slices.ContainsFunc(owners, func(e cluster.Owned) bool { return e.Owner == rec.Host && e.Tenant == tenant })
	return fmt.Sprintf("it is %s with %d steps, of host %q (registered %t, in the index %t), fence %d, changed %s ago",
		rec.Status, len(rec.Steps), rec.Host, registered, indexed, rec.Fence, time.Since(rec.Updated).Round(time.Millisecond)), nil
}
