package threads

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/stateblob"
	"github.com/agenthost/agenthost/host/threads/internal/tenantkv"
	"github.com/agenthost/agenthost/host/threads/internal/view"
)

// Moment is a thread at one moment: its record at that time, and the part of the log,
// the turns and the artifacts that belonged to it. A later commit lies behind the
// counts of the record and is not seen.
type Moment struct {
	part     partition
	rec      record
	revision uint64 // of the record; 0 before the first commit
	content  content
	view     view.View
	branch   *branchHead // nil on the thread's main line
	known    knownState  // that this store has written last; maybe not the moment's
}

// open reads a thread's record. A thread that does not exist is nil.
func (p partition) open(ctx context.Context, id string) (*Moment, error) {
	if err := ValidateID(id); err != nil {
		return nil, err
	}
	e, err := p.Get(ctx, threadKey(id))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap(err, "read thread %q", id)
	}
	return p.decodeThread(ctx, id, e)
}

// decodeThread returns the thread whose record is e.
func (p partition) decodeThread(ctx context.Context, id string, e kv.Entry) (*Moment, error) {
	t := &Moment{part: p, revision: e.Revision}
	if err := decode(e.Value, &t.rec, "record of thread", id); err != nil {
		return nil, err
	}
	if t.rec.V > t.rec.layout() {
		return nil, tenantkv.Newer(t.rec.V, "record of thread", id)
	}
	if err := t.rec.setPlace(); err != nil {
		return nil, err
	}
	return t, t.readView(ctx)
}

// find is open, with an unknown thread as an error of code not_found.
func (p partition) find(ctx context.Context, id string) (*Moment, error) {
	t, err := p.open(ctx, id)
	if err == nil && t == nil {
		err = notFound(id)
	}
	return t, err
}

// ContentOf returns the name of a thread's content, which no later thread of the id has; ""
// for a thread that does not exist. It is for data about the thread that is kept elsewhere.
// With the id of an open run of the journal it may be the content with which that run has
// begun, of a thread that was deleted since: that takes no read where this Store has begun
// the run.
func (s *Store) ContentOf(ctx context.Context, tenant, thread, run string) (string, error) {
	part, err := partitionOf(s.driver, tenant)
	if err != nil {
		return "", err
	}
	if content := s.open.contentOf(part.Name, run); content != "" {
		return content, nil
	}
	return part.rootOf(ctx, thread)
}

func (p partition) rootOf(ctx context.Context, thread string) (string, error) {
	t, err := p.open(ctx, thread)
	if err != nil || t == nil {
		return "", err
	}
	return t.rec.root(), nil
}

// findAt is find of a moment of a thread.
func (p partition) findAt(ctx context.Context, id string, at At) (*Moment, error) {
	t, err := p.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.at(ctx, at)
}

// readView sets the content and the view that the record names.
func (t *Moment) readView(ctx context.Context) error {
	t.content, t.view = contentOf(t.rec.Content), view.View{}
	if t.rec.View == 0 {
		return nil
	}
	raw, err := t.contents().get(ctx, t.content.view(t.rec.View))
	if err != nil {
		return err
	}
	if raw == nil {
		return damaged("view %d of thread %q is missing", t.rec.View, t.rec.ID)
	}
	var stored storedView
	if err := decode(raw, &stored, "view of thread", t.rec.ID); err != nil {
		return err
	}
	t.view = stored.View
	if !t.view.Valid() {
		return damaged("view %d of thread %q is damaged", t.rec.View, t.rec.ID)
	}
	return nil
}

// root is the content that keeps the thread's lineage and the index of its runs.
func (t *Moment) root() content { return contentOf(t.rec.root()) }

// contents reads the entries that the moment is made of.
func (t *Moment) contents() contents {
	return contents{part: t.part, thread: t.rec.ID, own: t.content, origins: t.view.Origins, late: t.rec.late()}
}

// messageList says which messages of logs the moment shows.
func (t *Moment) messageList() view.List { return t.view.MessageList(t.rec.Messages) }

// turnList says which turns the moment shows.
func (t *Moment) turnList() view.List { return t.view.TurnList(t.rec.Turns) }

// log reads the messages that the moment shows.
func (t *Moment) log() log { return log{t.contents(), t.messageList()} }

// turns reads the turns that the moment shows.
func (t *Moment) turns() turnLog {
	return turnLog{from: t.contents(), root: t.rec.root(), shown: t.turnList(), messages: t.messageList()}
}

// lineage reads the heads that the thread has left behind.
func (t *Moment) lineage() lineage { return lineage{t.contents(), t.root(), t.rec.Heads} }

// Moment returns a moment of a thread; its methods read that moment, whatever commits
// follow. Entries of the moment may be missing after the thread is deleted or pruned.
// Code not_found if there is no such thread or moment.
func (tn *Tenant) Moment(ctx context.Context, id string, at At) (*Moment, error) {
	return tn.write.read.findAt(ctx, id, at)
}

// Messages yields the messages of the moment, the first first. An error comes last.
func (t *Moment) Messages(ctx context.Context) iter.Seq2[*host.Message, error] {
	return t.log().all(ctx)
}

// Snapshots yields the snapshots of the moment's turns, the first turn first. An error
// comes last.
func (t *Moment) Snapshots(ctx context.Context) iter.Seq2[*Snapshot, error] {
	return t.turns().all(ctx, kv.Range{})
}

// StateRef names the moment's state; nil if it has none.
func (t *Moment) StateRef() *Ref { return t.rec.State }

// State returns the custom state that ref names, and the states of context providers,
// by key. ref is of the moment or of one of its snapshots.
func (t *Moment) State(ctx context.Context, ref *Ref) (custom json.RawMessage, providers map[string]json.RawMessage, err error) {
	blob, err := t.contents().readBlob(ctx, ref, "state")
	if err != nil {
		return nil, nil, err
	}
	return stateblob.Split(blob)
}

// Artifacts returns the artifacts of the moment, as [Tenant.Artifacts] does.
func (t *Moment) Artifacts(ctx context.Context) ([]ArtifactInfo, error) {
	return t.turns().artifacts(ctx)
}

// ArtifactJSON returns the JSON of one of the moment's artifacts.
func (t *Moment) ArtifactJSON(ctx context.Context, info ArtifactInfo) ([]byte, error) {
	return t.contents().readBlob(ctx, &info.Ref, "artifact")
}
