package httpapi

import (
	"fmt"
	"io"
	"iter"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// maxImports bounds the threads of one import.
const maxImports = 1_000

// Imports is the answer of POST /v1/import.
type Imports struct {
	Threads []*transfer.Imported `json:"threads"`
}

// importThreads stores the threads of a file. One that cannot be stored ends it; those
// before it stay, and a request that is sent again finds them.
func (h *threadHandlers) importThreads(c *call) error {
	if err := c.whole(); err != nil {
		return err
	}
	if err := c.bodyIs(octets, "application/json", "application/x-ndjson"); err != nil {
		return err
	}
	if err := c.audit.recordOf(c.tenant(), objectOf("thread", c.query.text("thread"))); err != nil {
		return err
	}
	body := c.upload(c.api.options.Bounds.MaxFileBytes)
	answer := Imports{Threads: []*transfer.Imported{}}
	for src, err := range h.sources(c, body) {
		var got *transfer.Imported
		if err == nil {
			got, err = transfer.Import(c.ctx, h.tenant(c), clientSource{src.Source}, &transfer.ImportOptions{Thread: src.thread})
		}
		if err != nil {
			return body.fault(err)
		}
		answer.Threads = append(answer.Threads, got)
	}
	return c.answer(answer)
}

// importSource is a thread of a file, with the id to import it under.
type importSource struct {
	transfer.Source
	thread string
}

// sources yields the threads of a file.
func (h *threadHandlers) sources(c *call, body io.Reader) iter.Seq2[importSource, error] {
	return func(yield func(importSource, error) bool) {
		format, thread, err := transfer.Format(c.query.text("format")), c.query.text("thread"), error(nil)
		if format == "" {
			format, body, err = transfer.Detect(body)
		}
		if err == nil && format != transfer.FormatOpenAITraining {
			var src transfer.Source
			src, err = transfer.NewSource(format, body)
			yield(importSource{src, thread}, err)
			return
		}
		if err == nil && thread == "" {
			err = host.Errorf(host.InvalidArgument, "the threads of a training file have no ids").WithHint("add ?thread=PREFIX: their ids are it, a dash and their numbers")
		}
		var all iter.Seq2[transfer.Source, error]
		if err == nil {
			all, err = transfer.NewSources(format, body)
		}
		if err != nil {
			yield(importSource{}, err)
			return
		}
		n := 0
		for src, err := range all {
			if n++; err == nil && n > maxImports {
				err = host.Errorf(host.ResourceExhausted, "the file has more than %d threads", maxImports).WithHint("send it in parts")
			}
			if !yield(importSource{src, fmt.Sprintf("%s-%d", thread, n)}, err) || err != nil {
				return
			}
		}
	}
}

// clientSource is a source of which a client is the author: it writes no instructions.
type clientSource struct{ transfer.Source }

// Items implements [transfer.Source].
func (s clientSource) Items() iter.Seq2[transfer.Item, error] {
	return func(yield func(transfer.Item, error) bool) {
		for item, err := range s.Source.Items() {
			if err == nil && item.Message != nil && item.Message.Role == host.System {
				err = errNoSystem()
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// errNoSystem is the error of a message that only the owner of an agent may write.
func errNoSystem() error {
	return host.Errorf(host.PermissionDenied, "a client writes no messages of the role system").WithHint("leave it out: instructions are the agent's")
}
