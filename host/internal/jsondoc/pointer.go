package jsondoc

import (
	"fmt"
	"strconv"
	"strings"
)

// Lookup returns the value at an RFC 6901 pointer.
func Lookup(doc any, pointer string) (any, error) {
	if pointer == "" {
		return doc, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("pointer %q does not start with /", pointer)
	}
	tokens := strings.Split(pointer[1:], "/")
	if len(tokens) > maxPointerDepth {
		return nil, fmt.Errorf("pointer is %d deep, more than %d", len(tokens), maxPointerDepth)
	}
	for _, token := range tokens {
		key, err := unescapeToken(token)
		if err != nil {
			return nil, err
		}
		switch c := doc.(type) {
		case map[string]any:
			v, ok := c[key]
			if !ok {
				return nil, fmt.Errorf("there is nothing at %q", pointer)
			}
			doc = v
		case []any:
			i, err := ArrayIndex(key, len(c)-1)
			if err != nil {
				return nil, err
			}
			doc = c[i]
		default:
			return nil, fmt.Errorf("there is nothing at %q", pointer)
		}
	}
	return doc, nil
}

// ArrayIndex reads an index of an array whose last element has the index last.
func ArrayIndex(s string, last int) (int, error) {
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 || len(s) > 1 && s[0] == '0' || s[0] == '+' {
		return 0, fmt.Errorf("%q is not an array index", s)
	}
	if i > last {
		return 0, fmt.Errorf("index %d is past the end", i)
	}
	return i, nil
}

func unescapeToken(s string) (string, error) {
	if !strings.Contains(s, "~") {
		return s, nil
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return "", fmt.Errorf("%q has a ~ that is neither ~0 nor ~1", s)
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~"), nil
}

func escapeToken(s string) string {
	if !strings.ContainsAny(s, "~/") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
