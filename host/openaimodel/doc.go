// Package openaimodel asks OpenAI-compatible servers, so that any server of the
// Chat Completions protocol (OpenAI, Ollama, vLLM, LM Studio, llama.cpp, a
// gateway) is an llm.Model.
//
//	model, err := openaimodel.New("gpt-4o-mini", &openaimodel.Options{Server: modelhttp.Options{APIKey: key}})
//	model, err := openaimodel.New("llama3.2", &openaimodel.Options{Server: modelhttp.Options{BaseURL: "http://localhost:11434/v1"}})
//
// # Peculiarities of servers
//
// Answers are streamed, or come in one piece where the caller reads no deltas and
// [modelhttp.Options].Whole is set. The package also accepts a server that ignores that and
// sends one JSON document, does not report usage, does not know stream_options,
// says "stop" after calling tools, numbers its tool calls badly or ends without
// [DONE] after a finish reason. One that refuses response_format is asked again
// without it.
//
// An answer counts only when the server said that it is over: with a finish
// reason or with [DONE]. A stream that breaks off is an error of code
// unavailable, however much of it came. So is an answer that breaks the
// protocol; the error names the server's host and shows the beginning of the
// answer.
//
// An agent's provider tools of the provider "openai" are declared to the server
// unchanged; their output arrives as text.
//
// # Reasoning
//
// The reasoning that a server sends (reasoning_content, reasoning or
// reasoning_details) is shown, kept in the message, and goes back under the same
// field to the same model: models that think between tool calls need it. By
// default that is so until the user speaks again; see [ReasoningUse]. A server
// that refuses the field does not receive it again. Unknown members of a tool
// call, such as the signature of a thought, go back with the call, to the same
// model. Both are kept in the member "openai" of the part's JSON. Thoughts and
// parts of other protocols are left out; names of calls that a model has made up
// and no server accepts are changed into valid ones.
//
// # Retries
//
// A server that is down, overloaded or breaks off is asked again, with growing
// and jittered waits, or when its Retry-After says, as long as nothing of the
// answer has been passed on. Each retry is announced by a chunk of its own.
// Timeouts are not retried: the server has probably done the work already, and
// the caller has waited for it.
//
// # Bounds
//
// Silence (before the first byte and between two chunks, or before a whole answer), a line, a document, an
// answer, an error's body, the number of retries and the wait that a server may
// ask for are all bounded; see the constants.
//
// # Missing on purpose
//
// Of media only images are sent: those of users, and PNG, JPEG, GIF and WebP images that
// tools have returned, which stand in a user's message behind the results, because the
// protocol has no place for them there. A server that refuses a tool's image is asked
// again without it. There is one choice an answer. Environment variables are the command's business.
//
// go-openai itself refuses, before a request is sent, parameters that certain
// models of OpenAI refuse: a temperature for the o-series, tools in chat
// completions for the newest. That is an error of code invalid_argument.
package openaimodel
