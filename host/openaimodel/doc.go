// Package openaimodel asks OpenAI-compatible servers, so that anything that
// speaks the Chat Completions protocol (OpenAI, Ollama, vLLM, LM Studio,
// llama.cpp, a gateway) is a host.Model.
//
//	model, err := openaimodel.New("gpt-4o-mini", &openaimodel.Options{Server: modelhttp.Options{APIKey: key}})
//	model, err := openaimodel.New("llama3.2", &openaimodel.Options{Server: modelhttp.Options{BaseURL: "http://localhost:11434/v1"}})
//
// # What servers do, and what becomes of it
//
// Answers are streamed. A server that ignores that and sends one JSON document
// is understood as well, and so is one that does not report usage, does not know
// stream_options, says "stop" after calling tools, numbers its tool calls badly
// or ends without [DONE] after a finish reason. One that refuses response_format
// is asked again without it.
//
// An answer counts only when the server said that it is over: with a finish
// reason or with [DONE]. A stream that breaks off is an error of code
// unavailable, however much of it came. So is anything that is not the protocol;
// the error names the server's host and shows the beginning of what came.
//
// An agent's provider tools of the provider "openai" are declared to the server
// as they are; what comes of them arrives as text.
//
// # Reasoning
//
// What a server says that its model thought (reasoning_content, reasoning or
// reasoning_details) is shown, kept in the message, and goes back under the same
// field to the same model: models that think between tool calls need it. By
// default that is so until the user speaks again; see [ReasoningUse]. A server
// that refuses the field is not sent it again. What a server sends with a tool
// call and is not known here, such as the signature of a thought, goes back with
// the call, to the same model. Both are kept in the member "openai" of the part's
// JSON. Thoughts and parts of other protocols are left out; names of calls that no
// server takes, which a model has made up, are changed into ones that they do.
//
// # Retries
//
// A server that is down, overloaded or breaks off is asked again, with growing
// and jittered waits, or when its Retry-After says, as long as nothing of the
// answer has been passed on. Each retry is announced by a chunk of its own.
// Timeouts are not retried: the server has probably done the work already, and
// somebody has waited for it.
//
// # Bounds
//
// Silence (before the first byte and between two chunks), a line, a document, an
// answer, an error's body, the number of retries and the wait that a server may
// ask for are all bounded; see the constants.
//
// # What is missing on purpose
//
// Of media only images are sent, and only in user's messages. There is one
// choice an answer. Environment variables are the command's business.
//
// go-openai refuses by itself, before anything is sent, what it knows certain
// models of OpenAI to refuse: a temperature for the o-series, tools in chat
// completions for the newest. That is an error of code invalid_argument.
package openaimodel
