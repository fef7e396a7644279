package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball"

	"github.com/agenthost/agenthost/host"
)

// maxStemBytes is where a long word is cut, in bytes.
const maxStemBytes = 64

// words cuts text into stems.
type words struct{ language string }

// NoStemming is the language of Options whose words are not stemmed.
const NoStemming = "none"

func newWords(language string) (words, error) {
	if language == "" {
		language = "english"
	}
	if language != NoStemming {
		if _, err := snowball.Stem("test", language, true); err != nil {
			return words{}, host.Errorf(host.InvalidArgument, "language %q is not known", language).
				WithHint("use english, french, hungarian, norwegian, russian, spanish, swedish or none")
		}
	}
	return words{language}, nil
}

// count returns how often each stem comes in text, and how many there are.
func (w words) count(text string) (counts map[string]int, total int) {
	counts = map[string]int{}
	w.each(text, func(stem string) {
		counts[stem]++
		total++
	})
	return counts, total
}

// each calls f with the stem of every word of text.
func (w words) each(text string, f func(stem string)) {
	isLetter := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r)
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !isLetter(r) }) {
		for word != "" {
			n := strings.IndexFunc(word, func(r rune) bool { return unspaced(r) != unspaced(firstRune(word)) })
			if n < 0 {
				n = len(word)
			}
			if unspaced(firstRune(word)) {
				pairs(word[:n], f)
			} else {
				f(w.stem(word[:n]))
			}
			word = word[n:]
		}
	}
}

func firstRune(s string) rune { r, _ := utf8.DecodeRuneInString(s); return r }

// unspaced reports whether r is of a script that has no spaces between words.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// pairs calls f with each pair of neighbours, or with the only letter.
func pairs(word string, f func(string)) {
	letters := []rune(word)
	if len(letters) == 1 {
		f(word)
	}
	for i := range len(letters) - 1 {
		f(string(letters[i : i+2]))
	}
}

func (w words) stem(word string) string {
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
	stem, err := snowball.Stem(word, w.language, true)
	if err != nil || stem == "" {
		return word
	}
	return stem
}
