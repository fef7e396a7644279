package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/sessions"
)

// The answers of the routes of sessions, which have the forms of [sessions.Service.Handler].
type (
	// SessionOutput is the answer of a turn.
	SessionOutput struct {
		Result *sessions.Output `json:"result"`
	}
	// SessionSnapshot is the answer with a snapshot.
	SessionSnapshot struct {
		Result *sessions.Snapshot `json:"result"`
	}
	// SessionArtifact is the answer with an artifact.
	SessionArtifact struct {
		Result *host.Artifact `json:"result"`
	}
	// SessionStatus is the answer of a change of a turn in the background.
	SessionStatus struct {
		Result TurnStatus `json:"result"`
	}
)

// TurnName is the body of the changes of a turn in the background.
type TurnName struct {
	Snapshot string `json:"snapshot" description:"of the turn"`
}

// TurnStatus is the status of a turn in the background.
type TurnStatus struct {
	Snapshot string          `json:"snapshot"`
	Status   sessions.Status `json:"status"`
}

// sessionHandlers answer the routes of sessions: those of [sessions.Service.Handler], with
// the bodies, answers and errors that it has.
type sessionHandlers struct {
	services func(target string) (*sessions.Service, error)
	runs     *runHandlers // may the caller run a target?

	mu      sync.Mutex
	mounted map[string]mountedService // by the name of the target
}

// mountedService is a service with its handler.
type mountedService struct {
	service *sessions.Service
	handler http.Handler
}

func (h *sessionHandlers) routes() []*route {
	session := param{name: "session", kind: "string", doc: "the id of the session"}
	snapshot := param{name: "snapshot", kind: "string", doc: "in the place of the session: as it was then"}
	digest := param{name: "digest", kind: "string", doc: "of the artifact, as a snapshot lists it"}
	name := param{name: "name", kind: "string", doc: "of the artifact; it takes the place of the one of that name"}
	events := param{name: "stream", kind: "string", doc: "true: the answer is the turn's events", values: []string{"true", "false"}}
	list := []*route{
		{method: "POST", path: "turn", id: "sessionTurn", scope: WriteRuns, stream: true, query: []param{events},
			summary: "Run a turn of a session. Accept chooses the answer, as in startRun.", body: sessions.Request{}, answer: SessionOutput{}},
		{method: "POST", path: "snapshot", id: "sessionSnapshot", scope: ReadThreads,
			summary: "Read a snapshot by its id, or a session's latest, with or without its state.", body: sessions.SnapshotRequest{}, answer: SessionSnapshot{}},
		{method: "POST", path: "wait", id: "sessionWait", scope: ReadThreads, stream: true,
			summary: "Wait for a turn in the background, and read its snapshot.", body: sessions.SnapshotRequest{}, answer: SessionSnapshot{}},
		{method: "POST", path: "abort", id: "sessionAbort", scope: WriteRuns, audit: "session.abort",
			summary: "End a turn in the background.", body: TurnName{}, answer: SessionStatus{}},
		{method: "POST", path: "detach", id: "sessionDetach", scope: WriteRuns, audit: "session.detach",
			summary: "Move a turn that runs to the background.", body: TurnName{}, answer: SessionStatus{}},
		{method: "GET", path: "artifact", id: "sessionArtifact", scope: ReadThreads, query: []param{session, snapshot, digest},
			summary: "Read an artifact of a session.", answer: SessionArtifact{}},
		{method: "PUT", path: "artifact", id: "putSessionArtifact", scope: WriteThreads, audit: "session.artifact", query: []param{session, name}, takes: octets,
			summary: "Store a file as an artifact of a session, with the media type of the body.", answer: SessionSnapshot{}},
		{method: "GET", path: "content", id: "sessionContent", scope: ReadThreads, stream: true, query: []param{session, snapshot, digest},
			summary: "Read the file that was stored as an artifact of a session.", raw: octets},
	}
	for _, r := range list {
		r.group, r.refuse, r.handle = "sessions", refuseSession, h.handle("/"+r.path)
		r.path = "/v1/sessions/{target}/" + r.path
	}
	return list
}

// handle serves a request with the path of the service's own handler.
func (h *sessionHandlers) handle(path string) func(*call) error {
	return func(c *call) error {
		if err := c.whole(); err != nil {
			return err
		}
		own, err := h.handler(c)
		if err != nil {
			return err
		}
		if err := c.audit.record(); err != nil {
			return err
		}
		r := c.r.WithContext(context.WithValue(c.ctx, callerKey{}, sessions.Caller{
			Tenant: c.principal.Tenant, Key: c.principal.Key,
			Answering: func(_ context.Context, run string) error { return c.audit.recordAnswer(run) },
		}))
		r.URL = &url.URL{Path: path, RawQuery: c.r.URL.RawQuery}
		if c.route.takes != "" {
			r.Body = c.upload(c.api.options.Bounds.MaxFileBytes)
		}
		own.ServeHTTP(&slowAnswer{ResponseWriter: c.w, call: c}, r)
		return errAnswered
	}
}

// callerKey is that of the caller in the context of a request.
type callerKey struct{}

// handler returns the handler of the sessions of the target that the path names.
func (h *sessionHandlers) handler(c *call) (http.Handler, error) {
	name, err := c.path("target")
	if err != nil {
		return nil, err
	}
	target, err := h.runs.target(c, name)
	if err != nil {
		return nil, err
	}
	service, err := h.services(target.Name())
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.mounted[target.Name()]; m.service == service {
		return m.handler, nil
	}
	own := service.HandlerOf(func(r *http.Request) (sessions.Caller, error) {
		caller, _ := r.Context().Value(callerKey{}).(sessions.Caller)
		return caller, nil
	})
	h.mounted[target.Name()] = mountedService{service, own}
	return own, nil
}

// refuseSession answers with an error in the form of the sessions' handler.
func refuseSession(c *call, err error) {
	c.api.logMasked(c, err)
	e := c.api.forClient(err, c.id)
	status := e.Code.HTTPStatus()
	h := c.w.Header()
	e.SetRetryAfter(h)
	if e.Code == host.Unauthenticated {
		h.Set("WWW-Authenticate", authenticateWith)
	}
	raw, err := json.Marshal(map[string]any{"error": e})
	if err != nil {
		raw = []byte(`{"error":{"code":"internal","message":"the answer cannot be written"}}`)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	c.sending()
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(raw, '\n'))
}
