package threads

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// Transcript is the end of a thread, for showing it.
type Transcript struct {
	Thread   *Thread         `json:"thread"`
	First    int             `json:"first"` // position of the first message here
	Messages []*host.Message `json:"messages"`
	// Snapshots are those of the turns that have messages here and of the last
	// turn, in order, and no more than messages were asked for.
	Snapshots []*Snapshot     `json:"snapshots"`
	State     json.RawMessage `json:"state,omitempty"`
	Artifacts []ArtifactInfo  `json:"artifacts,omitempty"`
}

// SnapshotOf returns the snapshot of the turn that Messages[i] came from; nil
// for a message that belongs to no turn, such as the user's.
func (t *Transcript) SnapshotOf(i int) *Snapshot {
	at := t.First + i
	for _, s := range t.Snapshots {
		if s.From <= at && at < s.To {
			return s
		}
	}
	return nil
}

// Show returns the last messages of a thread with their turns, and its state
// and artifacts. It returns at most limit messages; 0 is the store's window.
// Code not_found if there is no such thread, invalid_argument for a negative
// limit.
func (tn *Tenant) Show(ctx context.Context, id string, limit int) (*Transcript, error) {
	return tn.ShowAt(ctx, id, At{}, limit)
}

// ShowAt is Show of a moment of the thread. Code not_found if there is no such
// thread or moment.
func (tn *Tenant) ShowAt(ctx context.Context, id string, at At, limit int) (*Transcript, error) {
	if limit < 0 {
		return nil, host.Errorf(host.InvalidArgument, "show thread %q: limit is %d", id, limit).WithHint("leave it out for the default")
	}
	if limit == 0 {
		limit = tn.write.store.window
	}
	t, err := tn.write.read.findAt(ctx, id, at)
	if err != nil {
		return nil, err
	}
	return t.transcript(ctx, limit)
}

// Messages yields the messages of a moment of a thread, the first first, reading
// them as it goes. An error comes last; code not_found if there is no such thread
// or moment.
func (tn *Tenant) Messages(ctx context.Context, id string, at At) iter.Seq2[*host.Message, error] {
	return func(yield func(*host.Message, error) bool) {
		t, err := tn.write.read.findAt(ctx, id, at)
		if err != nil {
			yield(nil, err)
			return
		}
		for m, err := range t.log().all(ctx) {
			if !yield(m, err) {
				return
			}
		}
	}
}

// Snapshot returns a snapshot of a thread, of one of its branches or of a thread
// that it was forked from. Code not_found if none of them has the snapshot.
func (tn *Tenant) Snapshot(ctx context.Context, id, snapshot string) (*Snapshot, error) {
	t, err := tn.write.read.find(ctx, id)
	if err != nil {
		return nil, err
	}
	snap, content, err := t.turns().ofRun(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	then, err := t.moment(ctx, snap.point(t.rec.Head, content))
	if err != nil {
		return nil, err
	}
	return then.turns().public(snap, then.view.OwnRank(), then.turnList().Len()-1), nil
}

func (t *Moment) transcript(ctx context.Context, limit int) (*Transcript, error) {
	messages, first, err := t.log().last(ctx, limit)
	if err != nil {
		return nil, err
	}
	out := &Transcript{Thread: t.Thread(), First: int(first), Messages: messages, Snapshots: []*Snapshot{}}
	for snap, err := range t.turns().all(ctx, kv.Range{Reverse: true}) {
		if err != nil {
			return nil, err
		}
		if n := len(out.Snapshots); n > 0 && (snap.To <= out.First || n >= limit) {
			break
		}
		out.Snapshots = append(out.Snapshots, snap)
	}
	slices.Reverse(out.Snapshots)
	if out.State, _, err = t.states(ctx); err != nil {
		return nil, err
	}
	out.Artifacts, err = t.turns().artifacts(ctx)
	return out, err
}
