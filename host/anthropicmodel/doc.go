// Package anthropicmodel asks Anthropic's Messages API, so that its models are
// host.Models.
//
//	model, err := anthropicmodel.New("claude-sonnet-4-5", &anthropicmodel.Options{Server: modelhttp.Options{APIKey: key}})
//
// # What becomes of a conversation
//
// System messages go to the top, wherever they stand. Messages that follow each
// other with the same role are one, as the protocol wants it: the results of an
// answer's tool calls are one user message, with the results first. A
// conversation that begins with an answer is given a user message before it. A
// trailing answer (a prefill) stays an answer.
//
// Thinking goes back unchanged, with its signature, for the provider refuses
// tool results without it; thinking that has none came from somebody else, and
// is left out. If the provider does not take a signature, it is asked again without
// what was thought, and without thinking. A block of a type that this package does
// not know, redacted thinking and the provider's own tools among them, is kept as a
// part of the type "anthropic" and goes back as it came. Blocks that no answer has
// (images, documents and files of the account's) and those that there are parts for
// do not go as such: a client that keeps the conversation could have made them up.
// Other parts that nobody knows are left out, which the log says; ids and names of
// calls that the provider does not take are changed into ones that it does.
//
// An agent's provider tools of the provider "anthropic" are declared to it as
// they are. When they take long the provider pauses its answer; the agent asks
// again, as a round of its own, and the answer goes on.
//
// The protocol has no field for the schema of an output: the model is told it
// in words.
//
// # Answers, retries, bounds
//
// An answer counts only when the server said why it stopped. A stream that
// breaks off is an error of code unavailable. A server that is down or overloaded
// is asked again, with growing and jittered waits, or when its Retry-After says,
// as long as nothing of the answer has been passed on. Silence, lines, answers,
// error bodies, retries and waits are bounded.
//
// The behaviour follows Anthropic's documentation of version 2023-06-01 of the
// API.
package anthropicmodel
