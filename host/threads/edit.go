package threads

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// If guards a change of a thread.
type If struct {
	// Head is the head that the change is of: code conflict if the thread has
	// another by then. Empty guards nothing.
	Head string
}

// EditMessage puts m in the place of a message and returns the thread. The new
// message has an id of its own: m's, or a fresh one if m has none or the old
// one's. What follows stays. Role, agent and time are the old one's where m
// leaves them empty.
//
// The old message is kept, in a branch that [Tenant.Branches] lists. Sending an
// edit again whose answer was lost does nothing, if m has an id.
//
// Code not_found if there is no such thread or message, invalid_argument if m
// has another role or would leave a tool call without its result or a result
// without its call, already_exists if the thread shows another message of that
// id. It waits for a turn that runs on the thread, as [Store.LockThread] does.
func (tn *Tenant) EditMessage(ctx context.Context, id, message string, m *host.Message, guard *If) (*Thread, error) {
	if m == nil {
		return nil, host.Errorf(host.InvalidArgument, "edit message %q of thread %q: there is no message to put in its place", message, id)
	}
	if err := m.Validate(); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "edit message %q of thread %q: %w", message, id, err)
	}
	m = m.Clone()
	if m.ID == message || m.ID == "" {
		m.ID = host.NewID()
	}
	return tn.write.change(ctx, id, "edit thread", guard, func(d *draft) error {
		return d.edit(ctx, message, m)
	})
}

// DeleteMessage removes a message from a thread and returns the thread. The
// results of the tool calls that it has go with it, and so does the call that it
// has the result of, with that call's message. State and artifacts stay.
//
// The message is kept, in a branch that [Tenant.Branches] lists. Code not_found
// if there is no such thread or message. It waits for a turn that runs on the
// thread, as [Store.LockThread] does.
func (tn *Tenant) DeleteMessage(ctx context.Context, id, message string, guard *If) (*Thread, error) {
	return tn.write.change(ctx, id, "delete from thread", guard, func(d *draft) error {
		near, i, err := d.thread.log().around(ctx, message)
		if err != nil {
			return err
		}
		v := d.thread.closedView()
		v.Messages = d.thread.messageList().Without(together(near, i))
		return d.leave(Deleted, message, v)
	})
}

