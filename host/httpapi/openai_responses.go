package httpapi

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi/internal/openaiwire"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
)

// responsePrefix begins the ids of responses, before the run's.
const responsePrefix = "resp_"

// The answers of the routes of responses, beside stream.Response.
type (
	// DeletedResponse is the answer of DELETE /v1/responses/{response}.
	DeletedResponse struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}
	// InputItems is the answer of GET /v1/responses/{response}/input_items.
	InputItems struct {
		Object  string            `json:"object"`
		Data    []json.RawMessage `json:"data"`
		FirstID string            `json:"first_id"`
		LastID  string            `json:"last_id"`
		HasMore bool              `json:"has_more"`
	}
)

// responseHandlers answer the routes of responses.
type responseHandlers struct {
	*openAIHandlers
	store *responses.Store
}

func (h *responseHandlers) routes() []*route {
	key := param{name: "Idempotency-Key", kind: "string", doc: "the same request sent again with the same key is answered once"}
	streamed := param{name: "stream", kind: "string", doc: "true: the answer is the response's events", values: []string{"true", "false"}}
	after := param{name: "starting_after", kind: "integer", doc: "with stream: the sequence_number of the last event that the client has read"}
	order := param{name: "order", kind: "string", doc: "desc is the default", values: []string{"asc", "desc"}}
	afterID := param{name: "after", kind: "string", doc: "the last_id of the page before"}
	list := []*route{
		{method: "POST", path: "/v1/responses", id: "createResponse", scope: WriteRuns, stream: true, headers: []param{key},
			summary: "Run a network or agent, as a response of OpenAI's API. With stream: true the answer is its events.",
			body:    openaiwire.ResponseRequest{}, answer: stream.Response{}, handle: h.create},
		{method: "GET", path: "/v1/responses/{response}", id: "getResponse", scope: ReadRuns, stream: true, query: []param{streamed, after},
			summary: "Read a response, or follow one in the background.", answer: stream.Response{}, handle: h.get},
		{method: "POST", path: "/v1/responses/{response}/cancel", id: "cancelResponse", scope: WriteRuns, audit: "response.cancel",
			summary: "Cancel a response in the background. One that has ended keeps its status.", answer: stream.Response{}, handle: h.cancel},
		{method: "DELETE", path: "/v1/responses/{response}", id: "deleteResponse", scope: WriteRuns, audit: "response.delete",
			summary: "Delete a response. The messages of its conversation stay.", answer: DeletedResponse{}, handle: h.delete},
		{method: "GET", path: "/v1/responses/{response}/input_items", id: "responseInputItems", scope: ReadRuns, query: []param{limitParam, order, afterID},
			summary: "List the items of a response's input.", answer: InputItems{}, handle: h.inputItems},
	}
	for _, r := range list {
		r.group, r.refuse = "openai", refuseOpenAI
	}
	return list
}

// newResponse is a response that is to be made.
type newResponse struct {
	ask
	in    openaiwire.ResponseRequest
	raw   []byte
	terms *openaiwire.Terms
	opts  stream.ResponseOptions // but for the run
	fork  bool                   // its thread is a fork that was made for it

	previous *responses.Record // that it continues; nil for none
}

