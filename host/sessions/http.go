package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/stream"
)

// maxRequestBytes bounds a request besides its session.
const maxRequestBytes = 2 << 20

// Handler serves sessions over HTTP. tenant returns the name of the caller, from
// a credential and never from the body; its error is the answer, and an empty
// name is answered with code unauthenticated. Bodies are JSON, chunked or not;
// unknown members are ignored.
//
//	POST /turn       a [Request]; answers {"result": Output}, or events if it accepts
//	                 text/event-stream or application/x-ndjson, or asks with ?stream=true
//	POST /snapshot   a [SnapshotRequest]; {"result": Snapshot}
//	POST /wait       the same, when the turn has ended
//	POST /abort      {"snapshot"}; {"result": {"snapshot","status"}}
//	POST /detach     the same, for a turn that runs and is listened to
//	GET  /artifact   ?session=...&digest=...; {"result": the artifact}
//	PUT  /artifact   ?session=...&name=...; the body is the content, of its
//	                 Content-Type; {"result": Snapshot}
//	GET  /content    ?session=...&digest=...; the content of such an artifact
//
// Artifacts and contents are those that the session has now; with ?snapshot=... in
// the place of the session, those of then.
//
// A turn that failed is status 200 with its error in the output. A request that
// cannot be run is answered with the status of its error, as
// {"error":{"code","message","hint"?}}. Clients read errors as [fault.ForClient]
// has them; the whole text goes to the logger of Options.Host.
func (s *Service) Handler(tenant func(*http.Request) (string, error)) http.Handler {
	return s.HandlerOf(func(r *http.Request) (Caller, error) {
		name, err := tenant(r)
		return Caller{Tenant: name}, err
	})
}

// Caller is who sends a request, by the credential.
type Caller struct {
	Tenant string
	Key    string // see [Request].Key; may be empty

	Answering func(ctx context.Context, run string) error // see [Request].Answering; may be nil
}

// HandlerOf is [Service.Handler] for callers that have keys.
func (s *Service) HandlerOf(caller func(*http.Request) (Caller, error)) http.Handler {
	h := &handler{s, caller}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /turn", h.turn)
	mux.HandleFunc("POST /snapshot", serve(h, s.Snapshot))
	mux.HandleFunc("POST /wait", serve(h, s.Wait))
	mux.HandleFunc("POST /abort", serve(h, s.abortAsked))
	mux.HandleFunc("POST /detach", serve(h, s.detachAsked))
	mux.HandleFunc("GET /artifact", h.artifact)
	mux.HandleFunc("PUT /artifact", h.putArtifact)
	mux.HandleFunc("GET /content", h.content)
	return mux
}

type handler struct {
	service *Service
	caller  func(*http.Request) (Caller, error)
}

// callerOf returns the caller. A credential without a tenant is refused, also where
// the host has one tenant alone: requests over a network have no default.
func (h *handler) callerOf(r *http.Request) (Caller, error) {
	c, err := h.caller(r)
	if err != nil {
		return Caller{}, err
	}
	if c.Tenant == "" {
		return Caller{}, host.Errorf(host.Unauthenticated, "the request names no tenant").WithHint("send a credential")
	}
	c.Tenant, err = h.service.served.host.Tenant(c.Tenant)
	return c, err
}

// tenantOf returns the caller's tenant.
func (h *handler) tenantOf(r *http.Request) (string, error) {
	c, err := h.callerOf(r)
	return c.Tenant, err
}

// read returns the caller and reads the body into into.
func (h *handler) read(w http.ResponseWriter, r *http.Request, into any) (c Caller, err error) {
	if c, err = h.callerOf(r); err != nil {
		return Caller{}, err
	}
	limit := h.service.bodyBytes
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return Caller{}, badBody(err, limit)
	}
	if _, _, err := jsondoc.DecodeStrict(raw); err != nil { // what encoding/json reads in its own way
		return Caller{}, host.Errorf(host.InvalidArgument, "the body is not JSON: %w", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return Caller{}, badBody(err, limit)
	}
	return c, nil
}

func badBody(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	var coded *host.Error
	switch {
	case errors.As(err, &tooLarge):
		return host.Errorf(host.ResourceExhausted, "the body is more than %d bytes", limit)
	case errors.As(err, &coded):
		return coded
	}
	return host.Errorf(host.InvalidArgument, "the body is not a request: %s", bodyFault(err))
}

// bodyFault says which member does not fit, without names of Go types.
func bodyFault(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return "a member has another form"
	case wrong.Field == "":
		return "it is a JSON " + wrong.Value
	}
	return "member " + strconv.Quote(wrong.Field) + " is a JSON " + wrong.Value
}

