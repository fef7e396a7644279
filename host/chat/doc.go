// Package chat holds the messages of conversations: their parts, their JSON, edits of
// them and the rules that a conversation keeps. A [Result] is the messages that one run
// of an agent adds, with the reason of its end and its usage.
//
// A [Message] goes in and out as the JSON of the plugin contract. Parts, members and
// part types that this version does not know survive a round trip. [Edit] values, also
// JSON of the contract, turn one list of messages into another. [Faults] finds calls
// without results and results without calls, which model providers refuse;
// [CloseCalls] and [WithoutOrphans] repair them. [Checksum] and [Artifact.Digest] name
// contents.
//
// A message keeps its size, its token counts and its encodings for model protocols, so
// that the cost of a turn follows its new messages. Messages are immutable once they are
// part of a conversation, and then safe for concurrent use; [Message.Clone] makes a copy
// that may be changed.
//
// Errors are of package fault; input that is malformed has code invalid_argument. Package
// host has the names that programs with agents use as aliases.
package chat