// create answers POST /v1/responses.
func (h *responseHandlers) create(c *call) error {
	n, err := h.readResponse(c)
	if err != nil {
		return err
	}
	before, err := h.before(c, n)
	if err != nil {
		return err
	}
	if before == nil {
		if err := n.findPrevious(c, h); err != nil {
			return err
		}
	}
	if err := n.rememberKey(c, n.raw); err != nil {
		return err
	}
	switch {
	case before == nil:
		err = h.place(c, n)
	case n.in.Background || before.Ended && !n.in.Stream:
		return h.answerStored(c, before, n.in.Stream, 0)
	default:
		n.req.Thread = before.Thread
	}
	if err != nil {
		return err
	}
	n.how = leaving()
	n.how.Ended = func(run *runs.Run) {
		if run.Status == runs.Canceled && c.r.Context().Err() != nil { // its client, which has left, may send it again
			h.giveBack(c, run.Thread, run.ID)
		}
	}
	if n.in.Background {
		n.how = &runs.StartOptions{Ended: func(run *runs.Run) { h.keepEnded(c, n, run) }}
	}
	run, attached, err := h.start(c, &n.ask)
	if err != nil {
		h.giveBack(c, n.req.Thread, n.req.Run)
		n.removeFork(c, h.openAIHandlers)
		return err
	}
	defer c.left(attached)
	c.shown(run)
	if err := h.placeRun(c, n, run); err != nil {
		return err
	}
	opts := h.optionsOf(c, n, run)
	if n.in.Background {
		if err := h.begin(c, n, run, stream.Responses(&opts).Response()); err != nil {
			return err
		}
	}
	switch {
	case n.in.Stream:
		return h.follow(c, h.runs.eventsOf(c, attached, 0), &opts)
	case n.in.Background:
		return c.answer(stream.Responses(&opts).Response())
	}
	result, err := h.result(c, run, attached)
	if err != nil {
		if c.r.Context().Err() == nil {
			h.giveBack(c, run.Thread, run.ID)
		}
		return err
	}
	return h.answerKept(c, n, run, result, &opts)
}

// before returns the record of the response that the same request has made or begun before;
// while it is made, one with the thread alone. It is nil for the first request.
func (h *responseHandlers) before(c *call, n *newResponse) (*responses.Record, error) {
	if !n.key.given() {
		return nil, nil
	}
	var known *responses.Record
	for i := range maxAttempts {
		id := attempt(n.req.Run, i)
		r, err := h.store.Get(c.ctx, c.principal.Tenant, responsePrefix+id)
		if host.CodeOf(err) != host.NotFound {
			return r, err
		}
		run, err := h.runs.runs.Get(c.ctx, c.principal.Tenant, id)
		switch {
		case host.CodeOf(err) == host.NotFound:
			return known, nil
		case err != nil:
			return nil, err
		case run.Thread != "" && !n.in.Background:
			known = &responses.Record{Thread: run.Thread}
		}
	}
	return known, nil
}

// answerKept answers with the response of a run that has ended, after it is stored.
func (h *responseHandlers) answerKept(c *call, n *newResponse, run *runs.Run, result *runevent.RunResult, opts *stream.ResponseOptions) error {
	opts.Ended = nil
	r := stream.NewResponse(result, nil, opts)
	raw, err := encodeResponse(r)
	if err != nil {
		return err
	}
	if r.Store {
		own, cancel := c.detached()
		defer cancel()
		h.logUnstored(own, r.ID, h.putRaw(own, n, run, raw))
	}
	return c.answer(json.RawMessage(raw))
}

// readResponse reads the request, and checks it.
func (h *responseHandlers) readResponse(c *call) (*newResponse, error) {
	raw, err := c.readBody()
	if err != nil {
		return nil, err
	}
	n := &newResponse{raw: raw}
	if err := decodeKnown(raw, &n.in); err != nil {
		return nil, err
	}
	if n.terms, err = n.in.Terms(); err != nil {
		return nil, err
	}
	if n.turn, err = n.in.Turn(); err != nil {
		return nil, err
	}
	n.opts = stream.ResponseOptions{JSON: n.terms.JSON(), Approvals: n.terms.Approvals}
	if n.opts.Response, err = n.in.Response(); err != nil {
		return nil, err
	}
	if n.target, err = h.target(c, n.in.Model); err != nil {
		return nil, err
	}
	return n, h.request(c, n)
}

// optionsOf returns the options of the encoder of a response that a run makes. A response
// whose conversation the host keeps is stored when the run has ended.
func (h *responseHandlers) optionsOf(c *call, n *newResponse, run *runs.Run) stream.ResponseOptions {
	opts := n.opts
	own := &opts.Response
	own.ID, own.CreatedAt = responsePrefix+run.ID, run.Started.Unix()
	if own.Store = run.Thread != ""; own.Store {
		own.Conversation = &stream.ResponseConversation{ID: run.Thread}
		opts.Ended = func(r *stream.Response) {
			if r.Status != "cancelled" || c.r.Context().Err() == nil { // its client, which has left, may send it again
				h.keep(c, n, run, r)
			}
		}
	}
	return opts
}

