package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// PrintItems writes a list as every command does with --json.
func PrintItems[T any](w io.Writer, items []T) error { return PrintPage(w, items, "") }

// PrintPage writes a page of a list and the cursor of the next page.
func PrintPage[T any](w io.Writer, items []T, next string) error {
	p := ItemsOf(items)
	p.Next = next
	return PrintJSON(w, p)
}

// ItemPage is the JSON form of every list.
type ItemPage[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// ItemsOf returns the JSON form of a list that is whole.
func ItemsOf[T any](items []T) *ItemPage[T] {
	if items == nil {
		items = []T{}
	}
	return &ItemPage[T]{Items: items}
}

// PrintJSON writes one JSON value on a line.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Report writes what a command has done: as JSON, or in words.
func (t *Terminal) Report(asJSON bool, v any, format string, args ...any) error {
	if asJSON {
		return PrintJSON(t.Out, v)
	}
	_, err := fmt.Fprintf(t.Out, format, args...)
	return err
}

// encodeJSON returns v as PrintJSON writes it, without a line's end.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	_ = PrintJSON(&b, v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
