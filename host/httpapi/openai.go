package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi/internal/openaiwire"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/stream"
)

// The answers of the routes of OpenAI's API.
type (
	// Model is a target as OpenAI's clients list models.
	Model struct {
		ID      string `json:"id" description:"the name of a network or agent"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	// ModelList is the answer of GET /v1/models.
	ModelList struct {
		Object string  `json:"object"`
		Data   []Model `json:"data"`
	}
)

// openAIHandlers answer the routes of OpenAI's API, in which a target is a model.
type openAIHandlers struct{ runs *runHandlers }

func (h *openAIHandlers) routes() []*route {
	key := param{name: "Idempotency-Key", kind: "string", doc: "the same request sent again with the same key is answered once"}
	thread := param{name: "X-Thread-Id", kind: "string", doc: "the conversation, if the host keeps it; metadata.thread_id is the same"}
	list := []*route{
		{method: "GET", path: "/v1/models", id: "listModels", scope: ReadRuns, summary: "List the networks and agents that the caller may run, as models.", answer: ModelList{}, handle: h.listModels},
		{method: "GET", path: "/v1/models/{target}", id: "getModel", scope: ReadRuns, summary: "Read a network or agent as a model.", answer: Model{}, handle: h.getModel},
		{method: "POST", path: "/v1/chat/completions", id: "createChatCompletion", scope: WriteRuns, stream: true, headers: []param{key, thread},
			summary: "Run a network or agent, as a chat completion of OpenAI's API. With stream: true the answer is its chunks.",
			body:    openaiwire.ChatRequest{}, answer: stream.ChatCompletion{}, handle: h.chat},
	}
	for _, r := range list {
		r.group, r.refuse = "openai", refuseOpenAI
	}
	return list
}

func (h *openAIHandlers) listModels(c *call) error {
	list := ModelList{Object: "list", Data: []Model{}}
	for _, name := range slices.Sorted(slices.Values(h.runs.targets.Targets())) {
		if allowed := h.runs.allowed; allowed == nil || allowed(c.ctx, c.principal, name) {
			list.Data = append(list.Data, modelOf(name))
		}
	}
	return c.answer(list)
}

func (h *openAIHandlers) getModel(c *call) error {
	name, err := c.path("target")
	if err != nil {
		return err
	}
	target, err := h.runs.target(c, name)
	if err != nil {
		return &modelError{err}
	}
	return c.answer(modelOf(target.Name()))
}

func modelOf(name string) Model { return Model{ID: name, Object: "model", OwnedBy: "agenthost"} }

// modelError is the error about a model that is not there.
type modelError struct{ error }

func (e *modelError) Unwrap() error { return e.error }

// target returns the target that a request names as its model.
func (h *openAIHandlers) target(c *call, model string) (host.Target, error) {
	if model == "" {
		return nil, &openaiwire.ParamError{Param: "model", Err: host.Errorf(host.InvalidArgument, "the request names no model").WithHint("GET /v1/models lists the networks and agents")}
	}
	target, err := h.runs.target(c, model)
	if err != nil {
		return nil, &modelError{err}
	}
	return target, nil
}

// refuseOpenAI answers with an error in the form of OpenAI's API.
func refuseOpenAI(c *call, err error) {
	c.api.logMasked(c, err)
	e := c.api.forClient(err, c.id)
	body, status := stream.NewOpenAIError(e), e.Code.HTTPStatus()
	var other *statusError
	if errors.As(err, &other) {
		status = other.status
	}
	var param *openaiwire.ParamError
	if errors.As(err, &param) {
		body.Param = &param.Param
	}
	var model *modelError
	if errors.As(err, &model) && e.Code == host.NotFound {
		name := "model"
		body.Param, body.Code = &name, "model_not_found"
	}
	var previous *previousError
	if errors.As(err, &previous) && e.Code == host.NotFound {
		name := "previous_response_id"
		body.Param, body.Code, status = &name, "previous_response_not_found", http.StatusBadRequest
	}
	h := c.w.Header()
	e.SetRetryAfter(h)
	if e.Code == host.Unauthenticated {
		h.Set("WWW-Authenticate", authenticateWith)
	}
	raw, err := json.Marshal(map[string]any{"error": body})
	if err != nil {
		raw = []byte(`{"error":{"message":"the answer cannot be written","type":"server_error","param":null,"code":"internal"}}`)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	c.sending()
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(raw, '\n')) // a client that has left reads nothing
}

// threadOf returns the conversation that a request names, "" if the client keeps it. A
// credential of one thread has that one.
func (c *call) threadOf(named string) (string, error) {
	header := c.r.Header.Get("X-Thread-Id")
	if named != "" && header != "" && named != header {
		return "", host.Errorf(host.InvalidArgument, "the request names two threads").WithHint("name it in metadata.thread_id or in X-Thread-Id")
	}
	thread := cmp.Or(named, header, c.principal.Thread)
	return thread, c.mayThread(thread)
}

// start starts the run of a turn. A turn that ends with the results of calls continues
// the run that waits for them; where the client keeps the conversation and that run is gone,
// a run continues from what the client has.
func (h *openAIHandlers) start(c *call, target host.Target, turn *openaiwire.Turn, req *host.Request, opts *runs.StartOptions) (*runs.Run, error) {
	if c.principal.Thread != "" && turn.Instructions != "" {
		return nil, host.Errorf(host.PermissionDenied, "the credential is of one thread, and gives no instructions").WithHint("leave system and developer messages out")
	}
	req.Tenant, req.Key, req.Instructions = c.principal.Tenant, c.principal.Key, turn.Instructions
	if len(turn.Results) > 0 {
		run, err := h.continueRun(c, target, turn, req.Thread, *opts)
		if run != nil || err != nil {
			return run, err
		}
	}
	if err := h.identify(c, target, turn, req); err != nil {
		return nil, err
	}
	if req.Client.Unstored {
		req.Messages = turn.Past
		if turn.Input == nil {
			req.Messages = turn.Conversation()
		}
	}
	if turn.Input == nil && !req.Client.Unstored {
		return nil, host.Errorf(host.FailedPrecondition, "no run of thread %q waits for these results", req.Thread).WithHint("send a user's message")
	}
	req.Input = turn.Input
	run, err := h.runs.runs.Start(c.ctx, target, req, opts)
	if req.Run != "" && host.CodeOf(err) == host.AlreadyExists {
		return h.runs.runs.Get(c.ctx, c.principal.Tenant, req.Run)
	}
	return run, err
}

// leaving returns the options of a run that ends with its client.
func leaving() *runs.StartOptions { return &runs.StartOptions{OnLeave: runs.LeaveCancels} }

// identify gives a turn that may be sent again its ids: by the idempotency key, or by the
// answers that the client sends again before it.
func (h *openAIHandlers) identify(c *call, target host.Target, turn *openaiwire.Turn, req *host.Request) error {
	key, err := c.idempotencyKey()
	if err != nil || turn.Input == nil {
		return err
	}
	tenant := c.principal.Tenant
	if key != "" && req.Client.Unstored {
		req.Run = "run-" + derivedID(tenant, "chat", key, req.Thread, target.Name(), turn.Digest)
	}
	switch {
	case req.Client.Unstored:
	case key != "":
		turn.Input.ID = "message-" + derivedID(tenant, "chat", key)
	case turn.Resent:
		turn.Input.ID = "message-" + derivedID(tenant, "chat", req.Thread, turn.Digest)
	}
	return nil
}

// continueRun starts the run that continues the one which waits for results. Both are nil if
// the client keeps the conversation and no run waits.
func (h *openAIHandlers) continueRun(c *call, target host.Target, turn *openaiwire.Turn, thread string, opts runs.StartOptions) (*runs.Run, error) {
	id, ok := stream.ReadOpenAICallID(turn.Results[0].Call)
	if !ok {
		return nil, nil
	}
	registry, tenant := h.runs.runs, c.principal.Tenant
	raw, err := json.Marshal(turn.Results)
	if err != nil {
		return nil, host.Errorf(host.Internal, "encode results: %w", err)
	}
	opts.Run = "run-" + derivedID(tenant, "results", id, string(raw))
	if again, err := registry.Get(c.ctx, tenant, opts.Run); err == nil { // the answer to the same results was lost
		return again, c.mayThread(again.Thread)
	}
	waiting, err := registry.Waiting(c.ctx, tenant, id)
	switch {
	case err == nil && waiting.Target == target.Name() && (waiting.Thread == thread || thread == ""):
	case thread == "" && (err == nil || slices.Contains([]host.Code{host.NotFound, host.FailedPrecondition, host.Conflict}, host.CodeOf(err))):
		return nil, nil
	case err == nil:
		return nil, host.Errorf(host.NotFound, "no run of thread %q waits for the result of %.60q", thread, turn.Results[0].Call)
	default:
		return nil, err
	}
	if err := c.audit.recordAnswer(id); err != nil {
		return nil, err
	}
	run, err := registry.Answer(c.ctx, tenant, id, openaiwire.Answers(id, waiting.Questions, turn.Results), &opts)
	if run != nil {
		run.Thread = waiting.Thread // known before the run's first event
	}
	return run, err
}

// shown sets the headers that name a run.
func (c *call) shown(run *runs.Run) {
	c.w.Header().Set("X-Run-Id", run.ID)
	if run.Thread != "" {
		c.w.Header().Set("X-Thread-Id", run.Thread)
	}
}

// result waits for a run's result, as clients see it. Code canceled if the client leaves: the
// run ends as well.
func (h *openAIHandlers) result(c *call, run *runs.Run) (*runevent.RunResult, error) {
	defer h.cancelIfLeft(c, run)
	if h.runs.view != nil { // read as they come: a run may have more events than are kept
		return collect(h.runs.eventsFrom(c, run.ID, 0))
	}
	ended, err := h.runs.runs.Wait(c.ctx, c.principal.Tenant, run.ID)
	switch {
	case ended == nil:
		return nil, err
	case ended.Error != nil:
		return nil, c.api.forClient(ended.Error, run.ID)
	case ended.Result != nil:
		return ended.Result, nil
	}
	return collect(h.runs.eventsFrom(c, run.ID, 0))
}

// cancelIfLeft cancels a run whose client has left.
func (h *openAIHandlers) cancelIfLeft(c *call, run *runs.Run) {
	if c.r.Context().Err() == nil {
		return
	}
	_, err := h.runs.runs.Cancel(context.WithoutCancel(c.ctx), c.principal.Tenant, run.ID)
	if host.CodeOf(err) != host.NotFound {
		c.api.logMasked(c, err)
	}
}

// collect returns the result that the events of a run tell of.
func collect(events iter.Seq2[host.Event, error]) (*runevent.RunResult, error) {
	r := &runevent.RunResult{}
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		r.Run = ev.Run
		switch d := ev.Data.(type) {
		case *runevent.RunStarted:
			r.Replayed = d.Replayed
		case *runevent.AgentStarted:
			r.Results = append(r.Results, &host.Result{Agent: ev.Agent})
		case *runevent.MessageDone:
			if n := len(r.Results); n > 0 {
				r.Results[n-1].Messages = append(r.Results[n-1].Messages, d.Message)
			}
		case *runevent.AgentFinished:
			if n := len(r.Results); n > 0 {
				r.Results[n-1].FinishReason = d.FinishReason
			}
		case *runevent.Interrupted:
			r.Questions = append(r.Questions, d.Question)
		case *runevent.RunFinished:
			r.Thread, r.FinishReason, r.Usage = d.Thread, d.FinishReason, d.Usage
		}
	}
	return r, nil
}
