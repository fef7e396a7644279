package threads

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
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

// Status says how a turn ended.
type Status string

// The statuses of a turn.
const (
	Completed   Status = "completed"
	Interrupted Status = "interrupted" // a tool asks a person
	Failed      Status = "failed"
	Canceled    Status = "canceled"
)

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool {
	switch s {
	case Completed, Interrupted, Failed, Canceled:
		return true
	}
	return false
}

func statusOf(reason host.FinishReason) Status {
	switch reason {
	case chat.FinishInterrupted:
		return Interrupted
	case chat.FinishFailed:
		return Failed
	case chat.FinishCanceled:
		return Canceled
	default:
		return Completed
	}
}

// Snapshot is the record of a turn without its messages: those are the messages
// From up to, not including, To of the conversation that the thread shows. It is
// a few hundred bytes however long the conversation is.
type Snapshot struct {
	ID     string    `json:"id"` // the run's
	Parent string    `json:"parent,omitempty"`
	Turn   int       `json:"turn"` // from 1
	Time   time.Time `json:"time"`
	// Input is the id of the user's message that the turn answers, if it had one.
	Input        string            `json:"input,omitempty"`
	Network      string            `json:"network,omitempty"`
	From         int               `json:"from"`
	To           int               `json:"to"`
	Status       Status            `json:"status"`
	FinishReason host.FinishReason `json:"finish_reason,omitempty"`
	Error        *host.Error       `json:"error,omitempty"`
	Usage        host.Usage        `json:"usage"`
	Results      []ResultInfo      `json:"results,omitempty"`
	State        *Ref              `json:"state,omitempty"`     // the thread's custom state after the turn
	Artifacts    int               `json:"artifacts,omitempty"` // how many the turn put
}

// ResultInfo is a [host.Result] without its messages.
type ResultInfo struct {
	Agent        string            `json:"agent"`
	Messages     int               `json:"messages"`
	FinishReason host.FinishReason `json:"finish_reason"`
	Rounds       int               `json:"rounds"`
	Usage        host.Usage        `json:"usage"`
	CreatedAt    time.Time         `json:"created_at"`
}

// storedSnapshot is a snapshot as its content has it: Turn is its number there,
// and From and To are positions of that log.
type storedSnapshot struct {
	version
	Snapshot
	Said           string `json:"said,omitempty"` // [saidBy] of the turn; empty for an imported turn
	View           uint64 `json:"view,omitempty"` // of the thread after the turn
	HiddenMessages int64  `json:"hidden_messages,omitempty"`
	HiddenTurns    int64  `json:"hidden_turns,omitempty"`
}

// turnLog reads the turns that a moment shows.
type turnLog struct {
	from     contents
	root     string // id of the content that has the index of runs
	shown    view.List
	messages view.List // that the moment shows
}

// public returns a snapshot as a thread shows it: its number among the turns and
// its place among the messages that the thread shows now.
func (l turnLog) public(snap *storedSnapshot, rank, number uint64) *Snapshot {
	out := snap.Snapshot
	shown := l.messages
	out.Turn = int(number) + 1
	out.From = int(shown.CountBefore(view.Position{Rank: rank, Seq: uint64(max(snap.From, 0))}))
	out.To = int(shown.CountBefore(view.Position{Rank: rank, Seq: uint64(max(snap.To, 0))}))
	return &out
}

// Snapshots yields the snapshots of a thread's turns, the first turn first. An
// error comes last; code not_found if there is no such thread.
func (tn *Tenant) Snapshots(ctx context.Context, id string) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		t, err := tn.write.read.find(ctx, id)
		if err != nil {
			yield(nil, err)
			return
		}
		for snap, err := range t.turns().all(ctx, kv.Range{}) {
			if !yield(snap, err) {
				return
			}
		}
	}
}

