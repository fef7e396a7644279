package threads

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// collect removes from a thread's contents all entries that no head and no
// snapshot shows any more. A content that other contents refer to stays whole.
func (s sweeper) collect(ctx context.Context, t *Moment) error {
	contents := []string{t.rec.root()}
	if t.rec.Content != t.rec.root() {
		contents = append(contents, t.rec.Content)
	}
	for _, id := range contents {
		childless, err := s.part.IsEmpty(ctx, childKeys.With(id))
		if err != nil {
			return err
		}
		if !childless {
			continue
		}
		u := &uses{from: s, t: t, id: id, content: contentOf(id), views: map[uint64]*seenView{}, blobs: map[string]bool{}}
		if err := u.find(ctx); err != nil {
			return err
		}
		if err := u.sweep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// uses marks the needed entries of a content: those that are shown by the present, by
// the heads, or by the snapshot of any turn that these show.
type uses struct {
	from     sweeper
	t        *Moment
	id       string
	content  content
	messages []bool // by position
	turns    []bool
	views    map[uint64]*seenView
	blobs    map[string]bool
}

// seenView is a view whose parts are marked, with the lengths of the logs behind it.
type seenView struct{ messages, turns uint64 }

func (u *uses) find(ctx context.Context) error {
	if err := u.moment(ctx, u.t.rec.point); err != nil {
		return err
	}
	for h, err := range u.t.lineage().all(ctx) {
		if err != nil {
			return err
		}
		if err := u.moment(ctx, h.Point); err != nil {
			return err
		}
	}
	if m := u.t.rec.Marker; m != nil && m.Kept != nil {
		u.blobs[m.Kept.Digest] = true
	}
	return nil
}

// moment marks the entries that a moment needs, if the moment is of this content.
// Moments of other contents do not refer to this one: it has no children.
func (u *uses) moment(ctx context.Context, p point) error {
	if p.Content != u.id {
		return nil
	}
	if p.State != nil {
		u.blobs[p.State.Digest] = true
	}
	seen := u.views[p.View]
	if seen != nil && seen.messages >= p.Messages && seen.turns >= p.Turns {
		return nil
	}
	if seen == nil {
		seen = &seenView{}
		u.views[p.View] = seen
	}
	seen.messages, seen.turns = max(seen.messages, p.Messages), max(seen.turns, p.Turns)
	then, err := u.t.moment(ctx, p)
	if err != nil {
		return err
	}
	own := then.view.OwnRank()
	for _, part := range then.messageList().Parts() {
		if part.At.Rank == own {
			u.messages = noted(u.messages, part)
		}
	}
	for _, part := range slices.Backward(then.turnList().Parts()) { // the last says the most
		if part.At.Rank != own {
			continue
		}
		for n := part.To; n > part.At.Seq; n-- {
			if err := u.turn(ctx, then, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func noted(marks []bool, p view.Part) []bool {
	if n := int(p.To) - len(marks); n > 0 {
		marks = append(marks, make([]bool, n)...)
	}
	for i := p.At.Seq; i < p.To; i++ {
		marks[i] = true
	}
	return marks
}

// turn marks the entries of a turn and those that its snapshot shows.
func (u *uses) turn(ctx context.Context, t *Moment, n uint64) error {
	if has(u.turns, n-1) {
		return nil
	}
	u.turns = noted(u.turns, view.NewPart(view.Position{Rank: 0, Seq: n - 1}, n))
	snap, err := t.turns().at(ctx, u.content, n)
	if err != nil {
		return err
	}
	raw, err := t.contents().get(ctx, u.content.artifactsOf(n))
	if err != nil {
		return err
	}
	if raw != nil {
		u.refersTo(raw)
		put, err := t.contents().manifest(ctx, raw)
		if err != nil {
			return err
		}
		for _, a := range put {
			u.blobs[a.Digest] = true
		}
	}
	return u.moment(ctx, snap.point(t.rec.Head, u.id))
}

// refersTo marks the blob that a value refers to, if the value is a reference.
func (u *uses) refersTo(value []byte) {
	var ref reference
	if len(value) > 1 && value[1] == '{' && kv.DecodeRecord(value, &ref) == nil && ref.Blob != nil {
		u.blobs[ref.Blob.Digest] = true
	}
}

func has(marks []bool, i uint64) bool { return i < uint64(len(marks)) && marks[i] }

// anyOf reports whether any position of [from, to) is marked.
func anyOf(marks []bool, from, to uint64) bool {
	to = min(to, uint64(len(marks)))
	return from < to && slices.Contains(marks[from:to], true)
}

// sweep removes the entries that are not marked.
func (u *uses) sweep(ctx context.Context) error {
	for _, find := range []func(context.Context) ([][]kv.Write, error){u.logs, u.groups} {
		changes, err := find(ctx)
		if err != nil {
			return err
		}
		if err := u.from.replaceIn(ctx, u.t, changes); err != nil {
			return err
		}
	}
	for _, find := range []func(context.Context) ([]kv.Write, error){u.words, u.snapshots, u.unusedViews} {
		writes, err := find(ctx)
		if err != nil {
			return err
		}
		if err := u.from.removeFrom(ctx, u.t, writes); err != nil {
			return err
		}
	}
	return u.removeBlobs(ctx)
}

func (u *uses) all(ctx context.Context, prefix kv.Key, fn func(n uint64, e kv.Entry) error) error {
	for e, err := range u.t.part.All(ctx, kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(prefix)
		n, _, ok := rest.CutUint()
		if !ok {
			continue
		}
		if err := fn(n, e); err != nil {
			return err
		}
	}
	return nil
}

// logs returns the changes that remove messages, after those that remove their own entries
// in the index.
func (u *uses) logs(ctx context.Context) (changes [][]kv.Write, err error) {
	var index []kv.Write
	err = u.all(ctx, u.content.log(), func(_ uint64, e kv.Entry) error {
		s, err := u.t.log().decode(ctx, u.content, e)
		if err != nil {
			return err
		}
		if rest := u.rest(s, e); len(rest) > 0 {
			changes = append(changes, rest)
		}
		for i, m := range s.messages {
			if has(u.messages, s.first+uint64(i)) {
				continue
			}
			lies, err := u.t.log().indexed(ctx, u.content, m.ID)
			if err != nil {
				return err
			}
			at := s.first + uint64(i)
			if !slices.ContainsFunc(lies, func(seq uint64) bool { return seq != at && has(u.messages, seq) }) {
				index = append(index, kv.Delete(u.content.message(m.ID)))
			}
		}
		return nil
	})
	slices.SortFunc(index, func(a, b kv.Write) int { return compareKeys(a.Key, b.Key) })
	index = slices.CompactFunc(index, func(a, b kv.Write) bool { return a.Key == b.Key })
	return append(slices.Collect(slices.Chunk(index, 1)), changes...), err
}

// rest returns the writes that leave of an entry of the log the marked messages. A large
// entry, which is a reference, stays whole.
func (u *uses) rest(s logEntry, e kv.Entry) (writes []kv.Write) {
	marked := func(i int) bool { return has(u.messages, s.first+uint64(i)) }
	n := 0
	for i := range s.messages {
		if marked(i) {
			n++
		}
	}
	switch {
	case n == 0:
		return []kv.Write{kv.Delete(e.Key)}
	case n == len(s.messages) || e.Value[1] != '[':
		u.refersTo(e.Value)
		return nil
	case !marked(0):
		writes = []kv.Write{kv.Delete(e.Key)}
	}
	for i := 0; i < len(s.messages); i++ {
		from := i
		for i < len(s.messages) && marked(i) {
			i++
		}
		if from < i {
			value := chat.AppendMessagesJSON([]byte{formatJSON}, s.messages[from:i])
			writes = append(writes, kv.Put(u.content.logAt(s.first+uint64(from)), value))
		}
	}
	return writes
}

// groups returns the changes that leave of the index of ids the entries of marked messages
// and turns. What stays of a group keeps its place among the groups.
func (u *uses) groups(ctx context.Context) (changes [][]kv.Write, err error) {
	for e, err := range u.t.part.All(ctx, kv.Range{Prefix: u.content.ids(), Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, err
		}
		g, err := u.t.contents().decodeGroup(u.content, e)
		if err != nil {
			return nil, err
		}
		changed := false
		for i := range g.IDs.Len() {
			if g.IDs.At(i) != "" && !has(u.messages, g.From+uint64(i)) {
				g.IDs.Remove(i)
				changed = true
			}
		}
		if g.Turn > 0 && !has(u.turns, g.Turn-1) {
			g.Run, g.Turn, changed = "", 0, true
		}
		if !changed {
			continue
		}
		var change []kv.Write
		first := g.First()
		if u.content.idsFrom(first) != e.Key {
			change = append(change, kv.Delete(e.Key))
		}
		if first != "" {
			entry, err := groupEntry(*g, u.content, first)
			if err != nil {
				return nil, err
			}
			change = append(change, entry)
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func compareKeys(a, b kv.Key) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// words returns the writes that remove the word index of messages.
func (u *uses) words(ctx context.Context) (writes []kv.Write, err error) {
	var last kv.Key
	var from uint64
	until := func(to uint64) {
		if last != "" && !anyOf(u.messages, from, to) {
			writes = append(writes, kv.Delete(last))
		}
	}
	err = u.all(ctx, wordindex.KeysOf(u.id), func(n uint64, e kv.Entry) error {
		until(n)
		last, from = e.Key, n
		return nil
	})
	until(uint64(len(u.messages)))
	return writes, err
}

// snapshots returns the writes that remove turns: their snapshots, the index of
// their runs and their lists of artifacts.
func (u *uses) snapshots(ctx context.Context) (writes []kv.Write, err error) {
	err = u.all(ctx, u.content.turns(), func(n uint64, e kv.Entry) error {
		if has(u.turns, n-1) {
			return nil
		}
		snap, err := u.t.turns().decode(e.Value)
		if err != nil {
			return err
		}
		writes = append(writes, kv.Delete(e.Key), kv.Delete(u.content.run(snap.ID)), kv.Delete(u.content.artifactsOf(n)))
		if root := u.t.root(); root != u.content {
			writes = append(writes, kv.Delete(root.run(snap.ID)))
		}
		return nil
	})
	return writes, err
}

// unusedViews returns the writes that remove views. One view stays in any case: it
// names the contents that this content refers to.
func (u *uses) unusedViews(ctx context.Context) (writes []kv.Write, err error) {
	first := true
	err = u.all(ctx, u.content.views(), func(n uint64, e kv.Entry) error {
		if u.views[n] == nil && !first {
			writes = append(writes, kv.Delete(e.Key))
		}
		first = false
		return nil
	})
	return writes, err
}

// removeBlobs removes states, artifacts and large messages. A blob's header goes
// first: one that is stored again is written whole.
func (u *uses) removeBlobs(ctx context.Context) error {
	prefix := u.content.all().With("blob")
	var headers, chunks []kv.Write
	for e, err := range u.t.part.All(ctx, kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(prefix)
		digest, _, _ := rest.CutString()
		if u.blobs[digest] {
			continue
		}
		var header blobHeader
		if err := decode(e.Value, &header, "blob of thread", u.t.rec.ID); err != nil {
			return err
		}
		headers = append(headers, kv.Delete(e.Key))
		for i := 0; i*ChunkBytes < header.Size; i++ {
			chunks = append(chunks, kv.Delete(u.content.chunk(digest, i)))
		}
	}
	if err := u.from.removeFrom(ctx, u.t, headers); err != nil {
		return err
	}
	return u.from.removeFrom(ctx, u.t, chunks)
}
