package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// NewSource reads a conversation in a format from r, for [Import]. With an empty format
// it looks at how r begins. It holds one message, turn, state or artifact at a time;
// one of more than [MaxImportItemBytes] is refused with code resource_exhausted. Code
// invalid_argument for an unknown format and for input that is not in the format,
// failed_precondition for a newer version; an error of r is the cause of the error.
//
// The OpenAI formats are the messages of one conversation: an object with them,
// as a chat request is, or just their array; or one on each line. Members of a
// message that agenthost does not know are kept and exported again.
func NewSource(format Format, r io.Reader) (Source, error) {
	in := bufio.NewReaderSize(r, peekBytes)
	skipMark(in)
	if format == "" {
		found, err := detect(in)
		if err != nil {
			return nil, err
		}
		format = found
	}
	switch format {
	case FormatThread:
		return &source{in, readThread}, nil
	case FormatOpenAI:
		return &source{in, readOpenAI}, nil
	case FormatOpenAILines:
		return &source{in, readOpenAILines}, nil
	}
	return nil, unknownFormat("import", format)
}

// peekBytes is how much of a file is looked at to know its format.
const peekBytes = 4096

// skipMark skips the byte order mark that some editors write.
func skipMark(in *bufio.Reader) {
	const mark = "\xef\xbb\xbf"
	if b, _ := in.Peek(len(mark)); string(b) == mark {
		_, _ = in.Discard(len(mark))
	}
}

// detect tells the format by the first bracket and name.
func detect(in *bufio.Reader) (Format, error) {
	begin, err := in.Peek(peekBytes)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return "", readFailed(err)
	}
	dec := json.NewDecoder(bytes.NewReader(begin))
	first, _ := dec.Token()
	name, _ := dec.Token()
	switch {
	case first == json.Delim('['):
		return FormatOpenAI, nil
	case first == json.Delim('{') && name == "format":
		return FormatThread, nil
	case first == json.Delim('{') && slices.Contains([]json.Token{"role", "content", "name", "tool_calls", "tool_call_id"}, name):
		return FormatOpenAILines, nil
	case first == json.Delim('{'):
		return FormatOpenAI, nil
	}
	return "", host.Errorf(host.InvalidArgument, "import: what is read is in no known format").
		WithHint("name its format: one of %s", formatNames())
}

func formatNames() string { return strings.Trim(fmt.Sprint(Formats()), "[]") }

func unknownFormat(doing string, format Format) error {
	return host.Errorf(host.InvalidArgument, "there is no %s format %.40q", doing, string(format)).
		WithHint("use one of %s", formatNames())
}

// source is a document and how to read it.
type source struct {
	in   *bufio.Reader
	read func(*document) error
}

// Items implements [Source].
func (s *source) Items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := s.read(newDocument(s.in, yield)); err != nil && !errors.Is(err, errStopped) {
			yield(Item{}, err)
		}
	}
}

// errStopped says that the consumer of the items wants no more.
var errStopped = errors.New("stopped")

// document is JSON that is read piece by piece.
type document struct {
	dec   *json.Decoder
	given int64 // bytes that the decoder was given
	in    *bufio.Reader
	yield func(Item, error) bool
}

func newDocument(in *bufio.Reader, yield func(Item, error) bool) *document {
	d := &document{in: in, yield: yield}
	d.dec = json.NewDecoder(d)
	return d
}

// Read gives the decoder more, but no more than one item may have. It is for
// the decoder only.
func (d *document) Read(b []byte) (int, error) {
	room := MaxImportItemBytes + peekBytes - (d.given - d.dec.InputOffset())
	if room <= 0 {
		return 0, host.Errorf(host.ResourceExhausted, "import: at byte %d is something of more than %d bytes", d.dec.InputOffset(), MaxImportItemBytes)
	}
	n, err := d.in.Read(b[:min(int64(len(b)), room)])
	d.given += int64(n)
	return n, err
}

func (d *document) emit(item Item) error {
	if !d.yield(item, nil) {
		return errStopped
	}
	return nil
}

