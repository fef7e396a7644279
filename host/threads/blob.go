package threads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/agenthost/agenthost/host/kv"
)

// Ref names content by its digest. Content is stored once in a thread, however
// often it is referred to.
type Ref struct {
	Digest string `json:"digest"` // SHA-256 in hex
	Size   int    `json:"size"`   // in bytes
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func refTo(b []byte) *Ref { return &Ref{Digest: digestOf(b), Size: len(b)} }

// emptyObject is the state of most threads. It is known by its digest, and not stored.
const emptyObject = "{}"

var emptyObjectRef = *refTo([]byte(emptyObject))

// blobHeader says that all chunks of a blob are stored.
type blobHeader struct {
	version
	Size int `json:"size"`
}

// readBlob returns the content that ref names, from the thread's own content or
// one that it goes back to. The error names the blob by the parameter what.
func (c contents) readBlob(ctx context.Context, ref *Ref, what string) ([]byte, error) {
	if *ref == emptyObjectRef {
		return []byte(emptyObject), nil
	}
	from := c.own
	out := make([]byte, 0, min(ref.Size, 4*ChunkBytes)) // the size is not believed before it is checked
	for i := 0; len(out) < ref.Size; i++ {
		chunk, err := c.get(ctx, from.chunk(ref.Digest, i))
		if err == nil && chunk == nil && i == 0 {
			from, chunk, err = c.inherited(ctx, func(c content) kv.Key { return c.chunk(ref.Digest, 0) })
		}
		if err != nil {
			return nil, err
		}
		if len(chunk) == 0 {
			return nil, damaged("%s of thread %q: a piece is missing", what, c.thread)
		}
		out = append(out, chunk...)
	}
	if digestOf(out) != ref.Digest {
		return nil, damaged("%s of thread %q is not what was stored", what, c.thread)
	}
	return out, nil
}

// blobWrites returns the writes of a blob, the header last.
func (c content) blobWrites(b []byte, ref *Ref) ([]kv.Write, error) {
	var writes []kv.Write
	for i := 0; i*ChunkBytes < len(b); i++ {
		chunk := b[i*ChunkBytes : min((i+1)*ChunkBytes, len(b))]
		writes = append(writes, kv.Put(c.chunk(ref.Digest, i), chunk))
	}
	header, err := encode(blobHeader{version{V: layout}, ref.Size})
	if err != nil {
		return nil, err
	}
	return append(writes, kv.Put(c.blob(ref.Digest), header)), nil
}

// hasBlob reports whether content with that digest is stored.
func (c contents) hasBlob(ctx context.Context, digest string) (bool, error) {
	header, err := c.get(ctx, c.own.blob(digest))
	return header != nil, err
}
