package tokens

import (
	_ "embed" // the tables
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

// The packed tables of the vocabularies.
var (
	//go:embed tables/o200k_base.table
	o200kTable []byte
	//go:embed tables/cl100k_base.table
	cl100kTable []byte
	//go:embed tables/p50k_base.table
	p50kTable []byte
	//go:embed tables/r50k_base.table
	r50kTable []byte
)

// An encodingSpec describes an encoding.
type encodingSpec struct {
	name    string
	table   []byte  // of its vocabulary, packed
	pattern pattern // cuts a text into pieces
	density int     // tenths of UTF-16 units a token, when approximating
}

// encodingSpecs lists the encodings, the default one first.
func encodingSpecs() []encodingSpec {
	return []encodingSpec{
		{O200kBase, o200kTable, o200k, 42},
		{Cl100kBase, cl100kTable, cl100k, 40},
		{P50kBase, p50kTable, gpt2, 38},
		{R50kBase, r50kTable, gpt2, 35},
		{GPT2, r50kTable, gpt2, 32},
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
func newEncodings() map[string]func() *Encoding {
	class := sync.OnceValue(newClasses)
	tables := map[*byte]func() *table{}
	encodings := map[string]func() *Encoding{}
	for _, s := range encodingSpecs() {
		unpacked, ok := tables[&s.table[0]]
		if !ok {
			unpacked = sync.OnceValue(func() *table { return unpackTable(s.table) })
			tables[&s.table[0]] = unpacked
		}
		encodings[s.name] = sync.OnceValue(func() *Encoding {
			return &Encoding{name: s.name, table: unpacked(), class: class(), pattern: s.pattern}
		})
	}
	return encodings
}
