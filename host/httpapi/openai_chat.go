package httpapi

import (
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi/internal/openaiwire"
	"github.com/agenthost/agenthost/host/stream"
)

// chat answers POST /v1/chat/completions.
func (h *openAIHandlers) chat(c *call) error {
	raw, err := c.readBody()
	if err != nil {
		return err
	}
	var in openaiwire.ChatRequest
	if err := decodeKnown(raw, &in); err != nil {
		return err
	}
	terms, err := in.Terms()
	if err != nil {
		return err
	}
	turn, err := in.Turn()
	if err != nil {
		return err
	}
	target, err := h.target(c, in.Model)
	if err != nil {
		return err
	}
	thread, err := c.threadOf(in.Metadata["thread_id"])
	if err != nil {
		return err
	}
	terms.Client.Unstored = thread == ""
	asked := &ask{target: target, turn: turn, how: leaving(), req: &host.Request{Thread: thread, Client: &terms.Client, ModelParameters: terms.Parameters}}
	if err := asked.readKey(c, raw); err != nil {
		return err
	}
	if err := asked.rememberKey(c, raw); err != nil {
		return err
	}
	run, attached, err := h.start(c, asked)
	if err != nil {
		return err
	}
	defer c.left(attached)
	c.shown(run)
	opts := &stream.ChatOptions{Run: run.ID, Model: in.Model, Created: time.Now().Unix(), Usage: in.StreamOptions.IncludeUsage, JSON: terms.JSON(), Approvals: terms.Approvals}
	if !in.Stream {
		result, err := h.result(c, run, attached)
		if err != nil {
			return err
		}
		return c.answer(stream.NewChatCompletion(result, opts))
	}
	serve := h.runs.stream
	serve.Encoder = stream.ChatCompletions(opts)
	c.r.Header.Del("Accept") // the body has chosen the form
	c.api.logMasked(c, stream.Serve(c.w, c.r, h.runs.eventsOf(c, attached, 0), &serve))
	return errAnswered
}
