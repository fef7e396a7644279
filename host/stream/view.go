package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
)

// View selects the parts of a run that clients may see: its state and events
// without the hidden places. The same view is applied to streamed events and to
// later reads, so both agree. It fails closed: if one of its functions fails or
// panics, nothing is shown. It is immutable and safe for concurrent use, if its
// functions are. The nil View shows everything.
type View struct {
	hide      []string // pointers into the custom state
	artifacts bool     // are hidden
	all       bool     // of the state is hidden
	changes   bool     // the state is not sent before it changes
	state     func(context.Context, *host.Document) (*host.Document, error)
	message   func(context.Context, *host.Message) (*host.Message, error)
	event     func(context.Context, host.Event) (host.Event, bool, error)
}

// ViewOptions say what a view hides.
type ViewOptions struct {
	// Hide names the hidden places, by RFC 6901 pointers: "/custom/..." is a
	// place in the custom state, "/custom" all of it, "/artifacts" all artifacts.
	Hide []string

	// OnlyChanges sends nothing of the custom state before the run changes it: the
	// first change that clients see replaces the whole, the later ones are patches. A
	// run that changes nothing sends none. (So Genkit does it.) Without it a run
	// begins with the whole state, and every change is a patch. A Chat of package sessions
	// follows both.
	OnlyChanges bool

	// State returns the custom state that clients may see, a JSON object; its
	// argument has no place that Hide names. The context carries the caller's
	// identity. A document derived from the argument, by Without or Patch, is cheap
	// to compare to the last one; a newly parsed one costs a full comparison.
	State func(ctx context.Context, custom *host.Document) (*host.Document, error)

	// Message returns the form of a message that clients may see, nil to hide it:
	// wherever a whole message is shown, in events and in later reads. It must not
	// change its argument. The earlier pieces, of text, reasoning, calls and results,
	// are events of their own, which Event can hide.
	Message func(ctx context.Context, m *host.Message) (*host.Message, error)

	// Event returns the form of an event that clients may see, and whether they may
	// see it at all. State changes and messages reach it in the form that clients
	// receive: made from State's and Message's results. It must not change the data
	// that the event points to.
	Event func(ctx context.Context, ev host.Event) (host.Event, bool, error)
}

// NewView returns a view. Code invalid_argument for a pointer that hides nothing
// known.
func NewView(opts *ViewOptions) (*View, error) {
	if opts == nil {
		opts = &ViewOptions{}
	}
	v := &View{changes: opts.OnlyChanges, state: opts.State, message: opts.Message, event: opts.Event}
	for _, p := range opts.Hide {
		at, custom := strings.CutPrefix(p, "/custom")
		switch {
		case p == "/artifacts":
			v.artifacts = true
		case custom && at == "":
			v.all = true
		case custom && at[0] == '/' && wellFormed(at):
			v.hide = append(v.hide, at)
		default:
			return nil, host.Errorf(host.InvalidArgument, "hide: %q is nothing that clients see", p).
				WithHint(`use a pointer such as /custom/notes, or /custom or /artifacts for all of it; in a name, ~0 is ~ and ~1 is /`)
		}
	}
	return v, nil
}

func wellFormed(pointer string) bool {
	for i, c := range []byte(pointer) {
		if c == '~' && (i+1 == len(pointer) || pointer[i+1] != '0' && pointer[i+1] != '1') {
			return false
		}
	}
	return true
}

// HidesArtifacts reports whether clients see no artifacts.
func (v *View) HidesArtifacts() bool { return v != nil && v.artifacts }

// State returns a custom state as clients may see it.
func (v *View) State(ctx context.Context, custom json.RawMessage) (json.RawMessage, error) {
	if v == nil || len(custom) == 0 {
		return custom, nil
	}
	doc, err := host.ReadDocument(custom)
	if err != nil {
		return nil, err
	}
	shown, err := v.document(ctx, doc)
	if err != nil {
		return nil, err
	}
	return shown.JSON(), nil
}

