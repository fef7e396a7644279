package chat

import (
	"context"
	"reflect"
	"unicode/utf8"
)

// TokenCounter counts tokens, for limits, processors and reports.
// Implementations are safe for concurrent use.
type TokenCounter interface {
	// EncodingFor returns the encoding of a model. exact is false for a model
	// whose tables are not known; the encoding is then the nearest guess.
	EncodingFor(model string) (encoding string, exact bool)

	// CountTokens returns the number of tokens of text in an encoding or custom
	// tokenizer of that name; code invalid_argument for an unknown one.
	CountTokens(ctx context.Context, encoding string, text []byte) (int, error)
}

// size holds the measures of a message's counted text.
type size struct {
	bytes, chars int
	tokens       []tokenCount
}

type tokenCount struct {
	counter  TokenCounter
	encoding string
	n        int
}

// Size returns the bytes and the characters (UTF-16 units) of m's counted text:
// see [Message.AppendCountedText].
func (m *Message) Size() (bytes, chars int) {
	s := m.sized()
	return s.bytes, s.chars
}

func (m *Message) sized() *size {
	if s := m.size.Load(); s != nil {
		return s
	}
	s := &size{}
	if t := m.onlyText(); t != nil {
		s.bytes, s.chars = len(t.Text), utf16Len(t.Text)
	} else {
		text := m.AppendCountedText(nil)
		s.bytes, s.chars = len(text), utf16Len(string(text))
	}
	m.size.Store(s)
	return s
}

// onlyText returns the text of a message that has one part, a text, and nil for others:
// the most common message is measured without a copy.
func (m *Message) onlyText() *Text {
	if len(m.Parts) != 1 {
		return nil
	}
	t, _ := m.Parts[0].(*Text)
	return t
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x10000 && r <= utf8.MaxRune {
			n++
		}
	}
	return n
}

// CountTokens returns the number of tokens of m's counted text. Each message keeps the
// counts that it was asked for, unless counter cannot be compared. The errors are those
// of counter.
func (m *Message) CountTokens(ctx context.Context, counter TokenCounter, encoding string) (int, error) {
	if !reflect.ValueOf(counter).Comparable() { // its counts could not be found again
		return counter.CountTokens(ctx, encoding, m.AppendCountedText(nil))
	}
	s := m.sized()
	for _, c := range s.tokens {
		if c.encoding == encoding && c.counter == counter {
			return c.n, nil
		}
	}
	n, err := counter.CountTokens(ctx, encoding, m.AppendCountedText(nil))
	if err != nil {
		return 0, err
	}
	// Two callers at once count twice, and one of their equal results is kept.
	tokens := append(append([]tokenCount(nil), s.tokens...), tokenCount{counter, encoding, n})
	m.size.Store(&size{bytes: s.bytes, chars: s.chars, tokens: tokens})
	return n, nil
}
