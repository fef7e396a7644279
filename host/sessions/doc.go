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
// and a snapshot one of its turns. The client names a session, to continue from
// its last completed turn, or a snapshot, to continue from exactly that turn.
// Turns that came after the snapshot stay, under their own snapshots.
//
// Without a store the client does: each turn answers with the whole session, and
// the next one brings it along. A service with [Keys] seals it, so that a client
// can neither read hidden parts of the session nor forge messages. The context
// providers' state goes with the session.
//
// # Questions
//
// A turn that asks (for an approval, for an answer to a tool's own question, for the
// result of a tool that the client executes) ends interrupted, with Questions, and the
// next one brings the Answers. The journal of Options.Host keeps the point where the
// run stopped; a store is such a journal. Without a journal, that point goes with the
// session, as Checkpoint. A sealed session carries every question. A client can change
// every word of an unsealed session, so such a session carries only questions that any
// answer fits: for the results of client tools, and a tool's own questions. A call that
// would need an approval then fails, and the model receives the error; so does an agent
// used as a tool that would ask. With an unsealed session a client can make a tool run
// with any arguments that fit its schema, as if the model had called the tool and the
// tool had asked, and make any agent of the network run, on call or not, as if the
// router had picked it: give tools that must not run so an approval rule, or seal.
//
// A client can send a session again, and an answer too: a sealed session repeats the
// calls that its answers allow under the same idempotency keys. A journal takes each
// answer once.
//
// # Turns that fail
//
// A turn that fails returns the session of the turn before it: a next turn that
// names the session continues from the last completed turn, without the message
// of the failed one. The finished steps of the failed turn are kept as a
// snapshot of its own. A request that names this snapshot continues from it; a
// request without any input tries the failed turn again, without repeating the
// tools that have run.
//
// Turns of one session that come at the same time wait for each other, and none
// of them is lost.
//
// # In the background
//
// A turn may be detached: it is acknowledged at once and runs without a listener,
// with heartbeats, until it is done, aborted, or found expired because its process
// has ended; then [Service.Recover] continues it, or, where one process owns the
// store, [Service.Adopt] when that process starts. [Service.Background] lists such
// turns. Where hosts share a store, each gives its services a member of their cluster:
// then the heartbeats of members say whose turns are lost, and [Service.RecoverLost]
// continues them.
//
// A background turn has its place among the turns of its session when it is
// acknowledged: later turns wait for it, also after a restart and in other
// processes. If its host is gone, a turn that waits for it takes it over. A turn
// refused when it begins, as by a quota, has a snapshot with its message and the
// error.
//
// A turn in the foreground that was begun with Detachable can move to the
// background while it runs: [Service.Detach] and [Chat.Detach].
//
// # The journal
//
// A journal keeps the data that a run needs to continue: the steps of a turn whose
// process ended, so that the next process repeats none of them, and the checkpoint
// of a turn that has asked a question, until the answer comes. A store is a journal
// as well: with Options.Store there is nothing to set. Where clients keep their
// sessions nothing runs in the background, and a journal in [host.Options].Journal
// of Options.Host keeps the checkpoint of a turn that has asked: it then takes each
// answer once.
//
// # Artifacts
//
// Tools make artifacts, up to a megabyte each. [Service.PutArtifact] writes a
// larger one and [Service.OpenArtifact] reads it, a piece at a time. A named
// artifact replaces the artifact of that name, an unnamed one is added; a snapshot
// has the artifacts of its time, and equal content is stored once.
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