// Rewind makes a moment of a thread its present: messages, state and artifacts are
// those of that moment, and the next turn continues from there. To rewind to a branch
// is to resume it. The head until now is kept, in a branch that [Tenant.Branches]
// lists; rewinding to the present does nothing.
//
// Code invalid_argument if at names nothing, not_found if there is no such
// thread or moment. It waits for a turn that runs on the thread, as
// [Store.LockThread] does.
func (tn *Tenant) Rewind(ctx context.Context, id string, at At, guard *If) (*Thread, error) {
	unlock, err := tn.write.lock(ctx, id, host.RaceWait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return tn.RewindHeld(ctx, id, at, guard)
}

// RewindHeld is [Tenant.Rewind] for a caller that holds the thread: a turn that
// has called [Store.LockThread] and begins elsewhere than at the thread's end.
func (tn *Tenant) RewindHeld(ctx context.Context, id string, at At, guard *If) (*Thread, error) {
	if at == (At{}) {
		return nil, host.Errorf(host.InvalidArgument, "rewind thread %q: there is nothing to rewind to", id).
			WithHint("name a message, a snapshot or a branch")
	}
	return tn.write.changeHeld(ctx, id, "rewind thread", guard, func(d *draft) error {
		return d.rewind(ctx, at)
	})
}

// change runs build in a commit to a thread that exists, while no turn runs on it.
func (w threadWriter) change(ctx context.Context, id, doing string, guard *If, build func(*draft) error) (*Thread, error) {
	unlock, err := w.lock(ctx, id, host.RaceWait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return w.changeHeld(ctx, id, doing, guard, build)
}

func (w threadWriter) changeHeld(ctx context.Context, id, doing string, guard *If, build func(*draft) error) (*Thread, error) {
	t, err := w.commit(ctx, id, doing, func(d *draft) error {
		if d.thread.revision == 0 {
			return notFound(id)
		}
		d.careful = true
		if guard != nil && guard.Head != "" && guard.Head != d.thread.rec.Head {
			return moved(id)
		}
		return build(d)
	})
	if err != nil {
		return nil, err
	}
	return t.Thread(), nil
}

func (d *draft) edit(ctx context.Context, message string, m *host.Message) error {
	_, again, err := d.thread.log().position(ctx, m.ID)
	if err != nil {
		return err
	}
	near, i, err := d.thread.log().around(ctx, message)
	if again && host.CodeOf(err) == host.NotFound {
		return errNothing // it was edited
	}
	if err != nil {
		return err
	}
	if again {
		return host.Errorf(host.AlreadyExists, "thread %q has a message %q", d.thread.rec.ID, m.ID).WithHint("leave the id out for a fresh one")
	}
	if err := inPlaceOf(m, near[i].Message); err != nil {
		return err
	}
	shown, q := d.thread.messageList(), view.Position{Rank: d.thread.view.OwnRank(), Seq: d.thread.rec.Messages}
	if _, err := d.append(ctx, []*host.Message{m}); err != nil {
		return err
	}
	v := d.thread.view
	v.Turns, v.TurnTail = d.thread.turnList().Parts(), d.thread.rec.Turns
	v.Messages, v.Tail = shown.With(near[i].number, q), d.thread.rec.Messages
	return d.leave(Edited, message, v)
}

// inPlaceOf fills m from the message whose place it takes, or refuses it.
func inPlaceOf(m, old *host.Message) error {
	if m.Role == "" {
		m.Role = old.Role
	}
	if m.Agent == "" {
		m.Agent = old.Agent
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = old.CreatedAt
	}
	if m.Role != old.Role {
		return host.Errorf(host.InvalidArgument, "message %q is the %s's, and what would take its place is the %s's", old.ID, old.Role, m.Role)
	}
	if !slices.Equal(toolIDs(m), toolIDs(old)) {
		return host.Errorf(host.InvalidArgument, "message %q has other tool calls or results than what would take its place", old.ID).
			WithHint("keep their ids, or delete the message")
	}
	return nil
}

// toolIDs returns the ids that pair the calls and results of a message.
func toolIDs(m *host.Message) []string {
	var ids []string
	for _, c := range m.ToolCalls() {
		ids = append(ids, "call "+c.ID)
	}
	for _, r := range m.ToolResults() {
		ids = append(ids, "result "+r.ID)
	}
	slices.Sort(ids)
	return ids
}

// closedView returns a view of the messages and turns that the thread shows now,
// without later ones.
func (t *Moment) closedView() view.View {
	v := t.view
	v.Messages, v.Tail = t.messageList().Parts(), t.rec.Messages
	v.Turns, v.TurnTail = t.turnList().Parts(), t.rec.Turns
	return v
}

// rewind makes a moment the present.
func (d *draft) rewind(ctx context.Context, at At) error {
	to, err := d.thread.at(ctx, at)
	if err != nil {
		return err
	}
	if d.shows(to) {
		return errNothing
	}
	if to.rec.Content != d.thread.rec.Content {
		return d.moveTo(ctx, to, at)
	}
	return d.showAgain(to, Rewound, at.Message)
}

// showAgain makes a moment of the present content the thread's present; the log
// continues at its end.
func (d *draft) showAgain(to *Moment, cause Cause, message string) error {
	v := to.closedView()
	v.Tail, v.TurnTail = d.thread.rec.Messages, d.thread.rec.Turns
	p := to.rec.point
	d.thread.rec.State, d.thread.rec.Last, d.thread.rec.Status = p.State, p.Last, p.Status
	return d.leave(cause, message, v)
}

// shows reports whether the thread shows the same now as at a moment.
func (d *draft) shows(to *Moment) bool {
	t := d.thread
	a, b := t.closedView(), to.closedView()
	return t.rec.Content == to.rec.Content && t.rec.Last == to.rec.Last && slices.Equal(a.Origins, b.Origins) &&
		slices.Equal(a.Messages, b.Messages) && slices.Equal(a.Turns, b.Turns)
}

// moveTo makes a moment of another content the thread's present: the thread gets
// a new content that refers back to the moment's.
func (d *draft) moveTo(ctx context.Context, to *Moment, at At) error {
	v, err := to.forkedView(ctx)
	if err != nil {
		return err
	}
	root := d.thread.rec.root()
	p := to.rec.point
	d.thread.rec.Root = root
	d.thread.rec.Content = host.NewID()
	d.thread.rec.Messages, d.thread.rec.Turns = 0, 0
	d.thread.rec.State, d.thread.rec.Last, d.thread.rec.Status = p.State, p.Last, p.Status
	d.thread.content = contentOf(d.thread.rec.Content)
	d.tx.put(contentOf(root).owned().With(d.thread.rec.Content), nil)
	d.refer(v)
	return d.leave(Rewound, at.Message, v)
}

// leave keeps the thread's head in its lineage and begins a new one, which shows
// v.
func (d *draft) leave(cause Cause, message string, v view.View) error {
	d.thread.rec.Heads++
	d.moveHead()
	head, err := encode(storedHead{version: version{V: d.before.headLayout()}, Point: d.before.point, Cause: cause, Message: message, Left: d.by.store.now().UTC(), Own: false})
	if err != nil {
		return err
	}
	d.tx.put(d.thread.root().head(d.thread.rec.Heads), head)
	was := *d.thread
	was.rec = d.before
	if err := d.show(v); err != nil {
		return err
	}
	if d.thread.branch == nil {
		d.keepMarker(&was)
	}
	return nil
}

// show gives the thread a view.
func (d *draft) show(v view.View) error {
	if err := checkView(d.thread.rec.ID, v); err != nil {
		return err
	}
	raw, err := encode(storedView{version{V: layoutOfViews}, v})
	if err != nil {
		return err
	}
	d.thread.view = v
	d.thread.rec.View = d.thread.rec.Heads + 1
	d.thread.count()
	d.tx.put(d.thread.content.view(d.thread.rec.View), raw)
	return nil
}

// count sets how many messages and turns of the log the view hides.
func (t *Moment) count() {
	t.rec.HiddenMessages = int64(t.rec.Messages) - int64(t.messageList().Len())
	t.rec.HiddenTurns = int64(t.rec.Turns) - int64(t.turnList().Len())
}
