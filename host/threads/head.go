package threads

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// Cause says why there is a branch.
type Cause string

// The causes.
const (
	Edited  Cause = "edit"
	Deleted Cause = "delete"
	Rewound Cause = "rewind"
	// Regenerated is of the head with a message's previous answer, or of a branch on
	// which the message is answered again.
	Regenerated Cause = "regenerate"
	// Raced is of the branch of a turn that came while another was running.
	Raced Cause = "race"
)

// Branch is a head of a thread: its present conversation or an earlier one. A
// thread has one current head; the others are its lineage.
type Branch struct {
	// ID names the branch in its thread: b1, b2 and so on, in the order in which
	// they were left behind. Empty for the current head.
	ID       string    `json:"id,omitempty"`
	Head     string    `json:"head"`
	Messages int       `json:"messages"`
	Turns    int       `json:"turns"`
	Snapshot string    `json:"snapshot,omitempty"` // of its last turn
	Status   Status    `json:"status,omitempty"`   // of that
	Cause    Cause     `json:"cause,omitempty"`
	Message  string    `json:"message,omitempty"` // that was edited, deleted or rewound to
	Left     time.Time `json:"left,omitzero"`
	// Open says that the branch accepts turns: see [host.Request].Branch. Other
	// branches were left behind, and are rewound to or forked.
	Open bool `json:"open,omitempty"`
}

// storedHead is a head that was left behind.
type storedHead struct {
	version
	Point   point     `json:"point"`
	Cause   Cause     `json:"cause"`
	Message string    `json:"message,omitempty"`
	Left    time.Time `json:"left"`
	Own     bool      `json:"own,omitempty"` // no other head continues in its content
}

func (h *storedHead) public(n uint64) *Branch {
	p := &h.Point
	return &Branch{
		ID: branchID(n), Head: p.Head, Messages: p.shownMessages(), Turns: p.shownTurns(), Snapshot: p.Last,
		Status: p.Status, Cause: h.Cause, Message: h.Message, Left: h.Left, Open: h.Own,
	}
}

func branchID(n uint64) string { return "b" + strconv.FormatUint(n, 10) }

// branchNumber returns the number in a branch's id; 0 if it is none.
func branchNumber(id string) uint64 {
	digits, _ := strings.CutPrefix(id, "b")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || branchID(n) != id {
		return 0
	}
	return n
}

// Branches yields the heads of a thread: the current one, then those that it
// left behind, the last left first. An error comes last; code not_found if there
// is no such thread.
func (tn *Tenant) Branches(ctx context.Context, id string) iter.Seq2[*Branch, error] {
	return tn.BranchesFrom(ctx, id, "")
}

