// Package tokens counts the tokens that a text is to a language model,
// exactly, offline, and in time linear in the text.
//
//	counter, err := tokens.New(nil)
//	...
//	n, err := counter.Count(ctx, tokens.O200kBase, text)
//
// A [Counter] knows the encodings of OpenAI's models and the tokenizers that
// a program registers, by name, and remembers counts, so that a conversation
// that grows by a message costs the count of a message. [EncodingForModel]
// tells which encoding a model uses. For models whose vocabulary is not
// public there is [Approximate].
//
// # What is exact
//
// A count is the number of tokens of tiktoken-go's EncodeOrdinary, token for
// token; the tests compare the two, and the fuzz target does for as long as it
// is let. Names of special tokens are ordinary text. A byte that is not part
// of valid UTF-8 counts as U+FFFD. The vocabularies are compiled into the
// program; nothing is ever fetched.
//
// # What it costs
//
// A megabyte of English and program text takes some 12 ms, a 400-byte message
// 5 µs. Text made to be hard (random letters, bytes or symbols in one piece)
// takes up to six times as long, and no text is known that takes longer; a run
// of one character takes less than prose. So bytes need no limit here beyond
// the one they have where they come in.
//
// Counting allocates nothing once it is under way. Working memory is kept for
// the next call up to a bound; while in use it is up to 20 bytes for each
// token of the longest piece that is not a token, and three bytes for each
// byte of a text that is not valid UTF-8.
//
// The first use of an encoding loads its vocabulary, in 45 ms and 5.2 MB for
// o200k_base, 17 ms and 2.7 MB for cl100k_base, and 7 ms and 1.2 MB for the
// others.
package tokens
