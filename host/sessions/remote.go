package sessions

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/stream"
)

// MaxFrameBytes is the longest event that a [Remote] reads.
const MaxFrameBytes = 64 << 20

// Remote is a client of a service that another process serves with
// [Service.Handler]. Its fields must not be changed once it is used; it is safe
// for concurrent use.
type Remote struct {
	URL    string       // where the handler is, without a slash at the end
	Client *http.Client // default: one without a timeout of its own
	// Header adds to each request, such as a credential; may be nil.
	Header func(ctx context.Context) (http.Header, error)
}

var (
	_ Client = (*Remote)(nil)
	_ Client = tenantsClient{}

	_ BackgroundClient = (*Remote)(nil)
	_ BackgroundClient = tenantsClient{}
)

// Turn runs a turn. A connection that is lost before the turn has ended is an
// error of code unavailable, an event that is missing one of data_loss.
func (r *Remote) Turn(ctx context.Context, req *Request) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		resp, err := r.do(ctx, http.MethodPost, "/turn", req, "application/x-ndjson")
		if err != nil {
			yield(host.Event{}, err)
			return
		}
		defer resp.Body.Close()
		read := ReadEvents()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, MaxFrameBytes)
		lines.Split(wholeLines)
		for lines.Scan() {
			ev, err := readLine(lines.Bytes(), read)
			if err != nil {
				yield(host.Event{}, err)
				return
			}
			if _, ended := ev.Data.(*TurnEnded); !yield(ev, nil) || ended {
				return
			}
		}
		yield(host.Event{}, lostAt(ctx, lines.Err()))
	}
}

// wholeLines is bufio.ScanLines for lines that all have an end: a piece of a line
// means a lost connection.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// readLine reads a line, which may be the error of a stream.
func readLine(line []byte, read func(json.RawMessage) (host.Event, error)) (host.Event, error) {
	var failure struct {
		Error *host.Error `json:"error"`
	}
	if bytes.HasPrefix(line, []byte(`{"error"`)) {
		if err := json.Unmarshal(line, &failure); err == nil && failure.Error != nil {
			return host.Event{}, failure.Error
		}
	}
	return read(bytes.Clone(line))
}

// ReadEvents returns a function that reads the events of one turn from their
// wire form, for programs with a transport of their own: see [stream.ReadBrief].
func ReadEvents() func(data json.RawMessage) (host.Event, error) {
	read := stream.ReadBrief()
	return func(data json.RawMessage) (host.Event, error) {
		ev, err := read(data)
		if err != nil {
			return ev, err
		}
		return withEnd(ev)
	}
}

// withEnd reads the end of a turn.
func withEnd(ev host.Event) (host.Event, error) {
	unknown, ok := ev.Data.(*runevent.UnknownEvent)
	if !ok || unknown.Name != turnEnded {
		return ev, nil
	}
	end := &TurnEnded{}
	if err := json.Unmarshal(unknown.JSON, end); err != nil {
		return ev, host.Errorf(host.DataLoss, "read the end of a turn: %w", err)
	}
	ev.Data = end
	return ev, nil
}

func lostAt(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return fault.AsError(fault.ContextError(ctx))
	}
	if cause == nil {
		cause = io.ErrUnexpectedEOF
	}
	return host.Errorf(host.Unavailable, "the connection was lost before the turn ended: %w", cause).
		WithHint("load the session to see what became of it")
}

// Snapshot reads a snapshot.
func (r *Remote) Snapshot(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	return called[Snapshot](ctx, r, http.MethodPost, "/snapshot", req)
}

// Wait waits for a turn in the background.
func (r *Remote) Wait(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	return called[Snapshot](ctx, r, http.MethodPost, "/wait", req)
}

// Abort asks a turn in the background to end.
func (r *Remote) Abort(ctx context.Context, snapshot string) (Status, error) {
	var out aborted
	err := r.call(ctx, http.MethodPost, "/abort", &abortRequest{Snapshot: snapshot}, &out)
	return out.Status, err
}

// Detach moves a running turn to the background: see [Service.Detach].
func (r *Remote) Detach(ctx context.Context, snapshot string) (Status, error) {
	var out aborted
	err := r.call(ctx, http.MethodPost, "/detach", &abortRequest{Snapshot: snapshot}, &out)
	return out.Status, err
}

