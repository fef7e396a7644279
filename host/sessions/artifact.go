package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/threads"
)

// Artifact returns an artifact of a session by the digest that a snapshot lists.
// Code not_found if the session has no such artifact now, or if clients may not
// see artifacts. An artifact replaced since is read through its snapshot: see
// [Service.ArtifactAt].
func (s *Service) Artifact(ctx context.Context, tenant, session, digest string) (*host.Artifact, error) {
	if err := s.checkArtifactsShown(session, digest); err != nil {
		return nil, err
	}
	tenant, err := s.served.host.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	return s.store.threads.For(tenant).Artifact(ctx, session, digest)
}

// ArtifactAt returns an artifact of a snapshot by the digest that it lists. Code
// not_found if there is no such snapshot, it has no such artifact, or clients see
// none.
func (s *Service) ArtifactAt(ctx context.Context, tenant, snapshot, digest string) (*host.Artifact, error) {
	tenant, err := s.served.host.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	session, at, err := s.momentOf(ctx, tenant, snapshot, digest)
	if err != nil {
		return nil, err
	}
	return s.store.threads.For(tenant).ArtifactAt(ctx, session, at, digest)
}

// momentOf returns a snapshot's session and its point in that session, to read its
// artifacts.
func (s *Service) momentOf(ctx context.Context, tenant, snapshot, digest string) (session string, at threads.At, err error) {
	if err := s.checkArtifactsShown(snapshot, digest); err != nil {
		return "", at, err
	}
	session, run, err := readSnapshotID(snapshot)
	if err != nil {
		return "", at, err
	}
	_, err = s.store.readSnapshot(ctx, &SnapshotRequest{Tenant: tenant, WithoutState: true}, session, run)
	return session, threads.At{Snapshot: run}, err
}

// checkArtifactsShown refuses to read artifacts that clients do not see.
func (s *Service) checkArtifactsShown(of, digest string) error {
	if err := s.needStore("read an artifact"); err != nil {
		return err
	}
	if s.served.view.HidesArtifacts() {
		return host.Errorf(host.NotFound, "%.300q has no artifact %.80q", of, digest)
	}
	return nil
}

// ArtifactUpload is an artifact whose content comes as bytes.
type ArtifactUpload struct {
	// Name, MediaType and Metadata are at most MaxArtifactInfoBytes together, as JSON.
	Name      string // it takes the place of the artifact of that name; empty: it is added
	MediaType string // default: application/octet-stream
	Metadata  map[string]json.RawMessage
	Limit     int64 // of its bytes ([threads.MaxUploadBytes])
}

// MaxArtifactInfoBytes bounds the data of an uploaded artifact besides its
// content.
const MaxArtifactInfoBytes = 16 << 10

// PutArtifact stores the content of r as an artifact of a session, a piece at a time and
// never whole in memory, and returns the snapshot that has it, with the artifact's
// digest: the session continues from that snapshot. A session that does not exist begins.
// The session holds the artifact's address, as media; [Service.OpenArtifact] yields the
// content. PutArtifact waits for a running turn and for the turns in the background; the
// questions of the previous turn stay open.
//
// Codes: failed_precondition if clients keep the sessions, resource_exhausted
// beyond the limit or [MaxArtifactInfoBytes], invalid_argument for a name that is
// no UTF-8 or metadata that is no JSON, and the error of r.
func (s *Service) PutArtifact(ctx context.Context, tenant, session string, up *ArtifactUpload, r io.Reader) (*Snapshot, error) {
	if err := s.needStore("put an artifact"); err != nil {
		return nil, err
	}
	tenant, err := s.served.host.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	if err := checkSession(session); err != nil {
		return nil, err
	}
	if up == nil {
		up = &ArtifactUpload{}
	}
	a, err := up.artifact()
	if err != nil {
		return nil, err
	}
	p := &plan{session: session}
	if err := s.store.checkStored(ctx, tenant, session, p); err != nil {
		return nil, err
	}
	if _, _, err := s.store.threads.For(tenant).Create(ctx, &threads.CreateOptions{ID: session}); err != nil {
		return nil, err
	}
	ref, err := s.store.threads.For(tenant).Upload(ctx, session, r, up.Limit)
	if err != nil {
		return nil, err
	}
	a.Parts[0].(*host.Media).URL = ref.URL()
	return s.background.storeArtifact(ctx, tenant, p, a)
}

