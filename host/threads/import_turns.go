package threads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/agenthost/agenthost/host"
)

// The turns of an import, with their states and what belongs to their snapshots.

type importedTurn struct {
	snap  *Snapshot
	state json.RawMessage
	same  bool // the state is the one of the turn before
}

func (im *importer) snapshot(ctx context.Context, snap *Snapshot, state json.RawMessage) error {
	if err := im.flush(ctx); err != nil {
		return err
	}
	known := *snap
	snap = &known
	if !im.runs[snap.Parent] { // it is of a branch that does not come along
		snap.Parent = ""
	}
	snap.Status = cmp.Or(snap.Status, Completed)
	if err := im.checkTurn(snap, state); err != nil {
		return err
	}
	at := im.turns
	im.turns++
	turn := importedTurn{snap: snap, state: state}
	if snap.State != nil {
		turn.same = state == nil && snap.State.Digest == im.stateOf
		if state == nil && !turn.same {
			return host.Errorf(host.InvalidArgument, "import thread %q: the state of turn %d is missing", im.t.rec.ID, at+1)
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
	im.snaps = append(im.snaps, turn)
	im.batchBytes += len(state)
	if len(im.snaps) < importBatch && im.batchBytes < importBytes {
		return nil
	}
	return im.flushTurns(ctx)
}

func (im *importer) checkTurn(snap *Snapshot, state json.RawMessage) error {
	if err := host.ValidateID("run", snap.ID, MaxMessageIDBytes); err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return host.Errorf(host.InvalidArgument, "import thread %q: turn %q "+format, append([]any{im.t.rec.ID, snap.ID}, args...)...)
	}
	switch {
	case im.runs[snap.ID]:
		return wrong("is given twice")
	case snap.From < 0 || snap.To < snap.From || snap.To > im.messages:
		return wrong("has the messages %d to %d of %d", snap.From, snap.To, im.messages)
	case snap.To < im.to:
		return wrong("ends at message %d, before the turn in front of it, which ends at %d", snap.To, im.to)
	case !snap.Status.valid():
		return wrong("has the status %.40q", string(snap.Status))
	}
	if state != nil {
		if err := im.checkState("state of turn "+snap.ID, state); err != nil {
			return err
		}
	}
	im.runs[snap.ID], im.to = true, snap.To
	return nil
}

// stateNow takes what the thread's state is now, with that of its providers.
func (im *importer) stateNow(state json.RawMessage, providers map[string]json.RawMessage) (err error) {
	if im.state, err = wholeState(state, providers); err != nil || im.state == nil {
		return err
	}
	return im.checkState("state", im.state)
}

// checkState refuses a state that no run could begin with.
func (im *importer) checkState(what string, raw json.RawMessage) error {
	state, providers, err := splitState(raw)
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
		return host.Errorf(host.InvalidArgument, "import thread %q: %.200s: %v", im.t.rec.ID, what, err)
	}
	return nil
}

// flushTurns stores the snapshots that were read and are not stored.
func (im *importer) flushTurns(ctx context.Context) error {
	if len(im.snaps) == 0 {
		return nil
	}
	err := im.commit(ctx, func(d *draft) error {
		for _, turn := range im.snaps {
			if err := im.putTurn(ctx, d, turn); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	im.out.Turns += len(im.snaps)
	im.snaps, im.batchBytes = nil, 0
	return nil
}

func (im *importer) putTurn(ctx context.Context, d *draft, turn importedTurn) error {
	snap := *turn.snap
	snap.Error = shortened(snap.Error)
	switch {
	case turn.state != nil:
		if err := d.putState(ctx, turn.state); err != nil {
			return err
		}
		snap.State = d.thread.rec.State
	case turn.same:
		snap.State = d.thread.rec.State
	}
	d.thread.rec.Turns++
	d.thread.rec.Last, d.thread.rec.Status = snap.ID, snap.Status
	snap.Turn = int(d.thread.rec.Turns)
	snap.From += int(d.thread.rec.HiddenMessages) // of what the thread shows, and now of its log
	snap.To += int(d.thread.rec.HiddenMessages)
	return d.putSnapshot(&snap, "")
}

// artifact stores an artifact's content; it belongs to the thread when finish
// says so.
func (im *importer) artifact(ctx context.Context, a *host.Artifact) error {
	if err := im.flushAll(ctx); err != nil {
		return err
	}
	if len(im.artifacts) == maxImportArtifacts {
		return host.Errorf(host.ResourceExhausted, "import thread %q: there are more than %d artifacts", im.t.rec.ID, maxImportArtifacts)
	}
	raw, err := artifactJSON(a)
	if err != nil {
		return err
	}
	ref := refTo(raw)
	im.artifacts = append(im.artifacts, ArtifactInfo{Name: a.Name, Ref: *ref, Content: a.Digest()})
	if stored, err := im.t.contents().hasBlob(ctx, ref.Digest); err != nil || stored || !im.endsHere() {
		return err
	}
	return im.commit(ctx, func(d *draft) error {
		_, err := d.tx.putBlob(ctx, d.thread.contents(), raw)
		return err
	})
}

// upload stores what was uploaded, if it is what its digest says.
func (im *importer) upload(ctx context.Context, u *Upload) error {
	if err := im.finish(ctx); err != nil || !im.endsHere() {
		return err
	}
	ref, err := im.tenant.Upload(ctx, im.t.rec.ID, u.Content, 0)
	if err != nil {
		return err
	}
	if ref.Digest != u.Digest {
		return host.Errorf(host.InvalidArgument, "import thread %q: upload %.80q is not what its digest says", im.t.rec.ID, u.Digest)
	}
	return nil
}

// listArtifacts gives the thread what was stored for it, piece by piece. Nothing has
// referred to that until now, so who pruned the thread meanwhile has removed it.
func (im *importer) listArtifacts(ctx context.Context, d *draft) error {
	for _, a := range im.artifacts {
		if stored, err := d.thread.contents().hasBlob(ctx, a.Digest); err != nil {
			return err
		} else if !stored {
			return host.Errorf(host.Conflict, "its heads were pruned meanwhile").WithHint("import it again")
		}
	}
	list, err := json.Marshal(im.artifacts)
	if err != nil {
		return host.Errorf(host.Internal, "encode list of artifacts: %w", err)
	}
	value, err := d.tx.valueOf(ctx, d.thread.contents(), list)
	if err == nil {
		d.tx.put(d.thread.content.artifactsOf(d.thread.rec.Turns), value)
	}
	return err
}
