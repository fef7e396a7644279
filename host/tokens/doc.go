// Package tokens counts the tokens of a text for a language model, exactly,
// offline, and in time linear in the text.
//
//	counter, err := tokens.New(nil)
//	if err != nil {
//		return err
//	}
//	n, err := counter.Count(ctx, tokens.O200kBase, text)
//
// A [Counter] knows the encodings of OpenAI's models and the tokenizers that
// a program registers, by name, and remembers counts, so that a conversation
// that grows by a message costs the count of a message. [EncodingForModel]
// tells which encoding a model uses. For models whose vocabulary is not
// public there is [Approximate].
//
// # Exactness
//
// A count is the number of tokens of tiktoken-go's EncodeOrdinary, token for
// token; the tests compare the two, and so does the fuzz target. Names of
// special tokens are ordinary text. A byte that is not part of valid UTF-8
// counts as U+FFFD. The vocabularies are compiled into the program; the package
// never fetches anything.
//
// # Costs
//
// A megabyte that is half English and half program takes 14 ms with o200k_base
// and 20 ms with cl100k_base, a 400-byte message 3 µs. Text made to be hard
// (one piece of random letters, symbols or bytes) takes up to nine times as
// long as prose, and no text is known to take longer; a run of one character
// takes less than prose. So a text needs no bound here besides its bound at the
// entry to the program.
//
// Counting does not allocate, as working memory is kept for the next call, up
// to a bound. While in use it is up to 16 bytes for each token of the longest
// piece, such as a word or a run of spaces, and three bytes for each byte of a
// text that is not valid UTF-8.
//
// The first use of an encoding unpacks its vocabulary: o200k_base takes 3 ms
// and 5 MB, cl100k_base 1 ms and 3 MB, p50k_base and r50k_base 0.6 ms and 1 MB
// each. The vocabularies add 5 MB to a program.
//
// BenchmarkTokens and BenchmarkLoad print these times on one idle core of an
// AMD EPYC server of 2024. tiktoken-go takes ten to twenty times as long for
// the megabyte, with 1.5 million allocations, and the square of the length for
// the hard texts.
package tokens
