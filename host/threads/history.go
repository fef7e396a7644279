package threads

import (
	"cmp"
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
)

// A Store has every ability of a history adapter.
var (
	_ host.ThreadCreator       = (*Store)(nil)
	_ host.ThreadOpener        = (*Store)(nil)
	_ host.UserMessageAppender = (*Store)(nil)
	_ host.HistoryLoader       = (*Store)(nil)
	_ host.ResultAppender      = (*Store)(nil)
	_ host.RoundAppender       = (*Store)(nil)
	_ host.HeadReader          = (*Store)(nil)
	_ host.ThreadLocker        = (*Store)(nil)
	_ host.ArtifactLister      = (*Store)(nil)
	_ host.TurnReader          = (*Store)(nil)
	_ host.Regenerator         = (*Store)(nil)
	_ host.Brancher            = (*Store)(nil)
)

// CreateThread implements [host.ThreadCreator]: a thread without an id gets a
// fresh one.
func (s *Store) CreateThread(ctx context.Context, req *host.HistoryRequest) (id string, created bool, err error) {
	t, created, err := s.For(req.Tenant).Create(ctx, &CreateOptions{ID: req.Thread})
	if err != nil {
		return "", false, err
	}
	return t.ID, created, nil
}

// AppendUserMessage implements [host.UserMessageAppender]. A missing thread is
// created; the first message with text gives it its title. A message whose id
// the thread has is not stored again, and the head stays; code conflict if the
// stored message has another content.
func (s *Store) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (head string, err error) {
	opened, err := s.writer(req.Tenant).appendInput(ctx, req, req.Thread, nil)
	return opened.Head, err
}

// OpenThread implements [host.ThreadOpener]: it is [Store.AppendUserMessage], and says
// whether the thread is new. A thread without an id gets a fresh one.
func (s *Store) OpenThread(ctx context.Context, req *host.HistoryRequest) (host.OpenedThread, error) {
	w := s.writer(req.Tenant)
	if req.Thread != "" || req.Branch != "" || w.read.err != nil {
		return w.appendInput(ctx, req, cmp.Or(req.Thread, host.NewID()), nil)
	}
	t := w.newThread(host.NewID()) // no other has that id, so that there is nothing to read
	return w.appendInput(ctx, req, t.rec.ID, t)
}

// appendInput stores the user's message of a turn in the thread of that id. A new thread
// and its first message are one commit. t is the thread as far as the caller knows it, or nil.
func (w threadWriter) appendInput(ctx context.Context, req *host.HistoryRequest, id string, t *Moment) (host.OpenedThread, error) {
	if req.Input == nil {
		return host.OpenedThread{}, host.Errorf(host.InvalidArgument, "append to thread %q: there is no message", req.Thread)
	}
	created := false
	if t == nil {
		t = w.remembered(id, req.Branch)
	}
	t, err := w.commitFrom(ctx, t, id, req.Branch, "append to thread", func(d *draft) error {
		created = d.thread.revision == 0
		if n, err := d.append(ctx, []*host.Message{req.Input}); err != nil {
			return err
		} else if n == 0 {
			return cmp.Or(d.thread.log().saysTheSame(ctx, req.Input), errNothing)
		}
		if d.thread.rec.Title == "" {
			d.thread.rec.Title = titleOf(req.Input)
		}
		d.moveHead()
		d.begins(req)
		d.index.waitForTurn(req.Run)
		return nil
	})
	if err != nil {
		return host.OpenedThread{}, err
	}
	w.store.locks.turns.Wrote(lockKey(t.part.Name, id, req.Branch), t.rec.Head)
	return host.OpenedThread{Thread: id, Created: created, Head: t.rec.Head}, nil
}

// saysTheSame refuses a message whose id belongs to a stored message with
// another content: the turn would answer a message that is not in the thread.
func (l log) saysTheSame(ctx context.Context, m *host.Message) error {
	near, i, err := l.around(ctx, m.ID)
	if err != nil {
		return err
	}
	if near[i].SameContent(m) {
		return nil
	}
	return saysOther(l.from.thread, m.ID)
}

func saysOther(thread, message string) error {
	return host.Errorf(host.Conflict, "thread %q has a message %q that says something else", thread, message).
		WithHint("leave the id out for a fresh one, or edit the message")
}

