package tokens

import (
	"context"
	"sync"
	"unicode/utf8"
	"unsafe"
)

// An Encoding counts tokens exactly, with the vocabulary of one family of
// models. Get one from [Counter.Encoding].
//
// A count is the number of tokens that tiktoken-go's EncodeOrdinary returns for
// the same text: names of special tokens such as <|endoftext|> count as the
// ordinary text they are. A byte that is not part of valid UTF-8 counts as
// U+FFFD, as in tiktoken-go.
//
// The time is linear in the length of any text, so there is no limit on it; see
// the package documentation for the cost of a megabyte. An Encoding is safe for
// concurrent use, and keeps no reference to the texts it is given.
type Encoding struct {
	name    string
	table   *table
	class   *classes
	pattern pattern
	idle    sync.Pool // of *scratch
}

var _ Tokenizer = (*Encoding)(nil)

// maxIdleScratch bounds, in bytes, the working memory that is kept for the
// next text. A rare enormous text must not be paid for ever after.
const maxIdleScratch = 4 << 20

// scratch is the working memory of one call.
type scratch struct {
	splitter
	merger
	clean []byte // the text, if it had to be made valid
}

// Name is the name the encoding was asked for by: gpt2 stays gpt2.
func (e *Encoding) Name() string { return e.name }

// Count is the number of tokens of text.
func (e *Encoding) Count(text string) int {
	s := e.scratch()
	defer e.release(s)
	text = s.open(text)
	n := 0
	for i := 0; i < len(text); {
		end := e.pattern(&s.splitter, i)
		n += s.count(text[i:end])
		i = end
	}
	return n
}

// CountBytes is Count of a text held in bytes, without copying it. The bytes
// must not change during the call.
func (e *Encoding) CountBytes(text []byte) int {
	return e.Count(unsafe.String(unsafe.SliceData(text), len(text)))
}

// lookEvery is how much of a text is counted between two looks at the context:
// three milliseconds of the hardest text.
const lookEvery = 16 << 10

// pacer is an optional interface of a context that shares the processor among
// many.
type pacer interface {
	// Pace is called between two pieces of work, by the goroutine that does it. An
	// error says that no caller waits for the rest.
	Pace() error
}

// CountTokens is Count as a [Tokenizer]. It looks at the context every 16 KiB
// and fails with its cause once it has ended. A context that has a method
// Pace() error is asked by that instead, and may have others go first.
func (e *Encoding) CountTokens(ctx context.Context, text string) (int, error) {
	if len(text) <= lookEvery {
		return e.Count(text), nil
	}
	s := e.scratch()
	defer e.release(s)
	text = s.open(text)
	n, looked := 0, 0
	for i := 0; i < len(text); {
		end := e.pattern(&s.splitter, i)
		if end-i > lookEvery {
			parts, err := s.mergeLong(ctx, text[i:end])
			if err != nil {
				return 0, err
			}
			n, looked = n+len(parts), end
		} else {
			n += s.count(text[i:end])
		}
		if i = end; i-looked >= lookEvery {
			if err := look(ctx); err != nil {
				return 0, err
			}
			looked = i
		}
	}
	return n, nil
}

// look says whether a count is still wanted.
func look(ctx context.Context) error {
	if p, ok := ctx.(pacer); ok {
		return p.Pace()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Append appends the tokens of text to dst, by their ids in the vocabulary,
// and returns the extended slice.
func (e *Encoding) Append(dst []int, text string) []int {
	s := e.scratch()
	defer e.release(s)
	text = s.open(text)
	for i := 0; i < len(text); {
		end := e.pattern(&s.splitter, i)
		dst = s.append(dst, text[i:end])
		i = end
	}
	return dst
}

func (e *Encoding) scratch() *scratch {
	if s, ok := e.idle.Get().(*scratch); ok {
		return s
	}
	return &scratch{splitter: splitter{class: e.class}, merger: merger{table: e.table}}
}

func (e *Encoding) release(s *scratch) {
	s.splitter.text, s.window.text = "", ""
	if s.size() <= maxIdleScratch {
		e.idle.Put(s)
	}
}

func (s *scratch) size() int {
	return cap(s.clean) + s.merger.size()
}

// open prepares the splitter for a text and returns it, with U+FFFD for each
// byte that is not part of valid UTF-8. It lives until release.
func (s *scratch) open(text string) string {
	if !utf8.ValidString(text) {
		s.clean = s.clean[:0]
		for _, r := range text {
			s.clean = utf8.AppendRune(s.clean, r)
		}
		text = unsafe.String(unsafe.SliceData(s.clean), len(s.clean))
	}
	s.splitter.text = text
	return text
}

// count is the number of tokens of a piece. Most pieces are a token: the
// encoding takes those whole, even where merging would not arrive at them.
func (s *scratch) count(piece string) int {
	if s.table.rank(s.table.find(piece)) != 0 {
		return 1
	}
	return len(s.merge(piece))
}

// append appends the tokens of a piece.
func (s *scratch) append(dst []int, piece string) []int {
	if rank := s.table.rank(s.table.find(piece)); rank != 0 {
		return append(dst, int(rank)-1)
	}
	for _, p := range s.merge(piece) {
		dst = append(dst, int(s.table.rank(p.at))-1)
	}
	return dst
}
