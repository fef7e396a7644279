// Package toolcallfilter removes tool calls and their results from the
// conversation that a model is sent. It is one of the processors that agenthost
// ships: a sandboxed plugin like any other, and this package is all of it but its
// main function.
//
// It keeps an agent from being led by the actions of other agents: a model that
// reads calls of tools it does not have asks for those tools.
//
// # Configuration
//
//	{}                                     remove every call and every result
//	{"exclude": ["debug_log"]}             remove those of these tools
//	{"include": ["search"]}                keep those of these tools alone
//	{"exclude": [...], "persistResults": true}   and name the tools that were used
//
// exclude and include cannot be combined; an empty include counts as absent, an
// empty exclude removes nothing. With persistResults the calls that a message
// loses leave a message of the assistant, "Used search tool" or "Used tools:
// a, b". With include only a message that keeps no call leaves one.
//
// The calls that the agent about to be asked has made since its router picked it
// stay, with their results: an agent that does not see them makes them again until a
// limit ends the run. Those of other agents, of earlier turns and of its own earlier
// picks go. "own_rounds": "filter" removes them all; "keep" is the default.
//
// # What it guarantees
//
// A call and its results go together, wherever the results stand and however
// many there are. A result belongs to the call with its id that is still
// unanswered, by preference the one of the tool that the result names; so an id
// that is used again is matched to its own call each time. A result without a
// call is judged by the tool that it names, and removed when everything is.
//
// Everything else in a message stays; a message that has lost all it had goes. A
// summary never stands between a call and its results, or behind a call that is
// still open at the end: where the place of the calls is taken, it comes after
// the results that follow them. Filtering twice is filtering once.
package toolcallfilter
