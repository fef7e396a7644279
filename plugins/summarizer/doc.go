// Package summarizer is the history processor that puts a model's summary in the
// place of old messages. The shipped plugin of that name is this package.
//
// Once a conversation has more than target and threshold messages before this
// turn's input, the plugin asks a model (the operation model.generate) for a
// summary of all but the newest target, cutting before a user's message where it
// can and never between a call and its results. It keeps the summary with the
// thread's name (kv) and the last message that it covers, so the next time the model
// is given its own summary and the messages that have become old since: nothing is
// summarized twice. The stored conversation does not change. Without the permission
// kv, or in a run without a thread, each call summarizes again.
//
// The configuration is an object:
//
//	target     how many messages stay (required, 1 or more)
//	threshold  how many beyond the target are left alone (default 10)
//	prompt     asks for the summary
//	model      a model of the operator's choice, by name; default: the agent's
//	maxTokens  of a summary (default 500)
//
// System messages stay. A bare number is a target. The report is
// {"summarized", "through", "asked"}: how many messages the summary stands for, the
// id of the last of them, and whether a model was asked for it now.
package summarizer
