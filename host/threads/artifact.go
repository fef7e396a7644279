package threads

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// ArtifactInfo describes an artifact that the thread lists, without its content.
// Name is empty for an unnamed artifact.
type ArtifactInfo struct {
	Name string `json:"name,omitempty"`
	Ref
	// Content is the digest by which plugins name the artifact: [host.Artifact.Digest].
	Content string `json:"content,omitempty"`
}

// Artifacts returns the artifacts of a thread in the order in which they were
// first put: one with a name stands in the place of the one it replaced. Code
// not_found if there is no such thread.
func (tn *Tenant) Artifacts(ctx context.Context, id string) ([]ArtifactInfo, error) {
	t, err := tn.write.read.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.turns().artifacts(ctx)
}

// ThreadArtifacts implements [host.ArtifactLister]: the list takes one read for
// each turn that put something.
func (s *Store) ThreadArtifacts(ctx context.Context, req *host.HistoryRequest) ([]host.ArtifactRef, error) {
	t, err := readerOf(s.driver, req.Tenant).openOn(ctx, req.Thread, req.Branch)
	if err != nil || t == nil {
		return nil, err
	}
	list, err := t.turns().artifacts(ctx)
	if err != nil {
		return nil, err
	}
	refs := make([]host.ArtifactRef, len(list))
	for i, info := range list {
		refs[i] = host.ArtifactRef{Name: info.Name, Digest: info.Content, Size: int64(info.Size),
			Open: func(ctx context.Context) (*host.Artifact, error) { return t.contents().listedArtifact(ctx, info) }}
	}
	return refs, nil
}

// listedArtifact reads an artifact some time after the thread was read: a
// missing artifact may have been deleted with the thread.
func (c contents) listedArtifact(ctx context.Context, info ArtifactInfo) (*host.Artifact, error) {
	a, err := c.artifact(ctx, info)
	if host.CodeOf(err) == host.DataLoss {
		if _, gone := c.part.find(ctx, c.thread); gone != nil {
			return nil, gone
		}
	}
	return a, err
}

// Artifact returns the artifact with that digest of a thread. Code not_found if
// there is no such thread or it has no such artifact now.
func (tn *Tenant) Artifact(ctx context.Context, id, digest string) (*host.Artifact, error) {
	return tn.ArtifactAt(ctx, id, At{}, digest)
}

// ArtifactAt is Artifact of a moment of the thread, whatever was put since. Code
// not_found if there is no such thread or moment, or it had no such artifact.
func (tn *Tenant) ArtifactAt(ctx context.Context, id string, at At, digest string) (*host.Artifact, error) {
	t, err := tn.write.read.findAt(ctx, id, at)
	if err != nil {
		return nil, err
	}
	list, err := t.turns().artifacts(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		if a.Digest == digest {
			return t.contents().artifact(ctx, a)
		}
	}
	return nil, host.Errorf(host.NotFound, "thread %q has no artifact with digest %.64q", id, digest)
}

func (c contents) artifact(ctx context.Context, info ArtifactInfo) (*host.Artifact, error) {
	raw, err := c.readBlob(ctx, &info.Ref, "artifact")
	if err != nil {
		return nil, err
	}
	a := &host.Artifact{}
	if err := a.UnmarshalJSON(raw); err != nil {
		return nil, damaged("artifact %q of thread %q is damaged", info.Name, c.thread)
	}
	if info.Name != a.Name || info.Content != "" && info.Content != a.Digest() {
		return nil, damaged("list of artifacts of thread %q is damaged", c.thread)
	}
	return a, nil
}

// artifacts collects the artifacts that were put by the turns that the thread shows.
func (l turnLog) artifacts(ctx context.Context) ([]ArtifactInfo, error) {
	var list []ArtifactInfo
	named := map[string]int{}
	for _, p := range l.shown.Parts() {
		c := l.from.at(p.At.Rank)
		for e, err := range l.from.part.All(ctx, kv.Range{Prefix: c.artifacts(), From: c.artifactsOf(p.At.Seq + 1)}) {
			if err != nil {
				return nil, wrap(err, "read artifacts of thread %q", l.from.thread)
			}
			rest, _ := e.Key.CutPrefix(c.artifacts())
			if turn, _, _ := rest.CutUint(); turn > p.To {
				break
			}
			put, err := l.from.manifest(ctx, e.Value)
			if err != nil {
				return nil, err
			}
			for _, a := range put {
				if i, ok := named[a.Name]; ok && a.Name != "" {
					list[i] = a
					continue
				}
				named[a.Name] = len(list)
				list = append(list, a)
			}
		}
	}
	return list, nil
}

// manifest reads the list of artifacts that one turn put.
func (c contents) manifest(ctx context.Context, value []byte) ([]ArtifactInfo, error) {
	raw, err := c.value(ctx, value, "list of artifacts")
	if err != nil {
		return nil, err
	}
	var put []ArtifactInfo
	if err := json.Unmarshal(raw, &put); err != nil {
		return nil, damaged("list of artifacts of thread %q is damaged", c.thread)
	}
	for _, a := range put {
		if a.Size < 0 {
			return nil, damaged("list of artifacts of thread %q is damaged", c.thread)
		}
	}
	return put, nil
}

// putArtifacts stores the artifacts of a turn. An artifact that the thread has
// already costs a line in the turn's list.
func (d *draft) putArtifacts(ctx context.Context, artifacts []host.Artifact) error {
	if len(artifacts) == 0 {
		return nil
	}
	put := make([]ArtifactInfo, len(artifacts))
	for i := range artifacts {
		raw, err := artifactJSON(&artifacts[i])
		if err != nil {
			return err
		}
		ref, err := d.tx.putBlob(ctx, d.thread.contents(), raw)
		if err != nil {
			return err
		}
		put[i] = ArtifactInfo{Name: artifacts[i].Name, Ref: *ref, Content: artifacts[i].Digest()}
	}
	list, err := encode(put)
	if err != nil {
		return err
	}
	value, err := d.tx.valueOf(ctx, d.thread.contents(), list)
	if err != nil {
		return err
	}
	d.tx.put(d.thread.content.artifactsOf(d.thread.rec.Turns), value)
	return nil
}

// artifactJSON returns an artifact in its stored form, after checking that the form can
// be read.
func artifactJSON(a *host.Artifact) ([]byte, error) {
	raw, err := a.MarshalJSON()
	if err == nil {
		err = new(host.Artifact).UnmarshalJSON(bytes.Clone(raw))
	}
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "artifact %q cannot be stored: %w", a.Name, err)
	}
	return raw, nil
}

// InfoOf returns the description of an artifact as a thread lists it. Code
// invalid_argument for an artifact that cannot be stored.
func InfoOf(a *host.Artifact) (ArtifactInfo, error) {
	raw, err := artifactJSON(a)
	if err != nil {
		return ArtifactInfo{}, err
	}
	return ArtifactInfo{Name: a.Name, Ref: *refTo(raw), Content: a.Digest()}, nil
}