// request makes the request of a response, which lacks its thread, and reads its key. A client
// that sends its earlier answers and names no conversation keeps that itself.
func (h *responseHandlers) request(c *call, n *newResponse) error {
	n.req = &host.Request{Client: &n.terms.Client, ModelParameters: n.terms.Parameters, Durable: n.in.Background}
	named, err := n.in.ConversationID()
	if err != nil {
		return err
	}
	kept := named == "" && n.in.PreviousResponse == "" && c.principal.Thread == "" && (n.turn.Resent || !n.in.Stored())
	switch {
	case kept && n.in.Background:
		return &openaiwire.ParamError{Param: "background", Err: host.Errorf(host.InvalidArgument, "the client keeps the conversation of a response in the background").WithHint("name a conversation or a previous_response_id")}
	case kept:
		n.req.Client.Unstored = true
	case !n.in.Stored():
		return &openaiwire.ParamError{Param: "store", Err: host.Errorf(host.InvalidArgument, "the conversation is the host's and nothing is to be stored").WithHint("send the conversation as input, or leave store out")}
	case n.in.PreviousResponse == "":
		if n.req.Thread, err = c.threadOf(named); err != nil {
			return err
		}
	}
	if err := n.readKey(c, n.raw); err != nil {
		return err
	}
	if n.req.Run == "" {
		n.req.Run = h.runs.runs.NewID()
	}
	return nil
}

// follow answers with the events of a response.
func (h *responseHandlers) follow(c *call, events iter.Seq2[host.Event, error], opts *stream.ResponseOptions) error {
	serve := h.runs.stream
	serve.Encoder = stream.Responses(opts)
	c.r.Header.Del("Accept") // the request has chosen the form
	c.api.logMasked(c, stream.Serve(c.w, c.r, events, &serve))
	return errAnswered
}

// detached returns a call for work that its client does not wait for.
func (c *call) detached() (*call, context.CancelFunc) {
	own := *c
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), c.api.options.Bounds.RequestTimeout)
	own.ctx = ctx
	return &own, cancel
}

// keepEnded stores a response in the background when its run has ended.
func (h *responseHandlers) keepEnded(c *call, n *newResponse, run *runs.Run) {
	opts := h.optionsOf(c, n, run)
	own, cancel := c.detached()
	defer cancel()
	h.keep(own, n, run, h.ended(own, run, &opts))
}

// ended returns the response of a run that has ended, whether well or not.
func (h *responseHandlers) ended(c *call, run *runs.Run, opts *stream.ResponseOptions) *stream.Response {
	opts.Ended = nil
	result := run.Result
	if result == nil || h.runs.view != nil {
		var err error
		if result, err = collect(h.runs.eventsOf(c, h.runs.byID(c, run.ID), 0)); err != nil && run.Error == nil {
			if stored := h.storedOutcome(c, run.Thread, run.ID, opts); stored != nil {
				return stored
			}
			c.api.logMasked(c, err)
		}
	}
	var failure *host.Error
	if run.Error != nil {
		failure = c.api.forClient(run.Error, run.ID)
	}
	return stream.NewResponse(result, failure, opts)
}

