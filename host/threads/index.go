package threads

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// This file serves package search: it writes the index of words, and lists the
// conversations that the entries belong to.

// LateWords returns the entries of a conversation's messages whose words are not in the
// index yet, and the log that the messages are in; empty if there are none.
func (s *Store) LateWords(ctx context.Context, t *Moment) (log string, entries []wordindex.Entry, err error) {
	late := t.rec.late()
	if late == nil || t.branch != nil || s.index == nil {
		return "", nil, nil
	}
	entries, err = late.readWords(ctx, t.part, t.rec.ID, s.index)
	return late.in, entries, err
}

// Lines yields the present conversations that accept turns: of each thread its main
// line first, and then its open branches. With an id it yields those of that thread
// alone. An error comes last; code not_found if there is no such thread.
func (tn *Tenant) Lines(ctx context.Context, thread string) iter.Seq2[*Moment, error] {
	return func(yield func(*Moment, error) bool) {
		for t, err := range tn.write.read.allOrOne(ctx, thread) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(t, nil) {
				return
			}
			for branch, err := range t.openBranches(ctx) {
				if !yield(branch, err) || err != nil {
					return
				}
			}
		}
	}
}

// allOrOne yields the thread of an id, or all threads if it is empty.
func (r threadReader) allOrOne(ctx context.Context, id string) iter.Seq2[*Moment, error] {
	return func(yield func(*Moment, error) bool) {
		if id != "" || r.err != nil {
			yield(r.find(ctx, id))
			return
		}
		for e, err := range r.part.All(ctx, kv.Range{Prefix: threadKeys, Limit: kv.MaxScanLimit}) {
			if err != nil {
				yield(nil, wrap(err, "read threads"))
				return
			}
			rest, _ := e.Key.CutPrefix(threadKeys)
			name, _, _ := rest.CutString()
			t, err := r.part.decodeThread(ctx, name, e)
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// openBranches yields the open branches, which accept turns. A thread with open
// branches owns their contents.
func (t *Moment) openBranches(ctx context.Context) iter.Seq2[*Moment, error] {
	return func(yield func(*Moment, error) bool) {
		if t.rec.Heads == 0 {
			return
		}
		unbranched, err := t.part.IsEmpty(ctx, t.root().owned())
		if err != nil {
			yield(nil, wrap(err, "read branches of thread %q", t.rec.ID))
			return
		}
		if unbranched {
			return
		}
		for h, err := range t.lineage().all(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !h.Own {
				continue
			}
			branch, err := t.moment(ctx, h.Point)
			if err == nil {
				branch.branch = &branchHead{storedHead: h.storedHead, number: h.number, main: t.rec}
			}
			if !yield(branch, err) || err != nil {
				return
			}
		}
	}
}

// Branch returns the name of the branch that the moment is of; empty for the thread's
// main line.
func (t *Moment) Branch() string {
	if t.branch == nil {
		return ""
	}
	return branchID(t.branch.number)
}

// Logs returns the ids of the logs that the moment's messages may lie in: those of the
// threads it was forked from and of its earlier branches, and last its own. A message
// has the same log and position in every thread that shows it.
func (t *Moment) Logs() []string {
	return append(slices.Clone(t.view.Origins), t.rec.Content)
}

// MessageAt returns the message at a position of one of the moment's logs; nil if the
// moment does not show it.
func (t *Moment) MessageAt(ctx context.Context, log string, seq uint64) (*host.Message, error) {
	rank := slices.Index(t.Logs(), log)
	if rank < 0 || !t.messageList().Has(view.Position{Rank: uint64(rank), Seq: seq}) {
		return nil, nil
	}
	e, err := t.log().entryAt(ctx, contentOf(log), seq)
	if err != nil {
		return nil, err
	}
	return e.messages[seq-e.first], nil
}

// Reindex makes the messages of the tenant's threads findable that were stored before
// there was an index, or by a store that keeps none, and returns how many it has read.
// It may run while others write.
func (tn *Tenant) Reindex(ctx context.Context) (messages int, err error) {
	index := wordindex.New()
	shownBy := map[string]*Moment{} // by log
	for t, err := range tn.Lines(ctx, "") {
		if err != nil {
			return 0, err
		}
		for _, log := range t.Logs() {
			shownBy[log] = t
		}
	}
	for _, log := range slices.Sorted(maps.Keys(shownBy)) {
		n, err := shownBy[log].contents().reindex(ctx, index, log)
		if messages += n; err != nil {
			return messages, err
		}
	}
	return messages, nil
}

// reindex removes the index entries of one log and writes them again.
func (c contents) reindex(ctx context.Context, index *wordindex.Index, logID string) (messages int, err error) {
	var tx kv.Tx
	flush := func() error {
		_, err := c.part.Apply(ctx, tx)
		tx.Writes = nil
		return wrap(err, "index thread %q", c.thread)
	}
	if err := c.part.Remove(ctx, wordindex.KeysOf(logID)); err != nil {
		return 0, wrap(err, "index thread %q", c.thread)
	}
	from := contentOf(logID)
	for e, err := range c.part.All(ctx, kv.Range{Prefix: from.log()}) {
		if err != nil {
			return messages, wrap(err, "index thread %q", c.thread)
		}
		entry, err := log{from: c}.decode(ctx, from, e)
		if err != nil {
			return messages, err
		}
		for _, w := range index.Entries(entry.first, entry.messages) {
			tx.Writes = append(tx.Writes, kv.Put(w.Key(logID), w.Value))
		}
		messages += len(entry.messages)
		if len(tx.Writes) == aheadWrites || tx.Size() >= aheadBytes {
			if err := flush(); err != nil {
				return messages, err
			}
		}
	}
	if len(tx.Writes) == 0 {
		return messages, nil
	}
	return messages, flush()
}
