package demomodel

import (
	"strings"
	"unicode"
)

// The bounds of one text.
const (
	maxWords = 2_000
	maxStems = 300
)

// stopWords say nothing about the subject of a request.
var stopWords = set(`a about again all also am an and another any are as at be been but by can could did do does else
	for from give had has have he her here him his how i if in into is it its just know let like may me might mine
	must my need no not of on one ones or other our out please shall she should so some tell than that the their them
	then there these they this those to too us very want was we were what when where which who whom whose why will
	with would you your yes ok okay thanks thank hi hello hey`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// splitWords returns the words of a text in lower case: runs of letters and
// digits, cut where lower case turns to upper, for the sake of names.
func splitWords(text string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
			b.Reset()
		}
	}
	lower := false
	for _, r := range text {
		switch {
		case r == '\'' || r == '’':
			continue // it's, order's
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case lower && unicode.IsUpper(r):
			flush()
			fallthrough
		default:
			b.WriteRune(unicode.ToLower(r))
		}
		lower = unicode.IsLower(r)
		if len(out) >= maxWords {
			return out
		}
	}
	flush()
	return out
}

// stems returns the stems of the words that say something, each once.
func stems(text string) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range splitWords(text) {
		s := stem(w)
		if stopWords[w] || seen[s] || isDigits(w) {
			continue
		}
		if len(out) >= maxStems {
			break
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}

func isDigits(w string) bool {
	return strings.Trim(w, "0123456789") == ""
}

// stem cuts English endings off a word, roughly.
func stem(w string) string {
	for _, end := range []struct {
		suffix, instead string
		shortest        int
		undouble        bool
	}{
		{"ies", "y", 5, false}, {"sses", "ss", 5, false}, {"ches", "ch", 5, false}, {"shes", "sh", 5, false}, {"xes", "x", 4, false},
		{"ing", "", 6, true}, {"ed", "", 5, true}, {"ss", "ss", 3, false}, {"us", "us", 3, false}, {"s", "", 4, false},
	} {
		if len(w) >= end.shortest && strings.HasSuffix(w, end.suffix) {
			w = w[:len(w)-len(end.suffix)] + end.instead
			if n := len(w); end.undouble && n > 2 && w[n-1] == w[n-2] && w[n-1] != 'l' && w[n-1] != 's' {
				w = w[:n-1]
			}
			break
		}
	}
	if len(w) > 4 {
		w = strings.TrimSuffix(w, "e")
	}
	if n := len(w); n > 4 && w[n-1] == 'l' && w[n-2] == 'l' {
		w = w[:n-1]
	}
	return w
}

// Two stems are alike if one is a prefix of the other, long enough, and the
// rest short: ship and shipment, calc and calculat.
const (
	minAlike = 4
	maxRest  = 5
)

func alike(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || len(a) >= minAlike && len(b)-len(a) <= maxRest && strings.HasPrefix(b, a)
}

// shared returns the stems of a that are like one of b.
func shared(a, b []string) []string {
	var out []string
	for _, s := range a {
		for _, t := range b {
			if alike(s, t) {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// askingWords begin a sentence that asks for something.
var askingWords = set(`what where when who whom which why how is are was were do does did can could would will should may
	please show find look get check tell give list search track cancel refund send create make add update delete remove
	calculate compute convert translate summarize open close start stop order book read write run call fetch compare`)

// sentences splits a text where a sentence ends: after . ? ! before white
// space, at ; and at line ends.
func sentences(text string) []string {
	var out []string
	start := 0
	cut := func(end int) {
		if s := strings.TrimSpace(text[start:end]); s != "" {
			out = append(out, s)
		}
		start = end
	}
	for i := 0; i < len(text) && len(out) < maxSentences; i++ {
		switch c := text[i]; {
		case c == '\n' || c == ';':
			cut(i + 1)
		case (c == '.' || c == '?' || c == '!') && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n'):
			cut(i + 1)
		}
	}
	cut(len(text))
	return out
}

const maxSentences = 200

// asks returns the sentences that ask for something: questions, and sentences
// that begin like an order. A text without any counts as one.
func asks(text string, isVerb func(stem string) bool) []string {
	var out []string
	all := sentences(text)
	for _, s := range all {
		if isAsking(s, isVerb) {
			out = append(out, s)
		}
	}
	if len(out) == 0 && len(all) > 0 {
		out = []string{text}
	}
	return out
}

func isAsking(sentence string, isVerb func(stem string) bool) bool {
	if strings.HasSuffix(strings.TrimRight(sentence, `"')”`), "?") || strings.Contains(strings.ToLower(sentence), "please") {
		return true
	}
	words := splitWords(sentence)
	for len(words) > 0 && (words[0] == "and" || words[0] == "then" || words[0] == "now" || words[0] == "also" || words[0] == "so") {
		words = words[1:]
	}
	return len(words) > 0 && (askingWords[words[0]] || isVerb(stem(words[0])))
}
