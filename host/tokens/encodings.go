package tokens

import (
	"fmt"
	"sync"
)

// The encodings that [Counter.Encoding] knows.
const (
	O200kBase  = "o200k_base"  // GPT-4o and everything after it
	Cl100kBase = "cl100k_base" // GPT-4, GPT-3.5 Turbo, the embedding models
	P50kBase   = "p50k_base"   // Codex, text-davinci-002 and -003
	R50kBase   = "r50k_base"   // GPT-3
	GPT2       = "gpt2"        // counts like R50kBase, approximates more densely

	// DefaultEncoding is the one that an empty name means.
	DefaultEncoding = O200kBase
)

// An encodingSpec describes an encoding.
type encodingSpec struct {
	name    string
	file    string  // of the vocabulary
	nodes   int     // beginnings, of two bytes and more, that its tokens have
	pattern pattern // cuts a text into pieces
	density int     // tenths of UTF-16 units a token, when approximating
}

// encodingSpecs lists the encodings, the default one first.
func encodingSpecs() []encodingSpec {
	return []encodingSpec{
		{O200kBase, "o200k_base.tiktoken", 421_404, o200k, 42},
		{Cl100kBase, "cl100k_base.tiktoken", 216_493, cl100k, 40},
		{P50kBase, "p50k_base.tiktoken", 97_791, gpt2, 38},
		{R50kBase, "r50k_base.tiktoken", 97_767, gpt2, 35},
		{GPT2, "r50k_base.tiktoken", 97_767, gpt2, 32},
	}
}

// EncodingNames lists the encodings, the default one first.
func EncodingNames() []string {
	var names []string
	for _, s := range encodingSpecs() {
		names = append(names, s.name)
	}
	return names
}

// newEncodings returns the constructor of each encoding, which the first use
// calls. Encodings of one vocabulary share its table.
func newEncodings() map[string]func() (*Encoding, error) {
	class := sync.OnceValue(newClasses)
	tables := map[string]func() (*table, error){}
	encodings := map[string]func() (*Encoding, error){}
	for _, s := range encodingSpecs() {
		load, ok := tables[s.file]
		if !ok {
			load = sync.OnceValues(func() (*table, error) { return loadTable(s.file, s.nodes) })
			tables[s.file] = load
		}
		encodings[s.name] = sync.OnceValues(func() (*Encoding, error) {
			t, err := load()
			if err != nil {
				return nil, fmt.Errorf("load encoding %q: %w", s.name, err)
			}
			return &Encoding{name: s.name, table: t, class: class(), pattern: s.pattern}, nil
		})
	}
	return encodings
}