func (v *View) document(ctx context.Context, doc *host.Document) (*host.Document, error) {
	if v.all {
		return emptyDocument()
	}
	doc = doc.Without(v.hide...)
	if v.state == nil {
		return doc, nil
	}
	out, err := guarded("state", func() (*host.Document, error) { return v.state(ctx, doc) })
	if err != nil {
		return nil, err
	}
	if out == nil || !out.IsObject() {
		return nil, host.Errorf(host.Internal, "the view of the state is not a JSON object")
	}
	return out, nil
}

// Messages returns messages as clients may see them.
func (v *View) Messages(ctx context.Context, messages []*host.Message) ([]*host.Message, error) {
	if v == nil || v.message == nil {
		return messages, nil
	}
	out := make([]*host.Message, 0, len(messages))
	for _, m := range messages {
		seen, err := guarded("messages", func() (*host.Message, error) { return v.message(ctx, m) })
		if err != nil {
			return nil, err
		}
		if seen != nil {
			out = append(out, seen)
		}
	}
	return out, nil
}

// done returns the form of a message's event that clients may see; nil if they
// may not. A view of messages also removes the provider's raw answer, which
// would reveal the message.
func (v *View) done(ctx context.Context, data *runevent.MessageDone) (*runevent.MessageDone, error) {
	if v.message == nil || data.Message == nil {
		return data, nil
	}
	seen, err := v.Messages(ctx, []*host.Message{data.Message})
	if err != nil || len(seen) == 0 {
		return nil, err
	}
	return &runevent.MessageDone{Message: seen[0], Usage: data.Usage}, nil
}

func emptyDocument() (*host.Document, error) { return host.ReadDocument(json.RawMessage("{}")) }

// guarded calls a function of the view. The cause of a failure is for the
// caller's log, and not for clients: it may name hidden data.
func guarded[T any](what string, fn func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = hidden(what, fmt.Errorf("panic: %v", p))
		}
	}()
	if out, err = fn(); err != nil {
		err = hidden(what, err)
	}
	return out, err
}

func hidden(what string, cause error) error {
	return &host.Error{Code: host.Internal, Message: "what clients may see of the " + what + " cannot be told, so nothing is shown", Err: cause}
}

// Events yields the events that clients may see, renumbered without gaps. It
// omits a change that touches only hidden places; the first change of a run
// replaces the whole state, the others are the unchanged patches, or where a
// view hides something the differences of the visible state. A view that fails
// ends the stream, and with it the run, with code internal.
func (v *View) Events(ctx context.Context, events iter.Seq2[host.Event, error]) iter.Seq2[host.Event, error] {
	if v == nil {
		return events
	}
	return func(yield func(host.Event, error) bool) {
		f := follower{view: v}
		for ev, err := range events {
			if err != nil {
				yield(ev, err)
				return
			}
			ev, shown, err := f.show(ctx, ev)
			if err != nil {
				yield(host.Event{}, err)
				return
			}
			if shown && !yield(ev, nil) {
				return
			}
		}
	}
}

// follower shows the events of one run.
type follower struct {
	view  *View
	seq   int64
	state *host.Document // the unfiltered state, without behind
	shown *host.Document // as clients may see it, but for behind; nil before the first change
	held  bool           // clients do not have it yet
	// behind are patches of both documents that were passed on unchanged: most
	// are never followed by a patch that needs the documents.
	behind []host.PatchOp
}

// maxBehind bounds the changes that are not in the documents yet.
const maxBehind = 1000

