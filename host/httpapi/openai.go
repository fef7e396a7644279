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
	"github.com/agenthost/agenthost/host/threads"
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
type openAIHandlers struct {
	runs    *runHandlers
	threads *threads.Store // of the targets' conversations; nil is another store's
}

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

// ask is a request of a client for the next turn of a conversation.
type ask struct {
	target host.Target
	turn   *openaiwire.Turn
	req    *host.Request // without the turn
	how    *runs.StartOptions
	key    requestKey
}

// maxAttempts bounds how often a request starts a run whose clients all leave.
const maxAttempts = 3

// readKey reads the idempotency key of a request that the caller may make, and whose body is
// raw. A request with a key has the same run each time: see attempt.
func (a *ask) readKey(c *call, raw []byte) (err error) {
	if c.principal.Thread != "" && a.turn.Instructions != "" {
		return host.Errorf(host.PermissionDenied, "the credential is of one thread, and gives no instructions").WithHint("leave system and developer messages out")
	}
	if a.key, err = c.readKey(); a.key.given() {
		a.req.Run = "run-" + a.key.digest("openai\x00"+c.r.Header.Get("X-Thread-Id")+"\x00"+string(raw))
	}
	return err
}

// rememberKey remembers the key with the request, when all that it names has been found.
func (a *ask) rememberKey(c *call, raw []byte) error {
	return a.key.remember(c, json.RawMessage(raw))
}

// attempt returns the id of a run that a request starts in place of first, when it was sent
// again n times after the run before was canceled because its client had left.
func attempt(first string, n int) string {
	if n == 0 {
		return first
	}
	return first + "-" + strconv.Itoa(n+1)
}

// attempts returns the ids of all runs that a request may start in place of first.
func attempts(first string) (ids []string) {
	for n := range maxAttempts {
		ids = append(ids, attempt(first, n))
	}
	return ids
}

// start starts the run of a turn, or finds the one that the same request has started before. A
// turn that ends with the results of calls continues the run that waits for them; where the
// client keeps the conversation and that run is gone, a run continues from what the client has.
// The caller ends the attachment by left.
func (h *openAIHandlers) start(c *call, a *ask) (*runs.Run, *runs.Attachment, error) {
	turn, req := a.turn, a.req
	req.Tenant, req.Key, req.Instructions = c.principal.Tenant, c.principal.Key, turn.Instructions
	if len(turn.Results) > 0 {
		run, attached, err := h.continueRun(c, a)
		if run != nil || err != nil {
			return run, attached, err
		}
	}
	if turn.Input == nil && !req.Client.Unstored {
		return nil, nil, host.Errorf(host.FailedPrecondition, "no run of thread %q waits for these results", req.Thread).WithHint("send a user's message")
	}
	if err := a.fill(c.ctx, h.threads); err != nil {
		return nil, nil, err
	}
	begin := func(id string) (*runs.Run, *runs.Attachment, error) {
		own := *req
		own.Run = id
		return h.runs.runs.StartAttached(c.ctx, a.target, &own, a.how)
	}
	if a.key.given() {
		return h.attach(c, req.Thread, req.Run, begin)
	}
	return begin(req.Run)
}

// fill gives the request the messages of the turn. A message that may be sent again, by the
// idempotency key, behind the answers that the client sends again before it, or after its turn
// has failed, has the same id each time.
func (a *ask) fill(ctx context.Context, of *threads.Store) error {
	turn, req := a.turn, a.req
	req.Input = turn.Input
	switch {
	case req.Client.Unstored && turn.Input == nil:
		req.Messages = turn.Conversation()
	case req.Client.Unstored:
		req.Messages = turn.Past
	case a.key.given():
		req.Input.ID = a.key.id("message")
	case turn.Resent:
		req.Input.ID = "message-" + derivedID(req.Tenant, "chat", req.Thread, turn.Digest)
	case of != nil && req.Thread != "":
		id, err := failedInput(ctx, of.For(req.Tenant), req.Thread, req.Input)
		if err != nil {
			return err
		}
		req.Input.ID = id
	}
	return nil
}

// failedWindow is how many messages of a turn that failed are looked at for its input.
const failedWindow = 64

// failedInput returns the id of the input of a thread's last turn if that turn failed or was
// canceled and its input says the same as another: the client sends it again, without a key that
// would say so, and the model hears it once. It is "" otherwise.
func failedInput(ctx context.Context, of *threads.Tenant, thread string, input *host.Message) (string, error) {
	last, err := of.Show(ctx, thread, failedWindow)
	if host.CodeOf(err) == host.NotFound || err == nil && len(last.Snapshots) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	turn := last.Snapshots[len(last.Snapshots)-1]
	if turn.Input == "" || turn.Status != threads.Failed && turn.Status != threads.Canceled {
		return "", nil
	}
	for _, m := range slices.Backward(last.Messages) {
		if m.Role == host.User {
			if m.ID != turn.Input || !m.SameContent(input) {
				return "", nil
			}
			return m.ID, nil
		}
	}
	return "", nil
}

// attach begins a run of an id and attaches its client to it, or to the one of the id that
// another request has begun. One that was canceled because its client had left is begun again.
func (h *openAIHandlers) attach(c *call, thread, first string, begin func(id string) (*runs.Run, *runs.Attachment, error)) (*runs.Run, *runs.Attachment, error) {
	for n := range maxAttempts {
		id := attempt(first, n)
		if h.canceled(c, thread, id) {
			continue
		}
		if run, attached, err := begin(id); host.CodeOf(err) != host.AlreadyExists {
			return run, attached, err
		}
		if run, attached, err := h.runs.runs.Attach(c.ctx, c.principal.Tenant, id); host.CodeOf(err) != host.NotFound {
			return run, attached, err
		}
	}
	return nil, nil, host.Errorf(host.Conflict, "the request has come before, and its client has left its run %d times", maxAttempts).WithHint("send it with another idempotency key")
}

