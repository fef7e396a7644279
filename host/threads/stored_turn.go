package threads

import (
	"context"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// ReadTurn implements [host.TurnReader]: the completed turn that answered a message,
// by its id, as the thread or the branch shows it. It takes one read of a thread
// that does not have the message, and as many as the logarithm of its turns of one
// that has.
func (s *Store) ReadTurn(ctx context.Context, req *host.HistoryRequest) (*host.StoredTurn, error) {
	if req.Input == nil {
		return nil, nil
	}
	t, err := readerOf(s.driver, req.Tenant).openOn(ctx, req.Thread, req.Branch)
	if err != nil || t == nil {
		return nil, err
	}
	at, found, err := t.log().position(ctx, req.Input.ID)
	if err != nil || !found {
		return nil, err
	}
	span, err := t.log().entryAt(ctx, t.contents().at(at.Rank), at.Seq)
	if err != nil {
		return nil, err
	}
	if !span.messages[at.Seq-span.first].SameContent(req.Input) {
		return nil, saysOther(req.Thread, req.Input.ID)
	}
	snap, lies, err := t.turns().answerTo(ctx, req, t.messageList().IndexOf(at))
	if err != nil || snap == nil {
		return nil, err
	}
	return t.storedTurn(ctx, snap, lies)
}

// answerTo returns the turn that answered message number n of the thread, as
// turnLog.public returns it, and its position; nil if no turn answered. Turns without
// an input answer the message before them again.
func (l turnLog) answerTo(ctx context.Context, req *host.HistoryRequest, n uint64) (*Snapshot, view.Position, error) {
	turns := l.shown
	number := turns.Len()
	read := func(i uint64) (*Snapshot, view.Position, error) {
		p := turns.At(i)
		snap, err := l.at(ctx, l.from.at(p.At.Rank), p.At.Seq+1)
		if err != nil {
			return nil, view.Position{}, err
		}
		return l.public(snap, p.At.Rank, i), p.At, nil
	}
	first, err := searchFirst(number, func(i uint64) (bool, error) {
		snap, _, err := read(i)
		return err == nil && uint64(snap.To) > n, err
	})
	if err != nil {
		return nil, view.Position{}, err
	}
	for i := first; i < number; i++ {
		snap, lies, err := read(i)
		if err != nil {
			return nil, view.Position{}, err
		}
		if snap.Input != "" && snap.Input != req.Input.ID {
			break
		}
		if snap.Status == Completed && snap.Network == req.Network && len(snap.Results) > 0 {
			return snap, lies, nil
		}
	}
	return nil, view.Position{}, nil
}

// storedTurn reads a turn from its snapshot. It is nil if the thread does not show all
// of its messages any more.
func (t *Moment) storedTurn(ctx context.Context, snap *Snapshot, lies view.Position) (*host.StoredTurn, error) {
	said := 0
	for _, r := range snap.Results {
		said += r.Messages
	}
	if snap.To-snap.From != said {
		return nil, nil
	}
	var messages []*host.Message
	for _, p := range t.messageList().Slice(uint64(snap.From), uint64(snap.To)) {
		for m, err := range t.log().read(ctx, p) {
			if err != nil {
				return nil, err
			}
			messages = append(messages, m)
		}
	}
	if len(messages) != said {
		return nil, damaged("turn %q of thread %q has %d messages, and %d are there", snap.ID, t.rec.ID, said, len(messages))
	}
	out := &host.StoredTurn{Run: snap.ID, Status: snap.FinishReason}
	for i, r := range snap.Results {
		out.Results = append(out.Results, &host.Result{
			ID: fmt.Sprintf("%s/%d", snap.ID, i), Agent: r.Agent, Messages: slices.Clone(messages[:r.Messages]),
			FinishReason: r.FinishReason, Rounds: r.Rounds, Usage: r.Usage, CreatedAt: r.CreatedAt,
		})
		messages = messages[r.Messages:]
	}
	then := *t
	then.rec.State = snap.State
	var err error
	if out.State, _, err = then.states(ctx); err != nil || snap.Artifacts == 0 {
		return out, err
	}
	value, err := t.contents().get(ctx, t.contents().at(lies.Rank).artifactsOf(lies.Seq+1))
	if err != nil {
		return nil, err
	}
	list, err := t.contents().manifest(ctx, value)
	if err != nil {
		return nil, err
	}
	for _, info := range list {
		a, err := t.contents().artifact(ctx, info)
		if err != nil {
			return nil, err
		}
		out.Artifacts = append(out.Artifacts, *a)
	}
	return out, nil
}
