package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/stream"
)

// StartRun is the body of POST /v1/runs.
type StartRun struct {
	Target          string          `json:"target,omitempty" description:"the network or agent; absent is the default"`
	Thread          string          `json:"thread,omitempty" description:"the conversation to continue; absent starts one"`
	Branch          string          `json:"branch,omitempty" description:"the branch of the thread to continue"`
	Text            string          `json:"text,omitempty" description:"the user's input"`
	Input           *host.Message   `json:"input,omitempty" description:"the same as a message, with an id of the client's: sent again, it is answered once"`
	Regenerate      string          `json:"regenerate,omitempty" description:"the id of a stored user's message to answer again"`
	NewBranch       bool            `json:"new_branch,omitempty" description:"with regenerate: the thread stays, and the answer is on a branch"`
	State           json.RawMessage `json:"state,omitempty" description:"members that overlay the thread's state"`
	ModelParameters map[string]any  `json:"model_parameters,omitempty" description:"for this run, over those of each agent"`
	Racing          host.Racing     `json:"racing,omitempty" description:"if another run is on the thread: wait, fail or branch"`
	Durable         bool            `json:"durable,omitempty" description:"the run is continued if its host dies"`
	OnLeave         runs.Leave      `json:"on_leave,omitempty" description:"without readers: continue, the default, or cancel"`
}

// Answers is the body of POST /v1/runs/{run}/answers.
type Answers struct {
	Answers []host.Answer `json:"answers" description:"one for each question of the run"`
	OnLeave runs.Leave    `json:"on_leave,omitempty"`
}

// EndedRun is a run with what it answered, as far as it came.
type EndedRun struct {
	runs.Run
	Text     string          `json:"text,omitempty" description:"the text of the last answer"`
	State    json.RawMessage `json:"state,omitempty" description:"the custom state after the run"`
	Usage    *host.Usage     `json:"usage,omitempty"`
	Replayed bool            `json:"replayed,omitempty" description:"the message had been answered before, and this is that answer"`
}

// runHandlers answer the routes of runs.
type runHandlers struct {
	runs    *runs.Registry
	targets Targets
	allowed func(ctx context.Context, p *keys.Principal, target string) bool
	view    *stream.View
	stream  stream.ServeOptions
}

func (h *runHandlers) routes() []*route {
	target := param{name: "thread", kind: "string", doc: "runs on that thread"}
	status := param{name: "status", kind: "string", doc: "runs of that status",
		values: []string{string(runs.Running), string(runs.Interrupted), string(runs.Completed), string(runs.Failed), string(runs.Canceled)}}
	from := param{name: "from", kind: "integer", doc: "the number of the first event; the header Last-Event-ID names the one before it"}
	last := param{name: "Last-Event-ID", kind: "string", doc: "the id of the last event that the client has read"}
	prefer := param{name: "Prefer", kind: "string", doc: "respond-async: the answer is 202 with the run, which continues"}
	return []*route{
		{method: "POST", path: "/v1/runs", id: "startRun", group: "runs", scope: WriteRuns, stream: true,
			summary: "Start a run. Accept chooses the answer: application/json is the ended run, text/event-stream and application/x-ndjson are its events.",
			headers: []param{keyParam, prefer}, body: StartRun{}, answer: EndedRun{}, handle: h.startRun},
		{method: "GET", path: "/v1/runs", id: "listRuns", group: "runs", scope: ReadRuns, query: []param{target, status, limitParam, cursorParam},
			summary: "List runs that are live and those that have just ended, the last started first.", answer: runs.Page{}, handle: h.listRuns},
		{method: "GET", path: "/v1/runs/{run}", id: "getRun", group: "runs", scope: ReadRuns,
			summary: "Read a run.", answer: EndedRun{}, handle: h.getRun},
		{method: "GET", path: "/v1/runs/{run}/events", id: "runEvents", group: "runs", scope: ReadRuns, stream: true, query: []param{from}, headers: []param{last},
			summary: "Follow a run's events from a number on, until it ends.", raw: "text/event-stream", handle: h.runEvents},
		{method: "POST", path: "/v1/runs/{run}/cancel", id: "cancelRun", group: "runs", scope: WriteRuns, audit: "run.cancel",
			summary: "Cancel a run. One that has ended keeps its status.", answer: EndedRun{}, handle: h.cancelRun},
		{method: "POST", path: "/v1/runs/{run}/answers", id: "answerRun", group: "runs", scope: WriteRuns, audit: answerAction, stream: true, headers: []param{prefer},
			summary: "Answer the questions of an interrupted run: the run that continues it is started, and answered as by startRun.",
			body:    Answers{}, answer: EndedRun{}, handle: h.answerRun},
	}
}

