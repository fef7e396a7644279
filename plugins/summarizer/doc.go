// Package summarizer is the history processor that puts a model's summary in the
// place of old messages: what the shipped plugin of that name does.
//
// Once a conversation has more than target and threshold messages before this
// turn's input, the plugin asks a model (the operation model.generate) for a
// summary of all but the newest target, cutting before a user's message where it
// can and never between a call and its results. It keeps the summary with the
// thread's name (kv) and what it reaches to, so the next time the model is given
// its own summary and what has become old since: nothing is summarized twice. The
// stored conversation stays as it is. Where the plugin may not keep anything, or the
// run has no thread, each call summarizes anew.
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
