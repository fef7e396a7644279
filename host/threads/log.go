package threads

import (
	"context"
	"iter"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// formatJSON is the first byte of a value that is plain JSON, the same as of
// every record of package kv.
const formatJSON = 0x01

// reference is a value that lies elsewhere. A value that does not is a JSON
// array, a reference is an object: that is how they are told apart.
type reference struct {
	version
	Blob *Ref `json:"blob"`
}

// entry returns one entry of the log: one message or, in a large turn, several
// that follow each other. What is stored must be readable, so it is read here
// first: a message that is not what its JSON says would lose the whole thread.
func (d *draft) entry(ctx context.Context, messages []*host.Message) ([]byte, error) {
	content := host.AppendMessagesJSON(nil, messages)
	if _, err := host.DecodeMessages(content); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "message %q cannot be stored: %w", messages[0].ID, err)
	}
	return d.valueOf(ctx, content)
}

// value returns the content that value holds or refers to. What it is is for
// the error.
func (t *thread) value(ctx context.Context, value []byte, what string) ([]byte, error) {
	if len(value) > 1 && value[0] == formatJSON && value[1] == '[' {
		return value[1:], nil
	}
	var ref reference
	if err := decode(value, &ref, what+" of thread", t.rec.ID); err != nil {
		return nil, err
	}
	if ref.Blob == nil || ref.Blob.Size < 0 {
		return nil, damaged("%s of thread %q is damaged", what, t.rec.ID)
	}
	return t.readBlob(ctx, ref.Blob, what)
}

// span is an entry of the log: messages that follow each other from position
// first on.
type span struct {
	first    uint64
	messages []*host.Message
	bytes    int
}

func (s span) end() uint64 { return s.first + uint64(len(s.messages)) }

func (t *thread) span(ctx context.Context, e kv.Entry) (span, error) {
	rest, _ := e.Key.CutPrefix(t.content.log())
	first, _, ok := rest.CutUint()
	content, err := t.value(ctx, e.Value, "message")
	if err != nil {
		return span{}, err
	}
	messages, err := host.DecodeMessages(content)
	if err != nil || !ok || len(messages) == 0 {
		return span{}, damaged("message %d of thread %q is damaged", first, t.rec.ID)
	}
	return span{first: first, messages: messages, bytes: len(content)}, nil
}

// all yields the log from its beginning.
func (t *thread) all(ctx context.Context) iter.Seq2[*host.Message, error] {
	return func(yield func(*host.Message, error) bool) {
		next := uint64(0)
		for e, err := range kv.All(ctx, t.store.driver, t.partition, kv.Range{Prefix: t.content.log()}) {
			if err != nil {
				yield(nil, wrap(err, "read thread %q", t.rec.ID))
				return
			}
			if next >= t.rec.Messages {
				return
			}
			s, err := t.span(ctx, e)
			if err == nil && s.first != next {
				err = t.gap(next)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			next = s.end()
			for _, m := range s.messages {
				if !yield(m, nil) {
					return
				}
			}
		}
		if next < t.rec.Messages {
			yield(nil, t.gap(next))
		}
	}
}

func (t *thread) gap(seq uint64) error {
	return damaged("message %d of thread %q is missing", seq, t.rec.ID)
}

// last returns the messages at the end of the log, at most n of them, and the
// position of the first. It separates no call from its result.
func (t *thread) last(ctx context.Context, n int) (messages []*host.Message, first uint64, err error) {
	spans, err := t.lastSpans(ctx, n)
	if err != nil || len(spans) == 0 {
		return nil, 0, err
	}
	first = spans[0].first
	for _, s := range spans {
		messages = append(messages, s.messages...)
	}
	start := windowStart(messages, n, first > 0)
	return messages[start:], first + uint64(start), nil
}

// lastSpans reads backwards until it has n messages or enough bytes.
func (t *thread) lastSpans(ctx context.Context, n int) ([]span, error) {
	var spans []span
	end, bytes := t.rec.Messages, 0
	if end == 0 {
		return nil, nil
	}
	r := kv.Range{Prefix: t.content.log(), From: t.content.logAt(end - 1), Reverse: true, Limit: min(n, kv.MaxScanLimit)}
	for e, err := range kv.All(ctx, t.store.driver, t.partition, r) {
		if err != nil {
			return nil, wrap(err, "read thread %q", t.rec.ID)
		}
		s, err := t.span(ctx, e)
		if err != nil {
			return nil, err
		}
		if s.end() != end {
			return nil, t.gap(end - 1)
		}
		spans = append(spans, s)
		end, bytes = s.first, bytes+s.bytes
		if end == 0 || t.rec.Messages-end >= uint64(n) || bytes >= maxWindowBytes {
			slices.Reverse(spans)
			return spans, nil
		}
	}
	return nil, t.gap(end - 1)
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

// position returns where the log has a message of that id, if it has it. The
// index only says where to look: an entry of it may have been written ahead of a
// commit that then did not happen.
func (t *thread) position(ctx context.Context, id string) (seq uint64, found bool, err error) {
	raw, err := t.get(ctx, t.content.message(id))
	if err != nil || raw == nil {
		return 0, false, err
	}
	if err := kv.DecodeRecord(raw, &seq); err != nil {
		return 0, false, damaged("position of message %q of thread %q is damaged", id, t.rec.ID)
	}
	if seq >= t.rec.Messages {
		return 0, false, nil
	}
	s, err := t.spanAt(ctx, seq)
	if err != nil {
		return 0, false, err
	}
	return seq, s.messages[seq-s.first].ID == id, nil
}

// spanAt returns the entry of the log that has position seq.
func (t *thread) spanAt(ctx context.Context, seq uint64) (span, error) {
	r := kv.Range{Prefix: t.content.log(), From: t.content.logAt(seq), Reverse: true, Limit: 1}
	page, err := t.store.driver.Scan(ctx, t.partition, r)
	if err != nil {
		return span{}, wrap(err, "read thread %q", t.rec.ID)
	}
	if len(page.Entries) == 0 {
		return span{}, t.gap(seq)
	}
	s, err := t.span(ctx, page.Entries[0])
	if err == nil && s.end() <= seq {
		err = t.gap(seq)
	}
	return s, err
}
