package openaimodel

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// scan reads a chunk of the usual shape. It reports false, having changed c in
// any way, for a line that encoding/json must read: one that is not JSON, has a
// shape that only some servers send, or has names in unusual spelling. Where it
// reports true, c equals the result of encoding/json. An answer comes in
// hundreds of chunks, each with the same few fields around a word or two, and
// encoding/json takes many times as long for one.
func (c *chunk) scan(line []byte) bool {
	s := scanner{b: line}
	id, model := c.ID, c.Model
	*c = chunk{Choices: c.Choices[:0]}
	s.members(func(name []byte) {
		switch string(name) {
		case "id":
			s.text(&c.ID, id)
		case "model":
			s.text(&c.Model, model)
		case "choices":
			s.choices(c)
		case "usage":
			s.usage(c)
		case "error":
			c.Error = json.RawMessage(string(s.value()))
		default:
			s.value()
		}
	})
	s.space()
	return !s.odd && s.i == len(line)
}

func (s *scanner) choices(c *chunk) {
	if s.null() {
		return
	}
	if len(c.Choices) > 0 {
		s.odd = true
	}
	s.elements(func() {
		if len(c.Choices) == maxChoices {
			s.odd = true
			return
		}
		c.Choices = append(c.Choices, choice{})
		s.choice(&c.Choices[len(c.Choices)-1])
	})
}

func (s *scanner) choice(c *choice) {
	s.members(func(name []byte) {
		switch string(name) {
		case "index":
			s.number(&c.Index)
		case "delta":
			s.piece(&c.Delta)
		case "message":
			s.piece(&c.Message)
		case "finish_reason":
			s.finishReason(&c.FinishReason)
		default:
			s.value()
		}
	})
}

// finishReason reads the word that ends an answer, one of two nearly always.
func (s *scanner) finishReason(to *string) {
	before := "stop"
	if bytes.HasPrefix(s.b[s.i:], []byte(`"tool_calls"`)) {
		before = "tool_calls"
	}
	s.text(to, before)
}

func (s *scanner) piece(to **piece) {
	if *to != nil {
		s.odd = true
	}
	if s.null() {
		return
	}
	p := &piece{}
	*to = p
	s.members(func(name []byte) {
		switch string(name) {
		case "content":
			s.text((*string)(&p.Content), "")
		case "refusal":
			s.text((*string)(&p.Refusal), "")
		case "reasoning_content":
			s.text((*string)(&p.ReasoningContent), "")
		case "reasoning":
			s.text((*string)(&p.Reasoning), "")
		case "reasoning_details":
			p.ReasoningDetails = json.RawMessage(string(s.value()))
		case "tool_calls":
			s.calls(p)
		default:
			s.value()
		}
	})
}

func (s *scanner) calls(p *piece) {
	if s.null() {
		return
	}
	if len(p.ToolCalls) > 0 {
		s.odd = true
	}
	p.ToolCalls = toolPieces{}
	s.elements(func() {
		if len(p.ToolCalls) == maxPieces {
			s.odd = true
			return
		}
		p.ToolCalls = append(p.ToolCalls, toolPiece{})
		s.call(&p.ToolCalls[len(p.ToolCalls)-1])
	})
}

func (s *scanner) call(p *toolPiece) {
	members := 0
	s.members(func(name []byte) {
		if members++; members > maxMembers {
			s.odd = true
			return
		}
		switch string(name) {
		case "index":
			if p.Index != nil {
				s.odd = true
			}
			if !s.null() {
				p.Index = new(int)
				s.number(p.Index)
			}
		case "id":
			s.text(&p.ID, "")
		case "function":
			s.function(p)
		case "type":
			s.value()
		default:
			if p.unknown == nil {
				p.unknown = map[string]json.RawMessage{}
			}
			p.unknown[string(name)] = json.RawMessage(string(s.value()))
		}
	})
}

func (s *scanner) function(p *toolPiece) {
	if s.null() {
		return
	}
	s.members(func(name []byte) {
		switch string(name) {
		case "name":
			s.text(&p.Function.Name, "")
		case "arguments":
			s.text((*string)(&p.Function.Arguments), "")
		default:
			s.value()
		}
	})
}

// usage comes once in an answer.
func (s *scanner) usage(c *chunk) {
	if c.Usage != nil {
		s.odd = true
	}
	if s.null() {
		return
	}
	u := &wireUsage{}
	c.Usage = u
	s.members(func(name []byte) {
		switch string(name) {
		case "prompt_tokens":
			s.number(&u.PromptTokens)
		case "completion_tokens":
			s.number(&u.CompletionTokens)
		case "total_tokens":
			s.number(&u.TotalTokens)
		case "prompt_cache_hit_tokens":
			s.number(&u.CacheHits)
		case "prompt_tokens_details":
			s.read(&u.PromptTokensDetails)
		case "completion_tokens_details":
			s.read(&u.CompletionTokensDetails)
		default:
			s.value()
		}
	})
}

