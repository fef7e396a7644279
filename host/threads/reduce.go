package threads

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// marker is the position at which the conversation begins that Get returns, and the
// messages that replace all before it. The log stays unchanged.
type marker struct {
	Content string `json:"content"`
	Seq     uint64 `json:"seq"`
	Kept    *Ref   `json:"kept,omitempty"` // messages, as the log has them
}

// ReduceOptions are the optional parts of [Tenant.Reduce].
type ReduceOptions struct {
	// Model names the token tables that a reducer counts with.
	Model  string
	Tokens host.TokenCounter
}

// Reduce has a reducer shorten the messages that Get returns of a thread, from then on:
// it stores a marker with the position from which the messages stay word for word, and
// with the reducer's replacement of all earlier messages. Nothing is deleted: Messages,
// Show, Search and Export have the whole thread. [Tenant.ShowWhole] removes the marker,
// and so does a change of heads that touches messages before it. The thread's head
// stays, so no turn is disturbed. It reports whether anything changed.
//
// Code conflict if another commit changed the thread while the reducer was at work;
// then Reduce changes nothing, and neither does it when the reducer fails. An unknown
// thread has nothing to reduce.
func (tn *Tenant) Reduce(ctx context.Context, id string, reducer host.MessageReducer, opts *ReduceOptions) (bool, error) {
	if opts == nil {
		opts = &ReduceOptions{}
	}
	if reducer == nil {
		return false, host.Errorf(host.InvalidArgument, "reduce thread %q: the reducer is nil", id)
	}
	drops := tn.write.store.windows.countDrops()
	t, err := tn.write.read.open(ctx, id)
	if err != nil || t == nil {
		return false, err
	}
	messages, err := tn.write.store.windows.load(ctx, t, tn.write.store.window, drops)
	if err != nil || len(messages) == 0 {
		return false, err
	}
	short, err := reduceLent(ctx, reducer, messages, opts)
	if err != nil {
		return false, wrap(err, "reduce thread %q", id)
	}
	if slices.Equal(short, messages) {
		return false, nil
	}
	_, err = tn.write.commit(ctx, id, "reduce thread", func(d *draft) error {
		if d.thread.rec.Head != t.rec.Head {
			return moved(id)
		}
		return d.mark(ctx, short)
	})
	return err == nil, err
}

// reduceLent reduces copies of messages, which later turns share, unless the reducer never
// writes to them.
func reduceLent(ctx context.Context, reducer host.MessageReducer, messages []*host.Message, opts *ReduceOptions) ([]*host.Message, error) {
	if llm.ReadsOnly(reducer) {
		return reducer.Reduce(ctx, llm.NewView(messages, opts.Model, opts.Tokens))
	}
	lent := chat.Lend(messages)
	short, err := reducer.Reduce(ctx, llm.NewView(slices.Clone(lent.Copies), opts.Model, opts.Tokens))
	return lent.Return(short), err
}

// ShowWhole has Get return a thread's messages word for word again. Code not_found
// if there is no such thread.
func (tn *Tenant) ShowWhole(ctx context.Context, id string) error {
	_, err := tn.write.commit(ctx, id, "show thread", func(d *draft) error {
		switch {
		case d.thread.revision == 0:
			return notFound(id)
		case d.thread.rec.Marker == nil:
			return errNothing
		}
		d.thread.rec.Marker = nil
		return nil
	})
	return err
}

// mark stores that Get returns these messages in the place of all present ones. The
// last of them, if the conversation ends with the same ones, are stored as a position
// in the log.
func (d *draft) mark(ctx context.Context, messages []*host.Message) error {
	shown := d.thread.messageList()
	end, _, err := d.thread.log().last(ctx, max(len(messages), 1))
	if err != nil {
		return err
	}
	same := 0
	for same < min(len(messages), len(end)) && messages[len(messages)-1-same].ID == end[len(end)-1-same].ID {
		same++
	}
	m := &marker{Content: d.thread.rec.Content, Seq: d.thread.rec.Messages}
	if same > 0 {
		first := shown.At(shown.Len() - uint64(same)).Stands
		m.Content, m.Seq = d.thread.rec.Content, first.Seq
		if first.Rank != d.thread.view.OwnRank() {
			m.Content = d.thread.view.Origins[first.Rank]
		}
	}
	if kept := messages[:len(messages)-same]; len(kept) > 0 {
		content := chat.AppendMessagesJSON(nil, kept)
		if _, err := chat.DecodeMessages(content); err != nil {
			return host.Errorf(host.InvalidArgument, "what a reducer made of thread %q cannot be stored: %w", d.thread.rec.ID, err)
		}
		if m.Kept, err = d.tx.putBlob(ctx, d.thread.contents(), content); err != nil {
			return err
		}
	}
	d.thread.rec.Marker = m
	return nil
}

// marked returns how many messages the thread's marker stands for; false if it has
// none that holds.
func (t *Moment) marked() (before uint64, ok bool) {
	m := t.rec.Marker
	if m == nil || t.branch != nil {
		return 0, false
	}
	rank := slices.Index(t.view.Origins, m.Content)
	if m.Content == t.rec.Content {
		rank = int(t.view.OwnRank())
	}
	if rank < 0 {
		return 0, false
	}
	return t.messageList().CountBefore(view.Position{Rank: uint64(rank), Seq: m.Seq}), true
}

// keepMarker keeps the thread's marker if a new view shows the same messages before it.
// Otherwise it removes the marker, whose summary is of other messages.
func (d *draft) keepMarker(was *Moment) {
	before, ok := was.marked()
	now, still := d.thread.marked()
	if !ok || !still || now != before || was.rec.Content != d.thread.rec.Content ||
		!slices.Equal(was.messageList().Slice(0, before), d.thread.messageList().Slice(0, before)) {
		d.thread.rec.Marker = nil
	}
}
