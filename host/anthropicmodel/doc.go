// Package anthropicmodel asks Anthropic's Messages API, so that its models are
// host.Models.
//
//	model, err := anthropicmodel.New("claude-sonnet-4-5", &anthropicmodel.Options{Server: modelhttp.Options{APIKey: key}})
//
// # The conversation on the wire
//
// System messages go to the top, wherever they stand. Consecutive messages of
// the same role are merged, as the protocol demands: the results of an answer's
// tool calls are one user message, with the results first. A conversation that
// begins with an answer is given a user message before it. A trailing answer (a
// prefill) stays an answer.
//
// Thinking goes back unchanged, with its signature, because the provider refuses
// tool results without it; thinking without a signature came from another provider,
// and is left out. If the provider refuses a signature, it is asked again without
// the earlier thinking, and without new thinking. A block of a type that this
// package does not know, redacted thinking and the provider's own tools among them,
// is kept as a part of the type "anthropic" and goes back unchanged. Blocks that no
// answer contains (images, documents and the account's files) and blocks of types
// that have their own parts never go back this way: a client that keeps the
// conversation could have made them up. Parts of unknown types are left out, and
// logged; invalid ids and names of calls are changed into ones that the provider
// accepts.
//
// An agent's provider tools of the provider "anthropic" are declared to it
// unchanged. When they take long the provider pauses its answer; the agent asks
// again, as a round of its own, and the answer continues.
//
// Images (PNG, JPEG, GIF, WebP) and PDF that tools have returned go into their results;
// a sentence stands for other media, and for all of it if the provider refuses one.
//
// The schema of an output goes into output_config. The provider takes a part of JSON
// Schema: rules beyond it move to descriptions, objects are closed, and a schema that has
// no such form (a map, a tuple) stands in the system prompt, in words. So does one that the
// provider or the model refuses, and one beside a trailing answer. The caller checks each
// answer against the schema itself.
//
// # Answers, retries, bounds
//
// Answers are streamed, or come in one piece where the caller reads no deltas and
// [modelhttp.Options].Whole is set.
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
