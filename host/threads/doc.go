// Package threads keeps what conversations leave behind: a log of messages, the
// state and artifacts that go with it, and a snapshot of every turn, on any
// [kv.Driver].
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
// # What is stored, and when
//
// A thread is a small record and an append-only log. The log is ordered by
// position, never by time: a clock that jumps changes what is shown as the time
// of a message and nothing else. The user's message is a commit of its own;
// then a turn is one commit: messages, state, artifacts, snapshot and the
// thread's head together or not at all. A turn that failed is stored as well,
// with its status and error.
//
// Every commit moves the head, an opaque string. A turn says which head it
// answers; if the thread has moved on since, it is refused with code conflict
// and the thread stays as the others left it. [Store.LockThread] makes racing
// turns of one process wait for each other instead.
//
// Writing is idempotent. A message id that the thread has is not stored again,
// and neither is a run that was committed, so a write whose answer got lost can
// be sent again. What is the same is decided by ids, never by text: somebody
// who says "yes" twice has said it twice.
//
// # Heads
//
// The log is never shortened or written again. What a thread shows is a view of
// it: parts of its log, and of the logs it was forked from. [Tenant.EditMessage],
// [Tenant.DeleteMessage] and [Tenant.Rewind] give the thread a new head with
// another view; the old one stays in its lineage, where [Tenant.Branches] lists
// it, [Tenant.Messages] reads it and Rewind resumes it. Pairs of tool call and
// result stay whole. A snapshot is the thread as it was after that turn, whatever
// was changed since.
//
// [Tenant.Fork] begins another thread at any moment of one. It refers to what was
// said until then, which stays for as long as somebody refers to it, whatever is
// deleted.
//
// Answering a message again ([Store.Regenerate]) is a rewind to it. A branch
// ([Store.Branch]) goes on beside the thread's own line, on which nothing changes:
// runs name it ([host.Request].Branch), and a run that comes while another runs can
// take one ([host.RaceBranch]).
//
// A message that a view hides can be said again under its id. A run that was
// committed stays committed, whichever head shows it. What was deleted is out of
// sight, not destroyed: [Tenant.PruneHeads] does that, and deleting the thread.
//
// # Reducing
//
// [Tenant.Reduce] has a reducer of package reduce make what [Store.Get] returns
// shorter, for good: it stores a marker, and deletes nothing. A change of what lies
// before the marker takes it away, so that no summary tells what was taken back.
//
// # Finding and pruning
//
// Package search finds messages by their words. Their index is written in the commit of
// the messages ([Tenant.Reindex] makes one for messages that were stored before there was
// any).
// [Tenant.Prune] removes threads by age, number or size, and leaves what others
// refer to.
// [Tenant.PruneHeads] drops heads that a thread has left behind, with the messages,
// snapshots, states and artifacts that they alone show; what is shown by others, its
// forks among them, stays.
//
// # What it costs
//
// A commit writes what is new, however long the thread is. State and artifacts
// are stored under the digest of their content, so what did not change is not
// written. Content beyond a few hundred kilobytes is cut into chunks that are
// written before the commit which refers to them; until then nobody sees them.
// [Store.Get] reads a window at the end of the log. A new head is a record of the
// parts it shows, a few dozen bytes each, and a fork is under a kilobyte; turns on
// either cost what they cost on any thread, but for one look into the index of
// each thread they go back to for each new message.
//
// # Moving threads
//
// Package transfer writes threads to files and stores conversations from files. It reads a
// [Moment] of a thread and writes by [Tenant.Restore].
//
// # Agent threads
//
// [Store.MessageStores] keeps the messages of agent threads as threads of this
// package, and [Tenant.SaveAgentThread] keeps serialized ones as they are, each
// under a key.
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
// (nothing is changed then), resource_exhausted when there is no room,
// data_loss when stored bytes are not what was written. Their text names no
// file and no key; the driver's own error is the cause, for logs.
package threads
