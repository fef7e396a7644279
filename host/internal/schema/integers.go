package schema

import (
	"bytes"
	"encoding/json"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A number whose value is an integer has many spellings: 2, 2.0, 2e0. JSON Schema takes
// all of them for an integer, and models behind protocols without integers write the
// second; most languages read only the first into an integer. Tools therefore receive
// arguments in the first spelling.

// maxIntegerDigits bounds the digits of an integer that is rewritten: as many as 64
// bits hold. Longer numbers keep the model's spelling, or the eleven bytes 1e999999999
// could become a billion.
const maxIntegerDigits = 20

// CanonicalIntegers returns valid JSON with its integers written as digits, or raw
// itself if they already are.
func CanonicalIntegers(raw json.RawMessage) json.RawMessage {
	var out []byte
	copied := 0 // bytes of raw that are in out
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '"' {
			i = jsondoc.StringEnd(raw, i)
			continue
		}
		if c != '-' && (c < '0' || c > '9') {
			continue
		}
		end := i + numberEnd(raw[i:])
		if digits, ok := integerDigits(raw[i:end]); ok {
			out = append(append(out, raw[copied:i]...), digits...)
			copied = end
		}
		i = end - 1
	}
	if copied == 0 {
		return raw
	}
	return append(out, raw[copied:]...)
}

// numberEnd returns the length of the number at the start of valid JSON.
func numberEnd(b []byte) int {
	for i, c := range b {
		switch {
		case '0' <= c && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
		default:
			return i
		}
	}
	return len(b)
}

// integerDigits returns a number as digits, if its value is an integer in another
// spelling.
func integerDigits(number []byte) (digits []byte, ok bool) {
	mantissa, exponent := number, 0
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], smallExponent(number[i+1:])
	}
	whole, fraction, point := bytes.Cut(mantissa, []byte("."))
	if !point && len(mantissa) == len(number) && string(number) != "-0" {
		return nil, false // it is
	}
	negative := whole[0] == '-'
	whole = bytes.TrimPrefix(whole, []byte("-"))
	all := append(bytes.Clone(whole), fraction...)
	significant := bytes.TrimRight(all, "0")
	exponent += len(all) - len(significant) - len(fraction)
	significant = bytes.TrimLeft(significant, "0")
	switch {
	case len(significant) == 0:
		return []byte("0"), true
	case exponent < 0, len(significant)+exponent > maxIntegerDigits:
		return nil, false
	}
	if negative {
		digits = append(digits, '-')
	}
	digits = append(digits, significant...)
	return append(digits, bytes.Repeat([]byte("0"), exponent)...), true
}

// hugeExponent stands for all larger exponents, too: no number that a host reads has
// enough digits to be an integer with the exponent -hugeExponent.
const hugeExponent = 1 << 27

// smallExponent returns the value of an exponent, limited to hugeExponent in both
// directions.
func smallExponent(text []byte) int {
	negative := text[0] == '-'
	n := 0
	for _, c := range bytes.TrimLeft(text, "+-") {
		n = min(n*10+int(c-'0'), hugeExponent)
	}
	if negative {
		return -n
	}
	return n
}