// read has encoding/json read a value.
func (s *scanner) read(to any) {
	if json.Unmarshal(s.value(), to) != nil {
		s.odd = true
	}
}

// scanner reads JSON. Once it has met something that it does not read, odd is
// set and nothing means anything.
type scanner struct {
	b     []byte
	i     int
	depth int
	odd   bool
}

const maxScanDepth = 64

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i == len(s.b) || s.odd {
		return 0
	}
	return s.b[s.i]
}

// take goes past the byte c, which must be next.
func (s *scanner) take(c byte) {
	if s.peek() != c {
		s.odd = true
		return
	}
	s.i++
}

// takeWord goes past a word, which must be next.
func (s *scanner) takeWord(word string) {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		s.odd = true
		return
	}
	s.i += len(word)
}

// null goes past null, if that is next.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.takeWord("null")
	return true
}

// list reads the items between two brackets, separated by commas.
func (s *scanner) list(opens, closes byte, item func()) {
	s.take(opens)
	if s.depth++; s.depth > maxScanDepth {
		s.odd = true
	}
	if s.peek() == closes {
		s.i++
		s.depth--
		return
	}
	for !s.odd {
		item()
		if s.peek() != ',' {
			break
		}
		s.i++
	}
	s.take(closes)
	s.depth--
}

func (s *scanner) elements(element func()) { s.list('[', ']', element) }

// members reads an object; member must read the value of the member that it is
// called with.
func (s *scanner) members(member func(name []byte)) {
	s.list('{', '}', func() {
		name := s.name()
		s.take(':')
		if !s.odd {
			member(name)
		}
	})
}

// name reads a member's name. encoding/json takes a name in any writing for the
// field's; one that may be another's in disguise is odd.
func (s *scanner) name() []byte {
	s.take('"')
	for start := s.i; s.i < len(s.b) && !s.odd; s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1]
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.':
		default:
			s.odd = true
		}
	}
	s.odd = true
	return nil
}

// text reads a string into to, and leaves to unchanged for null. before is the
// probable value.
func (s *scanner) text(to *string, before string) {
	if s.null() {
		return
	}
	quoted := s.quoted()
	if s.odd {
		return
	}
	inner := quoted[1 : len(quoted)-1]
	switch {
	case string(inner) == before:
		*to = before
	case bytes.IndexByte(inner, '\\') < 0:
		*to = string(inner)
	case json.Unmarshal(quoted, to) != nil:
		s.odd = true
	}
}

// quoted goes past a string and returns it with its quotes.
func (s *scanner) quoted() []byte {
	s.take('"')
	start := s.i - 1
	ascii := true
	for ; s.i < len(s.b) && !s.odd; s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			if !ascii && !utf8.Valid(s.b[start:s.i]) {
				s.odd = true
			}
			return s.b[start:s.i]
		case c == '\\':
			s.escape()
		case c < ' ':
			s.odd = true
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.odd = true
	return nil
}

// escape goes to the last byte of an escape.
func (s *scanner) escape() {
	s.i++
	if s.i == len(s.b) {
		s.odd = true
		return
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	case 'u':
		if s.i+4 >= len(s.b) {
			s.odd = true
			return
		}
		if _, err := strconv.ParseUint(string(s.b[s.i+1:s.i+5]), 16, 16); err != nil {
			s.odd = true
		}
		s.i += 4
	default:
		s.odd = true
	}
}

// number reads a whole number of a few digits.
func (s *scanner) number(to *int) {
	if s.null() {
		return
	}
	s.space()
	start, n := s.i, 0
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		n = n*10 + int(s.b[s.i]-'0')
		s.i++
	}
	if digits := s.i - start; digits == 0 || digits > 9 || digits > 1 && s.b[start] == '0' || !s.atEnd() {
		s.odd = true
	}
	*to = n
}

// atEnd reports whether a value may end here.
func (s *scanner) atEnd() bool {
	switch s.peek() {
	case 0, ',', '}', ']':
		return true
	}
	return false
}

// value goes past any value and returns it.
func (s *scanner) value() []byte {
	c := s.peek()
	start := s.i
	switch {
	case c == '{':
		s.list('{', '}', func() { s.quoted(); s.take(':'); s.value() })
	case c == '[':
		s.elements(func() { s.value() })
	case c == '"':
		s.quoted()
	case c == 't':
		s.takeWord("true")
	case c == 'f':
		s.takeWord("false")
	case c == 'n':
		s.takeWord("null")
	case c == '-' || c >= '0' && c <= '9':
		s.anyNumber()
	default:
		s.odd = true
	}
	if s.odd {
		return nil
	}
	return s.b[start:s.i]
}

// anyNumber goes past a number.
func (s *scanner) anyNumber() {
	start := s.i
	for s.i < len(s.b) && bytes.IndexByte([]byte("+-.0123456789Ee"), s.b[s.i]) >= 0 {
		s.i++
	}
	if number := s.b[start:s.i]; len(number) > 1 && !json.Valid(number) {
		s.odd = true
	} else if number[0] == '-' && len(number) == 1 {
		s.odd = true
	}
}
