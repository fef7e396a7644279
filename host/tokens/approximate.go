package tokens

import "slices"

// Approximate estimates the tokens of a text of so many UTF-16 units, see
// [UTF16Len]: the units divided by how many there are to a token of English
// on average, rounded up. The divisors are 4.2 for o200k_base, 4.0 for
// cl100k_base, 3.8 for p50k_base, 3.5 for r50k_base and 3.2 for gpt2; for any
// other name, that of [DefaultEncoding]. An empty text is 0 tokens.
//
// It is for models whose vocabulary is not public. Text that is not English
// can be three times as many tokens.
func Approximate(encoding string, utf16Units int) int {
	specs := encodingSpecs()
	i := max(0, slices.IndexFunc(specs, func(s encodingSpec) bool { return s.name == encoding }))
	density := specs[i].density
	if utf16Units <= 0 {
		return 0
	}
	return (utf16Units*10 + density - 1) / density
}

// UTF16Len is the length of text in UTF-16, in units of two bytes: 1 for
// nearly every character, 2 for an emoji. A byte that is not part of valid
// UTF-8 counts as U+FFFD, so 1.
func UTF16Len(text string) int {
	n := 0
	for _, r := range text {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}