// wrong is the error of a document that is not in its format.
func (d *document) wrong(format string, args ...any) error {
	return host.Errorf(host.InvalidArgument, "import: byte %d: %w", d.dec.InputOffset(), fmt.Errorf(format, args...))
}

// failed translates an error of the decoder.
func (d *document) failed(err error) error {
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return d.wrong("it ends in the middle; is it whole?")
	case errors.As(err, &syntax):
		return d.wrong("%w", err)
	}
	return readFailed(err)
}

// readFailed is the error of a reader.
func readFailed(err error) error {
	var e *host.Error
	if errors.As(err, &e) {
		return err
	}
	return host.Errorf(host.FailedPrecondition, "import: read: %w", err)
}

// open reads an opening bracket.
func (d *document) open(bracket json.Delim) error {
	tk, err := d.dec.Token()
	if err != nil {
		return d.failed(err)
	}
	if tk != bracket {
		return d.wrong("%s is due here", map[json.Delim]string{'{': "an object", '[': "a list"}[bracket])
	}
	return nil
}

// end reads the end of a document.
func (d *document) end() error {
	if _, err := d.dec.Token(); err != io.EOF {
		if err == nil {
			return d.wrong("%w", ErrTrailing)
		}
		return d.failed(err)
	}
	return nil
}

// value reads one value.
func (d *document) value() (json.RawMessage, error) {
	var raw json.RawMessage
	if err := d.dec.Decode(&raw); err != nil {
		return nil, d.failed(err)
	}
	return raw, nil
}

