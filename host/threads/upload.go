package threads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"math"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// An upload is content too large to be held in memory as a message or an
// artifact. It is stored on its own, a piece at a time, and messages and
// artifacts refer to it by an address.

// MaxUploadBytes bounds what one upload stores.
const MaxUploadBytes = 2 << 30

// uploadScheme begins the address of an upload.
const uploadScheme = "upload:"

// URL returns the address by which messages and artifacts of the thread refer to
// an upload that [Tenant.Upload] has stored.
func (r *Ref) URL() string { return uploadScheme + r.Digest }

// UploadDigest returns the digest that an address of [Ref.URL] names.
func UploadDigest(url string) (digest string, ok bool) {
	digest, ok = strings.CutPrefix(url, uploadScheme)
	if raw, err := hex.DecodeString(digest); !ok || err != nil || len(raw) != sha256.Size {
		return "", false
	}
	return digest, true
}

// upload says that something is stored whole, and under which name its chunks
// are: not its digest, which is known when the last of them is written.
type upload struct {
	version
	Size   int    `json:"size"`
	Chunks string `json:"chunks"`
}

// Upload stores what r yields, up to limit bytes (0 is [MaxUploadBytes]), and returns
// its digest and size. It holds one piece of [ChunkBytes] at a time. An upload that the
// thread has already is not stored twice. Uploading changes nothing of the
// conversation: a message or an artifact refers to the upload by [Ref.URL]. Uploads are
// removed with the thread, and so are the leftovers of an interrupted one.
//
// Code not_found if there is no such thread, resource_exhausted beyond the limit,
// and whatever r fails with.
func (tn *Tenant) Upload(ctx context.Context, id string, r io.Reader, limit int64) (*Ref, error) {
	if limit < 0 || limit > MaxUploadBytes {
		return nil, host.Errorf(host.InvalidArgument, "upload to thread %q: the limit is %d, not up to %d", id, limit, MaxUploadBytes)
	}
	if limit == 0 {
		limit = MaxUploadBytes
	}
	limit = min(limit, math.MaxInt) // Ref.Size is one
	t, err := tn.write.read.find(ctx, id)
	if err != nil {
		return nil, err
	}
	w := &uploadWriter{write: tn.write, to: t, name: "upload/" + host.NewID(), sum: sha256.New(), limit: limit}
	if err := w.copy(ctx, r); err != nil {
		return nil, errors.Join(err, w.discard(context.WithoutCancel(ctx)))
	}
	ref := &Ref{Digest: hex.EncodeToString(w.sum.Sum(nil)), Size: int(w.size)}
	known, err := w.publish(ctx, ref)
	if (err != nil || known) && !errors.Is(err, kv.ErrInDoubt) { // else the header may refer to the chunks
		err = errors.Join(err, w.discard(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, fault.AsError(err)
	}
	return ref, nil
}

// uploadWriter writes an upload.
type uploadWriter struct {
	write  threadWriter
	to     *Moment
	name   string
	sum    hash.Hash
	size   int64
	limit  int64
	chunks int
}

func (w *uploadWriter) copy(ctx context.Context, r io.Reader) error {
	piece := make([]byte, ChunkBytes)
	for {
		n, err := io.ReadFull(r, piece)
		if w.size += int64(n); w.size > w.limit {
			return host.Errorf(host.ResourceExhausted, "upload to thread %q: there are more than %d bytes", w.to.rec.ID, w.limit)
		}
		if n > 0 {
			w.sum.Write(piece[:n])
			put := kv.Tx{Writes: []kv.Write{kv.Put(w.to.content.chunk(w.name, w.chunks), piece[:n])}}
			if _, err := w.to.part.Apply(ctx, put); err != nil {
				return wrap(err, "upload to thread %q", w.to.rec.ID)
			}
			w.chunks++
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return host.Errorf(codeOfReader(err), "upload to thread %q: %w", w.to.rec.ID, err)
		}
	}
}

// codeOfReader is the code of a reader's error: its own, if it has one.
func codeOfReader(err error) host.Code {
	if code := host.CodeOf(err); code != host.Internal {
		return code
	}
	return host.Unavailable
}

// publish stores the header of the upload, unless the thread has the same
// upload. A thread that was deleted meanwhile, or continues in another content,
// has lost the chunks.
func (w *uploadWriter) publish(ctx context.Context, ref *Ref) (known bool, err error) {
	_, err = w.write.commit(ctx, w.to.rec.ID, "upload to thread", func(d *draft) error {
		if d.thread.revision == 0 {
			return notFound(w.to.rec.ID)
		}
		if d.thread.rec.Content != w.to.rec.Content {
			return moved(w.to.rec.ID)
		}
		old, err := d.thread.contents().get(ctx, d.thread.content.upload(ref.Digest))
		if known = old != nil; err != nil {
			return err
		}
		if known {
			return errNothing
		}
		header, err := encode(upload{version{V: layout}, ref.Size, w.name})
		if err != nil {
			return err
		}
		d.tx.put(d.thread.content.upload(ref.Digest), header)
		return nil
	})
	return known, err
}

// discard removes the chunks of an upload that was not published.
func (w *uploadWriter) discard(ctx context.Context) error {
	return w.to.part.Remove(ctx, w.to.content.all().With("chunk", w.name))
}

// OpenUpload returns a reader of an upload to the thread or to a thread that it
// was forked from. The reader reads a piece of [ChunkBytes] at a time, with ctx,
// and holds nothing open. The content is verified once the reader has reached
// its end: a missing or changed piece is an error of code data_loss. Code
// not_found if the thread has no such upload, also while reading if the thread
// is deleted.
func (tn *Tenant) OpenUpload(ctx context.Context, id, digest string) (io.Reader, *Ref, error) {
	return tn.OpenUploadAt(ctx, id, At{}, digest)
}

// OpenUploadAt is OpenUpload of a moment of the thread: also of one on a branch
// that the thread has left.
func (tn *Tenant) OpenUploadAt(ctx context.Context, id string, at At, digest string) (io.Reader, *Ref, error) {
	if _, ok := UploadDigest(uploadScheme + digest); !ok {
		return nil, nil, host.Errorf(host.NotFound, "thread %q has no upload %.80q", id, digest)
	}
	t, err := tn.write.read.findAt(ctx, id, at)
	if err != nil {
		return nil, nil, err
	}
	return t.OpenUpload(ctx, digest)
}

// OpenUpload returns a reader of an upload that the moment can refer to, as
// [Tenant.OpenUpload] does.
func (t *Moment) OpenUpload(ctx context.Context, digest string) (io.Reader, *Ref, error) {
	from := t.content
	raw, err := t.contents().get(ctx, from.upload(digest))
	if err == nil && raw == nil {
		from, raw, err = t.contents().inherited(ctx, func(c content) kv.Key { return c.upload(digest) })
	}
	if err == nil && raw == nil {
		from = t.root()
		raw, err = t.contents().get(ctx, from.upload(digest))
	}
	if err != nil {
		return nil, nil, err
	}
	if raw == nil {
		return nil, nil, host.Errorf(host.NotFound, "thread %q has no upload %.80q", t.rec.ID, digest)
	}
	return t.contents().openUpload(ctx, from, raw, digest)
}

// openUpload returns a reader of an upload of a content, described by the header raw.
func (c contents) openUpload(ctx context.Context, from content, raw []byte, digest string) (io.Reader, *Ref, error) {
	var u upload
	if err := decode(raw, &u, "upload of thread", c.thread); err != nil {
		return nil, nil, err
	}
	r := &uploadReader{thread: c.thread, from: from, upload: u, digest: digest, sum: sha256.New(),
		get: func(key kv.Key) ([]byte, error) { return c.get(ctx, key) },
		find: func() error {
			_, err := c.part.find(ctx, c.thread)
			return err
		}}
	return r, &Ref{Digest: digest, Size: u.Size}, nil
}

// uploadReader reads an upload.
type uploadReader struct {
	thread string // its id, for errors
	from   content
	upload upload
	digest string
	get    func(kv.Key) ([]byte, error)
	find   func() error // whether the thread is still there

	sum  hash.Hash
	read int // bytes of the chunks so far
	next int // chunk
	rest []byte
}

func (r *uploadReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.rest) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// fill reads the next piece, or at the end compares the digest of all pieces.
func (r *uploadReader) fill() error {
	if r.read == r.upload.Size {
		if hex.EncodeToString(r.sum.Sum(nil)) != r.digest {
			return damaged("upload %s of thread %q is not what was stored", r.digest, r.thread)
		}
		return io.EOF
	}
	piece, err := r.get(r.from.chunk(r.upload.Chunks, r.next))
	if err != nil {
		return err
	}
	if len(piece) == 0 {
		if err := r.find(); err != nil { // the thread was deleted meanwhile, which is no damage
			return err
		}
	}
	if len(piece) == 0 || r.read+len(piece) > r.upload.Size {
		return damaged("upload %s of thread %q: a piece is missing", r.digest, r.thread)
	}
	r.next++
	r.read += len(piece)
	r.sum.Write(piece)
	r.rest = piece
	return nil
}
