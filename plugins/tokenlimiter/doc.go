// Package tokenlimiter keeps the conversation that a model is sent below a
// number of tokens, by dropping its oldest messages. It is one of the processors
// that agenthost ships: a sandboxed plugin like any other, and this package is all
// of it but its main function.
//
// # Configuration
//
//	8000                                         the limit alone
//	{"limit": 16000, "encoding": "cl100k_base"}  counted in another encoding
//	{"limit": 4000, "useTiktoken": false}        estimated, not counted
//	{"limit": 8000, "tokenizer": "mine"}         counted by a tokenizer of the host's
//
// limit is required, from 1 up. encoding is o200k_base unless it is cl100k_base,
// p50k_base, r50k_base, gpt2 (which counts like r50k_base), or model: the one of
// the model that the conversation is for. tokenizer names a tokenizer that is
// registered with the host, and wins over encoding and useTiktoken. reserve
// (below limit) is how many tokens to leave free for the parts of a request that
// are not counted: roles, names, instructions and the schemas of tools. oversize is
// described below.
//
// Counts are the host's, and exact. Without them (useTiktoken is false, or the
// host has no tables for the encoding) a message is as many tokens as its length
// in UTF-16 units divided by the units that a token of English has on average,
// rounded up: 4.2 in o200k_base, 4.0 in cl100k_base, 3.8 in p50k_base, 3.5 in
// r50k_base and 3.2 in gpt2. The report then says so.
//
// # Which messages are dropped
//
// A call and all its results are one segment with whatever stands between them,
// and stay or go together. Every other message is a segment of its own, an
// unanswered call too. Segments are kept from the newest back, while they fit; at
// the first that does not, it and all older ones go, even those that would fit.
// System messages count but always stay. A conversation that fits is not changed.
//
// When not even the newest segment fits, the processor fails with code
// resource_exhausted, or leaves nothing but the system messages if oversize is
// "empty" (it is "error" by default).
//
// The processor does not know which message is the user's current input. That is
// the newest segment when a turn begins, but not after the turn's tool calls: if
// those alone fill the limit, the input would go, which the host refuses. Choose
// a limit that a turn fits into.
package tokenlimiter
