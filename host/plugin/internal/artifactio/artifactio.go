package artifactio

import (
	"context"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/rawbytes"
)

// The bounds of artifacts in pieces. The run's limit ArtifactBytes bounds a
// whole one.
const (
	MaxUploads = 8        // of a call, that have not ended
	MaxBytes   = 16 << 20 // of a call's uploads, and of the artifacts that it holds of earlier turns

	maxNameBytes      = 256
	maxMediaTypeBytes = 128
	defaultReadBytes  = 256 << 10
	defaultMediaType  = "application/octet-stream"
)

// OpenedBytePrice is the price of a byte of an artifact of an earlier turn, in
// instructions: the host fetches, checks and decodes the whole, which takes 14 to
// 20 ns a byte.
const OpenedBytePrice = 16

// Artifacts are those of a tool's call: its uploads in pieces, and those that it reads
// of the run and of earlier turns. One goroutine at a time uses them.
type Artifacts struct {
	call    *host.Call
	uploads map[string]*upload
	begun   int
	held    int // bytes, in all uploads
	bodies  map[bodyKey]*body

	opened map[*host.ArtifactRef]*body // of earlier turns
	kept   int64                       // bytes, in all that are opened
}

// Of returns the artifacts of a call.
func Of(call *host.Call) Artifacts { return Artifacts{call: call} }

// bodyKey tells artifacts apart by where their parts are.
type bodyKey struct {
	first *host.Part
	n     int
}

// body holds an artifact's content. It is made once: a guest that reads it in pieces pays
// for the pieces.
type body struct {
	data              []byte
	mediaType, digest string
}

// bodyOf returns an artifact as bytes.
func (a *Artifacts) bodyOf(of *host.Artifact) *body {
	key := bodyKey{n: len(of.Parts)}
	if key.n > 0 {
		key.first = &of.Parts[0]
	}
	b := a.bodies[key]
	if b == nil {
		b = &body{}
		b.data, b.mediaType = of.Content()
		b.digest = chat.ContentDigest(b.data)
		if a.bodies == nil {
			a.bodies = map[bodyKey]*body{}
		}
		a.bodies[key] = b
	}
	return b
}

type upload struct {
	name, mediaType string
	data            []byte
}

// Write is the operation artifact.write: it takes a piece, and adds the artifact to the run
// with the last one. Code invalid_argument for a request that is none, not_found for an
// upload that the call has not begun, resource_exhausted beyond the bounds.
func (a *Artifacts) Write(ctx context.Context, req []byte) ([]byte, error) {
	var in struct {
		Name      string
		MediaType string `json:"media_type"`
		Data      rawbytes.Field
		Upload    string
		Last      bool
	}
	if err := abi.ReadRequest("artifact.write", req, &in); err != nil {
		return nil, err
	}
	if err := rawbytes.Of(ctx).Take("artifact.write", &in.Data); err != nil {
		return nil, err
	}
	if in.Name == "" || len(in.Name) > maxNameBytes || len(in.MediaType) > maxMediaTypeBytes {
		return nil, host.Errorf(host.InvalidArgument, "request of artifact.write: a name has 1 to %d bytes, a media type at most %d", maxNameBytes, maxMediaTypeBytes)
	}
	id, u, err := a.upload(in.Upload, in.Name, in.MediaType)
	if err != nil {
		return nil, err
	}
	if len(in.Data.Bytes) > MaxBytes-a.held {
		a.end(id)
		return nil, host.Errorf(host.ResourceExhausted, "what the call sends of artifacts is more than %d bytes", MaxBytes)
	}
	u.data = append(u.data, in.Data.Bytes...)
	a.held += len(in.Data.Bytes)
	if !in.Last {
		out := abi.NewObject(64)
		out.Text("upload", id)
		return out.End(), nil
	}
	a.end(id)
	if err := a.call.AddArtifact(host.Artifact{Name: u.name, Parts: []host.Part{&host.Media{MediaType: u.mediaType, Data: u.data}}}); err != nil {
		return nil, err
	}
	out := abi.NewObject(128)
	out.Text("digest", chat.ContentDigest(u.data))
	return out.End(), nil
}

