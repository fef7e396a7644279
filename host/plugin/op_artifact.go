package plugin

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// The bounds of artifacts in pieces. The run's limit ArtifactBytes bounds a
// whole one.
const (
	maxArtifactName    = 256
	maxMediaType       = 128
	maxUploads         = 8
	maxArtifactBytes   = 16 << 20 // of all that a call has begun
	defaultArtifactGet = 256 << 10
	defaultMediaType   = "application/octet-stream"
)

// artifacts are those of a tool's call: what it sends in pieces, and what it
// reads of the run's.
type artifacts struct {
	call    *host.Call
	uploads map[string]*upload
	begun   int
	held    int // bytes, in all uploads
	bodies  map[artifactKey]*artifactBody
}

// artifactKey tells artifacts apart by where their parts are.
type artifactKey struct {
	first *host.Part
	n     int
}

// artifactBody is what is read of an artifact. It is made once: a guest that
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
		b.data, b.mediaType = artifactBytes(of)
		b.digest = digestOf(b.data)
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

func (a *artifacts) write(req []byte) ([]byte, error) {
	var in struct {
		Name      string
		MediaType string `json:"media_type"`
		Data      []byte
		Upload    string
		Last      bool
	}
	if err := readRequest("artifact.write", req, &in); err != nil {
		return nil, err
	}
	if in.Name == "" || len(in.Name) > maxArtifactName || len(in.MediaType) > maxMediaType {
		return nil, host.Errorf(host.InvalidArgument, "request of artifact.write: a name has 1 to %d bytes, a media type at most %d", maxArtifactName, maxMediaType)
	}
	id, u, err := a.upload(in.Upload, in.Name, in.MediaType)
	if err != nil {
		return nil, err
	}
	if len(in.Data) > maxArtifactBytes-a.held {
		a.end(id)
		return nil, host.Errorf(host.ResourceExhausted, "what the call sends of artifacts is more than %d bytes", maxArtifactBytes)
	}
	u.data = append(u.data, in.Data...)
	a.held += len(in.Data)
	if !in.Last {
		out := newObject(64)
		out.str("upload", id)
		return out.end(), nil
	}
	a.end(id)
	if err := a.call.AddArtifact(host.Artifact{Name: u.name, Parts: []host.Part{&host.Media{MediaType: u.mediaType, Data: u.data}}}); err != nil {
		return nil, err
	}
	out := newObject(128)
	out.str("digest", digestOf(u.data))
	return out.end(), nil
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

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (a *artifacts) read(req []byte, limit int) ([]byte, error) {
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
	found, err := a.find(in.Name, in.Digest)
	if err != nil {
		return nil, err
	}
	size := int64(len(found.data))
	from := min(in.Offset, size)
	piece := found.data[from:min(size, from+min(length, int64(limit/2)))]
	out := newObject(envelopeSize + base64.StdEncoding.EncodedLen(len(piece)))
	out.bytes("data", piece)
	out.int("size", size)
	out.str("digest", found.digest)
	out.str("media_type", found.mediaType)
	return out.end(), nil
}

// find returns an artifact of the run, the last one of a name.
func (a *artifacts) find(name, digest string) (*artifactBody, error) {
	list := a.call.Artifacts()
	for i := len(list) - 1; i >= 0; i-- {
		if name != "" && list[i].Name != name {
			continue
		}
		if b := a.body(&list[i]); name != "" || b.digest == digest {
			return b, nil
		}
	}
	return nil, host.Errorf(host.NotFound, "the run has no artifact %q", clean(name+digest))
}

// artifactBytes is an artifact as bytes: those of a lone media part, the text of
// text parts, and the JSON of its parts otherwise.
func artifactBytes(a *host.Artifact) (data []byte, mediaType string) {
	if len(a.Parts) == 1 {
		if m, ok := a.Parts[0].(*host.Media); ok && m.URL == "" {
			return m.Data, m.MediaType
		}
	}
	var text strings.Builder
	for _, p := range a.Parts {
		t, ok := p.(*host.Text)
		if !ok {
			raw, err := a.MarshalJSON()
			if err != nil {
				return nil, "application/json"
			}
			return raw, "application/json"
		}
		text.WriteString(t.Text)
	}
	return []byte(text.String()), "text/plain; charset=utf-8"
}
