package threads

import (
	"cmp"
	"context"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/idgroup"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// indexer makes the entries of a draft in the indexes of ids and of words.
type indexer struct {
	dictionary *wordindex.Index // nil if words are not indexed
	before     *record          // as of before the commit
	thread     *Moment
	tx         *txBuilder

	group idgroup.Group // the draft's messages, and its run
	words []wordindex.Entry
	last  string // the greatest ordered id of them
	waits bool   // the entries may wait for the next commit
	// hidden says where the log has messages, by id, that do not show any more.
	hidden map[string][]uint64
}

// lastID returns the bound that the draft's ordered ids must be above.
func (x *indexer) lastID() string {
	if x.before.IDs == nil {
		return ""
	}
	return x.before.IDs.bound
}

// groups reports whether the draft can index an id of a message or run in a group. A
// branch keeps no bound.
func (x *indexer) groups(id string) bool {
	return x.thread.branch == nil && idgroup.IsOrdered(id) && id > x.lastID()
}

// groupsRun is groups of a run. The index of runs is the thread's, and groups are the
// content's.
func (x *indexer) groupsRun(run string) bool {
	if x.thread.rec.root() != x.thread.rec.Content || x.thread.branch != nil {
		return false
	}
	late := x.before.late()
	return late != nil && string(late.Run) == run || x.groups(run)
}

// isWhole reports whether no ordered id of the content is above the bound.
func (x *indexer) isWhole() bool {
	if x.before.IDs == nil {
		return x.before.Messages+x.before.Turns == 0 && x.thread.view.OwnRank() == 0
	}
	return !x.before.IDs.Older
}

// isNew reports whether the thread certainly has no message of an id.
func (x *indexer) isNew(id string) bool { return x.isWhole() && x.groups(id) }

// isNewRun is isNew of a run. The index of runs has those of branches, too, which the bound
// does not know of.
func (x *indexer) isNewRun(run string) bool {
	return x.before.Heads == 0 && x.isWhole() && x.groupsRun(run)
}

// mayBeGrouped reports whether an id may be in a group, of which no condition can say that
// it has no such id.
func (x *indexer) mayBeGrouped(id string) bool { return idgroup.IsOrdered(id) && id <= x.lastID() }

// take records an id that the draft indexes in one way or the other.
func (x *indexer) take(id string) {
	if idgroup.IsOrdered(id) {
		x.last = max(x.last, id)
	}
}

// addWords makes the entries of the words of new messages. Entries for which there is no
// room in the commit are left out, so their messages are not found: that takes more than
// a megabyte of one turn.
func (x *indexer) addWords(seq uint64, messages []*host.Message) {
	if x.dictionary == nil {
		return
	}
	x.words = slices.DeleteFunc(x.dictionary.Entries(seq, messages), func(e wordindex.Entry) bool { return !x.tx.takeRoom(len(e.Value)) })
}

// addMessages puts messages that come to the log from position first on into the
// draft's group, and returns the entries of those that need one of their own.
func (x *indexer) addMessages(first uint64, messages []*host.Message) (single []kv.Write, err error) {
	ids := make(idgroup.List, 0, idgroup.IDBytes*len(messages))
	for i, m := range messages {
		x.take(m.ID)
		if len(messages) <= maxTurnEntries && x.groups(m.ID) {
			ids = ids.Append(m.ID)
			continue
		}
		ids = ids.Append("")
		seq, err := x.indexEntry(m.ID, first+uint64(i))
		if err != nil {
			return nil, err
		}
		single = append(single, kv.Put(x.thread.content.message(m.ID), seq))
	}
	if len(messages) <= maxTurnEntries {
		x.group.From, x.group.IDs = first, ids
	}
	return single, nil
}

// indexEntry returns the entry of a message that is stored at a position: that, beside the
// positions of its id that no longer show.
func (x *indexer) indexEntry(id string, at uint64) ([]byte, error) {
	if lies := x.hidden[id]; len(lies) > 0 {
		return encode(append(lies, at))
	}
	return encode(at)
}

// addTurn indexes the draft's last turn by its run.
func (x *indexer) addTurn(run string) error {
	x.take(run)
	if x.group.Run == "" && x.groupsRun(run) {
		x.group.Run, x.group.Turn = idgroup.ID(run), x.thread.rec.Turns
		return nil
	}
	n, err := encode(x.thread.rec.Turns)
	if err != nil {
		return err
	}
	x.tx.put(x.thread.content.run(run), n)
	if x.thread.rec.root() == x.thread.rec.Content {
		return nil
	}
	elsewhere, err := encode(runElsewhere{Content: x.thread.rec.Content})
	if err != nil {
		return err
	}
	x.tx.put(x.thread.root().run(run), elsewhere)
	return nil
}

// waitForTurn lets the entries of the message that begins a run's turn wait for the turn.
func (x *indexer) waitForTurn(run string) {
	if x.thread.branch != nil || x.before.late() != nil || len(x.words) > 1 {
		return
	}
	if x.groupsRun(run) {
		x.group.Run = idgroup.ID(run)
		x.take(run)
	}
	x.waits = x.last != ""
}

// put adds to the draft the entries of its messages and its run, and those that have
// waited, or lets them wait.
func (x *indexer) put(ctx context.Context) error {
	if x.thread.branch != nil {
		return x.putWith(ctx, nil)
	}
	late, bound := x.before.late(), max(x.lastID(), x.last)
	moved := x.thread.rec.Content != x.before.Content // it may go back to a branch, which keeps no bound
	if late != nil || x.last != "" || moved && x.before.IDs != nil {
		x.thread.rec.IDs = &idState{Last: idgroup.ID(bound), bound: bound, Older: !x.isWhole() || moved}
	}
	if !x.waits {
		return x.putWith(ctx, late)
	}
	late = &lateIndex{IDs: x.group.IDs, Run: x.group.Run, in: x.thread.rec.Content, from: x.group.From}
	if len(x.words) > 0 {
		late.words = x.words[0].Value
	}
	x.thread.rec.IDs.Late = late
	if x.group.Last() == x.last {
		x.thread.rec.IDs.Last = idgroup.ID(x.lastID())
	}
	return nil
}

// putWith adds to the draft the entries of messages that have waited, if there are any,
// and of the draft's messages behind them.
func (x *indexer) putWith(ctx context.Context, late *lateIndex) error {
	in, group, key, words := x.thread.rec.Content, x.group, x.group.First(), x.words
	if late != nil {
		waited, err := x.wordsOf(ctx, late)
		if err != nil {
			return err
		}
		in, key = late.in, cmp.Or(late.group().First(), key)
		group.From, group.IDs = late.from, slices.Concat(late.IDs, group.IDs)
		words = joinWords(waited, late.from+uint64(late.IDs.Len()), words)
	}
	for _, w := range words {
		x.tx.put(w.Key(in), w.Value)
	}
	if key == "" || group.Turn == 0 && group.IDs.IsZero() {
		return nil
	}
	entry, err := groupEntry(group, contentOf(in), key)
	x.tx.add(entry)
	return err
}

// wordsOf returns the entries of the word index of messages that have waited.
func (x *indexer) wordsOf(ctx context.Context, late *lateIndex) ([]wordindex.Entry, error) {
	switch {
	case x.dictionary == nil:
		return nil, nil
	case late.words != nil:
		return []wordindex.Entry{{First: late.from, Value: late.words}}, nil
	default:
		return late.readWords(ctx, x.thread.part, x.thread.rec.ID, x.dictionary)
	}
}

// joinWords returns entries of the word index and those that come next, which begin at a
// position: as one entry where they meet.
func joinWords(words []wordindex.Entry, end uint64, next []wordindex.Entry) []wordindex.Entry {
	if len(words) == 1 && len(next) > 0 && next[0].First == end {
		next[0] = wordindex.Entry{First: words[0].First, Value: wordindex.Join(words[0].Value, next[0].Value)}
		return next
	}
	return append(words, next...)
}