func (h *runHandlers) startRun(c *call) error {
	var in StartRun
	if err := c.body(&in); err != nil {
		return err
	}
	req, err := h.request(c, &in)
	if err != nil {
		return err
	}
	target, err := h.target(c, in.Target)
	if err != nil {
		return err
	}
	key, err := c.takeKey(&in)
	if err != nil {
		return err
	}
	if err := identify(&key, &in, req); err != nil {
		return err
	}
	run, attached, err := h.runs.StartAttached(c.ctx, target, req, &runs.StartOptions{OnLeave: in.OnLeave})
	if key.given() && host.CodeOf(err) == host.AlreadyExists {
		if run, err = h.runs.Get(c.ctx, c.principal.Tenant, req.Run); err != nil {
			return err
		}
		return h.follow(c, run, h.byID(c, run.ID))
	}
	if err != nil {
		return err
	}
	defer attached.Detach()
	return h.follow(c, run, attached)
}

// runReader reads a run, such as a [runs.Attachment] of the request that has started it.
type runReader interface {
	Events(ctx context.Context, from int64) iter.Seq2[host.Event, error]
	Wait(ctx context.Context) (*runs.Run, error)
}

var (
	_ runReader = (*runs.Attachment)(nil)
	_ runReader = runByID{}
)

// runByID reads a run that another request has started, while the registry knows it.
type runByID struct {
	registry   *runs.Registry
	tenant, id string
}

// byID returns the reader of a run of the caller's tenant.
func (h *runHandlers) byID(c *call, id string) runByID {
	return runByID{h.runs, c.principal.Tenant, id}
}

// Events implements runReader.
func (r runByID) Events(ctx context.Context, from int64) iter.Seq2[host.Event, error] {
	return r.registry.Events(ctx, r.tenant, r.id, from)
}

// Wait implements runReader.
func (r runByID) Wait(ctx context.Context) (*runs.Run, error) {
	return r.registry.Wait(ctx, r.tenant, r.id)
}

// identify gives a request with an idempotency key the same ids each time: a run that
// is live is followed, and a message that was answered is answered with the stored
// turn. Without Options.Idempotency the same key with another body is another run of the
// same message, which the history refuses with code conflict.
func identify(key *requestKey, in *StartRun, req *host.Request) error {
	if !key.given() {
		return nil
	}
	body, err := json.Marshal(in)
	if err != nil {
		return host.Errorf(host.InvalidArgument, "the body cannot be written: %w", err)
	}
	req.Run = "run-" + key.digest("run"+string(body))
	if req.Thread == "" {
		req.Thread = key.id("thread")
	}
	switch {
	case req.Regenerate != "":
	case req.Input == nil:
		req.Input, req.Text = host.UserText(req.Text), ""
		req.Input.ID = key.id("message")
	case req.Input.ID == "":
		req.Input = req.Input.Clone()
		req.Input.ID = key.id("message")
	}
	return nil
}

// request returns the host's request for what a client asks.
func (h *runHandlers) request(c *call, in *StartRun) (*host.Request, error) {
	if err := c.mayThread(in.Thread); err != nil {
		return nil, err
	}
	if in.Input != nil && in.Input.Role != host.User && in.Input.Role != "" {
		return nil, host.Errorf(host.PermissionDenied, "the input has the role %q", in.Input.Role).WithHint("a client sends messages of the role user")
	}
	req := &host.Request{
		Tenant: c.principal.Tenant, Key: c.principal.Key, Thread: in.Thread, Branch: in.Branch,
		Text: in.Text, Input: in.Input, Regenerate: in.Regenerate, NewBranch: in.NewBranch,
		ModelParameters: in.ModelParameters, Racing: in.Racing, Durable: in.Durable,
	}
	state := bytes.TrimSpace(in.State)
	switch {
	case len(state) == 0 || string(state) == "null":
	case state[0] != '{':
		return nil, host.Errorf(host.InvalidArgument, "the state is not a JSON object").WithHint("send the members that overlay the thread's state: {\"name\":value}")
	default:
		req.State = in.State
	}
	return req, nil
}

// target returns the network or agent of a name that the principal may run.
func (h *runHandlers) target(c *call, name string) (host.Target, error) {
	t, err := h.targets.Target(name)
	if err != nil && host.CodeOf(err) != host.NotFound {
		return nil, err
	}
	// The error of Targets may name its configuration, and targets of others.
	if err != nil || h.allowed != nil && !h.allowed(c.ctx, c.principal, t.Name()) {
		return nil, host.Errorf(host.NotFound, "there is no network or agent %.60q", name).WithHint("GET /v1/targets lists them")
	}
	return t, nil
}

// async reports whether the client wants its answer before the run has ended.
func (c *call) async() bool {
	for _, v := range c.r.Header.Values("Prefer") {
		for _, p := range strings.Split(v, ",") {
			if strings.EqualFold(strings.TrimSpace(p), "respond-async") {
				return true
			}
		}
	}
	return false
}