// all yields the snapshots of the turns that the thread shows, in the order of r.
func (l turnLog) all(ctx context.Context, r kv.Range) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		parts := l.shown.Parts()
		number := uint64(0) // of the part's first turn
		if r.Reverse {
			slices.Reverse(parts)
			number = view.TotalLen(parts)
		}
		for _, p := range parts {
			if r.Reverse {
				number -= p.Len()
			}
			for snap, err := range l.ofPart(ctx, p, r.Reverse) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(l.public(snap, p.At.Rank, number+uint64(snap.Turn)-1-p.At.Seq), nil) {
					return
				}
			}
			if !r.Reverse {
				number += p.Len()
			}
		}
	}
}

// ofPart yields the snapshots of a part of a content's turns.
func (l turnLog) ofPart(ctx context.Context, p view.Part, reverse bool) iter.Seq2[*storedSnapshot, error] {
	return func(yield func(*storedSnapshot, error) bool) {
		c := l.from.at(p.At.Rank)
		r := kv.Range{Prefix: c.turns(), From: c.turn(p.At.Seq + 1), Reverse: reverse}
		if reverse {
			r.From = c.turn(p.To)
		}
		for e, err := range l.from.part.All(ctx, r) {
			if err != nil {
				yield(nil, wrap(err, "read turns of thread %q", l.from.thread))
				return
			}
			snap, err := l.decode(e.Value)
			if err != nil {
				yield(nil, err)
				return
			}
			if n := uint64(snap.Turn); n <= p.At.Seq || n > p.To {
				return
			}
			if !yield(snap, nil) {
				return
			}
		}
	}
}

func (l turnLog) decode(value []byte) (*storedSnapshot, error) {
	snap := &storedSnapshot{}
	if err := decode(value, snap, "snapshot of thread", l.from.thread); err != nil {
		return nil, err
	}
	if snap.Turn < 1 {
		return nil, damaged("snapshot of thread %q is damaged", l.from.thread)
	}
	return snap, nil
}

// at returns the snapshot of turn n of a content.
func (l turnLog) at(ctx context.Context, c content, n uint64) (*storedSnapshot, error) {
	raw, err := l.from.get(ctx, c.turn(n))
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, damaged("snapshot of turn %d of thread %q is missing", n, l.from.thread)
	}
	return l.decode(raw)
}

// turn adds a whole turn to the draft.
func (d *draft) turn(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	messages := turn.Messages()
	said := saidBy(messages)
	if err := d.guard(ctx, req.Run, turn.Head, said); err != nil {
		return err
	}
	if err := d.fence(ctx, req); err != nil {
		return err
	}
	snap := d.newSnapshot(req, turn)
	if err := d.beginAtRounds(ctx, snap, messages); err != nil {
		return err
	}
	if _, err := d.append(ctx, messages); err != nil {
		return err
	}
	snap.To = int(d.thread.rec.Messages)
	if err := d.putStates(ctx, turn); err != nil {
		return err
	}
	snap.State = d.thread.rec.State
	if err := d.putArtifacts(ctx, turn.Artifacts); err != nil {
		return err
	}
	return d.close(snap, said)
}