// members reads an object, and calls member with each name, to read its value.
func (d *document) members(member func(name string) error) error {
	if err := d.open('{'); err != nil {
		return err
	}
	for d.dec.More() {
		tk, err := d.dec.Token()
		if err != nil {
			return d.failed(err)
		}
		name, ok := tk.(string)
		if !ok {
			return d.wrong("a name is due here")
		}
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := d.dec.Token()
	return d.failed(err)
}

// elements reads a list, and calls element with each of its values.
func (d *document) elements(element func(i int, raw json.RawMessage) error) error {
	if err := d.open('['); err != nil {
		return err
	}
	for i := 0; d.dec.More(); i++ {
		raw, err := d.value()
		if err != nil {
			return err
		}
		if err := element(i, raw); err != nil {
			return err
		}
	}
	_, err := d.dec.Token()
	return d.failed(err)
}

// readThread reads FormatThread. Its members must come in the order in which
// Export writes them, or the reader would have to hold them.
func readThread(d *document) error {
	t := threadReader{d: d}
	if err := d.members(t.member); err != nil {
		return err
	}
	for _, name := range exportMembers()[:exportRequired] {
		if !slices.Contains(t.seen, name) {
			return d.wrong("there is no %q", name)
		}
	}
	return d.end()
}

// exportMembers are the members of FormatThread in order; the first
// exportRequired must be there.
func exportMembers() []string {
	return []string{"format", "version", "thread", "messages", "snapshots", "state", "providers", "artifacts", "uploads"}
}

const exportRequired = 4

type threadReader struct {
	d    *document
	seen []string
}

func (t *threadReader) member(name string) error {
	order := exportMembers()
	at := slices.Index(order, name)
	if at < 0 {
		return t.d.wrong("%.40q has no place here", name)
	}
	for _, before := range t.seen {
		if slices.Index(order, before) >= at {
			return t.d.wrong("%q comes after %q; the members must be in the order %s", name, before, strings.Join(order, ", "))
		}
	}
	if len(t.seen) < min(at, exportRequired) {
		return t.d.wrong("%q comes before %q", name, order[len(t.seen)])
	}
	t.seen = append(t.seen, name)
	switch name {
	case "messages":
		return t.d.elements(t.message)
	case "snapshots":
		return t.d.elements(t.snapshot)
	case "artifacts":
		return t.d.elements(t.artifact)
	case "uploads":
		return t.uploads()
	}
	raw, err := t.d.value()
	if err != nil {
		return err
	}
	return t.header(name, raw)
}

func (t *threadReader) header(name string, raw json.RawMessage) error {
	switch name {
	case "format":
		if string(raw) != `"`+exportFormat+`"` {
			return t.d.wrong("the format is %.40s, not %q", raw, exportFormat)
		}
	case "version":
		var version int
		if err := json.Unmarshal(raw, &version); err != nil || version < 1 {
			return t.d.wrong("the version is %.40s", raw)
		}
		if version > exportVersion {
			return host.Errorf(host.FailedPrecondition, "import: the file has version %d, and this program knows %d", version, exportVersion).
				WithHint("import it with the version that wrote it, or a newer one")
		}
	case "thread":
		var info threads.Thread
		if err := json.Unmarshal(raw, &info); err != nil {
			return t.d.wrong("thread: %w", err)
		}
		return t.d.emit(Item{Thread: &info})
	case "state":
		return t.d.emit(Item{State: raw})
	case "providers":
		var providers map[string]json.RawMessage
		if err := json.Unmarshal(raw, &providers); err != nil || providers == nil {
			return t.d.wrong("providers are no object")
		}
		return t.d.emit(Item{Providers: providers})
	}
	return nil
}

func (t *threadReader) message(i int, raw json.RawMessage) error {
	var m host.Message
	if err := m.UnmarshalJSON(raw); err != nil {
		return t.d.wrong("message %d: %w", i, err)
	}
	return t.d.emit(Item{Message: &m})
}

func (t *threadReader) snapshot(i int, raw json.RawMessage) error {
	var snap exportedSnapshot
	if err := json.Unmarshal(raw, &snap); err != nil {
		return t.d.wrong("snapshot %d: %w", i, err)
	}
	return t.d.emit(Item{Snapshot: &snap.Snapshot, State: snap.StateValue, Providers: snap.ProvidersValue})
}

func (t *threadReader) artifact(i int, raw json.RawMessage) error {
	var a host.Artifact
	if err := a.UnmarshalJSON(raw); err != nil {
		return t.d.wrong("artifact %d: %w", i, err)
	}
	return t.d.emit(Item{Artifact: &a})
}

// uploads reads a list of uploads, piece by piece.
func (t *threadReader) uploads() error {
	if err := t.d.open('['); err != nil {
		return err
	}
	for t.d.dec.More() {
		var digest string
		err := t.d.members(func(name string) error {
			switch name {
			case "digest":
				raw, err := t.d.value()
				if err != nil {
					return err
				}
				if json.Unmarshal(raw, &digest) != nil {
					return t.d.wrong("the digest of an upload is no text")
				}
				return nil
			case "chunks":
				return t.upload(digest)
			}
			return t.d.wrong("%.40q has no place in an upload", name)
		})
		if err != nil {
			return err
		}
	}
	_, err := t.d.dec.Token()
	return t.d.failed(err)
}

// upload yields an upload, whose content the consumer reads from the document.
func (t *threadReader) upload(digest string) error {
	if _, ok := threads.UploadDigest((&threads.Ref{Digest: digest}).URL()); !ok {
		return t.d.wrong("an upload has no digest in front of its chunks")
	}
	if err := t.d.open('['); err != nil {
		return err
	}
	chunks := &chunkReader{d: t.d}
	if err := t.d.emit(Item{Upload: &Upload{Digest: digest, Content: chunks}}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, chunks); err != nil {
		return err
	}
	return nil
}

// chunkReader reads the rest of a list of texts in base64.
type chunkReader struct {
	d    *document
	rest []byte
	err  error
}

func (c *chunkReader) Read(b []byte) (int, error) {
	for len(c.rest) == 0 && c.err == nil {
		c.rest, c.err = c.chunk()
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	if n == 0 && len(b) > 0 {
		return 0, c.err
	}
	return n, nil
}

func (c *chunkReader) chunk() ([]byte, error) {
	if !c.d.dec.More() {
		if _, err := c.d.dec.Token(); err != nil {
			return nil, c.d.failed(err)
		}
		return nil, io.EOF
	}
	raw, err := c.d.value()
	if err != nil {
		return nil, err
	}
	var piece []byte
	if err := json.Unmarshal(raw, &piece); err != nil {
		return nil, c.d.wrong("a chunk of an upload is not base64")
	}
	return piece, nil
}
