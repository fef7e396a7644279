package main

import (
	"bytes"
	"encoding/json"
	"io"
)

// printItems writes a list as every command does with --json.
func printItems[T any](w io.Writer, items []T) error { return printPage(w, items, "") }

// printPage writes a page of a list and the cursor of the next page.
func printPage[T any](w io.Writer, items []T, next string) error {
	p := itemsOf(items)
	p.Next = next
	return printJSON(w, p)
}

// itemPage is the JSON form of every list.
type itemPage[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

func itemsOf[T any](items []T) *itemPage[T] {
	if items == nil {
		items = []T{}
	}
	return &itemPage[T]{Items: items}
}

// printJSON writes one JSON value on a line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// encodeJSON returns v as printJSON writes it, without a line's end.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	_ = printJSON(&b, v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
