package plugin

import (
	"context"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/rawbytes"
)

// The bounds of artifacts in pieces. The run's limit ArtifactBytes bounds a
// whole one.
const (
	maxArtifactName    = 256
	maxMediaType       = 128
	maxUploads         = 8
	maxArtifactBytes   = 16 << 20 // of a call's uploads, and of the artifacts that it holds of earlier turns
	defaultArtifactGet = 256 << 10
	defaultMediaType   = "application/octet-stream"
)

// artifacts are those of a tool's call: its uploads in pieces, and those that it reads
// of the run and of earlier turns.
type artifacts struct {
	call    *host.Call
	uploads map[string]*upload
	begun   int
	held    int // bytes, in all uploads
	bodies  map[artifactKey]*artifactBody

	opened map[*host.ArtifactRef]*artifactBody // of earlier turns
	kept   int64                               // bytes, in all that are opened
}

// artifactKey tells artifacts apart by where their parts are.
type artifactKey struct {
	first *host.Part
	n     int
}

// artifactBody holds an artifact's content. It is made once: a guest that
// reads it in pieces pays for the pieces.
type artifactBody struct {
	data              []byte
	mediaType, digest string
}

// body returns an artifact as bytes.
func (a *artifacts) body(of *host.Artifact) *artifactBody {
	key := artifactKey{n: len(of.Parts)}
	if key.n > 0 {
		key.first = &of.Parts[0]
	}
	b := a.bodies[key]
	if b == nil {
		b = &artifactBody{}
		b.data, b.mediaType = of.Content()
		b.digest = chat.ContentDigest(b.data)
		if a.bodies == nil {
			a.bodies = map[artifactKey]*artifactBody{}
		}
		a.bodies[key] = b
	}
	return b
}

type upload struct {
	name, mediaType string
	data            []byte
}

func (a *artifacts) write(ctx context.Context, req []byte) ([]byte, error) {
	var in struct {
		Name      string
		MediaType string `json:"media_type"`
		Data      rawbytes.Field
		Upload    string
		Last      bool
	}
	if err := readRequest("artifact.write", req, &in); err != nil {
		return nil, err
	}
	if err := rawbytes.Of(ctx).Take("artifact.write", &in.Data); err != nil {
		return nil, err
	}
	if in.Name == "" || len(in.Name) > maxArtifactName || len(in.MediaType) > maxMediaType {
		return nil, host.Errorf(host.InvalidArgument, "request of artifact.write: a name has 1 to %d bytes, a media type at most %d", maxArtifactName, maxMediaType)
	}
	id, u, err := a.upload(in.Upload, in.Name, in.MediaType)
	if err != nil {
		return nil, err
	}
	if len(in.Data.Bytes) > maxArtifactBytes-a.held {
		a.end(id)
		return nil, host.Errorf(host.ResourceExhausted, "what the call sends of artifacts is more than %d bytes", maxArtifactBytes)
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
func (a *artifacts) upload(id, name, mediaType string) (string, *upload, error) {
	if id != "" {
		u := a.uploads[id]
		if u == nil || u.name != name {
			return "", nil, host.Errorf(host.NotFound, "there is no upload %q of artifact %q", clean(id), clean(name)).
				WithHint("a first piece names no upload")
		}
		return id, u, nil
	}
	if len(a.uploads) >= maxUploads {
		return "", nil, host.Errorf(host.ResourceExhausted, "the call has %d uploads that have not ended", maxUploads)
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
func (a *artifacts) end(id string) {
	a.held -= len(a.uploads[id].data)
	delete(a.uploads, id)
}

func (a *artifacts) read(ctx context.Context, req []byte, limit int) ([]byte, error) {
	var in struct {
		Name, Digest string
		Offset       int64
		Length       *int64
	}
	if err := readRequest("artifact.read", req, &in); err != nil {
		return nil, err
	}
	length := int64(defaultArtifactGet)
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
func (a *artifacts) find(ctx context.Context, name, digest string) (*artifactBody, error) {
	own := a.call.Artifacts()
	for i := len(own) - 1; i >= 0; i-- {
		if name != "" && own[i].Name != name {
			continue
		}
		if b := a.body(&own[i]); name != "" || b.digest == digest {
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
	return nil, host.Errorf(host.NotFound, "the session has no artifact %q", clean(name+digest))
}

func hasName(list []host.Artifact, name string) bool {
	return slices.ContainsFunc(list, func(a host.Artifact) bool { return a.Name == name })
}

// open reads an artifact of an earlier turn. The guest pays for the whole of it,
// and again if it has read so much else meanwhile that the host no longer holds it.
func (a *artifacts) open(ctx context.Context, ref *host.ArtifactRef) (*artifactBody, error) {
	if b := a.opened[ref]; b != nil {
		return b, nil
	}
	if ref.Size > maxArtifactBytes {
		return nil, host.Errorf(host.ResourceExhausted, "artifact %q is %d bytes, and a call reads at most %d of those of earlier turns",
			clean(ref.Name), ref.Size, maxArtifactBytes)
	}
	callmeter.Charge(ctx, ref.Size*openedBytePrice)
	var of *host.Artifact
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { of, err = ref.Open(ctx) })
	if err != nil {
		return nil, err
	}
	b := &artifactBody{digest: ref.Digest}
	b.data, b.mediaType = of.Content()
	if b.digest == "" {
		b.digest = chat.ContentDigest(b.data)
	}
	if a.kept += int64(len(b.data)); a.opened == nil || a.kept > maxArtifactBytes {
		a.opened, a.kept = map[*host.ArtifactRef]*artifactBody{}, int64(len(b.data))
	}
	a.opened[ref] = b
	return b, nil
}

// openedBytePrice is the price of a byte of an artifact of an earlier turn, in
// instructions: the host fetches, checks and decodes the whole, which takes 14 to
// 20 ns a byte.
const openedBytePrice = 16