// upload begins an upload, or finds the one that was begun.
func (a *Artifacts) upload(id, name, mediaType string) (string, *upload, error) {
	if id != "" {
		u := a.uploads[id]
		if u == nil || u.name != name {
			return "", nil, host.Errorf(host.NotFound, "there is no upload %q of artifact %q", guesttext.Clean(id), guesttext.Clean(name)).
				WithHint("a first piece names no upload")
		}
		return id, u, nil
	}
	if len(a.uploads) >= MaxUploads {
		return "", nil, host.Errorf(host.ResourceExhausted, "the call has %d uploads that have not ended", MaxUploads)
	}
	if mediaType == "" {
		mediaType = defaultMediaType
	}
	if a.uploads == nil {
		a.uploads = map[string]*upload{}
	}
	a.begun++
	u := &upload{name: name, mediaType: mediaType}
	id = fmt.Sprint(a.begun)
	a.uploads[id] = u
	return id, u, nil
}

// end forgets an upload.
func (a *Artifacts) end(id string) {
	a.held -= len(a.uploads[id].data)
	delete(a.uploads, id)
}

// Read is the operation artifact.read: it returns a piece of an artifact of the run, or of
// an earlier turn, in a response of about limit bytes at most. Code not_found for an artifact
// that the session does not have, resource_exhausted for one beyond [MaxBytes].
func (a *Artifacts) Read(ctx context.Context, req []byte, limit int) ([]byte, error) {
	var in struct {
		Name, Digest string
		Offset       int64
		Length       *int64
	}
	if err := abi.ReadRequest("artifact.read", req, &in); err != nil {
		return nil, err
	}
	length := int64(defaultReadBytes)
	if in.Length != nil {
		length = *in.Length
	}
	if (in.Name == "") == (in.Digest == "") || in.Offset < 0 || length < 0 {
		return nil, host.Errorf(host.InvalidArgument, "request of artifact.read: it needs either a name or a digest, and no negative offset or length")
	}
	found, err := a.find(ctx, in.Name, in.Digest)
	if err != nil {
		return nil, err
	}
	size := int64(len(found.data))
	from := min(in.Offset, size)
	piece := found.data[from:min(size, from+min(length, int64(limit/2)))]
	payload := rawbytes.Of(ctx)
	out := abi.NewObject(abi.EnvelopeSize + payload.Room(len(piece)))
	payload.Write(out, "data", piece)
	out.Int("size", size)
	out.Text("digest", found.digest)
	out.Text("media_type", found.mediaType)
	return out.End(), nil
}

// find returns an artifact of the run, the last one of a name, or one of an earlier
// turn that the run has not replaced.
func (a *Artifacts) find(ctx context.Context, name, digest string) (*body, error) {
	own := a.call.Artifacts()
	for i := len(own) - 1; i >= 0; i-- {
		if name != "" && own[i].Name != name {
			continue
		}
		if b := a.bodyOf(&own[i]); name != "" || b.digest == digest {
			return b, nil
		}
	}
	var earlier []host.ArtifactRef
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { earlier, err = a.call.EarlierArtifacts(ctx) })
	if err != nil {
		return nil, err
	}
	for i := len(earlier) - 1; i >= 0; i-- {
		ref := &earlier[i]
		if name != "" && ref.Name != name || digest != "" && ref.Digest != "" && ref.Digest != digest {
			continue
		}
		if name == "" && ref.Name != "" && hasName(own, ref.Name) {
			continue
		}
		b, err := a.open(ctx, ref)
		if err != nil {
			return nil, err
		}
		if name != "" || b.digest == digest {
			return b, nil
		}
	}
	return nil, host.Errorf(host.NotFound, "the session has no artifact %q", guesttext.Clean(name+digest))
}

func hasName(list []host.Artifact, name string) bool {
	return slices.ContainsFunc(list, func(a host.Artifact) bool { return a.Name == name })
}

// open reads an artifact of an earlier turn. The guest pays for the whole of it,
// and again if it has read so much else meanwhile that the host no longer holds it.
func (a *Artifacts) open(ctx context.Context, ref *host.ArtifactRef) (*body, error) {
	if b := a.opened[ref]; b != nil {
		return b, nil
	}
	if ref.Size > MaxBytes {
		return nil, host.Errorf(host.ResourceExhausted, "artifact %q is %d bytes, and a call reads at most %d of those of earlier turns",
			guesttext.Clean(ref.Name), ref.Size, MaxBytes)
	}
	callmeter.Charge(ctx, ref.Size*OpenedBytePrice)
	var of *host.Artifact
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { of, err = ref.Open(ctx) })
	if err != nil {
		return nil, err
	}
	b := &body{digest: ref.Digest}
	b.data, b.mediaType = of.Content()
	if b.digest == "" {
		b.digest = chat.ContentDigest(b.data)
	}
	if a.kept += int64(len(b.data)); a.opened == nil || a.kept > MaxBytes {
		a.opened, a.kept = map[*host.ArtifactRef]*body{}, int64(len(b.data))
	}
	a.opened[ref] = b
	return b, nil
}
