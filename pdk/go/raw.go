package pdk

import (
	"iter"
	"strconv"
)

// Raw is the text of one JSON value. It is kept as it was received: integers
// above 2^53, unknown fields and the order of members survive. The empty Raw
// stands for a value that is not there.
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
// are several, and "" if there is none.
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

// Int returns the value of a number that is written as an integer and fits.
func (r Raw) Int() (value int64, ok bool) {
	value, err := strconv.ParseInt(r.number(), 10, 64)
	return value, err == nil
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

// Quote returns text as a JSON string.
func Quote(text string) Raw { return Raw(appendString(nil, text)) }
