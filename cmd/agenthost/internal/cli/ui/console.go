package ui

import (
	"context"
	"io"
	"log/slog"
	"sync"
)

// Console keeps the host's messages apart from a conversation on the same terminal: a
// message never appears inside an answer, and the prompt is drawn again after it.
// Without a conversation it writes lines to stderr. It is safe for concurrent use.
type Console struct {
	out, err io.Writer
	terminal bool

	mu     sync.Mutex
	prompt string          // waiting for an answer; "" if no prompt is
	editor LineEditor      // that reads a line; nil if none does
	inText bool            // an answer is being written
	held   []byte          // lines that wait for the end of the answer
	shown  map[string]bool // runs whose end this terminal shows
}

// maxHeldLines bounds the lines that wait for the end of an answer, in bytes; more
// of them interrupt it.
const maxHeldLines = 64 << 10

// Write writes whole lines.
func (c *Console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inText && len(c.held)+len(b) <= maxHeldLines {
		c.held = append(c.held, b...)
		return len(b), nil
	}
	if len(c.held) > 0 { // in their order
		_, err := c.write(append(c.held, b...))
		c.held = nil
		return len(b), err
	}
	return c.write(b)
}

// write writes lines and draws the prompt again. c.mu is held.
func (c *Console) write(b []byte) (n int, err error) {
	if c.editor != nil && c.terminal {
		c.editor.Print(b)
		return len(b), nil
	}
	switch {
	case c.prompt != "" && c.terminal:
		_, err = io.WriteString(c.err, "\r\x1b[K") // erases the prompt
	case c.prompt != "":
		_, err = io.WriteString(c.err, "\n")
	case c.inText:
		_, err = io.WriteString(c.out, "\n")
	}
	if err == nil {
		n, err = c.err.Write(b)
	}
	if c.prompt != "" && err == nil {
		_, err = io.WriteString(c.err, c.prompt)
	}
	return n, err
}

// Ask draws a prompt on stderr, which stays until [Console.Answered].
func (c *Console) Ask(prompt string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := io.WriteString(c.err, prompt)
	c.prompt = prompt
	return err
}

// Editing has an editor show lines while it reads one, until the returned function is
// called.
func (c *Console) Editing(e LineEditor) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.editor = e
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.editor = nil
	}
}

// Answered ends the wait for an answer: the prompt is not drawn again.
func (c *Console) Answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompt = ""
}

// text records whether an answer is being written. At the answer's end it writes the
// lines that were held meanwhile.
func (c *Console) text(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inText = begins
	if !begins && len(c.held) > 0 {
		_, _ = c.write(c.held) // as a line without an answer around it
		c.held = nil
	}
}

// Shows records that the terminal shows how a run ends, so that the log need not
// repeat it.
func (c *Console) Shows(run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown[run] = true
}

func (c *Console) isShown(run string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown[run]
}

// logHandler leaves out the records that the terminal shows in another form.
type logHandler struct {
	slog.Handler
	console *Console
}

// The messages of log records that this program shows in another form: the failure of
// a run, at the run's terminal, a refused plugin version, to the person who loads or saved
// it, and the wait for a data directory, with the command that has it open.
const (
	runFailed      = "run failed"
	versionRefused = "plugin version is not taken into service"
	waitsForLock   = "waiting for the process that has the data directory open"
)

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == waitsForLock {
		return h.console.sayWait(r)
	}
	if r.Message == versionRefused {
		return nil
	}
	if r.Message == runFailed {
		said := false
		r.Attrs(func(a slog.Attr) bool {
			said = said || a.Key == "run" && h.console.isShown(a.Value.String())
			return !said
		})
		if said {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs), h.console}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.console}
}
