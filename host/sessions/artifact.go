package sessions

import (
	"context"
	"encoding/json"
	"io"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Artifact returns an artifact of a session by the digest that a snapshot lists.
// Code not_found if the session has none as it is now, or clients see none.
func (s *Service) Artifact(ctx context.Context, tenant, session, digest string) (*host.Artifact, error) {
	if err := s.artifactsSeen(session, digest); err != nil {
		return nil, err
	}
	return s.store.Artifact(ctx, tenant, session, digest)
}

func (s *Service) artifactsSeen(session, digest string) error {
	if err := s.needStore("read an artifact"); err != nil {
		return err
	}
	if s.opts.View.HidesArtifacts() {
		return host.Errorf(host.NotFound, "session %.100q has no artifact %.80q", session, digest)
	}
	return nil
}

// ArtifactUpload is an artifact whose content comes as bytes.
type ArtifactUpload struct {
	Name      string // it takes the place of the artifact of that name; empty: it is added
	MediaType string // default: application/octet-stream
	Metadata  map[string]json.RawMessage
	Limit     int64 // of its bytes (1 GiB)
}

// PutArtifact stores what r yields as an artifact of a session, a piece at a time
// and never whole in memory, and returns the snapshot that has it: the session
// goes on from there. The session is begun if there is none. Of the artifact the
// session has the address, as media; [Service.OpenArtifact] yields the content.
// It waits for a turn that runs; the questions of the turn before stay open.
//
// Codes: failed_precondition if clients keep the sessions, resource_exhausted
// beyond the limit, and what r fails with.
func (s *Service) PutArtifact(ctx context.Context, tenant, session string, up *ArtifactUpload, r io.Reader) (*Snapshot, error) {
	if err := s.needStore("put an artifact"); err != nil {
		return nil, err
	}
	if err := checkSession(session); err != nil {
		return nil, err
	}
	if up == nil {
		up = &ArtifactUpload{}
	}
	p := &plan{session: session}
	if err := s.checkStored(ctx, tenant, session, p); err != nil {
		return nil, err
	}
	if _, _, err := s.store.Create(ctx, tenant, &threads.CreateOptions{ID: session}); err != nil {
		return nil, err
	}
	ref, err := s.store.Upload(ctx, tenant, session, r, up.Limit)
	if err != nil {
		return nil, err
	}
	media := &host.Media{MediaType: up.MediaType, URL: ref.URL()}
	if media.MediaType == "" {
		media.MediaType = "application/octet-stream"
	}
	return s.keep(ctx, tenant, p, host.Artifact{Name: up.Name, Parts: []host.Part{media}, Metadata: up.Metadata})
}

// keep stores an artifact as a turn of its own, in which nobody says anything.
func (s *Service) keep(ctx context.Context, tenant string, p *plan, a host.Artifact) (*Snapshot, error) {
	req := &host.HistoryRequest{Tenant: tenant, Thread: p.session, Run: host.NewID(), Network: s.Name()}
	unlock, err := s.store.LockThread(ctx, req)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.place(ctx, req, p); err != nil {
		return nil, err
	}
	turn := &host.Turn{Artifacts: []host.Artifact{a}, Status: host.FinishStop}
	if err := s.store.AppendResults(ctx, req, turn); err != nil {
		return nil, err
	}
	return s.read(ctx, &SnapshotRequest{Tenant: tenant, WithoutState: true}, p.session, req.Run)
}

// OpenArtifact returns a reader of the content of an artifact that
// [Service.PutArtifact] has stored, by the artifact's digest, with its media type
// and size. It reads a piece at a time; what was changed since it was stored ends
// in an error of code data_loss. Code not_found if the session has no such
// artifact as it is now, or it is one that [Service.Artifact] has whole.
func (s *Service) OpenArtifact(ctx context.Context, tenant, session, digest string) (r io.Reader, mediaType string, size int64, err error) {
	a, err := s.Artifact(ctx, tenant, session, digest)
	if err != nil {
		return nil, "", 0, err
	}
	for _, part := range a.Parts {
		media, ok := part.(*host.Media)
		if !ok {
			continue
		}
		content, ok := threads.UploadDigest(media.URL)
		if !ok {
			continue
		}
		r, ref, err := s.store.OpenUpload(ctx, tenant, session, content)
		if err != nil {
			return nil, "", 0, err
		}
		return r, media.MediaType, int64(ref.Size), nil
	}
	return nil, "", 0, host.Errorf(host.NotFound, "artifact %.80q of session %.100q was not uploaded", digest, session).
		WithHint("it is small: read it whole")
}
