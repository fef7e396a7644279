// Package runs registers live runs: it starts runs that need no reader, lists them, and
// lets any number of readers follow, resume, cancel and answer them by tenant and id.
//
//	registry, err := runs.New(h, nil)
//	defer registry.Close()
//	run, err := registry.Start(ctx, target, &host.Request{Tenant: "acme", Text: "Where is my order?"}, nil)
//	for ev, err := range registry.Events(ctx, run.Tenant, run.ID, 0) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(ev)
//	}
//
// A run advances by itself: a slow reader delays neither the run nor other readers, and
// a reader that comes back with the number of the last event that it has seen gets the
// events from the next one on, without a gap. The registry keeps the last
// [Options].Kept events of a run, and those of a run that has ended for
// [Options].KeptFor; it stores those of durable runs.
//
// # Readers that leave
//
// A run does not depend on its readers unless [StartOptions].OnLeave is [LeaveCancels]:
// then it is canceled when it had no reader for [Options].LeaveGrace, which leaves a
// client the time to connect again. A client whose connection ends for certain leaves by
// [Attachment.Abandon], and the run ends at once unless another client reads it; a client that
// sends the request again in that moment is not given that run: see [Registry.Attach].
//
// # Tenants
//
// Each method looks a run up inside the tenant: the run of another tenant is not_found.
//
// # Many hosts
//
// Hosts that share a store are members of a cluster (package cluster). With a [Journal]
// that knows the member, each open durable run names its owner; [Registry.Join] takes
// over the runs of members that have died, [Registry.Drain] hands the own ones over. A
// member that was paused and taken for dead can store nothing of such a run when it
// comes back: the fence of each of its commits is the earlier owner's. A run that is not
// durable ends with its host. [Registry.ServePeers] answers other hosts, so that each
// method works through any of them: the events of a run are in the memory of the host
// that runs it alone, unless the run is durable.
//
// # Durable runs
//
// The events of durable runs are also in the store of the journal, in the partition of the
// tenant: all runs of a registry in one commit, at most once a second. Each run has up to
// [MaxStoredEvents] and [MaxStoredBytes] there, until Options.KeptFor after its end; the
// deletion of the thread ([EraseThread]) and that of the tenant remove them as well. So a
// run that has ended can be read through any host after its own has ended, and the numbers
// of events continue when another process takes a run over: after the last event that is
// stored comes a run.started of the new process.
//
// Events that a host has sent after its last commit, for up to a second, are not stored if the host
// is killed. The next host produces them again, as it repeats the work after the last step in
// the journal, under the numbers that follow the last stored event. A reader that resumes
// from a number which the run does not have yet gets the events from that run.started on;
// one that resumes later gets those from its number on, and finds each whole message in its
// message.done.
//
// A process that is alone continues the durable runs of one that was killed with
// [Registry.Continue]: those that it finds at its start, and the one that a turn finds on its
// thread and has to come after:
//
//	store := threads.New(driver, &threads.Options{Interrupted: func(ctx context.Context, run *host.RunRecord) error {
//		return registry.Continue(ctx, run) // its Options have Journal: store, and Target
//	}})
//
// A durable run whose last commit fails, because the store takes no writes, stays in the
// journal. The registry continues it every few seconds, up to [MaxOwners] times, if it has
// Options.Target; in a cluster any member does.
//
// A run that no host can continue is given up: after MaxOwners, or when it has been refused for
// [MaxRefusal], such as because its network or agent is gone. It ends in the journal, and with
// a last event that has the reason, so that its readers see its end.
//
// # Errors
//
// Errors have the codes of package fault. The error of a run is for the program: a
// server gives clients what fault.ForClient makes of it.
package runs
