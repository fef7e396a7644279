// Package threads stores conversations on any [kv.Driver]: a log of messages,
// the state and artifacts that go with it, and a snapshot of every turn.
//
// A [Store] is a history adapter: give it to [host.NewHistory] and a host
// stores every run in it.
//
//	store := threads.New(driver, nil)
//	history, err := host.NewHistory(store, nil)
//	h, err := host.New(&host.Options{History: history})
//
// On badgerkv it is on disk, on [kv.NewMemory] in memory, with the same rules
// and the same tests.
//
// # Stored data and commits
//
// A thread is a small record and an append-only log. The log is ordered by
// position, never by time: a clock that jumps changes the displayed time of a
// message and nothing else. The user's message is a commit of its own; then a
// turn is one commit: messages, state, artifacts, snapshot and the thread's head
// together or not at all. A turn that failed is stored as well, with its status
// and error.
//
// Every commit moves the head, an opaque string. A turn says which head it
// answers; if the thread has moved on since, it is refused with code conflict
// and the thread stays as the others left it. [Store.LockThread] makes racing
// turns of one process wait for each other instead.
//
// The first commit of a thread that this Store has written last is built on the record that
// it wrote, without a read. Another writer's commit makes it fail, and it is built again.
//
// Writing is idempotent. A message id that the thread has is not stored again,
// and neither is a run that was committed, so a write whose answer got lost can
// be sent again. Ids decide whether two messages are the same, never texts: two
// messages "yes" under two ids are two messages.
//
// # Heads
//
// The log is never shortened or written again. What a thread shows is a view of it:
// parts of its log, and of the logs it was forked from. [Tenant.EditMessage],
// [Tenant.DeleteMessage] and [Tenant.Rewind] give the thread a new head with another
// view; the old one stays in its lineage, where [Tenant.Branches] lists it,
// [Tenant.Messages] reads it and Rewind resumes it. Pairs of tool call and result stay
// whole. A snapshot is the thread right after its turn; later changes do not touch it.
//
// [Tenant.Fork] begins another thread at any moment of one. The fork refers to the
// messages up to that moment; they stay for as long as any thread refers to them, even
// if the first thread is deleted.
//
// Answering a message again ([Store.Regenerate]) is a rewind to it. A branch
// ([Store.Branch]) continues beside the thread's main line, on which nothing changes:
// runs name the branch ([host.Request].Branch), and a run that comes while another runs
// can take one ([host.RaceBranch]).
//
// A message that a view hides can be said again under its id. A run that was
// committed stays committed, whichever head shows it. A deleted message is
// hidden, not destroyed: [Tenant.PruneHeads] and [Tenant.Delete] destroy
// messages.
//
// # Reducing
//
// [Tenant.Reduce] has a reducer of package reduce shorten the result of [Store.Get]
// permanently: it stores a marker, and deletes nothing. A change of the messages before
// the marker removes it, so that no summary repeats a deleted or edited message.
//
// # Finding and pruning
//
// Package search finds messages by their words. Their index is written in the commit of
// the messages ([Tenant.Reindex] makes one for messages that were stored before there
// was any). [Tenant.Prune] removes threads by age, number or size, and leaves the
// messages that other threads refer to. [Tenant.PruneHeads] drops heads that a thread
// has left behind, with the messages, snapshots, states and artifacts that they alone
// show; entries that another head or a fork shows stay.
//
// # What it costs
//
// A commit writes new content only, however long the thread is: the messages of a turn share
// an entry of the log unless they are large, and their ids share an entry of the index where
// they are this program's ([host.NewID]). State and artifacts are
// stored under the digest of their content, so an unchanged one is not written again.
// Content beyond a few hundred kilobytes is cut into chunks that are written before the
// commit which refers to them; until then no reader sees them. [Store.Get] reads a
// window at the end of the log, and keeps it decoded in memory ([Options].CacheBytes): the
// next Get decodes the messages that were stored since. A new head is a record of the parts it shows, a few
// dozen bytes each, and a fork is under a kilobyte; turns on either cost what they cost
// on any thread, but for one look into the index of each thread they go back to for
// each new message.
//
// # Moving threads
//
// Package transfer writes threads to files and stores conversations from files. It reads a
// [Moment] of a thread and writes by [Tenant.Restore].
//
// # Agent threads
//
// [Store.MessageStores] keeps the messages of agent threads as threads of this
// package, and [Tenant.SaveAgentThread] keeps serialized ones byte for byte,
// each under a key.
//
// # Tenants and ids
//
// [Store.For] returns a tenant's view of a store, which reads and writes nothing of
// other tenants; the empty name is the tenant [DefaultTenant]. The methods that a host
// calls are the Store's: they find the tenant in the request. A thread id is any
// text of up to [MaxThreadIDBytes] bytes without control characters: "../x" and "a/b" are ids
// like others.
//
// # Errors
//
// Errors are of type [*host.Error]. Besides the codes that a method documents:
// unavailable when the driver is closed or does not know whether it wrote,
// failed_precondition when it takes no writes or the data is of a newer version
// (nothing is changed then), resource_exhausted when there is no room, data_loss
// when stored bytes differ from the written ones. Their text names no file and
// no key; the driver's own error is the cause, for logs.
package threads
