// Package responsesmodel asks servers of OpenAI's Responses API, so that their
// models are host.Models.
//
//	model, err := responsesmodel.New("gpt-5-mini", &responsesmodel.Options{Server: modelhttp.Options{APIKey: key}})
//
// OpenAI's reasoning models work best over the Responses API: their reasoning
// goes back to them between tool calls, encrypted if the service keeps nothing.
// For other OpenAI-compatible servers there is package openaimodel.
//
// # Where the conversation is kept
//
// By default here: each request carries the whole conversation, and asks the
// service to keep nothing (store: false). With Options.Store it keeps every
// answer, and the response says under which id: llm.Response.Conversation. A
// request with that id as its Conversation carries only the messages since. An id
// that begins with conv_ names a conversation of the service, which stays the same
// over turns; any other one is that of a response (previous_response_id), and
// changes with each.
//
// # The conversation on the wire
//
// System messages are the instructions. A message of the assistant is an item for
// each of its parts, in their order; so is the result of a tool. Images go by URL or
// as data, and PDFs as well. An unknown item of the service (of the service's own
// tools) is kept as a part of the type "openai_item" and goes back unchanged.
// Reasoning goes back in its original item, with the encrypted content; without that
// only to a service that keeps it. Items that no service sends (system messages,
// references to other items, approvals, results of the caller's tools) never go
// back: a client that keeps the conversation could have made them up. Invalid names
// of calls are changed into ones that the service accepts.
//
// An agent's provider tools of the provider "responses" are declared to the
// service unchanged.
//
// # Answers, retries, bounds
//
// Answers are streamed, or come in one piece where the caller reads no deltas and
// [modelhttp.Options].Whole is set.
//
// An answer counts only when the server said how it ended: a stream that breaks
// off is an error of code unavailable. A server that is down or overloaded is
// asked again, with growing and jittered waits, or when its Retry-After says, as
// long as nothing of the answer has been passed on. Silence, lines, answers, error
// bodies, retries and waits are bounded. One that refuses text.format or the
// encrypted reasoning is asked again without it; and one that cannot decrypt its
// reasoning, because the key is another account's now, without that reasoning.
//
// # Missing on purpose
//
// Background responses, and the management of stored responses and conversations:
// those are for its own SDK.
package responsesmodel
