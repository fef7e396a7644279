package httpapi

import (
	"io"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Artifacts is the answer of GET /v1/threads/{thread}/artifacts.
type Artifacts struct {
	Artifacts []threads.ArtifactInfo `json:"artifacts"`
}

func (h *threadHandlers) threadArtifacts(c *call) error {
	id, err := c.thread()
	if err != nil {
		return err
	}
	list, err := h.tenant(c).Artifacts(c.ctx, id)
	if err != nil {
		return err
	}
	if list == nil || h.view.HidesArtifacts() {
		list = []threads.ArtifactInfo{}
	}
	return c.answer(Artifacts{list})
}

func (h *threadHandlers) getArtifact(c *call) error {
	_, artifact, err := h.artifact(c)
	if err != nil {
		return err
	}
	return c.answer(artifact)
}

// artifact returns the artifact that the path names, and its thread.
func (h *threadHandlers) artifact(c *call) (thread string, a *host.Artifact, err error) {
	if thread, err = c.thread(); err != nil {
		return "", nil, err
	}
	digest, err := c.path("digest")
	if err != nil {
		return "", nil, err
	}
	if h.view.HidesArtifacts() {
		return "", nil, host.Errorf(host.NotFound, "the thread has no artifact %.80q", digest)
	}
	a, err = h.tenant(c).Artifact(c.ctx, thread, digest)
	return thread, a, err
}

func (h *threadHandlers) artifactContent(c *call) error {
	thread, artifact, err := h.artifact(c)
	if err != nil {
		return err
	}
	f, err := artifactFile(artifact, func(digest string) (io.Reader, int64, error) {
		r, ref, err := h.tenant(c).OpenUpload(c.ctx, thread, digest)
		if err != nil {
			return nil, 0, err
		}
		return r, int64(ref.Size), nil
	})
	if err != nil {
		return err
	}
	f.tag = artifact.Digest()
	return c.serveFile(f)
}
