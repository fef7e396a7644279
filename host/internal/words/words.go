// Package words cuts text into stems, so that a search finds other forms of its
// words.
package words

import (
	"hash/maphash"
	"iter"
	"math"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball"

	"github.com/agenthost/agenthost/host/fault"
)

// maxStemBytes is where a long word is cut, in bytes.
const maxStemBytes = 64

// NoStemming is the language whose words are not stemmed.
const NoStemming = "none"

// Words cuts text of one language into stems. It is a value, and safe for
// concurrent use.
type Words struct {
	language string
	known    *[knownWords]atomic.Pointer[known] // computed stems, by the hash of their words
	seed     maphash.Seed
}

// knownWords bounds the remembered stems. Most conversations use a few thousand
// words, and stemming one takes a microsecond.
const knownWords = 4096

type known struct{ word, stem string }

// New returns the words of a language; empty is English. Code invalid_argument for
// one that is not known.
func New(language string) (Words, error) {
	if language == "" {
		language = "english"
	}
	if language != NoStemming {
		if _, err := snowball.Stem("test", language, true); err != nil {
			return Words{}, fault.Errorf(fault.InvalidArgument, "language %q is not known", language).
				WithHint("use english, french, hungarian, norwegian, russian, spanish, swedish or none")
		}
	}
	return Words{language, new([knownWords]atomic.Pointer[known]), maphash.MakeSeed()}, nil
}

// Count returns how often each stem occurs in text, and the number of all occurrences.
func (w Words) Count(text string) (counts map[string]int, total int) {
	counts = map[string]int{}
	for stem := range w.Stems(text) {
		counts[stem]++
		total++
	}
	return counts, total
}

// Query returns the different stems of a query in order, at most n of them.
func (w Words) Query(text string, n int) (stems []string) {
	seen := map[string]bool{}
	for stem := range w.Stems(text) {
		if len(stems) == n {
			break
		}
		if !seen[stem] {
			seen[stem] = true
			stems = append(stems, stem)
		}
	}
	return stems
}

// Span is the position of a word in its text, in bytes.
type Span struct{ From, To int }

// Stems yields the stem of every word of text, in order, with its position. In scripts
// without spaces each pair of neighbouring letters is a word.
func (w Words) Stems(text string) iter.Seq2[string, Span] {
	return func(yield func(string, Span) bool) {
		from, solid := -1, false // the current run of letters, and whether its script has no spaces
		end := func(to int) bool {
			if from < 0 {
				return true
			}
			start := from
			from = -1
			if solid {
				return pairs(text, start, to, yield)
			}
			return yield(w.stem(text[start:to]), Span{start, to})
		}
		for i, r := range text {
			switch letter := isLetter(r); {
			case !letter:
				if !end(i) {
					return
				}
			case from < 0:
				from, solid = i, unspaced(r)
			case unspaced(r) != solid:
				if !end(i) {
					return
				}
				from, solid = i, unspaced(r)
			}
		}
		end(len(text))
	}
}

func isLetter(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r)
}

// unspaced reports whether r belongs to a script without spaces between words.
func unspaced(r rune) bool {
	return r > unicode.MaxLatin1 &&
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// pairs yields each pair of neighbours, or the only letter.
func pairs(text string, from, to int, yield func(string, Span) bool) bool {
	_, n := utf8.DecodeRuneInString(text[from:])
	if from+n == to {
		return yield(text[from:to], Span{from, to})
	}
	for next := from + n; next < to; {
		_, m := utf8.DecodeRuneInString(text[next:])
		if !yield(text[from:next+m], Span{from, next + m}) {
			return false
		}
		from, next = next, next+m
	}
	return true
}

func (w Words) stem(word string) string {
	word = strings.ToLower(word)
	if len(word) > maxStemBytes { // no word of any language
		n := maxStemBytes
		for n > 0 && !utf8.RuneStart(word[n]) {
			n--
		}
		return word[:n]
	}
	if w.language == NoStemming {
		return word
	}
	slot := &w.known[maphash.String(w.seed, word)%knownWords]
	if k := slot.Load(); k != nil && k.word == word {
		return k.stem
	}
	stem, err := snowball.Stem(word, w.language, true)
	if err != nil || stem == "" {
		stem = word
	}
	slot.Store(&known{strings.Clone(word), stem})
	return stem
}

// The parameters of BM25.
const (
	k1 = 1.2
	b  = 0.75
)

// IDF returns the inverse document frequency of a word that df of n texts contain.
func IDF(n, df int) float64 {
	return math.Log(1 + (float64(n)-float64(df)+0.5)/(float64(df)+0.5))
}

// Score returns a word's share of a text's BM25 score. The text has the word times times
// among length words; the mean length of texts is mean.
func Score(idf float64, times, length uint64, mean float64) float64 {
	tf := float64(times)
	return idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(length)/mean))
}

// Round rounds a score, so that scores that differ only by the order of additions are
// equal.
func Round(score float64) float64 { return math.Round(score*1e6) / 1e6 }
