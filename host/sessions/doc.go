// Package sessions serves an agent or network to clients that come back: as
// sessions, each with messages, custom state and artifacts, and a snapshot of
// every turn.
//
//	store := threads.New(driver, nil)
//	service, err := sessions.New(agent, &sessions.Options{Host: host.Options{Model: model}, Store: store})
//	out, err := service.Run(ctx, &sessions.Request{Tenant: tenant, Text: "Add buy milk to my list."})
//	out, err = service.Run(ctx, &sessions.Request{Tenant: tenant, Session: out.Session, Text: "And bread."})
//
// # Who keeps a session
//
// With a store the server does: a session is a thread of it, under the same id,
// and a snapshot one of its turns. The client names a session, to go on from its
// last completed turn, or a snapshot, to go on from exactly there, whatever came
// after it. What came after it stays, under its own snapshots.
//
// Without a store the client does: each turn answers with the whole session, and
// the next one brings it along. A service with [Keys] seals it, so that a client
// can neither read what is not for it nor forge what was never said. What context
// providers know of a session goes with it.
//
// # Questions
//
// A turn that asks (for an approval, for an answer to a tool's own question, for the
// result of a tool that the client executes) ends interrupted, with Questions, and the
// next one brings the Answers. Where the run stopped is kept by the journal of
// Options.Host, if there is one, and a store is one. Without, it goes with the session,
// as Checkpoint. A sealed session carries every question. Of one that is not sealed a
// client can change each word, so it carries what a client may answer by any word: the
// results of client tools, and a tool's own questions. A call that would need an
// approval then fails, and the model is told; so does an agent used as a tool that
// would ask. What a client can do with an unsealed session is have a tool run with any
// arguments that fit its schema, as if the model had called it and the tool had asked,
// and have any agent of the network run, on call or not, as if the router had picked
// it: give tools that must not be run so an approval rule, or seal.
//
// A session can be sent again, and so can an answer: a sealed one repeats the calls
// that it lets run under the same idempotency keys. A journal takes each answer once.
//
// # Turns that fail
//
// A turn that fails answers with what was before it: by the name of the session
// the next turn goes on from the last one that completed, without the message
// that could not be answered. What was finished of the turn that failed is kept
// as a snapshot of its own; who names that goes on from there, and who says
// nothing at all has it tried again, without the tools that have run already.
//
// Turns of one session that come at the same time wait for each other, and none
// of them is lost.
//
// # In the background
//
// A turn may be detached: it is answered at once and goes on whoever listens,
// with signs of life, until it is done, aborted, or found expired because its
// process has ended; then [Service.Recover] goes on with it, or, where one process
// owns the store, [Service.Adopt] when that starts. [Service.Background] lists them.
//
// Such a turn has its place among the turns of its session when it is acknowledged:
// what comes later waits for it, also after a restart and in other processes. If its
// host is gone, a turn that waits for it takes it over. One that is refused when it
// begins, as by a quota, has a snapshot with its message that says so.
//
// A turn that is listened to can be put there while it runs, if it was begun with
// Detachable: [Service.Detach] and [Chat.Detach].
//
// # What a journal is for
//
// A journal keeps what a run needs to be gone on with: the steps of a turn that a
// process ended in, so that the next one does none of them twice, and what a turn
// left that has asked something, until it is answered. A store is a journal as well:
// with Options.Store there is nothing to set. Where clients keep their sessions
// nothing runs in the background, and a journal in [host.Options].Journal of
// Options.Host keeps where a turn stopped that asked something: each answer is taken
// once then.
//
// # Artifacts
//
// Tools make artifacts, up to a megabyte each. A larger one is put by
// [Service.PutArtifact] and read by [Service.OpenArtifact], a piece at a time. One
// with a name takes the place of the one of that name, one without is added; a
// snapshot has those of its time, and content that is the same is stored once.
//
// # What clients see
//
// Events, with every change of the custom state as a JSON Patch: the first of a
// turn replaces the whole, the others are differences. A [stream.View] says what
// clients may see, of events and snapshots alike. A [Chat] keeps a live copy of a
// session, in the same process or, with a [Remote], over HTTP.
//
// The model is Genkit's sessions; where behaviour differs it is said there.
package sessions
