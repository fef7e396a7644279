package threads

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// ArtifactInfo is what is known of an artifact without reading it. Name is empty
// for an unnamed one.
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
	t, err := tn.store.find(ctx, tn.name, id)
	if err != nil {
		return nil, err
	}
	return t.artifacts(ctx)
}

// ThreadArtifacts implements [host.ArtifactLister]: the list takes one read for
// each turn that put something.
func (s *Store) ThreadArtifacts(ctx context.Context, req *host.HistoryRequest) ([]host.ArtifactRef, error) {
	t, err := s.openOn(ctx, req.Tenant, req.Thread, req.Branch)
	if err != nil || t == nil {
		return nil, err
	}
	list, err := t.artifacts(ctx)
	if err != nil {
		return nil, err
	}
	refs := make([]host.ArtifactRef, len(list))
	for i, info := range list {
		refs[i] = host.ArtifactRef{Name: info.Name, Digest: info.Content, Size: int64(info.Size),
			Open: func(ctx context.Context) (*host.Artifact, error) { return t.listedArtifact(ctx, info) }}
	}
	return refs, nil
}

// listedArtifact reads an artifact some time after the thread was read: what is
// missing may have been deleted with the thread.
func (t *thread) listedArtifact(ctx context.Context, info ArtifactInfo) (*host.Artifact, error) {
	a, err := t.artifact(ctx, info)
	if host.CodeOf(err) == host.DataLoss {
		if _, gone := t.store.find(ctx, t.partition, t.rec.ID); gone != nil {
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
	t, err := tn.store.findAt(ctx, tn.name, id, at)
	if err != nil {
		return nil, err
	}
	list, err := t.artifacts(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		if a.Digest == digest {
			return t.artifact(ctx, a)
		}
	}
	return nil, host.Errorf(host.NotFound, "thread %q has no artifact with digest %.64q", id, digest)
}

func (t *thread) artifact(ctx context.Context, info ArtifactInfo) (*host.Artifact, error) {
	raw, err := t.readBlob(ctx, &info.Ref, "artifact")
	if err != nil {
		return nil, err
	}
	a := &host.Artifact{}
	if err := a.UnmarshalJSON(raw); err != nil {
		return nil, damaged("artifact %q of thread %q is damaged", info.Name, t.rec.ID)
	}
	if info.Name != a.Name || info.Content != "" && info.Content != a.Digest() {
		return nil, damaged("list of artifacts of thread %q is damaged", t.rec.ID)
	}
	return a, nil
}

// artifacts puts together what the turns put that the thread shows.
func (t *thread) artifacts(ctx context.Context) ([]ArtifactInfo, error) {
	var list []ArtifactInfo
	named := map[string]int{}
	for _, p := range t.turns().Parts() {
		c := t.contentAt(p.At.Rank)
		for e, err := range kv.All(ctx, t.store.driver, t.partition, kv.Range{Prefix: c.artifacts(), From: c.artifactsOf(p.At.Seq + 1)}) {
			if err != nil {
				return nil, wrap(err, "read artifacts of thread %q", t.rec.ID)
			}
			rest, _ := e.Key.CutPrefix(c.artifacts())
			if turn, _, _ := rest.CutUint(); turn > p.To {
				break
			}
			put, err := t.manifest(ctx, e.Value)
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

// manifest reads what one turn put.
func (t *thread) manifest(ctx context.Context, value []byte) ([]ArtifactInfo, error) {
	raw, err := t.value(ctx, value, "list of artifacts")
	if err != nil {
		return nil, err
	}
	var put []ArtifactInfo
	if err := json.Unmarshal(raw, &put); err != nil {
		return nil, damaged("list of artifacts of thread %q is damaged", t.rec.ID)
	}
	for _, a := range put {
		if a.Size < 0 {
			return nil, damaged("list of artifacts of thread %q is damaged", t.rec.ID)
		}
	}
	return put, nil
}

// putArtifacts stores what a turn made. What the thread has already costs a line
// in the turn's list.
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
		ref, err := d.putBlob(ctx, raw)
		if err != nil {
			return err
		}
		put[i] = ArtifactInfo{Name: artifacts[i].Name, Ref: *ref, Content: artifacts[i].Digest()}
	}
	list, err := json.Marshal(put)
	if err != nil {
		return host.Errorf(host.Internal, "encode list of artifacts: %w", err)
	}
	value, err := d.valueOf(ctx, list)
	if err != nil {
		return err
	}
	d.put(d.content.artifactsOf(d.rec.Turns), value)
	return nil
}

// artifactJSON returns an artifact as it is stored, having read it back.
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