// artifact returns the artifact of an upload, without the address of its
// content.
func (up *ArtifactUpload) artifact() (host.Artifact, error) {
	media := &host.Media{MediaType: cmp.Or(up.MediaType, "application/octet-stream"), URL: "upload:"}
	a := host.Artifact{Name: up.Name, Parts: []host.Part{media}, Metadata: up.Metadata}
	raw, err := a.MarshalJSON()
	if err == nil && utf8.ValidString(up.Name) && utf8.ValidString(up.MediaType) {
		err = new(host.Artifact).UnmarshalJSON(raw)
	} else if err == nil {
		err = host.Errorf(host.InvalidArgument, "its name or type is not UTF-8")
	}
	switch {
	case err != nil:
		return a, host.Errorf(host.InvalidArgument, "artifact %.100q cannot be stored: %w", up.Name, err)
	case len(raw) > MaxArtifactInfoBytes:
		return a, host.Errorf(host.ResourceExhausted, "artifact %.100q has a name, type and metadata of %d bytes, more than %d", up.Name, len(raw), MaxArtifactInfoBytes).
			WithHint("put large things into its content")
	}
	return a, nil
}

// storeArtifact stores an artifact as a turn without messages, in the order of the
// session's turns.
func (b *background) storeArtifact(ctx context.Context, tenant string, p *plan, a host.Artifact) (*Snapshot, error) {
	req := &host.HistoryRequest{Tenant: tenant, Thread: p.session, Run: host.NewID(), Network: b.served.name()}
	unlock, err := b.order.lock(ctx, req)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := b.sessions.moveThread(ctx, req, p); err != nil {
		return nil, err
	}
	turn := &host.Turn{Artifacts: []host.Artifact{a}, Status: chat.FinishStop}
	if err := b.sessions.threads.AppendResults(ctx, req, turn); err != nil {
		return nil, err
	}
	snap, err := b.sessions.readSnapshot(ctx, &SnapshotRequest{Tenant: tenant, WithoutState: true}, p.session, req.Run)
	if err != nil {
		return nil, err
	}
	snap.Digest, err = b.sessions.digestOf(ctx, tenant, p.session, req.Run, a.Name)
	return snap, err
}

// digestOf returns the digest of the artifact that a turn put: the one of its name,
// or the last one.
func (s *storeManaged) digestOf(ctx context.Context, tenant, session, run, name string) (digest string, err error) {
	then, err := s.threads.For(tenant).ShowAt(ctx, session, threads.At{Snapshot: run}, 1)
	if err != nil {
		return "", err
	}
	for _, info := range then.Artifacts {
		if info.Name == name {
			digest = info.Digest
		}
	}
	return digest, nil
}

// OpenArtifact returns a reader of the content of an artifact that
// [Service.PutArtifact] has stored, by the artifact's digest, with its media type
// and size. The reader reads a piece at a time; content changed since it was
// stored ends in an error of code data_loss. Code not_found if the session has no
// such artifact now, or if [Service.Artifact] returns the artifact whole.
func (s *Service) OpenArtifact(ctx context.Context, tenant, session, digest string) (r io.Reader, mediaType string, size int64, err error) {
	if tenant, err = s.served.host.Tenant(tenant); err != nil {
		return nil, "", 0, err
	}
	a, err := s.Artifact(ctx, tenant, session, digest)
	if err != nil {
		return nil, "", 0, err
	}
	return s.store.openContent(ctx, tenant, session, threads.At{}, a)
}

// OpenArtifactAt is [Service.OpenArtifact] of a snapshot, regardless of later
// uploads.
func (s *Service) OpenArtifactAt(ctx context.Context, tenant, snapshot, digest string) (r io.Reader, mediaType string, size int64, err error) {
	if tenant, err = s.served.host.Tenant(tenant); err != nil {
		return nil, "", 0, err
	}
	session, at, err := s.momentOf(ctx, tenant, snapshot, digest)
	if err != nil {
		return nil, "", 0, err
	}
	a, err := s.store.threads.For(tenant).ArtifactAt(ctx, session, at, digest)
	if err != nil {
		return nil, "", 0, err
	}
	return s.store.openContent(ctx, tenant, session, at, a)
}

// openContent opens the uploaded content of an artifact.
func (s *storeManaged) openContent(ctx context.Context, tenant, session string, at threads.At, a *host.Artifact) (io.Reader, string, int64, error) {
	for _, part := range a.Parts {
		media, ok := part.(*host.Media)
		if !ok {
			continue
		}
		content, ok := threads.UploadDigest(media.URL)
		if !ok {
			continue
		}
		r, ref, err := s.threads.For(tenant).OpenUploadAt(ctx, session, at, content)
		if err != nil {
			return nil, "", 0, err
		}
		return r, media.MediaType, int64(ref.Size), nil
	}
	return nil, "", 0, host.Errorf(host.NotFound, "artifact %.80q of session %.100q was not uploaded", a.Name, session).
		WithHint("it is small: read it whole")
}
