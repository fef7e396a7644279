package project

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
)

// PeerListenVariable is the environment variable with the address, host:port, at which
// other hosts of a database reach this one: one that they can connect to. Port 0 is a
// free one. Without it hosts on the same machine reach it.
const PeerListenVariable = "AGENTHOST_PEER_LISTEN"

// defaultPeerListen is the default of [PeerListenVariable].
const defaultPeerListen = "127.0.0.1:0"

// runsDrainTimeout is how long a host waits at its end for runs that cannot be handed
// over.
const runsDrainTimeout = 10 * time.Second

// hosts is this process among those that share a database, with the live runs.
type hosts struct {
	version  string          // of the program
	member   *cluster.Member // nil unless the data is in a database
	listener net.Listener    // for the requests of other hosts; nil unless the project serves
	journal  *runs.Journal   // nil without a member
	registry *runs.Registry
}

// join makes the process a member of the cluster of a database's hosts. One that serves
// can be reached by the others.
func (h *hosts) join(p *Project, data *datadir.Dir) error {
	if !data.Address().IsDatabase() {
		return nil
	}
	opts := &cluster.Options{Version: h.version, Logger: p.logger}
	if p.live {
		var err error
		at := cmp.Or(p.getenv(PeerListenVariable), defaultPeerListen)
		if h.listener, err = net.Listen("tcp", at); err != nil {
			return host.Errorf(host.InvalidArgument, "listen for other hosts at %q: %w", at, err).WithHint("set %s to host:port", PeerListenVariable)
		}
		if opts.Identity, err = cluster.NewIdentity(); err != nil {
			_ = h.listener.Close()
			return err
		}
		opts.Address = h.listener.Addr().String()
	}
	var err error
	if h.member, err = cluster.New(data.Driver, opts); err != nil {
		return err
	}
	p.closers.addLast(h.close)
	return nil
}

// close leaves the cluster, so that other hosts take over at once.
func (h *hosts) close() error {
	if h.listener != nil {
		_ = h.listener.Close() // the registry has closed it, if it was serving
	}
	return h.member.Close()
}

// lockThreads gives the options of the threads the locks that hosts share, and what tells
// other hosts of a repair; those of a process that is alone get interrupted.
func (h *hosts) lockThreads(data *datadir.Dir, opts *threads.Options, interrupted func(context.Context, *host.RunRecord) error) *threads.Options {
	if opts == nil {
		opts = &threads.Options{}
	}
	if h.member == nil {
		opts.Interrupted = interrupted
		return opts
	}
	opts.Locks = cluster.NewLocks(h.member)
	opts.Repaired = data.AnnounceRepair
	return opts
}

// ownJournal returns the journal of the host's runs; nil is the history.
func (h *hosts) ownJournal(store *threads.Store) host.Journal {
	if h.member == nil {
		return nil
	}
	h.journal = runs.NewJournal(store, h.member)
	return h.journal
}

// openRuns makes the registry of live runs. A project that serves answers other hosts
// and takes over the runs of those that die.
func (p *Project) openRuns(ctx context.Context) (err error) {
	h := &p.hosts
	opts := &runs.Options{Journal: p.threads, Target: p.Target, Logger: p.logger}
	if h.journal != nil {
		opts.Journal = h.journal
	}
	if h.registry, err = runs.New(p.host, opts); err != nil {
		return err
	}
	p.closers.add(func() error {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), runsDrainTimeout)
		defer cancel()
		_ = h.registry.Drain(drain) // runs that are left are canceled, as their readers see
		return h.registry.Close()
	})
	if h.listener == nil {
		return nil
	}
	if err := h.registry.ServePeers(h.listener); err != nil {
		return err
	}
	return h.registry.Join(ctx)
}

// continueRun continues a durable run that a turn has found on its thread and that no process
// has, for one that has the data to itself: see threads.Options.Interrupted. A turn in the
// background is left to the order of its session.
func (p *Project) continueRun(ctx context.Context, rec *host.RunRecord) error {
	background, err := sessions.InBackground(ctx, p.threads.Driver(), rec.Tenant, rec.Run)
	if err == nil && background {
		return host.Errorf(host.FailedPrecondition, "run %q is a turn in the background", rec.Run)
	}
	if err == nil {
		err = p.Runs().Continue(ctx, rec)
	}
	if err != nil {
		p.logger.WarnContext(ctx, "an interrupted run does not continue: a turn of its thread goes first, which ends it", "run", rec.Run, "tenant", rec.Tenant, "error", err)
	}
	return err
}

// Member returns this process among those that share a database; nil unless the data is
// in one.
func (p *Project) Member() *cluster.Member { return p.hosts.member }

// Runs returns the registry of live runs. On a database it finds the runs of all its
// hosts.
func (p *Project) Runs() *runs.Registry { return p.hosts.registry }
