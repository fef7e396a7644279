package httpapi

import (
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
)

// The threads of responses. A response has its thread before its run begins, so that of those
// which continue another one at once each has its own, and gives it back if it is not made.

// place gives a response its thread: the one that the request names, that of the response
// before it, or a new one.
func (h *responseHandlers) place(c *call, n *newResponse) error {
	switch {
	case n.req.Client.Unstored:
		return nil
	case n.previous != nil:
		return h.placeAfter(c, n)
	case n.req.Thread != "":
		_, err := h.claim(c, n, n.req.Thread, n.req.Run, "")
		return err
	}
	n.req.Thread = n.newThread()
	return nil
}

// findPrevious reads the response that a request continues. A request that names an unknown one
// is refused before its idempotency key is taken.
func (n *newResponse) findPrevious(c *call, h *responseHandlers) error {
	if n.in.PreviousResponse == "" {
		return nil
	}
	r, err := h.record(c, n.in.PreviousResponse)
	if err != nil {
		return &previousError{err}
	}
	n.previous = r
	return nil
}

// newThread returns the id of a thread of the response's own.
func (n *newResponse) newThread() string {
	if n.key.given() {
		return "conv_" + n.key.digest("thread")
	}
	return "conv_" + host.NewID()
}

// placeAfter gives a response the thread of the response that it continues, or a fork of it if
// another response has continued that.
func (h *responseHandlers) placeAfter(c *call, n *newResponse) error {
	tenant, r := c.principal.Tenant, n.previous
	n.req.Thread = r.Thread
	if len(n.turn.Results) > 0 {
		return nil
	}
	if has, err := h.claim(c, n, r.Thread, n.req.Run, r.ID); has || err != nil {
		return err
	}
	if h.threads == nil || c.principal.Thread != "" {
		return host.Errorf(host.Conflict, "response %.100q is not the last of its conversation", r.ID).WithHint("continue by the last one")
	}
	n.req.Thread = n.newThread()
	_, err := h.threads.For(tenant).Fork(c.ctx, r.Thread, &threads.ForkOptions{ID: n.req.Thread, At: threads.At{Turn: r.Run}})
	if n.key.given() && host.CodeOf(err) == host.AlreadyExists { // the same request has made it
		return nil
	}
	n.fork = err == nil
	return err
}

// placeRun gives the thread of a response to the run that makes it, where that is not the one
// which was to: it continues the run that waited for results, or is a further attempt.
func (h *responseHandlers) placeRun(c *call, n *newResponse, run *runs.Run) error {
	if run.ID == n.req.Run || run.Thread == "" {
		return nil
	}
	after := n.in.PreviousResponse
	if len(n.turn.Results) > 0 {
		after = ""
	}
	_, err := h.claim(c, n, run.Thread, run.ID, after)
	return err
}

// claim gives a thread to the response of a run: see responses.Store.Claim. One that has the
// thread and was lost before it was begun is no obstacle.
func (h *responseHandlers) claim(c *call, n *newResponse, thread, run, after string) (bool, error) {
	own := attempts(responsePrefix + n.req.Run)
	for range maxLost {
		has, holder, err := h.store.Claim(c.ctx, c.principal.Tenant, thread, responsePrefix+run, after, own...)
		if has || err != nil {
			return has, err
		}
		if lost, err := h.lost(c, thread, holder); !lost || err != nil {
			return false, err
		}
		if err := h.store.Release(c.ctx, c.principal.Tenant, thread, holder.ID); err != nil {
			return false, err
		}
	}
	return false, nil
}

const (
	maxLost   = 4           // responses in a row that had a thread and were lost
	maxPlaced = time.Minute // between a response's claim of its thread and its run
)

// lost reports whether a response that has a thread will never be made: its process has ended
// before its run began, so that nothing knows of it.
func (h *responseHandlers) lost(c *call, thread string, holder responses.Holder) (bool, error) {
	if h.threads == nil || time.Since(holder.Since) < maxPlaced {
		return false, nil
	}
	tenant, run := c.principal.Tenant, strings.TrimPrefix(holder.ID, responsePrefix)
	for _, look := range []func() error{
		func() error { _, err := h.store.Get(c.ctx, tenant, holder.ID); return err },
		func() error { _, err := h.runs.runs.Get(c.ctx, tenant, run); return err },
		func() error { _, err := h.runs.runs.Waiting(c.ctx, tenant, run); return err },
		func() error { _, err := h.threads.For(tenant).Snapshot(c.ctx, thread, run); return err },
	} {
		switch err := look(); host.CodeOf(err) {
		case host.NotFound:
		case host.FailedPrecondition, host.Conflict, "": // it is known
			return false, nil
		default:
			return false, err
		}
	}
	return true, nil
}

// giveBack gives a thread back that the response of a run has, which is not made.
func (h *responseHandlers) giveBack(c *call, thread, run string) {
	if thread == "" {
		return
	}
	own, cancel := c.detached()
	defer cancel()
	if err := h.store.Release(own.ctx, c.principal.Tenant, thread, responsePrefix+run); err != nil {
		c.api.options.Logger.ErrorContext(own.ctx, "the thread of a response that failed is not given back", "tenant", c.principal.Tenant, "thread", thread, "run", run, "error", err)
	}
}

// removeFork removes the fork that was made for a response whose run was refused.
func (n *newResponse) removeFork(c *call, h *openAIHandlers) {
	if !n.fork {
		return
	}
	own, cancel := c.detached()
	defer cancel()
	tenant := c.principal.Tenant
	if _, err := h.runs.runs.Get(own.ctx, tenant, n.req.Run); host.CodeOf(err) != host.NotFound {
		return // the same request has come again, and was not refused
	}
	if err := h.threads.For(tenant).Delete(own.ctx, n.req.Thread); err != nil && host.CodeOf(err) != host.NotFound {
		c.api.options.Logger.ErrorContext(own.ctx, "the fork for a response that was refused stays", "tenant", tenant, "thread", n.req.Thread, "error", err)
	}
}

// previousError is the error about a response that a request continues.
type previousError struct{ error }

func (e *previousError) Unwrap() error { return e.error }