// begins records the thread's present point before the first commit of the turn
// that holds it: a later branch begins at that point.
func (d *draft) begins(req *host.HistoryRequest) {
	d.by.store.locks.turns.Began(lockKey(d.thread.part.Name, d.thread.rec.ID, req.Branch), req.Run, d.before.point)
}

// Get implements [host.HistoryLoader]: the last messages of the thread, at most
// Options.Window of them, with the message just stored, and the thread's state. The
// window separates no call from its results. In a reduced thread ([Tenant.Reduce]) the
// replacement of the earlier messages comes first. An unknown thread is empty. The slice
// is the caller's; its messages are shared with later calls, and must not be changed.
func (s *Store) Get(ctx context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	drops := s.windows.countDrops()
	read := readerOf(s.driver, req.Tenant)
	t := s.windows.recordOfTurn(&s.locks.turns, lockKey(read.part.Name, req.Thread, req.Branch), req.Run)
	var err error
	if t == nil {
		if t, err = read.openOn(ctx, req.Thread, req.Branch); err != nil {
			return nil, err
		}
	}
	if t == nil {
		return &host.Loaded{}, nil
	}
	loaded := &host.Loaded{Head: t.rec.Head, Thread: t.rec.ID}
	if req.Tenant != "" {
		loaded.Tenant = t.part.Name
	}
	if loaded.Messages, err = s.windows.load(ctx, t, s.window, drops); err != nil {
		return nil, err
	}
	loaded.State, loaded.Providers, err = t.states(ctx)
	return loaded, err
}

// ThreadHead implements [host.HeadReader]; an unknown thread has none.
func (s *Store) ThreadHead(ctx context.Context, req *host.HistoryRequest) (string, error) {
	t, err := readerOf(s.driver, req.Tenant).openOn(ctx, req.Thread, req.Branch)
	if err != nil || t == nil {
		return "", err
	}
	return t.rec.Head, nil
}

// AppendResults implements [host.ResultAppender]: messages, state, artifacts, a
// snapshot and the thread's head are one commit, of a failed turn too. At most 16 of
// turn.Entries, of at most 16 kB each, are in the same commit; their Store is the driver
// that was given to [New]. A turn without
// state leaves the thread's state unchanged. A run that was committed before is not
// committed again: the same turn is not an error, another one, by the ids of its
// messages, is code already_exists. Code conflict if turn.Head is not the thread's
// head: then nothing is stored of the turn and nothing is lost of the thread. An empty
// turn.Head says that the turn answers no particular state of the thread, and is no
// guard.
func (s *Store) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	if err := chat.ValidateID("run", req.Run, MaxMessageIDBytes); err != nil {
		return err
	}
	var entries []host.TurnEntry
	_, err := s.writer(req.Tenant).commitOn(ctx, req.Thread, req.Branch, "append a turn to thread", func(d *draft) error {
		entries = nil
		if err := d.turn(ctx, req, turn); err != nil {
			return err
		}
		entries = d.putEntries(turn.Entries)
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range entries {
		e.Stored()
	}
	return nil
}

// putEntries adds the entries that belong to the store of the threads and that have room
// in the commit of a turn, and returns them.
func (d *draft) putEntries(entries []host.TurnEntry) (put []host.TurnEntry) {
	for _, e := range entries {
		if len(put) < maxTurnEntriesOfOthers && len(e.Value) <= maxEntryOfOthersBytes && e.Store == any(kv.Unchecked(d.thread.part.Driver)) {
			d.tx.put(kv.Key(e.Key), e.Value)
			put = append(put, e)
		}
	}
	return put
}

// AppendRound implements [host.RoundAppender]: the messages that the thread does
// not have are one commit, which leaves no snapshot. Code conflict if round.Head
// is not the thread's head and there is something to store.
func (s *Store) AppendRound(ctx context.Context, req *host.HistoryRequest, round *host.Round) (head string, err error) {
	t, err := s.writer(req.Tenant).commitOn(ctx, req.Thread, req.Branch, "append a round to thread", func(d *draft) error {
		stale := round.Head != "" && round.Head != d.thread.rec.Head
		d.careful = d.careful || stale
		switch n, err := d.append(ctx, round.Messages); {
		case err != nil:
			return err
		case n == 0:
			return errNothing
		case stale:
			return moved(req.Thread)
		}
		d.moveHead()
		return nil
	})
	if err != nil {
		return "", err
	}
	return t.rec.Head, nil
}
