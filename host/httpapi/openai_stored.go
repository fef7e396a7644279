package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/stream"
)

// record returns the record of a response that the caller may reach.
func (h *responseHandlers) record(c *call, id string) (*responses.Record, error) {
	r, err := h.store.Get(c.ctx, c.principal.Tenant, id)
	if err != nil {
		return nil, err
	}
	if only := c.principal.Thread; only != "" && r.Thread != only || !strings.HasPrefix(id, responsePrefix) {
		return nil, host.Errorf(host.NotFound, "there is no response %.100q", id)
	}
	return r, nil
}

// found returns the response that the path names.
func (h *responseHandlers) found(c *call) (*responses.Record, error) {
	id, err := c.path("response")
	if err != nil {
		return nil, err
	}
	return h.record(c, id)
}

// get answers GET /v1/responses/{response}.
func (h *responseHandlers) get(c *call) error {
	r, err := h.found(c)
	if err != nil {
		return err
	}
	after, err := c.query.integer("starting_after")
	if err != nil {
		return err
	}
	from := int64(0)
	if c.query.text("starting_after") != "" {
		from = int64(after) + 1
	}
	return h.answerStored(c, r, c.query.text("stream") == "true", from)
}

// answerStored answers with a stored response: its state at this moment, or its events from a number on.
func (h *responseHandlers) answerStored(c *call, r *responses.Record, streamed bool, from int64) error {
	if r.Ended && !streamed {
		return c.answer(r.Response)
	}
	opts, err := optionsAgain(r)
	if err != nil {
		return err
	}
	if !streamed {
		return c.answer(h.now(c, r, opts))
	}
	run, err := h.runs.runs.Get(c.ctx, c.principal.Tenant, r.Run)
	if err != nil {
		return err
	}
	opts.From = from
	return h.follow(c, h.runs.eventsOf(c, h.runs.byID(c, run.ID), 0), opts)
}

// optionsAgain returns the options of the encoder of a response that was begun before.
func optionsAgain(r *responses.Record) (*stream.ResponseOptions, error) {
	opts := &stream.ResponseOptions{}
	if err := json.Unmarshal(r.Response, &opts.Response); err != nil {
		return nil, host.Errorf(host.DataLoss, "response %q is damaged: %w", r.ID, err)
	}
	opts.JSON = !bytes.Contains(opts.Response.Text, []byte(`"type":"text"`))
	opts.Approvals = bytes.Contains(opts.Response.Tools, []byte(`"`+stream.ApprovalTool+`"`))
	return opts, nil
}

// now returns a response in the background that was not stored as ended: it runs, or another
// process has ended it, or none has. One whose end is found is stored with it.
func (h *responseHandlers) now(c *call, r *responses.Record, opts *stream.ResponseOptions) *stream.Response {
	run, err := h.runs.runs.Get(c.ctx, c.principal.Tenant, r.Run)
	var found *stream.Response
	switch {
	case err == nil && run.Status.Ended():
		found = h.ended(c, run, opts)
	case host.CodeOf(err) == host.NotFound:
		if found = h.storedOutcome(c, r.Thread, r.Run, opts); found == nil {
			return stream.LostResponse(opts)
		}
	default:
		return stream.Responses(opts).Response()
	}
	raw, err := encodeResponse(found)
	if err == nil {
		own := *r
		own.Response, own.Ended = raw, true
		err = h.store.Finish(c.ctx, c.principal.Tenant, &own)
	}
	h.logUnstored(c, r.ID, err)
	return found
}

// cancel answers POST /v1/responses/{response}/cancel.
func (h *responseHandlers) cancel(c *call) error {
	r, err := h.found(c)
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if r.Ended {
		return c.answer(r.Response)
	}
	opts, err := optionsAgain(r)
	if err != nil {
		return err
	}
	registry, tenant := h.runs.runs, c.principal.Tenant
	if _, err := registry.Cancel(c.ctx, tenant, r.Run); err != nil && host.CodeOf(err) != host.NotFound {
		return err
	}
	if run, err := registry.Wait(c.ctx, tenant, r.Run); run == nil && host.CodeOf(err) != host.NotFound {
		return err
	}
	return c.answer(h.now(c, r, opts))
}

// delete answers DELETE /v1/responses/{response}.
func (h *responseHandlers) delete(c *call) error {
	r, err := h.found(c)
	if err != nil {
		return err
	}
	if err := c.audit.record(); err != nil {
		return err
	}
	if err := h.store.Delete(c.ctx, c.principal.Tenant, r.ID); err != nil {
		return err
	}
	return c.answer(DeletedResponse{ID: r.ID, Object: "response", Deleted: true})
}

// maxInputItems is the most items of one page.
const maxInputItems = 100

// inputItems answers GET /v1/responses/{response}/input_items.
func (h *responseHandlers) inputItems(c *call) error {
	r, err := h.found(c)
	if err != nil {
		return err
	}
	limit, err := c.query.limit(maxInputItems)
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if len(r.Input) > 0 {
		if err := json.Unmarshal(r.Input, &items); err != nil {
			return host.Errorf(host.DataLoss, "the input of response %q is damaged: %w", r.ID, err)
		}
	}
	return c.answer(pageOfItems(items, limit, c.query.text("order") == "asc", c.query.text("after")))
}

func pageOfItems(items []json.RawMessage, limit int, ascending bool, after string) *InputItems {
	ids := make([]string, len(items))
	for i, raw := range items {
		var item struct{ ID string }
		_ = json.Unmarshal(raw, &item) // each was written with an id
		ids[i] = item.ID
	}
	page := &InputItems{Object: "list", Data: []json.RawMessage{}}
	begun := after == ""
	for n := range items {
		i := n
		if !ascending {
			i = len(items) - 1 - n
		}
		switch {
		case !begun:
			begun = ids[i] == after
		case len(page.Data) == limit:
			page.HasMore = true
		default:
			if len(page.Data) == 0 {
				page.FirstID = ids[i]
			}
			page.Data, page.LastID = append(page.Data, items[i]), ids[i]
		}
	}
	return page
}
