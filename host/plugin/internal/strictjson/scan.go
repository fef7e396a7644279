package strictjson

import (
	"bytes"
	"encoding/json"
)

// The functions below parse JSON that is known to be valid. encoding/json would read
// every byte once more for each level, and make a map of each object.

// eachMember calls f with the name and value of each member of an object, until
// it fails.
func eachMember(raw []byte, f func(name string, value []byte) error) error {
	for i := next(raw, 1); raw[i] != '}'; {
		end := skipText(raw, i)
		name, err := unquote(raw[i:end])
		if err != nil {
			return err
		}
		i = next(raw, next(raw, end)+1) // past the colon
		end = skipValue(raw, i)
		if err := f(name, raw[i:end]); err != nil {
			return err
		}
		i = following(raw, end)
	}
	return nil
}

// EachItem calls f with each item of an array of valid JSON without white space around it,
// until f fails.
func EachItem(raw []byte, f func(item []byte) error) error {
	for i := next(raw, 1); raw[i] != ']'; {
		end := skipValue(raw, i)
		if err := f(raw[i:end]); err != nil {
			return err
		}
		i = following(raw, end)
	}
	return nil
}

// next returns the index of the first byte from i on that is not white space.
func next(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r' {
		i++
	}
	return i
}

// following returns where the next member or item begins, or the bracket that
// ends them.
func following(raw []byte, end int) int {
	i := next(raw, end)
	if raw[i] == ',' {
		i = next(raw, i+1)
	}
	return i
}

// skipValue returns the index after the value that begins at i.
func skipValue(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return skipText(raw, i)
	case '{', '[':
		return skipNested(raw, i)
	}
	for i < len(raw) && bytes.IndexByte([]byte(",]} \t\n\r"), raw[i]) < 0 {
		i++
	}
	return i
}

func skipNested(raw []byte, i int) int {
	for depth := 0; ; {
		switch raw[i] {
		case '"':
			i = skipText(raw, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// skipText returns the index after the string that begins at i.
func skipText(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func unquote(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var s string // declared in this branch, because taking its address allocates
	err := json.Unmarshal(quoted, &s)
	return s, err
}
