// Package reduce makes conversations shorter before a model is asked.
//
// A [Reducer] turns a view of history into a shorter one. Only the view
// changes: the stored history stays whole. A Reducer is used by itself, or as a
// processor before every model call of a network or agent:
//
//	short, err := reduce.Counting(20, nil)
//	messages, err := short.Reduce(ctx, view)
//	agent, err := host.NewAgent("clerk", &host.AgentOptions{
//		Processors: []host.Processor{reduce.Processor("last-twenty", short)},
//	})
//
// The reducers:
//
//	Counting       the first system message and the newest messages, up to a number
//	Summarizing    a model's summary in place of old messages
//	Truncation     drops the oldest, when there is more than a bound, down to another
//	SlidingWindow  keeps the newest groups
//	DropTools      drops old tool calls with their results
//	CollapseTools  puts a line of text in place of old tool calls and results
//	Budget         runs others in order until a number of tokens is kept
//
// Counting and Summarizing behave like Agent Framework's chat reducers of those
// names, and the others like its compaction strategies.
//
// # Groups
//
// A tool call without its results, or a result without its call, is refused by
// providers. So messages are kept or dropped in groups: a system message, a
// user's message, an assistant's text is a group each; an assistant's tool calls
// are one with the reasoning around them and all their results, wherever those
// stand.
//
// # The turn in progress
//
// In a run's view the user's input is never dropped. Counting and Summarizing
// leave the input and all later messages unchanged, because they are not
// history yet; the others may drop or collapse the tool calls of earlier
// rounds, so that a long tool loop fits its model.
//
// Reducers are immutable (Summarizing remembers summaries, under a lock) and
// safe for concurrent use. Errors are of type [*host.Error].
package reduce
