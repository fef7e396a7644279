// Package agentthread keeps the conversation of one agent in a value that the caller
// holds, as the threads of Agent Framework do.
//
// A [Thread] is of one of three kinds, which the first answer of a model decides: the
// model's service keeps the messages, a message [Store] does, or the thread is still
// undecided. It is serialized between turns as an envelope of version 1 ([Restore]) that
// names its owner and a [Digest] of the owner's configuration, has a sum against damage,
// and holds the states of context providers, but no secret. Its reading is strict: an
// unknown version or a wrong shape is an error.
//
// [Stores] open the message stores of threads; those of [NewMemory] keep messages in
// memory and in the envelope. [KeepNewest] cuts a conversation without parting a call
// from its results.
//
// A run of a host uses a thread through its [Access]: it locks it, loads the content,
// and appends a turn in one write. Package host makes threads (host.Agent.NewThread) and
// has these types under names of its own. This package knows no agents, runs and events.
package agentthread
