package transfer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/stateblob"
)

// The turns of an import, with their states, artifacts and uploads.

func (im *importer) snapshot(ctx context.Context, snap *threads.Snapshot, state json.RawMessage) error {
	if err := im.flush(ctx); err != nil {
		return err
	}
	known := *snap
	snap = &known
	if !im.runs[snap.Parent] { // it is of a branch that does not come along
		snap.Parent = ""
	}
	snap.Status = cmp.Or(snap.Status, threads.Completed)
	if err := im.checkTurn(snap, state); err != nil {
		return err
	}
	at := im.turns
	im.turns++
	turn := threads.RestoredTurn{Snapshot: snap, State: state}
	if snap.State != nil {
		turn.SameState = state == nil && snap.State.Digest == im.stateOf
		if state == nil && !turn.SameState {
			return host.Errorf(host.InvalidArgument, "import thread %q: the state of turn %d is missing", im.id, at+1)
		}
		im.stateOf = snap.State.Digest
	}
	if have, err, ok := im.storedTurns(); err != nil {
		return err
	} else if ok {
		if have.ID != snap.ID {
			return im.others("it has another turn %d than what is read", at+1)
		}
		return nil
	}
	im.turnBatch = append(im.turnBatch, turn)
	im.batchBytes += len(state)
	if len(im.turnBatch) < importBatch && im.batchBytes < importBytes {
		return nil
	}
	return im.flushTurns(ctx)
}

func (im *importer) checkTurn(snap *threads.Snapshot, state json.RawMessage) error {
	if err := chat.ValidateID("run", snap.ID, threads.MaxMessageIDBytes); err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return host.Errorf(host.InvalidArgument, "import thread %q: turn %q "+format, append([]any{im.id, snap.ID}, args...)...)
	}
	switch {
	case im.runs[snap.ID]:
		return wrong("is given twice")
	case snap.From < 0 || snap.To < snap.From || snap.To > im.messages:
		return wrong("has the messages %d to %d of %d", snap.From, snap.To, im.messages)
	case snap.To < im.lastTo:
		return wrong("ends at message %d, before the turn in front of it, which ends at %d", snap.To, im.lastTo)
	case !snap.Status.Valid():
		return wrong("has the status %.40q", string(snap.Status))
	}
	if state != nil {
		if err := im.checkState("state of turn "+snap.ID, state); err != nil {
			return err
		}
	}
	im.runs[snap.ID], im.lastTo = true, snap.To
	return nil
}

// stateNow takes the thread's present state, with that of its providers.
func (im *importer) stateNow(state json.RawMessage, providers map[string]json.RawMessage) (err error) {
	if im.state, err = stateblob.Normalize(state, providers); err != nil || im.state == nil {
		return err
	}
	return im.checkState("state", im.state)
}

// checkState refuses a state that no run could begin with.
func (im *importer) checkState(what string, raw json.RawMessage) error {
	state, providers, err := stateblob.Split(raw)
	if err == nil {
		var doc *host.Document
		if doc, err = host.ReadDocument(state); err == nil && !doc.IsObject() {
			err = errors.New("it is not an object")
		}
	}
	for _, p := range providers {
		if err == nil && len(p) > host.MaxProviderStateBytes {
			err = errors.New("a context provider keeps too much")
		}
	}
	if err != nil {
		return host.Errorf(host.InvalidArgument, "import thread %q: %.200s: %v", im.id, what, err)
	}
	return nil
}

// flushTurns stores the snapshots that were read and are not stored.
func (im *importer) flushTurns(ctx context.Context) error {
	if len(im.turnBatch) == 0 {
		return nil
	}
	if err := im.to.AppendTurns(ctx, im.turnBatch); err != nil {
		return err
	}
	im.out.Turns += len(im.turnBatch)
	im.turnBatch, im.batchBytes = nil, 0
	return nil
}

// artifact stores an artifact's content; it belongs to the thread when finish
// says so.
func (im *importer) artifact(ctx context.Context, a *host.Artifact) error {
	if err := im.flushAll(ctx); err != nil {
		return err
	}
	if len(im.artifacts) == maxImportArtifacts {
		return host.Errorf(host.ResourceExhausted, "import thread %q: there are more than %d artifacts", im.id, maxImportArtifacts)
	}
	info, err := threads.InfoOf(a)
	if err != nil {
		return err
	}
	im.artifacts = append(im.artifacts, info)
	if !im.endsHere() {
		return nil
	}
	return im.to.PutArtifact(ctx, a)
}

// upload stores an upload, if its content has its digest.
func (im *importer) upload(ctx context.Context, u *Upload) error {
	if err := im.finish(ctx); err != nil || !im.endsHere() {
		return err
	}
	ref, err := im.tenant.Upload(ctx, im.id, u.Content, 0)
	if err != nil {
		return err
	}
	if ref.Digest != u.Digest {
		return host.Errorf(host.InvalidArgument, "import thread %q: upload %.80q is not what its digest says", im.id, u.Digest)
	}
	return nil
}
