package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// octets is the media type of bytes of no other one.
const octets = "application/octet-stream"

// maxRanges bounds the parts of a file that one request names: each may be found by reading
// the file up to it. A request that names more is answered with the whole file.
const maxRanges = 8

// upload is a body that is a file. It is read as it comes, and not held.
type upload struct {
	io.Reader
	limit int64
	err   error // the answer to a body that cannot be read
}

// upload returns the body of a route that takes a file, of at most limit bytes.
func (c *call) upload(limit int64) *upload {
	return &upload{Reader: http.MaxBytesReader(c.w, c.r.Body, limit), limit: limit}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err != io.EOF {
		u.err = badBody(err, u.limit)
		err = u.err
	}
	return n, err
}

// Close implements io.Closer; the server closes the body.
func (u *upload) Close() error { return nil }

// fault returns the answer to an upload that was refused with err: that of the body if
// it could not be read.
func (u *upload) fault(err error) error {
	if u.err != nil {
		return u.err
	}
	return err
}

// file is an answer that is a file: parts of it can be asked for, and it is not held.
type file struct {
	mediaType string
	name      string // that a browser saves it under
	tag       string // of its content
	size      int64
	open      func() (io.Reader, error) // at its beginning
}

// inMemory returns how a file is opened that is.
func inMemory(content []byte) func() (io.Reader, error) {
	return func() (io.Reader, error) { return bytes.NewReader(content), nil }
}

// serveFile answers with a file, or the parts that the header Range names. A browser must not
// run the content of a tenant under this origin: it is sent to be saved. A failure after
// its first bytes ends the connection, so that no client takes half a file for the whole.
func (c *call) serveFile(f *file) error {
	h := c.w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("ETag", `"`+f.tag+`"`)
	content := &seekableFile{file: f}
	out := &fileAnswer{slowAnswer: slowAnswer{ResponseWriter: c.w, call: c}}
	r := c.r
	if strings.Count(strings.Join(r.Header.Values("Range"), ","), ",") >= maxRanges {
		r = r.Clone(c.ctx)
		r.Header.Del("Range")
	}
	http.ServeContent(out, r, "", time.Time{}, content)
	if content.err != nil {
		c.api.logMasked(c, content.err)
		panic(http.ErrAbortHandler)
	}
	return out.refused
}

// slowAnswer is an answer each piece of which has a deadline of its own.
type slowAnswer struct {
	http.ResponseWriter
	call *call
}

func (w *slowAnswer) Write(p []byte) (int, error) {
	w.call.sending()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *slowAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fileAnswer is the answer with a file. It keeps back a refusal of net/http, in whose
// place a Problem is sent.
type fileAnswer struct {
	slowAnswer
	refused error
}

// WriteHeader implements http.ResponseWriter.
func (w *fileAnswer) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	err := host.Errorf(host.InvalidArgument, "the file has no such part").WithHint("ask for bytes below the size that Content-Range has")
	if status == http.StatusPreconditionFailed {
		err = host.Errorf(host.FailedPrecondition, "the file is not the one that If-Match names")
	}
	h := w.Header()
	for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "ETag"} {
		h.Del(name)
	}
	w.refused = &statusError{status, err}
}

func (w *fileAnswer) Write(p []byte) (int, error) {
	if w.refused != nil {
		return len(p), nil
	}
	return w.slowAnswer.Write(p)
}

// seekableFile reads a file from any position: it opens the file again, and passes over
// the bytes before.
type seekableFile struct {
	file    *file
	from    io.Reader // nil if it is not open
	at, pos int64     // of from, and of the next byte
	err     error     // of reading
}

func (s *seekableFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.pos
	case io.SeekEnd:
		offset += s.file.size
	}
	if offset < 0 || offset > s.file.size {
		return 0, errors.New("a position outside of the file")
	}
	s.pos = offset
	return offset, nil
}

func (s *seekableFile) Read(p []byte) (n int, err error) {
	defer func() {
		if err != nil && err != io.EOF {
			s.err = err
		}
	}()
	if s.pos < s.at || s.from == nil {
		s.at = 0
		if s.from, err = s.file.open(); err != nil {
			return 0, err
		}
	}
	if s.pos > s.at {
		passed, err := io.CopyN(io.Discard, s.from, s.pos-s.at)
		if s.at += passed; err != nil {
			return 0, err
		}
	}
	n, err = s.from.Read(p)
	s.at += int64(n)
	s.pos = s.at
	return n, err
}

// artifactFile returns the content of an artifact as a file: of one whose content is a
// single text or medium. openUpload opens a content that is stored by its digest.
func artifactFile(a *host.Artifact, openUpload func(digest string) (io.Reader, int64, error)) (*file, error) {
	none := host.Errorf(host.FailedPrecondition, "the artifact is not the content of one file").WithHint("read its parts instead: leave out /content")
	if len(a.Parts) != 1 {
		return nil, none
	}
	f := &file{name: fileName(a.Name)}
	switch p := a.Parts[0].(type) {
	case *host.Text:
		f.mediaType, f.size, f.open = "text/plain; charset=utf-8", int64(len(p.Text)), inMemory([]byte(p.Text))
	case *host.Media:
		f.mediaType = p.MediaType
		if _, _, err := mime.ParseMediaType(p.MediaType); err != nil {
			f.mediaType = octets
		}
		if len(p.Data) > 0 || p.URL == "" {
			f.size, f.open = int64(len(p.Data)), inMemory(p.Data)
			break
		}
		digest, ok := threads.UploadDigest(p.URL)
		if !ok {
			return nil, host.Errorf(host.FailedPrecondition, "the artifact's content is elsewhere").WithHint("read its address instead: leave out /content")
		}
		_, size, err := openUpload(digest)
		if err != nil {
			return nil, err
		}
		f.size, f.open = size, func() (io.Reader, error) { r, _, err := openUpload(digest); return r, err }
	default:
		return nil, none
	}
	return f, nil
}

// fileName returns a name that is fit for a header.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune(`"\/:;%`, r) {
			return '_'
		}
		return r
	}, name)
	if name == "" || len(name) > 100 {
		return "artifact"
	}
	return name
}
