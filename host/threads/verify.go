package threads

import (
	"context"
	"encoding/json"
	"io"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// Verified counts the entries that [Tenant.Verify] has read of a thread.
type Verified struct {
	Thread   string `json:"thread"`
	Messages int    `json:"messages"`
	Turns    int    `json:"turns"`
	// Blobs are the states, artifacts and uploads that were compared with their digests.
	Blobs int   `json:"blobs"`
	Bytes int64 `json:"bytes"` // of them
}

// Verify reads all entries of a thread and checks that they are intact: every message,
// that it is found by its id, every turn, and every state, artifact and upload by its
// digest; the entries that the heads left behind show, and the messages that nothing
// shows any more. Code data_loss for the first damaged entry, with the counts until
// then; not_found if there is no such thread.
func (tn *Tenant) Verify(ctx context.Context, id string) (*Verified, error) {
	t, err := tn.write.read.find(ctx, id)
	if err != nil {
		return nil, err
	}
	v := &verifier{t: t, out: Verified{Thread: id}, seen: map[string]bool{}}
	for _, check := range []func(context.Context) error{v.messages, v.turns, v.state, v.artifacts, v.lineage} {
		if err := check(ctx); err != nil {
			return &v.out, err
		}
	}
	return &v.out, nil
}

type verifier struct {
	t    *Moment
	out  Verified
	seen map[string]bool // digests, and contents
}

func (v *verifier) messages(ctx context.Context) error {
	shown := v.t.messageList()
	for m, err := range v.t.log().all(ctx) {
		if err != nil {
			return err
		}
		at, found, err := v.t.log().position(ctx, m.ID)
		if err != nil {
			return err
		}
		if !found || shown.IndexOf(at) != uint64(v.out.Messages) {
			return damaged("message %d of thread %q is not found by its id", v.out.Messages, v.t.rec.ID)
		}
		v.out.Messages++
	}
	return nil
}

func (v *verifier) turns(ctx context.Context) error {
	for snap, err := range v.t.turns().all(ctx, kv.Range{}) {
		if err != nil {
			return err
		}
		if v.out.Turns++; snap.Turn != v.out.Turns || snap.From > snap.To || snap.To > v.out.Messages {
			return damaged("turn %d of thread %q is damaged", v.out.Turns, v.t.rec.ID)
		}
		if err := v.stateOf(ctx, snap.State); err != nil {
			return err
		}
	}
	if v.out.Turns != v.t.rec.shownTurns() {
		return damaged("turn %d of thread %q is missing", v.out.Turns+1, v.t.rec.ID)
	}
	return nil
}

func (v *verifier) state(ctx context.Context) error { return v.stateOf(ctx, v.t.rec.State) }

func (v *verifier) stateOf(ctx context.Context, ref *Ref) error {
	if ref == nil || v.seen[ref.Digest] {
		return nil
	}
	raw, err := v.blob(ctx, ref, "state")
	if err == nil && !json.Valid(raw) {
		err = damaged("state of thread %q is damaged", v.t.rec.ID)
	}
	return err
}

func (v *verifier) blob(ctx context.Context, ref *Ref, what string) ([]byte, error) {
	raw, err := v.t.contents().readBlob(ctx, ref, what)
	if err != nil {
		return nil, err
	}
	v.seen[ref.Digest] = true
	v.out.Blobs++
	v.out.Bytes += int64(len(raw))
	return raw, nil
}

func (v *verifier) artifacts(ctx context.Context) error {
	list, err := v.t.turns().artifacts(ctx)
	if err != nil {
		return err
	}
	for _, info := range list {
		if v.seen[info.Digest] {
			continue
		}
		if _, err := v.blob(ctx, &info.Ref, "artifact"); err != nil {
			return err
		}
		if _, err := v.t.contents().artifact(ctx, info); err != nil {
			return err
		}
	}
	return nil
}

// lineage reads the logs of all heads, each once.
func (v *verifier) lineage(ctx context.Context) error {
	if err := v.logs(ctx, v.t); err != nil {
		return err
	}
	for h, err := range v.t.lineage().all(ctx) {
		if err != nil {
			return err
		}
		then, err := v.t.moment(ctx, h.Point)
		if err != nil {
			return err
		}
		if err := v.logs(ctx, then); err != nil {
			return err
		}
	}
	return nil
}

// logs reads the logs that a head shows messages of.
func (v *verifier) logs(ctx context.Context, t *Moment) error {
	for rank := range t.view.OwnRank() + 1 {
		c := t.contents().at(rank)
		if v.seen[string(c.all())] {
			continue
		}
		v.seen[string(c.all())] = true
		for e, err := range t.part.All(ctx, kv.Range{Prefix: c.log()}) {
			if err != nil {
				return wrap(err, "read thread %q", t.rec.ID)
			}
			if _, err := t.log().decode(ctx, c, e); err != nil {
				return err
			}
		}
		if err := v.uploads(ctx, t, c); err != nil {
			return err
		}
		if err := v.digests(ctx, t, c); err != nil {
			return err
		}
	}
	return nil
}

// digests reads the entries of a content that only lead to others: the driver compares
// each with its digest.
func (v *verifier) digests(ctx context.Context, t *Moment, c content) error {
	rest, _ := c.all().CutPrefix(contentKeys)
	id, _, _ := rest.CutString()
	for _, prefix := range []kv.Key{c.turns(), c.runs(), c.artifacts(), c.all().With("message"), c.ids(), c.views(), c.heads(), wordindex.KeysOf(id)} {
		for _, err := range t.part.All(ctx, kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
			if err != nil {
				return wrap(err, "read thread %q", t.rec.ID)
			}
		}
	}
	return nil
}

// uploads reads the uploads of a content.
func (v *verifier) uploads(ctx context.Context, t *Moment, c content) error {
	for e, err := range t.part.All(ctx, kv.Range{Prefix: c.uploads()}) {
		if err != nil {
			return wrap(err, "read thread %q", t.rec.ID)
		}
		rest, _ := e.Key.CutPrefix(c.uploads())
		digest, _, _ := rest.CutString()
		r, _, err := t.contents().openUpload(ctx, c, e.Value, digest)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, r)
		if err != nil {
			return fault.AsError(err)
		}
		v.out.Blobs++
		v.out.Bytes += n
	}
	return nil
}
