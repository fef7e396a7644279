package jsondoc

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The bounds of numbers. Numbers are compared exactly, digit by digit: these bounds are beyond every
// number type and keep 1e1000000 from taking a second each.
const (
	MaxNumberBytes    = 400
	MaxNumberExponent = 400
)

// InRange reports whether a number is within the bounds above.
func InRange(n json.Number) bool {
	if len(n) < 20 && !strings.ContainsAny(string(n), "eE") {
		return true
	}
	_, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if _, err := strconv.ParseInt(exponent, 10, 32); exponent != "" && err != nil { // also for the number 0
		return false
	}
	d := DecimalOf(n)
	return len(n) <= MaxNumberBytes && d.Exponent <= MaxNumberExponent && d.Exponent >= -MaxNumberExponent
}

// ErrOutOfRange returns an error that names a number.
func ErrOutOfRange(n json.Number) error {
	return fmt.Errorf("the number %.40s is out of range", string(n))
}

// OutOfRange returns a number of a document that is out of range, or nothing.
func OutOfRange(doc any) (huge json.Number) {
	switch v := doc.(type) {
	case json.Number:
		if !InRange(v) {
			return v
		}
	case []any:
		for _, e := range v {
			if huge = OutOfRange(e); huge != "" {
				break
			}
		}
	case map[string]any:
		for _, e := range v {
			if huge = OutOfRange(e); huge != "" {
				break
			}
		}
	}
	return huge
}

// EqualNumbers compares numbers by value, as RFC 6902 requires (1, 1.0 and 10e-1 are
// equal), and exactly, however large they are.
func EqualNumbers(a, b json.Number) bool { return a == b || DecimalOf(a) == DecimalOf(b) }

// Decimal is a number as its digits, without zeros at either end, and the power of ten
// of the last digit.
type Decimal struct {
	Negative bool
	Digits   string
	Exponent int64
	Overflow json.Number // the number, if its exponent is too large to compute with
}

// DecimalOf returns the value of a number.
func DecimalOf(n json.Number) Decimal {
	s, negative := strings.CutPrefix(string(n), "-")
	mantissa, exp, _ := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d := Decimal{Negative: negative, Digits: strings.TrimLeft(whole+fraction, "0"), Exponent: -int64(len(fraction))}
	trimmed := strings.TrimRight(d.Digits, "0")
	d.Exponent += int64(len(d.Digits) - len(trimmed))
	if d.Digits = trimmed; d.Digits == "" {
		return Decimal{}
	}
	if exp != "" {
		e, err := strconv.ParseInt(exp, 10, 32)
		if err != nil {
			return Decimal{Overflow: n}
		}
		d.Exponent += e
	}
	return d
}