// canceled reports whether a thread has a canceled turn of a run.
func (h *openAIHandlers) canceled(c *call, thread, run string) bool {
	if h.threads == nil || thread == "" {
		return false
	}
	turn, err := h.threads.For(c.principal.Tenant).Snapshot(c.ctx, thread, run)
	return err == nil && turn.Status == threads.Canceled
}

// leaving returns the options of a run that ends with its client.
func leaving() *runs.StartOptions { return &runs.StartOptions{OnLeave: runs.LeaveCancels} }

// continueRun starts the run that continues the one which waits for results, or finds it. The
// run is nil without an error if the client keeps the conversation and no run waits.
func (h *openAIHandlers) continueRun(c *call, a *ask) (*runs.Run, *runs.Attachment, error) {
	results, thread := a.turn.Results, a.req.Thread
	id, ok := stream.ReadOpenAICallID(results[0].Call)
	if !ok {
		return nil, nil, nil
	}
	registry, tenant := h.runs.runs, c.principal.Tenant
	raw, err := json.Marshal(results)
	if err != nil {
		return nil, nil, host.Errorf(host.Internal, "encode results: %w", err)
	}
	how := *a.how
	how.Key = c.principal.Key
	how.Run = "run-" + derivedID(tenant, "results", id, string(raw))
	if again, attached, err := registry.Attach(c.ctx, tenant, how.Run); err == nil { // the answer to the same results was lost
		if err := c.mayThread(again.Thread); err != nil {
			attached.Detach()
			return nil, nil, err
		}
		return again, attached, nil
	}
	if left, on := h.leftRun(c, how.Run, thread); left {
		if on == "" {
			return nil, nil, nil
		}
		return h.tryAgain(c, a, on, how.Run)
	}
	waiting, err := registry.Waiting(c.ctx, tenant, id)
	switch {
	case err == nil && waiting.Target == a.target.Name() && (waiting.Thread == thread || thread == ""):
	case thread == "" && (err == nil || slices.Contains([]host.Code{host.NotFound, host.FailedPrecondition, host.Conflict}, host.CodeOf(err))):
		return nil, nil, nil
	case err == nil:
		return nil, nil, host.Errorf(host.NotFound, "no run of thread %q waits for the result of %.60q", thread, results[0].Call)
	default:
		return nil, nil, err
	}
	if err := c.audit.recordAnswer(id); err != nil {
		return nil, nil, err
	}
	answers := openaiwire.Answers(id, waiting.Questions, results)
	run, attached, err := h.attach(c, waiting.Thread, how.Run, func(id string) (*runs.Run, *runs.Attachment, error) {
		how.Run = id
		return registry.AnswerAttached(c.ctx, tenant, waiting.ID, answers, &how)
	})
	if thread == "" && host.CodeOf(err) == host.FailedPrecondition { // its questions have expired, and it is not settled yet
		return nil, nil, nil
	}
	if run != nil {
		run.Thread = waiting.Thread // known before the run's first event
	}
	return run, attached, err
}

// leftRun reports whether the run that had the results was canceled because its client had
// left, after it has ended, and returns its thread.
func (h *openAIHandlers) leftRun(c *call, id, thread string) (left bool, on string) {
	if run, _ := h.runs.runs.Wait(c.ctx, c.principal.Tenant, id); run != nil && run.Status == runs.Canceled {
		return thread == "" || thread == run.Thread, run.Thread
	}
	return h.canceled(c, thread, id), thread
}

// tryAgain starts a run that answers what a thread has: the results that the run first stored
// before it was canceled.
func (h *openAIHandlers) tryAgain(c *call, a *ask, thread, first string) (*runs.Run, *runs.Attachment, error) {
	if err := c.mayThread(thread); err != nil {
		return nil, nil, err
	}
	req := *a.req
	req.Thread = thread
	return h.attach(c, thread, attempt(first, 1), func(id string) (*runs.Run, *runs.Attachment, error) {
		req.Run = id
		return h.runs.runs.StartAttached(c.ctx, a.target, &req, a.how)
	})
}

// shown sets the headers that name a run.
func (c *call) shown(run *runs.Run) {
	c.w.Header().Set("X-Run-Id", run.ID)
	if run.Thread != "" {
		c.w.Header().Set("X-Thread-Id", run.Thread)
	}
}

// left ends what start began. A run whose last client has left is canceled, unless it is one in
// the background.
func (c *call) left(attached *runs.Attachment) {
	if c.r.Context().Err() != nil {
		attached.Abandon()
	}
	attached.Detach()
}

// result waits for a run's result, as clients see it.
func (h *openAIHandlers) result(c *call, run *runs.Run, attached *runs.Attachment) (*runevent.RunResult, error) {
	if h.runs.view != nil { // read as they come: a run may have more events than are kept
		return collect(h.runs.eventsOf(c, attached, 0))
	}
	ended, err := attached.Wait(c.ctx)
	switch {
	case ended == nil:
		return nil, err
	case ended.Error != nil:
		return nil, c.api.forClient(ended.Error, run.ID)
	case ended.Result != nil:
		return ended.Result, nil
	}
	return collect(h.runs.eventsOf(c, attached, 0))
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
