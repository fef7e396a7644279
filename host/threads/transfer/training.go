package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/agenthost/agenthost/host"
)

// FormatOpenAITraining is a training file of OpenAI's: a conversation on each line,
// as FormatOpenAI has one. It holds many threads, so it is read by [NewSources] and
// not by [NewSource]; Export writes a line of it as FormatOpenAI.
const FormatOpenAITraining Format = "openai-training"

// ImportFormats returns the formats that can be imported.
func ImportFormats() []Format { return append(Formats(), FormatOpenAITraining) }

// trainingPeek is how much of a file is looked at to see whether it holds more than
// one conversation.
const trainingPeek = 64 << 10

// Detect returns the format that r is in, by how it begins, and a reader of all of
// it. A training file is known if its first line is at most 64 KiB. Code
// invalid_argument for no known format.
func Detect(r io.Reader) (Format, io.Reader, error) {
	in := bufio.NewReaderSize(r, trainingPeek)
	skipMark(in)
	format, err := detect(in)
	if err != nil {
		return "", nil, err
	}
	if format == FormatOpenAI && holdsMany(in) {
		format = FormatOpenAITraining
	}
	return format, in, nil
}

// holdsMany reports whether a second object follows the first.
func holdsMany(in *bufio.Reader) bool {
	begin, _ := in.Peek(trainingPeek)
	dec := json.NewDecoder(bytes.NewReader(begin))
	var first, second json.RawMessage
	if dec.Decode(&first) != nil || len(first) == 0 || first[0] != '{' {
		return false
	}
	err := dec.Decode(&second)
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF) // cut off here, or in the file: reading it tells
}

// NewSources reads many conversations from r: each is a source of its own, for [Import]
// under an id that the caller gives. It holds one conversation at a time; one of more
// than [MaxImportItemBytes] is refused with code resource_exhausted. An error comes
// last. Code invalid_argument for a format that is not [FormatOpenAITraining], and for
// input that is not in the format.
func NewSources(format Format, r io.Reader) (iter.Seq2[Source, error], error) {
	if format != FormatOpenAITraining {
		return nil, host.Errorf(host.InvalidArgument, "import: format %.40q holds one conversation, if it is known", string(format)).
			WithHint("use %s here, and NewSource for the others", FormatOpenAITraining)
	}
	in := bufio.NewReaderSize(r, peekBytes)
	skipMark(in)
	return func(yield func(Source, error) bool) {
		d := newDocument(in, nil)
		for {
			raw, err := d.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&source{bufio.NewReader(bytes.NewReader(raw)), readOpenAI}, nil) {
				return
			}
		}
	}, nil
}

// next reads one of several values; io.EOF behind the last.
func (d *document) next() (json.RawMessage, error) {
	var raw json.RawMessage
	switch err := d.dec.Decode(&raw); err {
	case nil:
	case io.EOF:
		return nil, io.EOF
	default:
		return nil, d.failed(err)
	}
	if raw[0] != '{' {
		return nil, d.wrong("an object is due here")
	}
	return raw, nil
}