func (f *follower) show(ctx context.Context, ev host.Event) (host.Event, bool, error) {
	shown := true
	switch data := ev.Data.(type) {
	case *runevent.StatePatched:
		ops, err := f.change(ctx, data.Ops)
		if err != nil || len(ops) == 0 {
			return ev, false, err
		}
		ev.Data = &runevent.StatePatched{Ops: ops}
	case *runevent.MessageDone:
		d, err := f.view.done(ctx, data)
		if err != nil || d == nil {
			return ev, false, err
		}
		ev.Data = d
	case *runevent.ArtifactMade:
		shown = !f.view.artifacts
	case *runevent.RunFinished:
		d := *data
		d.Result = nil // has it all
		ev.Data = &d
	}
	if shown && f.view.event != nil {
		type answer struct {
			ev    host.Event
			shown bool
		}
		a, err := guarded("events", func() (answer, error) {
			ev, shown, err := f.view.event(ctx, ev)
			return answer{ev, shown}, err
		})
		if err != nil {
			return ev, false, err
		}
		ev, shown = a.ev, a.shown
	}
	if !shown {
		return ev, false, nil
	}
	ev.Seq = f.seq
	f.seq++
	return ev, true, nil
}

// change returns the part of a patch that clients may see.
func (f *follower) change(ctx context.Context, ops []host.PatchOp) ([]host.PatchOp, error) {
	if f.shown != nil && !f.held && len(f.behind)+len(ops) <= maxBehind && f.view.passes(ops) {
		f.behind = append(f.behind, ops...)
		return ops, nil
	}
	if err := f.catchUp(ops); err != nil {
		return nil, host.Errorf(host.Internal, "follow the state: %w", err)
	}
	shown, err := f.view.document(ctx, f.state)
	if err != nil {
		return nil, err
	}
	before := f.shown
	f.shown = shown
	whole := func() []host.PatchOp { return []host.PatchOp{{Op: "replace", Path: "", Value: shown.JSON()}} }
	if before == nil {
		if f.held = f.view.changes; f.held {
			return nil, nil
		}
		return whole(), nil
	}
	ops = before.Diff(shown)
	if f.held && len(ops) > 0 {
		f.held, ops = false, whole()
	}
	return ops, nil
}

// catchUp brings the state to the result of ops, and the visible document to the
// point where ops begin.
func (f *follower) catchUp(ops []host.PatchOp) (err error) {
	if f.state == nil {
		if f.state, err = emptyDocument(); err != nil {
			return err
		}
	}
	if len(f.behind) > 0 {
		if f.shown, err = f.shown.Patch(f.behind); err != nil {
			return err
		}
		if f.state, err = f.state.Patch(f.behind); err != nil {
			return err
		}
		f.behind = nil
	}
	f.state, err = f.state.Patch(ops)
	return err
}

// passes reports whether operations can be sent unchanged: none of them meets a
// hidden place.
func (v *View) passes(ops []host.PatchOp) bool {
	if v.all || v.state != nil {
		return false
	}
	for _, op := range ops {
		for _, at := range v.hide {
			if meets(op, at) {
				return false
			}
		}
	}
	return true
}

// meets reports whether an operation touches a hidden place, a place in or
// around it, or shifts it in its array.
func meets(op host.PatchOp, at string) bool {
	paths := []string{op.Path}
	if op.Op == "move" || op.Op == "copy" {
		paths = append(paths, op.From)
	}
	for _, path := range paths {
		if within(at, path) || within(path, at) || op.Op != "replace" && shifts(path, at) {
			return true
		}
	}
	return false
}

// shifts reports whether a hidden place may be another one after something was
// added or removed at path: if it lies in an element of the same array.
func shifts(path, at string) bool {
	parent := path[:max(strings.LastIndexByte(path, '/'), 0)]
	if at == parent || !within(at, parent) {
		return false
	}
	index, _, _ := strings.Cut(at[len(parent)+1:], "/")
	return strings.Trim(index, "0123456789") == ""
}

// within reports whether a pointer is outer or below it.
func within(pointer, outer string) bool {
	return strings.HasPrefix(pointer, outer) && (len(pointer) == len(outer) || pointer[len(outer)] == '/')
}