func (h *handler) turn(w http.ResponseWriter, r *http.Request) {
	req := &Request{}
	c, err := h.read(w, r, req)
	if err != nil {
		h.answer(w, nil, err)
		return
	}
	req.Tenant, req.Key, req.Answering = c.Tenant, c.Key, c.Answering
	if wantsEvents(r) {
		err := stream.Serve(w, r, h.service.Turn(r.Context(), req), &stream.ServeOptions{Encoder: stream.Brief()})
		h.logMasked(err)
		return
	}
	out, run, err := h.service.runTurn(r.Context(), req)
	if out != nil {
		h.answer(w, out.forClient(run), nil)
		return
	}
	h.answer(w, nil, err)
}

// wantsEvents finds the media types anywhere in the Accept headers.
func wantsEvents(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "application/x-ndjson") || r.URL.Query().Get("stream") == "true"
}

// serve answers with the result of one call. R is a request with a field for its
// tenant.
func serve[R any, A any](h *handler, call func(context.Context, *R) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := new(R)
		c, err := h.read(w, r, req)
		if err != nil {
			h.answer(w, nil, err)
			return
		}
		if t, ok := any(req).(interface{ of(string) }); ok {
			t.of(c.Tenant)
		}
		result, err := call(r.Context(), req)
		h.answer(w, result, err)
	}
}

func (r *SnapshotRequest) of(tenant string) { r.Tenant = tenant }
func (r *abortRequest) of(tenant string)    { r.Tenant = tenant }

type abortRequest struct {
	Tenant   string `json:"-"`
	Snapshot string `json:"snapshot"`
}

type aborted struct {
	Snapshot string `json:"snapshot"`
	Status   Status `json:"status"`
}

func (s *Service) abortAsked(ctx context.Context, req *abortRequest) (*aborted, error) {
	status, err := s.Abort(ctx, req.Tenant, req.Snapshot)
	return &aborted{req.Snapshot, status}, err
}

func (s *Service) detachAsked(ctx context.Context, req *abortRequest) (*aborted, error) {
	status, err := s.Detach(ctx, req.Tenant, req.Snapshot)
	return &aborted{req.Snapshot, status}, err
}

func (h *handler) artifact(w http.ResponseWriter, r *http.Request) {
	tenant, err := h.tenantOf(r)
	var a *host.Artifact
	if err == nil {
		q := r.URL.Query()
		if snapshot := q.Get("snapshot"); snapshot != "" {
			a, err = h.service.ArtifactAt(r.Context(), tenant, snapshot, q.Get("digest"))
		} else {
			a, err = h.service.Artifact(r.Context(), tenant, q.Get("session"), q.Get("digest"))
		}
	}
	h.answer(w, a, err)
}

func (h *handler) putArtifact(w http.ResponseWriter, r *http.Request) {
	tenant, err := h.tenantOf(r)
	var snap *Snapshot
	if err == nil {
		up := &ArtifactUpload{Name: r.URL.Query().Get("name"), MediaType: r.Header.Get("Content-Type")}
		snap, err = h.service.PutArtifact(r.Context(), tenant, r.URL.Query().Get("session"), up, r.Body)
	}
	h.answer(w, snap, err)
}

// content sends an artifact that a client has put. A browser must not run a
// client's content under this origin: it is sent as a file, with the type that
// the client gave.
func (h *handler) content(w http.ResponseWriter, r *http.Request) {
	tenant, err := h.tenantOf(r)
	var content io.Reader
	var mediaType string
	var size int64
	if err == nil {
		q := r.URL.Query()
		if snapshot := q.Get("snapshot"); snapshot != "" {
			content, mediaType, size, err = h.service.OpenArtifactAt(r.Context(), tenant, snapshot, q.Get("digest"))
		} else {
			content, mediaType, size, err = h.service.OpenArtifact(r.Context(), tenant, q.Get("session"), q.Get("digest"))
		}
	}
	if err != nil {
		h.answer(w, nil, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	header.Set("Content-Disposition", "attachment")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if _, err := io.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler) // too late to say so in another way
	}
}

// logMasked writes down an error that the client reads less of. Cancellation is
// the client's own.
func (h *handler) logMasked(err error) {
	if err == nil || host.CodeOf(err) == host.Canceled || !fault.Masked(err) {
		return
	}
	h.service.served.logError("request failed", "", err)
}

func (h *handler) answer(w http.ResponseWriter, result any, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	body := map[string]any{"result": result}
	if err != nil {
		h.logMasked(err)
		e := fault.ForClient(err, "")
		body = map[string]any{"error": e}
		e.SetRetryAfter(w.Header())
		w.WriteHeader(e.Code.HTTPStatus())
	}
	raw, err := json.Marshal(body)
	if err != nil {
		raw = []byte(`{"error":{"code":"internal","message":"the answer cannot be written"}}`)
	}
	_, _ = w.Write(append(raw, '\n'))
}