// storedOutcome returns the response of a run whose events are gone, from the turn that its
// thread has; nil if that has none.
func (h *responseHandlers) storedOutcome(c *call, thread, run string, opts *stream.ResponseOptions) *stream.Response {
	if h.threads == nil {
		return nil
	}
	of := h.threads.For(c.principal.Tenant)
	turn, err := of.Snapshot(c.ctx, thread, run)
	if err != nil {
		if host.CodeOf(err) != host.NotFound {
			c.api.logMasked(c, err)
		}
		return nil
	}
	result := &runevent.RunResult{Run: run, Thread: thread, FinishReason: turn.FinishReason, Usage: turn.Usage}
	said, err := of.ShowAt(c.ctx, thread, threads.At{Snapshot: run}, max(turn.To-turn.From, 1))
	var messages []*host.Message
	if err == nil && turn.To > turn.From {
		messages, err = h.runs.view.Messages(c.ctx, said.Messages)
	}
	if err == nil && turn.Status == threads.Interrupted {
		var waiting *runs.Run
		if waiting, err = h.runs.runs.Waiting(c.ctx, c.principal.Tenant, run); err == nil {
			result.Questions = waiting.Questions
		}
	}
	if err != nil {
		c.api.logMasked(c, err) // and the response has what is left
	}
	result.Results = []*host.Result{{Messages: messages, FinishReason: turn.FinishReason}}
	var failure *host.Error
	if turn.Error != nil {
		failure = c.api.forClient(turn.Error, run)
	}
	return stream.NewResponse(result, failure, opts)
}

// keep stores a response that has ended, also when its client has left.
func (h *responseHandlers) keep(c *call, n *newResponse, run *runs.Run, r *stream.Response) {
	own, cancel := c.detached()
	defer cancel()
	raw, err := encodeResponse(r)
	if err == nil {
		err = h.putRaw(own, n, run, raw)
	}
	h.logUnstored(own, r.ID, err)
}

// logUnstored logs why a response is not stored: its client has an answer all the same.
func (h *responseHandlers) logUnstored(c *call, id string, err error) {
	if err != nil {
		c.api.options.Logger.ErrorContext(c.ctx, "response is not stored", "tenant", c.principal.Tenant, "response", id, "error", err)
	}
}

func encodeResponse(r *stream.Response) ([]byte, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, host.Errorf(host.Internal, "write response %q: %w", r.ID, err)
	}
	return raw, nil
}

// begin stores a response whose run has begun. One whose thread was deleted meanwhile is not
// stored.
func (h *responseHandlers) begin(c *call, n *newResponse, run *runs.Run, r *stream.Response) error {
	raw, err := encodeResponse(r)
	if err != nil {
		return err
	}
	rec, err := n.record(run, raw)
	if err != nil {
		return err
	}
	of := h.threads
	if run.Waiting { // it may be the first of its thread
		of = nil
	}
	return putInThread(c.ctx, h.store, of, c.principal.Tenant, rec)
}

// putRaw stores a response that has ended. One that was deleted meanwhile, or whose thread was,
// is not stored.
func (h *responseHandlers) putRaw(c *call, n *newResponse, run *runs.Run, raw json.RawMessage) error {
	rec, err := n.record(run, raw)
	if err != nil {
		return err
	}
	rec.Ended = true
	tenant := c.principal.Tenant
	if n.in.Background {
		return h.store.Finish(c.ctx, tenant, rec)
	}
	return putInThread(c.ctx, h.store, h.threads, tenant, rec)
}

// putInThread stores a record, unless its thread is deleted; nil threads are another store's.
func putInThread(ctx context.Context, store *responses.Store, of *threads.Store, tenant string, rec *responses.Record) error {
	if err := store.Put(ctx, tenant, rec); err != nil || of == nil {
		return err
	}
	// A thread that is deleted from here on takes the record with it.
	_, err := of.For(tenant).Thread(ctx, rec.Thread)
	if host.CodeOf(err) != host.NotFound {
		return err
	}
	if err = store.Forget(ctx, tenant, rec.ID); host.CodeOf(err) == host.NotFound {
		return nil
	}
	return err
}

// record returns the record of a response, which has not ended.
func (n *newResponse) record(run *runs.Run, raw json.RawMessage) (*responses.Record, error) {
	items, err := n.in.Items(run.ID)
	return &responses.Record{ID: responsePrefix + run.ID, Run: run.ID, Thread: run.Thread, Target: run.Target, Created: run.Started, Response: raw, Input: items}, err
}
