package pdk

import (
	"iter"
	"strconv"
)

// Raw is the text of one JSON value, byte for byte as received: integers above
// 2^53, unknown fields and the order of members survive. The empty Raw stands for
// an absent value.
//
// The accessors never fail loudly: on a value of another kind, or on text that
// is not JSON, they report false or yield nothing.
type Raw string

// A Kind is a kind of JSON value.
type Kind uint8

// The kinds of JSON values. KindNone is the absent value and text that is not
// JSON.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// Kind tells what r is by its first byte, without checking the rest.
func (r Raw) Kind() Kind {
	s := scanner{src: string(r)}
	return s.kind()
}

// Valid reports whether r is exactly one JSON value in valid UTF-8.
func (r Raw) Valid() bool {
	s := scanner{src: string(r)}
	return s.skip() && s.end()
}

// Get returns the member of an object with the given name, the last one if there
// are several, and "" if it is absent.
func (r Raw) Get(name string) Raw {
	found := Raw("")
	for key, value := range r.Members() {
		if key == name {
			found = value
		}
	}
	return found
}

// Members yields the members of an object in order. Each key is valid until the
// next.
func (r Raw) Members() iter.Seq2[string, Raw] {
	return func(yield func(string, Raw) bool) {
		s := scanner{src: string(r)}
		if s.kind() != KindObject || !s.open('{') {
			return
		}
		for s.next('}') {
			key := s.key()
			value := s.raw()
			if s.failed() || !yield(key, value) {
				return
			}
		}
	}
}

// Elements yields the elements of an array in order.
func (r Raw) Elements() iter.Seq[Raw] {
	return func(yield func(Raw) bool) {
		s := scanner{src: string(r)}
		if s.kind() != KindArray || !s.open('[') {
			return
		}
		for s.next(']') {
			value := s.raw()
			if s.failed() || !yield(value) {
				return
			}
		}
	}
}

// Str returns the value of a string. Unpaired surrogates become U+FFFD.
func (r Raw) Str() (value string, ok bool) {
	s := scanner{src: string(r)}
	if s.kind() != KindString {
		return "", false
	}
	value = s.str()
	return value, s.end() && !s.failed()
}

// Int returns the value of a number that is an integer and fits, however it is
// written: 2, 2.0 and 2e0 are the same. It is exact: nothing is rounded.
func (r Raw) Int() (value int64, ok bool) {
	text := r.number()
	if value, err := strconv.ParseInt(text, 10, 64); err == nil {
		return value, true
	}
	return spelledInt(text)
}

// maxExponent is the largest exponent that is distinguished: beyond it a number is
// zero or no integer of 64 bits, as no document has so many digits.
const maxExponent = 1 << 27

// spelledInt returns the value of a number of any spelling, if it is an integer
// of 64 bits. Text is a JSON number, or "".
func spelledInt(text string) (value int64, ok bool) {
	negative := text != "" && text[0] == '-'
	var (
		n        uint64
		zeros    int // digits that n is yet to be multiplied by
		fraction int // digits behind the point
		point    bool
		i        int
	)
	for ; i < len(text) && text[i]|0x20 != 'e'; i++ {
		digit := text[i] - '0'
		switch {
		case text[i] == '.':
			point = true
			continue
		case digit > 9: // the sign
			continue
		case digit == 0:
			zeros++
		default:
			if n, ok = scaled(n, zeros+1); !ok || n+uint64(digit) < n {
				return 0, false
			}
			n, zeros = n+uint64(digit), 0
		}
		if point {
			fraction++
		}
	}
	if n == 0 {
		return 0, text != ""
	}
	exponent := 0
	if i < len(text) {
		exponent = exponentOf(text[i+1:])
	}
	if n, ok = scaled(n, zeros+exponent-fraction); !ok {
		return 0, false
	}
	if negative {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n < 1<<63
}

// scaled returns n times ten to the power, if that is an integer of 64 bits.
func scaled(n uint64, power int) (uint64, bool) {
	if n == 0 {
		return 0, true
	}
	for ; power > 0; power-- {
		if n > (1<<64-1)/10 {
			return 0, false
		}
		n *= 10
	}
	return n, power == 0
}

// exponentOf returns the value of a number's exponent, at most maxExponent either
// way.
func exponentOf(text string) int {
	n := 0
	for i := range len(text) {
		if digit := text[i] - '0'; digit <= 9 {
			n = min(n*10+int(digit), maxExponent)
		}
	}
	if text[0] == '-' {
		return -n
	}
	return n
}

// Float returns the value of a number.
func (r Raw) Float() (value float64, ok bool) {
	value, err := strconv.ParseFloat(r.number(), 64)
	return value, err == nil
}

// Bool returns the value of true or false.
func (r Raw) Bool() (value, ok bool) {
	s := scanner{src: string(r)}
	if s.kind() != KindBool {
		return false, false
	}
	value = s.peek() == 't'
	return value, s.skip() && s.end()
}

// number returns the text of a number, and "" for anything else.
func (r Raw) number() string {
	s := scanner{src: string(r)}
	if s.kind() != KindNumber {
		return ""
	}
	start := s.pos
	if !s.skip() {
		return ""
	}
	text := s.src[start:s.pos]
	if !s.end() {
		return ""
	}
	return text
}

// maxDescribed is the longest number that an error shows in full.
const maxDescribed = 40

// described says in a few words what r is.
func (r Raw) described() string {
	switch r.Kind() {
	case KindNull:
		return "null"
	case KindBool:
		return "a boolean"
	case KindNumber:
		if len(r) <= maxDescribed {
			return string(r)
		}
		return "a number"
	case KindString:
		return "a string"
	case KindArray:
		return "an array"
	case KindObject:
		return "an object"
	}
	return "not JSON"
}

// Quote returns text as a JSON string.
func Quote(text string) Raw { return Raw(appendString(nil, text)) }
