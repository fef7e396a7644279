package modelhttp

import (
	"encoding/json"
	"fmt"
)

// CheckLength returns a [*TooLong] if raw, which must be valid JSON, is an array of
// more than limit elements or an object of more than limit members; what names
// these in the plural. Elements of elements do not count. It allocates nothing
// else: encoding/json makes each element before a caller can count them, and an
// element of two bytes may take a hundred.
func CheckLength(raw []byte, limit int, what string) error {
	if len(raw) <= 2*limit || count(raw, limit) <= limit { // an element and its comma are two bytes
		return nil
	}
	return &TooLong{What: fmt.Sprintf("an answer of more than %d %s", limit, what)}
}

// UnmarshalList reads an array into a slice, unless [CheckLength] refuses it.
func UnmarshalList(raw []byte, limit int, what string, into any) error {
	if err := CheckLength(raw, limit, what); err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// count counts the elements of an array or the members of an object up to one more
// than limit.
func count(raw []byte, limit int) int {
	depth, n := 0, 0
	for i := 0; i < len(raw) && n <= limit; i++ {
		switch raw[i] {
		case '"':
			i = endOfString(raw, i)
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 1 {
				n++
			}
		}
	}
	return n + 1
}

// endOfString returns the index of the quote that ends the string beginning at i.
func endOfString(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i
}