// saidBy returns a digest of the ids of a turn's messages, by which a turn that is sent
// again is recognized.
func saidBy(messages []*host.Message) string {
	text := make([]byte, 0, 40*len(messages))
	for _, m := range messages {
		text = strconv.AppendInt(text, int64(len(m.ID)), 10)
		text = append(append(text, ':'), m.ID...)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// beginAtRounds moves the beginning of a turn to where its rounds stored its
// first message, if they did: then the bet that it is new was lost, or its id is not
// above those of the content.
func (d *draft) beginAtRounds(ctx context.Context, snap *Snapshot, messages []*host.Message) error {
	if len(messages) == 0 || !d.looksUp(messages) && !d.index.mayBeGrouped(messages[0].ID) {
		return nil
	}
	at, stored, err := d.thread.log().position(ctx, messages[0].ID)
	if stored && at.Rank == d.thread.view.OwnRank() {
		snap.From = int(at.Seq)
	}
	return err
}

// guard admits a turn that answers the thread's present head, and a turn that names no
// head. A run whose turn is stored already has nothing to commit, and is refused if its
// messages differ; at the right head that is so rare that the transaction bets against
// it first, if the run's id does not show that it is new.
func (d *draft) guard(ctx context.Context, run, head, said string) error {
	root := d.thread.root()
	atHead := d.thread.revision != 0 && head == d.thread.rec.Head
	if atHead && !d.careful {
		if d.index.isNewRun(run) {
			return nil
		}
		d.tx.require(kv.Absent(root.run(run)))
		if !d.index.mayBeGrouped(run) {
			return nil
		}
	}
	_, _, stored, err := d.thread.contents().turnOf(ctx, root, run)
	switch {
	case err != nil:
		return err
	case stored:
		return d.saidBefore(ctx, run, said)
	case !atHead && head != "":
		return moved(d.thread.rec.ID)
	}
	return nil
}

// saidBefore returns errNothing for a turn that is stored, and code
// already_exists for another one of its run. A turn that was imported, or stored
// before snapshots had digests, counts as the same.
func (d *draft) saidBefore(ctx context.Context, run, said string) error {
	snap, _, err := d.thread.turns().ofRun(ctx, run)
	switch {
	case err != nil:
		return err
	case snap.Said != "" && snap.Said != said:
		return host.Errorf(host.AlreadyExists, "thread %q has another turn of run %q", d.thread.rec.ID, run).
			WithHint("nothing was stored of this one; give each run an id of its own, or none")
	}
	return errNothing
}

// fence admits a turn whose run still has the owner that sent it.
func (d *draft) fence(ctx context.Context, req *host.HistoryRequest) error {
	if req.Fence == 0 {
		return nil
	}
	if d.careful { // report the run's other owner
		if _, err := d.by.journal().owned(ctx, host.RunRef{Run: req.Run, Fence: req.Fence}); err != nil {
			return err
		}
	}
	d.tx.require(kv.Fence(leaseKey(req.Run), lease(req.Fence)))
	return nil
}

func (d *draft) newSnapshot(req *host.HistoryRequest, turn *host.Turn) *Snapshot {
	d.thread.rec.Turns++
	snap := &Snapshot{
		ID: req.Run, Parent: d.thread.rec.Last, Turn: int(d.thread.rec.Turns), Network: req.Network,
		From: int(d.thread.rec.Messages), Status: statusOf(turn.Status), FinishReason: turn.Status,
		Error: shortened(turn.Error), Usage: turn.Usage, Artifacts: len(turn.Artifacts),
	}
	if req.Input != nil {
		snap.Input = req.Input.ID
	}
	for _, r := range turn.Results {
		snap.Results = append(snap.Results, ResultInfo{
			Agent: r.Agent, Messages: len(r.Messages), FinishReason: r.FinishReason,
			Rounds: r.Rounds, Usage: r.Usage, CreatedAt: r.CreatedAt,
		})
	}
	return snap
}

// shortened returns an error whose text fits a snapshot.
func shortened(e *host.Error) *host.Error {
	if e == nil || len(e.Message)+len(e.Hint) <= maxErrorBytes {
		return e
	}
	text := strings.ToValidUTF8(e.Message[:min(len(e.Message), maxErrorBytes)], "")
	return &host.Error{Code: e.Code, Message: text + "…", Retryable: e.Retryable}
}

// close adds the rest of a turn: its snapshot, the index entry of its run, the
// thread's new head.
func (d *draft) close(snap *Snapshot, said string) error {
	d.moveHead()
	d.thread.rec.Last, d.thread.rec.Status = snap.ID, snap.Status
	snap.Time = d.thread.rec.Updated
	return d.putSnapshot(snap, said)
}

// putSnapshot adds the snapshot of the last turn.
func (d *draft) putSnapshot(snap *Snapshot, said string) error {
	raw, err := encode(storedSnapshot{version: version{V: d.thread.rec.headLayout()}, Snapshot: *snap, Said: said, View: d.thread.rec.View, HiddenMessages: d.thread.rec.HiddenMessages, HiddenTurns: d.thread.rec.HiddenTurns})
	if err != nil {
		return err
	}
	d.tx.put(d.thread.content.turn(d.thread.rec.Turns), raw)
	return d.index.addTurn(snap.ID)
}

// runElsewhere is the entry of a run in the index of a thread, for a turn of
// another content of it. For others the entry is the number of the turn.
type runElsewhere struct {
	Content string `json:"content"`
}
