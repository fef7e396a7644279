package threads

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// formatJSON is the first byte of a value that is plain JSON, the same as of
// every record of package kv.
const formatJSON = 0x01

// reference refers to a value that is stored under another key. An inline value
// is a JSON array and a reference is an object, which distinguishes them.
type reference struct {
	version
	Blob *Ref `json:"blob"`
}

// holdsJSON reports whether a message has a value whose written form may not be
// readable: texts always are, and so are calls and results of which the JSON is valid.
func holdsJSON(m *host.Message) bool {
	year := m.CreatedAt.UTC().Year()
	if !m.Role.Valid() || m.Metadata != nil || m.Extra != nil || year < 0 || year > 9999 {
		return true
	}
	return slices.ContainsFunc(m.Parts, func(p host.Part) bool {
		switch p := p.(type) {
		case *host.Text:
			return p.Extra != nil
		case *host.ToolCall:
			return p.ID == "" || p.Name == "" || p.Extra != nil || !isJSON(p.Arguments)
		case *host.ToolResult:
			return p.ID == "" || p.Name == "" || p.Extra != nil || !isJSON(p.Content)
		default:
			return true
		}
	})
}

// maxPlainJSON bounds the JSON that is checked without decoding its message. It is too
// short to be nested more deeply than a decoder takes.
const maxPlainJSON = 8 << 10

func isJSON(raw []byte) bool {
	return len(raw) <= maxPlainJSON && json.Valid(raw) && utf8.Valid(raw)
}

// value returns the content that value holds or refers to. The error names it by
// the parameter what.
func (c contents) value(ctx context.Context, value []byte, what string) ([]byte, error) {
	if len(value) > 1 && value[0] == formatJSON && value[1] == '[' {
		return value[1:], nil
	}
	var ref reference
	if err := decode(value, &ref, what+" of thread", c.thread); err != nil {
		return nil, err
	}
	if ref.Blob == nil || ref.Blob.Size < 0 {
		return nil, damaged("%s of thread %q is damaged", what, c.thread)
	}
	return c.readBlob(ctx, ref.Blob, what)
}

// log reads the messages that a moment shows.
type log struct {
	from  contents
	shown view.List
}

// logEntry is an entry of the log: messages that follow each other from position
// first on.
type logEntry struct {
	first    uint64
	messages []*host.Message
	bytes    int
}

func (s logEntry) end() uint64 { return s.first + uint64(len(s.messages)) }

// decode reads an entry of a content's log.
func (l log) decode(ctx context.Context, c content, e kv.Entry) (logEntry, error) {
	rest, _ := e.Key.CutPrefix(c.log())
	first, _, ok := rest.CutUint()
	content, err := l.from.value(ctx, e.Value, "message")
	if err != nil {
		return logEntry{}, err
	}
	messages, err := chat.DecodeMessages(content)
	if err != nil || !ok || len(messages) == 0 {
		return logEntry{}, damaged("message %d of thread %q is damaged", first, l.from.thread)
	}
	return logEntry{first: first, messages: messages, bytes: len(content)}, nil
}

// cut returns the part of an entry that lies in [from, to).
func (s logEntry) cut(from, to uint64) logEntry {
	if s.end() > to {
		s.messages = s.messages[:to-min(s.first, to)]
	}
	if n := from - min(s.first, from); n > 0 {
		s.messages = s.messages[min(n, uint64(len(s.messages))):]
		s.first = from
	}
	return s
}

// all yields the messages that the thread shows, from its beginning.
func (l log) all(ctx context.Context) iter.Seq2[*host.Message, error] {
	return func(yield func(*host.Message, error) bool) {
		for _, p := range l.shown.Parts() {
			for m, err := range l.read(ctx, p) {
				if !yield(m, err) || err != nil {
					return
				}
			}
		}
	}
}

