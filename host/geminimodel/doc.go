// Package geminimodel asks Google's Gemini API over its own protocol
// (generateContent), so that its models are host.Models.
//
//	model, err := geminimodel.New("gemini-2.5-flash", &geminimodel.Options{Server: modelhttp.Options{APIKey: key}})
//
// # The conversation on the wire
//
// System messages are the systemInstruction, wherever they stand. Consecutive
// messages of one side are one content; the results of an answer's calls are a
// content of their own, for the API wants as many results as there were calls. A
// conversation that begins with an answer is given a user's message before it.
// Images, sounds, videos and documents go as data, or by their address; an address
// of a file that the service keeps for the account is refused, because the account
// is one for all tenants.
//
// A result of a tool is the member output of its response, an error the member
// error. Calls have the ids that the service gave them; a call without one gets an
// id that begins with [MadeID], which is not sent.
//
// # Thought signatures
//
// Models that think sign parts of their answers, calls above all, and newer ones
// refuse a conversation in which the signature of a call is missing. A signature is
// kept with its part, in the member "gemini" of the part's JSON, so it is stored
// and loaded with the thread, and goes back unchanged. Text that came with a
// signature stays a part of its own; a signature that came without content is kept
// as a part of the type "gemini". Thoughts themselves go back only if they are
// signed.
//
// Calls of other models have no signature. A service that misses one is asked again
// at once with the mark that Google documents for such calls, and from then on
// gets it in the first request. A service that refuses a signature, because it is
// another account's, is asked again without any.
//
// # Answers, retries, bounds
//
// Answers are streamed, or come in one piece (generateContent) where the caller reads no
// deltas and [modelhttp.Options].Whole is set.
//
// An answer counts only when the service said why it stopped, or that it does not
// answer the prompt (content_filter). A stream that breaks off is an error of code
// unavailable, and so is a call that the model garbled. A service that is down or
// overloaded is asked again, with growing and jittered waits, or when its
// Retry-After or the retryDelay in its error says, as long as nothing of the answer
// has been passed on. Silence, lines, answers, error bodies, retries and waits are
// bounded.
//
// A part of a type that this package does not know (code that the service ran, and
// its output) is kept as a part of the type "gemini" and goes back unchanged,
// except for a part that no answer contains: a client that keeps the conversation
// could have made it up.
//
// An agent's provider tools of the provider "gemini" are declared to the service
// unchanged: {"googleSearch":{}}.
//
// # Missing on purpose
//
// Files, caches and batches of the service, and Vertex AI's credentials: a gateway,
// or a HTTPClient that signs requests, brings those. The protocol cannot ask for
// one call at a time, so SerialTools changes nothing.
package geminimodel