// Artifact reads an artifact of a session by its digest.
func (r *Remote) Artifact(ctx context.Context, session, digest string) (*host.Artifact, error) {
	query := url.Values{"session": {session}, "digest": {digest}}
	return called[host.Artifact](ctx, r, http.MethodGet, "/artifact?"+query.Encode(), nil)
}

// ArtifactAt reads an artifact of a snapshot by its digest.
func (r *Remote) ArtifactAt(ctx context.Context, snapshot, digest string) (*host.Artifact, error) {
	query := url.Values{"snapshot": {snapshot}, "digest": {digest}}
	return called[host.Artifact](ctx, r, http.MethodGet, "/artifact?"+query.Encode(), nil)
}

// PutArtifact stores an artifact: see [Service.PutArtifact]; Metadata and Limit
// are the host's. The content is streamed.
func (r *Remote) PutArtifact(ctx context.Context, session string, up *ArtifactUpload, content io.Reader) (*Snapshot, error) {
	if up == nil {
		up = &ArtifactUpload{}
	}
	query := url.Values{"session": {session}, "name": {up.Name}}
	resp, err := r.send(ctx, http.MethodPut, "/artifact?"+query.Encode(), content, http.Header{"Content-Type": {up.MediaType}})
	if err != nil {
		return nil, err
	}
	out := &Snapshot{}
	return out, readAnswer(ctx, resp, out)
}

// OpenArtifact returns the content of an artifact that was put. The caller
// closes it.
func (r *Remote) OpenArtifact(ctx context.Context, session, digest string) (io.ReadCloser, error) {
	return r.content(ctx, url.Values{"session": {session}, "digest": {digest}})
}

// OpenArtifactAt returns the content of an artifact of a snapshot. The caller
// closes it.
func (r *Remote) OpenArtifactAt(ctx context.Context, snapshot, digest string) (io.ReadCloser, error) {
	return r.content(ctx, url.Values{"snapshot": {snapshot}, "digest": {digest}})
}

func (r *Remote) content(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	resp, err := r.send(ctx, http.MethodGet, "/content?"+query.Encode(), nil, http.Header{})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// called is call for answers of one type.
func called[A any](ctx context.Context, r *Remote, method, path string, req any) (*A, error) {
	out := new(A)
	if err := r.call(ctx, method, path, req, out); err != nil {
		return nil, err
	}
	return out, nil
}

func (r *Remote) call(ctx context.Context, method, path string, req, out any) error {
	resp, err := r.do(ctx, method, path, req, "application/json")
	if err != nil {
		return err
	}
	return readAnswer(ctx, resp, out)
}

func readAnswer(ctx context.Context, resp *http.Response, out any) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxFrameBytes))
	if err != nil {
		return lostAt(ctx, err)
	}
	answer := struct {
		Result any `json:"result"`
	}{out}
	if err := json.Unmarshal(body, &answer); err != nil {
		return host.Errorf(host.Unavailable, "the host answers with what is no answer: %w", err)
	}
	return nil
}

// do sends a request. An answer that is an error is returned as one.
func (r *Remote) do(ctx context.Context, method, path string, req any, accept string) (*http.Response, error) {
	var body io.Reader
	if req != nil {
		raw, err := json.Marshal(req)
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "write the request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	return r.send(ctx, method, path, body, http.Header{"Accept": {accept}, "Content-Type": {"application/json"}})
}

func (r *Remote) send(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	out, err := http.NewRequestWithContext(ctx, method, r.URL+path, body)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "ask %s: %w", path, err)
	}
	if r.Header != nil {
		own, err := r.Header(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(out.Header, own)
	}
	maps.Copy(out.Header, header)
	client := r.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(out)
	if err != nil {
		return nil, lostAt(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, remoteError(resp)
}

func remoteError(resp *http.Response) error {
	var body struct {
		Error *host.Error `json:"error"`
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxRequestBytes))
	if err == nil && json.Unmarshal(raw, &body) == nil && body.Error != nil {
		return body.Error
	}
	return host.Errorf(host.Unavailable, "the host answers with status %d", resp.StatusCode)
}
