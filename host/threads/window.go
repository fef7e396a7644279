package threads

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// window is the decoded end of a conversation: that of one view of one content, whose log
// is only appended to. It is immutable, and so are its messages.
type window struct {
	content  string
	view     view.View
	marker   marker // the zero marker if there is none
	kept     []*host.Message
	first    uint64 // the number of messages[0] in the conversation
	messages []*host.Message
	bytes    int // of the messages and of kept, as JSON
}

// end is the number of messages in the conversation up to the window's end.
func (w *window) end() uint64 { return w.first + uint64(len(w.messages)) }

// isPartOf reports whether two windows are of the same conversation: one continues the
// other.
func (w *window) isPartOf(other *window) bool {
	return w.content == other.content && w.marker.equal(other.marker) && slices.Equal(w.view.Origins, other.view.Origins) &&
		w.view.Tail == other.view.Tail && slices.Equal(w.view.Messages, other.view.Messages)
}

func (m marker) equal(other marker) bool {
	same := m.Kept == other.Kept || m.Kept != nil && other.Kept != nil && *m.Kept == *other.Kept
	return same && m.Content == other.Content && m.Seq == other.Seq
}

// windowReader reads the end of a moment's conversation.
type windowReader struct {
	t     *Moment
	limit int // of the messages of the log
}

// after returns the moment's window of at least limit messages where there are as
// many: cached itself or continued, if it is of the moment's conversation.
func (r windowReader) after(ctx context.Context, cached *window) (*window, error) {
	t, limit := r.t, r.limit
	w := &window{content: t.rec.Content, view: t.view}
	before, reduced := t.marked()
	if reduced {
		w.marker = *t.rec.Marker
	}
	length := t.messageList().Len()
	if cached != nil && cached.isPartOf(w) && cached.end() <= length && cached.bytes < maxWindowBytes {
		if cached.end() == length {
			return cached, nil
		}
		return r.further(ctx, cached)
	}
	if reduced {
		if err := r.readKept(ctx, w); err != nil {
			return nil, err
		}
		limit = int(min(length-before, uint64(limit)))
	}
	w.first = length
	if limit == 0 {
		return w, nil
	}
	entries, err := t.log().lastEntries(ctx, limit)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(entries) {
		w.messages = append(w.messages, e.messages...)
		w.bytes += e.bytes
	}
	w.first -= uint64(len(w.messages))
	return w, nil
}

// readKept reads the messages that a reducer put in the place of earlier ones.
func (r windowReader) readKept(ctx context.Context, w *window) error {
	if w.marker.Kept == nil {
		return nil
	}
	raw, err := r.t.contents().readBlob(ctx, w.marker.Kept, "reduced messages")
	if err != nil {
		return err
	}
	if w.kept, err = chat.DecodeMessages(raw); err != nil {
		return damaged("reduced messages of thread %q are damaged", r.t.rec.ID)
	}
	w.bytes += len(raw)
	return nil
}

// further reads the messages behind a window, and leaves out as many before it as
// Get does not need any more.
func (r windowReader) further(ctx context.Context, w *window) (*window, error) {
	next := *w
	next.messages = slices.Clip(w.messages)
	list := r.t.messageList()
	for _, p := range list.Slice(w.end(), list.Len()) {
		var entries []logEntry // the last first, so that it takes one read to find the first
		for e, err := range r.t.log().entriesBackward(ctx, p, int(p.Len())) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
		for _, e := range slices.Backward(entries) {
			next.messages = append(next.messages, e.messages...)
			next.bytes += e.bytes
		}
	}
	if extra := len(next.messages) - r.limit - maxPairSpan; extra > maxPairSpan {
		next.bytes -= next.bytes / len(next.messages) * extra
		next.messages = slices.Clone(next.messages[extra:])
		next.first += uint64(extra)
	}
	return &next, nil
}

// shown returns the window as Get does: a slice of the caller's own, of at most limit
// messages of the log, with the replacement of earlier messages before them.
func (w *window) shown(t *Moment, limit int) []*host.Message {
	messages := w.messages
	if before, reduced := t.marked(); reduced {
		limit = int(min(w.end()-before, uint64(limit)))
	}
	if len(messages) > 0 {
		messages = messages[windowStart(messages, limit, w.first > 0):]
	}
	if len(w.kept)+len(messages) == 0 {
		return nil
	}
	return slices.Concat(w.kept, messages)
}