// follow answers with a started run in the form that the request accepts.
func (h *runHandlers) follow(c *call, run *runs.Run, reader runReader) error {
	c.w.Header().Set("Location", "/v1/runs/"+url.PathEscape(run.ID))
	switch {
	case c.async():
		c.w.Header().Set("Preference-Applied", "respond-async")
		return c.answerWith(http.StatusAccepted, h.ended(c, run))
	case wantsEvents(c.r):
		return h.events(c, reader, 0)
	}
	ended, err := reader.Wait(c.ctx)
	if ended == nil {
		return err
	}
	if c.r.Header.Get("Idempotency-Key") != "" && ended.Error != nil && ended.Error.Code == host.Conflict {
		return ended.Error // the key came with another body
	}
	return c.answer(h.ended(c, ended))
}

// ended returns a run as its tenant's clients see it.
func (h *runHandlers) ended(c *call, run *runs.Run) *EndedRun {
	e := &EndedRun{Run: *run}
	if run.Error != nil {
		e.Error = c.api.forClient(run.Error, run.ID)
	}
	if r := run.Result; r != nil {
		e.Text, e.Usage, e.Replayed = r.Text(), &r.Usage, r.Replayed
		state, err := h.view.State(c.ctx, r.State)
		c.api.logMasked(c, err) // and no state is shown
		if err == nil {
			e.State = state
		}
	}
	return e
}

func wantsEvents(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "application/x-ndjson")
}

func (h *runHandlers) listRuns(c *call) error {
	limit, err := c.query.integer("limit")
	if err != nil {
		return err
	}
	thread := c.query.text("thread")
	if c.principal.Thread != "" {
		thread = c.principal.Thread
	}
	page, err := h.runs.List(c.ctx, &runs.ListRequest{
		Tenant: c.principal.Tenant, Thread: thread, Status: runs.Status(c.query.text("status")), Limit: limit, Cursor: c.query.text("cursor"),
	})
	if err != nil {
		return err
	}
	for _, r := range page.Runs {
		if r.Error != nil {
			r.Error = c.api.forClient(r.Error, r.ID)
		}
	}
	return c.answer(page)
}

// run returns the run that the path names, inside the tenant.
func (h *runHandlers) run(c *call) (*runs.Run, error) {
	id, err := c.path("run")
	if err != nil {
		return nil, err
	}
	run, err := h.runs.Get(c.ctx, c.principal.Tenant, id)
	if err != nil {
		return nil, err
	}
	if only := c.principal.Thread; only != "" && run.Thread != only {
		return nil, host.Errorf(host.NotFound, "there is no run %.60q", id)
	}
	return run, nil
}

func (h *runHandlers) getRun(c *call) error {
	run, err := h.run(c)
	if err != nil {
		return err
	}
	return c.answer(h.ended(c, run))
}

func (h *runHandlers) runEvents(c *call) error {
	run, err := h.run(c)
	if err != nil {
		return err
	}
	from, err := c.query.integer("from")
	if err != nil {
		return err
	}
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return host.Errorf(host.InvalidArgument, "Last-Event-ID is not the number of an event: %.60q", last)
		}
		return h.events(c, h.byID(c, run.ID), n+1)
	}
	return h.events(c, h.byID(c, run.ID), int64(from))
}

// events answers with the events of a run.
func (h *runHandlers) events(c *call, run runReader, from int64) error {
	opts := h.stream
	opts.Encoder = stream.Own()
	var refused error // before the first event, as of a run that waited and did not begin
	err := stream.Serve(c.w, c.r, func(yield func(host.Event, error) bool) {
		begun := false
		for ev, err := range h.eventsOf(c, run, from) {
			if err != nil && !begun {
				refused = err
				return
			}
			if begun = true; !yield(ev, err) {
				return
			}
		}
	}, &opts)
	if refused != nil {
		return refused
	}
	c.api.logMasked(c, err)
	return errAnswered
}

// eventsOf yields the events of a run that clients see. A view numbers them, so it reads
// from the first one on.
func (h *runHandlers) eventsOf(c *call, run runReader, from int64) iter.Seq2[host.Event, error] {
	view := h.view
	if view == nil {
		return run.Events(c.ctx, from)
	}
	all := view.Events(c.ctx, run.Events(c.ctx, 0))
	return func(yield func(host.Event, error) bool) {
		for ev, err := range all {
			if err == nil && ev.Seq < from {
				continue
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func (h *runHandlers) cancelRun(c *call) error {
	run, err := h.run(c)
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if run, err = h.runs.Cancel(c.ctx, c.principal.Tenant, run.ID); err != nil {
		return err
	}
	return c.answer(h.ended(c, run))
}

func (h *runHandlers) answerRun(c *call) error {
	var in Answers
	if err := c.body(&in); err != nil {
		return err
	}
	run, err := h.run(c)
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	run, attached, err := h.runs.AnswerAttached(c.ctx, c.principal.Tenant, run.ID, in.Answers, &runs.StartOptions{OnLeave: in.OnLeave, Key: c.principal.Key})
	if err != nil {
		return err
	}
	defer attached.Detach()
	return h.follow(c, run, attached)
}

// mayThread refuses a thread that the credential does not reach, like one that does not exist.
func (c *call) mayThread(id string) error {
	if only := c.principal.Thread; only != "" && id != only {
		return host.Errorf(host.NotFound, "there is no thread %.60q", id)
	}
	return nil
}