// read yields the messages of a part.
func (l log) read(ctx context.Context, p view.Part) iter.Seq2[*host.Message, error] {
	return func(yield func(*host.Message, error) bool) {
		for s, err := range l.entries(ctx, p) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range s.messages {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// entries yields the entries of a part of a log, the first and last of them cut
// to it.
func (l log) entries(ctx context.Context, p view.Part) iter.Seq2[logEntry, error] {
	return func(yield func(logEntry, error) bool) {
		c := l.from.at(p.At.Rank)
		first, err := l.entryAt(ctx, c, p.At.Seq)
		if err != nil || !yield(first.cut(p.At.Seq, p.To), nil) {
			if err != nil {
				yield(logEntry{}, err)
			}
			return
		}
		next := first.end()
		if next >= p.To {
			return
		}
		limit := int(min(p.To-next, kv.MaxScanLimit)) // behind the part may lie megabytes
		for e, err := range l.from.part.All(ctx, kv.Range{Prefix: c.log(), From: c.logAt(next), Limit: limit}) {
			if err != nil {
				yield(logEntry{}, wrap(err, "read thread %q", l.from.thread))
				return
			}
			s, err := l.decode(ctx, c, e)
			if err == nil && s.first != next {
				err = l.gap(next)
			}
			if err != nil {
				yield(logEntry{}, err)
				return
			}
			next = s.end()
			if !yield(s.cut(p.At.Seq, p.To), nil) || next >= p.To {
				return
			}
		}
		yield(logEntry{}, l.gap(next))
	}
}

func (l log) gap(seq uint64) error {
	return damaged("message %d of thread %q is missing", seq, l.from.thread)
}

// last returns the messages at the end of the conversation, at most n of them,
// and the number of the first. It separates no call from its result.
func (l log) last(ctx context.Context, n int) (messages []*host.Message, first uint64, err error) {
	spans, err := l.lastEntries(ctx, n)
	if err != nil || len(spans) == 0 {
		return nil, 0, err
	}
	for _, s := range slices.Backward(spans) {
		messages = append(messages, s.messages...)
	}
	first = l.shown.Len() - uint64(len(messages))
	start := windowStart(messages, n, first > 0)
	return messages[start:], first + uint64(start), nil
}

// lastEntries reads backwards until it has n messages or enough bytes. The last
// entry comes first.
func (l log) lastEntries(ctx context.Context, n int) ([]logEntry, error) {
	var spans []logEntry
	left, bytes := n, 0
	for _, p := range slices.Backward(l.shown.Parts()) {
		for s, err := range l.entriesBackward(ctx, p, left) {
			if err != nil {
				return nil, err
			}
			spans = append(spans, s)
			left, bytes = left-len(s.messages), bytes+s.bytes
			if left <= 0 || bytes >= maxWindowBytes {
				return spans, nil
			}
		}
	}
	return spans, nil
}

// entriesBackward yields the entries of a part, the last first, reading about n
// of them at once.
func (l log) entriesBackward(ctx context.Context, p view.Part, n int) iter.Seq2[logEntry, error] {
	return func(yield func(logEntry, error) bool) {
		c, end := l.from.at(p.At.Rank), p.To
		limit := min(n, kv.MaxScanLimit, int(p.Len()))
		r := kv.Range{Prefix: c.log(), From: c.logAt(end - 1), Reverse: true, Limit: limit}
		for e, err := range l.from.part.All(ctx, r) {
			if err != nil {
				yield(logEntry{}, wrap(err, "read thread %q", l.from.thread))
				return
			}
			s, err := l.decode(ctx, c, e)
			if err == nil && s.end() < end || err == nil && s.end() > end && end != p.To {
				err = l.gap(end - 1)
			}
			if err != nil {
				yield(logEntry{}, err)
				return
			}
			end = s.first
			if !yield(s.cut(p.At.Seq, p.To), nil) || end <= p.At.Seq {
				return
			}
		}
		yield(logEntry{}, l.gap(end-1))
	}
}

// windowStart returns where a window of at most limit messages begins, so that
// no result in it is without its call. cut says that messages came before
// these; then a result near the beginning without a call belongs to one that
// was cut off. One further in is an orphan, and for a processor to judge.
func windowStart(messages []*host.Message, limit int, cut bool) int {
	least := max(len(messages)-limit, 0)
	if least == 0 && !cut {
		return 0
	}
	splits := make([]int, len(messages)+1) // of pairs that a start would separate, as differences
	separate := func(after, upTo int) { splits[after+1]++; splits[upTo+1]-- }
	calls := map[string]int{}
	for i, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *host.ToolCall:
				calls[p.ID] = i
			case *host.ToolResult:
				call, ok := calls[p.ID]
				if !ok && cut && i < least+maxPairSpan {
					call, ok = -1, true
				}
				if ok {
					separate(call, i)
				}
				delete(calls, p.ID)
			}
		}
	}
	sum := 0
	for i := range messages {
		if sum += splits[i]; i >= least && sum == 0 {
			return i
		}
	}
	return least
}

// position returns where a message of that id lies that the thread shows, if it
// shows one. An index only says where to look: an entry of it may have been
// written ahead of a commit that then did not happen.
func (l log) position(ctx context.Context, id string) (at view.Position, found bool, err error) {
	shown := l.shown
	for rank := l.from.ownRank(); ; rank-- {
		lies, err := l.indexed(ctx, l.from.at(rank), id)
		if err != nil {
			return view.Position{}, false, err
		}
		for _, seq := range lies {
			at = view.Position{Rank: rank, Seq: seq}
			if !shown.Has(at) {
				continue
			}
			s, err := l.entryAt(ctx, l.from.at(rank), seq)
			if err != nil {
				return view.Position{}, false, err
			}
			if s.messages[seq-s.first].ID == id {
				return at, true, nil
			}
		}
		if rank == 0 {
			return view.Position{}, false, nil
		}
	}
}

// indexed returns where a content's index says that messages of an id lie: one
// position mostly, several of one that was stored again after it was hidden.
func (l log) indexed(ctx context.Context, c content, id string) (lies []uint64, err error) {
	raw, err := l.from.get(ctx, c.message(id))
	if err != nil {
		return nil, err
	}
	if raw != nil {
		if lies, err = positionsOf(raw); err != nil {
			return nil, damaged("position of message %q of thread %q is damaged", id, l.from.thread)
		}
	}
	seq, found, err := l.from.grouped(ctx, c, id)
	if found && !slices.Contains(lies, seq) {
		lies = append(lies, seq)
	}
	return lies, err
}

// positionsOf decodes an entry of the index.
func positionsOf(raw []byte) (positions []uint64, err error) {
	if len(raw) > 1 && raw[1] == '[' {
		err = kv.DecodeRecord(raw, &positions)
	} else {
		positions = []uint64{0}
		err = kv.DecodeRecord(raw, &positions[0])
	}
	return positions, err
}

// entryAt returns the entry of a content's log that has position seq.
func (l log) entryAt(ctx context.Context, c content, seq uint64) (logEntry, error) {
	r := kv.Range{Prefix: c.log(), From: c.logAt(seq), Reverse: true, Limit: 1}
	page, err := l.from.part.Scan(ctx, r)
	if err != nil {
		return logEntry{}, wrap(err, "read thread %q", l.from.thread)
	}
	if len(page.Entries) == 0 {
		return logEntry{}, l.gap(seq)
	}
	s, err := l.decode(ctx, c, page.Entries[0])
	if err == nil && s.end() <= seq {
		err = l.gap(seq)
	}
	return s, err
}