// BranchesFrom is Branches that begins with a branch, to continue where a list has ended; ""
// begins with the current head. Code invalid_argument if from is no id of a branch.
func (tn *Tenant) BranchesFrom(ctx context.Context, id, from string) iter.Seq2[*Branch, error] {
	return func(yield func(*Branch, error) bool) {
		t, err := tn.write.read.find(ctx, id)
		n := branchNumber(from)
		if err == nil && from != "" && n == 0 {
			err = host.Errorf(host.InvalidArgument, "%.80q is no id of a branch", from).WithHint("use one that was listed")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		left := t.lineage()
		if from != "" {
			left.last = min(left.last, n)
		} else {
			now := (&storedHead{Point: t.rec.point}).public(0)
			now.ID, now.Open = "", true
			if !yield(now, nil) {
				return
			}
		}
		for h, err := range left.all(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(h.public(h.number), nil) {
				return
			}
		}
	}
}

type numberedHead struct {
	storedHead
	number uint64
}

// lineage reads the heads that a thread has left behind.
type lineage struct {
	from contents
	root content
	last uint64 // number of the head that was left last; 0 if none was
}

// all yields the heads, the last left first.
func (l lineage) all(ctx context.Context) iter.Seq2[*numberedHead, error] {
	return func(yield func(*numberedHead, error) bool) {
		if l.last == 0 {
			return
		}
		prefix := l.root.heads()
		r := kv.Range{Prefix: prefix, From: l.root.head(l.last), Reverse: true}
		for e, err := range l.from.part.All(ctx, r) {
			if err != nil {
				yield(nil, wrap(err, "read branches of thread %q", l.from.thread))
				return
			}
			rest, _ := e.Key.CutPrefix(prefix)
			n, _, _ := rest.CutUint()
			h := &numberedHead{number: n}
			if err := decode(e.Value, &h.storedHead, "branch of thread", l.from.thread); err != nil {
				yield(nil, err)
				return
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

// At names a moment of a thread. The zero At is now; otherwise one of Snapshot,
// Turn and Branch may be set, and Message.
type At struct {
	// Snapshot is the thread right after that turn, with its state and artifacts at
	// that time, whatever edits and deletions came since.
	Snapshot string
	// Turn is the present thread up to and including that turn: with later edits,
	// and without deleted messages.
	Turn string
	// Branch is a head that was left behind, by its ID or its Head.
	Branch string
	// Message is the conversation up to and including that message and the results
	// of its tool calls. State and artifacts are those of the last turn that is
	// whole before it ends.
	Message string
	// Before leaves Message itself out, and the calls that it has results of.
	Before bool
}

// at returns the thread at a moment: the methods of the result read that moment.
func (t *Moment) at(ctx context.Context, at At) (*Moment, error) {
	if at.Snapshot != "" && at.Branch != "" || at.Turn != "" && at.Snapshot+at.Branch != "" {
		return nil, host.Errorf(host.InvalidArgument, "thread %q: two of a snapshot, a turn and a branch are asked for at once", t.rec.ID).WithHint("name one")
	}
	if at.Before && at.Message == "" {
		return nil, host.Errorf(host.InvalidArgument, "thread %q: there is no message to stop before", t.rec.ID).WithHint("name one")
	}
	var err error
	if at.Snapshot != "" {
		t, err = t.atSnapshot(ctx, at.Snapshot)
	}
	if at.Turn != "" {
		t, err = t.atTurn(ctx, at.Turn)
	}
	if at.Branch != "" {
		t, err = t.atBranch(ctx, at.Branch)
	}
	if err != nil || at.Message == "" {
		return t, err
	}
	return t.atMessage(ctx, at.Message, at.Before)
}

// moment returns the thread at a point.
func (t *Moment) moment(ctx context.Context, p point) (*Moment, error) {
	out := *t
	out.rec.point = p
	out.rec.Root = t.rec.root()
	return &out, out.readView(ctx)
}

func (t *Moment) atBranch(ctx context.Context, name string) (*Moment, error) {
	if name == t.rec.Head {
		return t, nil
	}
	h, err := t.lineage().find(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.moment(ctx, h.Point)
}

// find finds a head that was left behind. By its number that takes one read.
func (l lineage) find(ctx context.Context, name string) (*numberedHead, error) {
	if n := branchNumber(name); n > 0 {
		raw, err := l.from.get(ctx, l.root.head(n))
		if err != nil {
			return nil, err
		}
		if raw != nil && n <= l.last {
			h := &numberedHead{number: n}
			return h, decode(raw, &h.storedHead, "branch of thread", l.from.thread)
		}
	}
	for h, err := range l.all(ctx) {
		if err != nil {
			return nil, err
		}
		if h.Point.Head == name {
			return h, nil
		}
	}
	return nil, noBranch(l.from.thread, name)
}

func (t *Moment) atSnapshot(ctx context.Context, id string) (*Moment, error) {
	snap, content, err := t.turns().ofRun(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.moment(ctx, snap.point(t.rec.Head, content))
}

// atTurn returns the present thread up to and including a turn. Code not_found
// if the thread does not show the turn any more.
func (t *Moment) atTurn(ctx context.Context, run string) (*Moment, error) {
	snap, content, err := t.turns().ofRun(ctx, run)
	if err != nil {
		return nil, err
	}
	rank := uint64(slices.Index(append(slices.Clone(t.view.Origins), t.rec.Content), content))
	turns, at := t.turnList(), view.Position{Rank: rank, Seq: uint64(snap.Turn) - 1}
	if !turns.Has(at) {
		return nil, host.Errorf(host.NotFound, "thread %q does not show turn %q", t.rec.ID, run).
			WithHint("by its snapshot it is as it was then")
	}
	out := *t
	n := t.messageList().CountBefore(view.Position{Rank: rank, Seq: uint64(max(snap.To, 0))})
	out.view.Messages, out.view.Tail = t.messageList().Slice(0, n), t.rec.Messages
	out.view.Turns, out.view.TurnTail = turns.Slice(0, turns.IndexOf(at)+1), t.rec.Turns
	out.count()
	p := &out.rec.point
	p.State, p.Last, p.Status = snap.State, snap.ID, snap.Status
	return &out, nil
}

// point returns the moment after a turn.
func (s *storedSnapshot) point(head, content string) point {
	return point{
		Head: head, Messages: uint64(max(s.To, 0)), Turns: uint64(s.Turn), Last: s.ID, Status: s.Status,
		State: s.State, Content: content, View: s.View, HiddenMessages: s.HiddenMessages, HiddenTurns: s.HiddenTurns,
	}
}

// ofRun finds the snapshot of a run in the thread, in one of its branches or in the
// threads it was forked from, and the id of the content that has it.
func (l turnLog) ofRun(ctx context.Context, run string) (snap *storedSnapshot, in string, err error) {
	if err := chat.ValidateID("snapshot", run, MaxMessageIDBytes); err != nil {
		return nil, "", err
	}
	in = l.root
	n, elsewhere, found, err := l.from.turnOf(ctx, contentOf(in), run)
	if err == nil && !found {
		in, n, found, err = l.inheritedRun(ctx, run)
	}
	if err != nil {
		return nil, "", err
	}
	if !found {
		return nil, "", host.Errorf(host.NotFound, "thread %q has no snapshot %q", l.from.thread, run)
	}
	if elsewhere != "" {
		in = elsewhere
		if n, elsewhere, found, err = l.from.turnOf(ctx, contentOf(in), run); err != nil {
			return nil, "", err
		}
		if !found || elsewhere != "" {
			return nil, "", damaged("index of runs of thread %q is damaged", l.from.thread)
		}
	}
	snap, err = l.at(ctx, contentOf(in), n)
	return snap, in, err
}

// inheritedRun finds a run among the turns that the thread shows of its origins.
func (l turnLog) inheritedRun(ctx context.Context, run string) (in string, n uint64, found bool, err error) {
	for rank, id := range slices.Backward(l.from.origins) {
		n, _, found, err := l.from.turnOf(ctx, contentOf(id), run)
		if err != nil {
			return "", 0, false, err
		}
		if found && n > 0 && l.shown.Has(view.Position{Rank: uint64(rank), Seq: n - 1}) {
			return id, n, true, nil
		}
	}
	return "", 0, false, nil
}
