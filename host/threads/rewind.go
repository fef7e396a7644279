package threads

import (
	"context"
	"sort"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// numbered is a message with its number in the conversation.
type numbered struct {
	*host.Message
	number uint64
}

// around reads a message that the thread shows with those near enough to belong
// to it, and returns its place among them. Code not_found if it shows none.
func (l log) around(ctx context.Context, id string) (near []numbered, i int, err error) {
	if err := chat.ValidateID("message", id, MaxMessageIDBytes); err != nil {
		return nil, 0, err
	}
	at, found, err := l.position(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if !found {
		return nil, 0, host.Errorf(host.NotFound, "thread %q has no message %q", l.from.thread, id)
	}
	shown := l.shown
	number := shown.IndexOf(at)
	first := number - min(number, maxPairSpan)
	for _, p := range shown.Slice(first, min(number+maxPairSpan+1, shown.Len())) {
		for m, err := range l.read(ctx, p) {
			if err != nil {
				return nil, 0, err
			}
			near = append(near, numbered{m, first + uint64(len(near))})
		}
	}
	return near, int(number - first), nil
}

// pairs returns, of each tool result, where its call is and where the result is.
func pairs(messages []numbered) [][2]int {
	var out [][2]int
	calls := map[string]int{}
	for i, m := range messages {
		for _, c := range m.ToolCalls() {
			calls[c.ID] = i
		}
		for _, r := range m.ToolResults() {
			if call, ok := calls[r.ID]; ok && call < i {
				out = append(out, [2]int{call, i})
			}
		}
	}
	return out
}

// afterPairs returns the first number from i on before which the messages can be
// cut without separating a call from its result.
func afterPairs(messages []numbered, i int) int {
	for again := true; again; {
		again = false
		for _, p := range pairs(messages) {
			if p[0] < i && i <= p[1] {
				i, again = p[1]+1, true
			}
		}
	}
	return i
}

// beforePairs is afterPairs in the other direction.
func beforePairs(messages []numbered, i int) int {
	for again := true; again; {
		again = false
		for _, p := range pairs(messages) {
			if p[0] < i && i <= p[1] {
				i, again = p[0], true
			}
		}
	}
	return i
}

// together returns which messages go with message i: calls and their results.
func together(messages []numbered, i int) []uint64 {
	with := make([]bool, len(messages))
	with[i] = true
	all := pairs(messages)
	for again := true; again; {
		again = false
		for _, p := range all {
			if with[p[0]] != with[p[1]] {
				with[p[0]], with[p[1]], again = true, true, true
			}
		}
	}
	var out []uint64
	for i, m := range messages {
		if with[i] {
			out = append(out, m.number)
		}
	}
	return out
}

// atMessage returns the moment of the thread at which a message was its last one; with
// before, the moment ahead of the message.
func (t *Moment) atMessage(ctx context.Context, id string, before bool) (*Moment, error) {
	near, i, err := t.log().around(ctx, id)
	if err != nil {
		return nil, err
	}
	end := afterPairs(near, i+1)
	if before {
		end = beforePairs(near, i)
	}
	if end == len(near) {
		return t.upTo(ctx, near[end-1].number+1)
	}
	return t.upTo(ctx, near[end].number)
}

// upTo returns the moment of the thread that has its first n messages and the
// turns that ended by then.
func (t *Moment) upTo(ctx context.Context, n uint64) (*Moment, error) {
	shown := t.messageList()
	if n >= shown.Len() {
		return t, nil
	}
	turns, err := t.turns().endedBefore(ctx, shown.At(n).Stands)
	if err != nil {
		return nil, err
	}
	out := *t
	out.view.Messages, out.view.Tail = shown.Slice(0, n), t.rec.Messages
	out.view.Turns, out.view.TurnTail = turns, t.rec.Turns
	out.count()
	p := &out.rec.point
	p.State, p.Last, p.Status = nil, "", ""
	if len(turns) > 0 {
		last := turns[len(turns)-1]
		snap, err := t.turns().at(ctx, t.contents().at(last.At.Rank), last.To)
		if err != nil {
			return nil, err
		}
		p.State, p.Last, p.Status = snap.State, snap.ID, snap.Status
	}
	return &out, nil
}

// endedBefore returns the turns that had ended before a position.
func (l turnLog) endedBefore(ctx context.Context, end view.Position) ([]view.Part, error) {
	shown := l.shown
	n, err := searchFirst(shown.Len(), func(i uint64) (bool, error) {
		turn := shown.At(i)
		if turn.At.Rank != end.Rank {
			return turn.At.Rank > end.Rank, nil
		}
		snap, err := l.at(ctx, l.from.at(turn.At.Rank), turn.To)
		if err != nil {
			return false, err
		}
		return uint64(snap.To) > end.Seq, nil
	})
	return shown.Slice(0, n), err
}

// searchFirst returns the smallest i in [0, n) for which found is true, or n. found
// must be true for every number after that, as with [sort.Search]; its first error
// ends the search.
func searchFirst(n uint64, found func(i uint64) (bool, error)) (uint64, error) {
	var failed error
	i := sort.Search(int(n), func(i int) bool {
		if failed != nil {
			return true
		}
		ok, err := found(uint64(i))
		failed = err
		return ok
	})
	return uint64(i), failed
}
