package lineedit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/reeflective/readline"
	"github.com/reeflective/readline/inputrc"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
)

// Options are those of an [Editor].
type Options struct {
	History  *History                    // nil keeps the lines of this process alone
	Complete func(line string) []ui.Word // called with the text before the cursor; nil completes nothing
}

var _ ui.LineEditor = (*Editor)(nil)

// Editor reads lines on the terminal that is stdin and stdout of this process. One line
// is read at a time; Print is safe for concurrent use.
type Editor struct {
	shell   *readline.Shell
	options Options
	prompt  string
	asking  bool // the line is an answer to a question

	mu      sync.Mutex
	reading bool
	ended   func() error // of the context of the line that is read
	pending []byte       // printed while a line is read
}

// The commands that keys of the editor are bound to, beside readline's.
const (
	newlineCommand = "insert-newline"
	eventsCommand  = "handle-events"
)

// eventsKey has the editor handle what happened outside of its loop, see
// [Editor.checkEvents]. It is ctrl-^, which readline binds to nothing.
const eventsKey = '\x1e'

// New returns an editor. Ctrl-J, and enter behind a backslash, begin another line.
func New(options *Options) *Editor {
	e := &Editor{shell: readline.NewShell(inputrc.WithApp("agenthost"))}
	if options != nil {
		e.options = *options
	}
	if e.options.History == nil {
		e.options.History = &History{}
	}
	s := e.shell
	s.History.Delete()
	s.History.Add("lines", (*editorHistory)(e))
	s.Prompt.Primary(func() string { return e.prompt })
	s.Prompt.Secondary(func() string { return "… " })
	s.AcceptMultiline = func(line []rune) bool { return len(line) == 0 || line[len(line)-1] != '\\' }
	s.SyntaxHighlighter = e.checkEvents
	s.Completer = e.complete
	s.Keymap.Register(map[string]func(){newlineCommand: e.insertNewline, eventsCommand: e.handleEvents})
	for _, keymap := range []string{"emacs", "emacs-standard", "vi-insert", "vi-command"} {
		if s.Config.Binds[keymap] == nil {
			s.Config.Binds[keymap] = map[string]inputrc.Bind{}
		}
		s.Config.Binds[keymap][string(eventsKey)] = inputrc.Bind{Action: eventsCommand}
		if keymap != "vi-command" { // where keys are commands, and type no text
			s.Config.Binds[keymap]["\n"] = inputrc.Bind{Action: newlineCommand}
		}
	}
	// The width of the prompt is known: asking the terminal for the cursor would wait for
	// an answer that some terminals never send.
	_ = s.Config.Set("cursor-position-probe", false)
	return e
}

// Read shows a prompt and returns the line that is typed, which joins the history. Its
// error is [ui.ErrInterrupted], with the text so far, for ctrl-C, io.EOF for ctrl-D on an
// empty line, and that of ctx if that ends first.
func (e *Editor) Read(ctx context.Context, prompt string) (string, error) {
	return e.read(ctx, prompt, false)
}

// Ask is [Editor.Read] for an answer to a question, which does not join the history and
// has no completions.
func (e *Editor) Ask(ctx context.Context, question string) (string, error) {
	return e.read(ctx, question, true)
}

func (e *Editor) read(ctx context.Context, prompt string, asking bool) (string, error) {
	before, last := cutLast(prompt)
	if before != "" {
		fmt.Fprint(os.Stdout, before)
	}
	e.prompt, e.asking = last, asking
	e.setReading(ctx.Err)
	defer e.setReading(nil)
	stop := context.AfterFunc(ctx, e.shell.Keys.RequestRefresh)
	defer stop()
	line, err := e.shell.Readline()
	line = strings.ReplaceAll(line, "\\\n", "\n")
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, readline.ErrInterrupt):
		return line, ui.ErrInterrupted
	}
	return line, err
}

// cutLast cuts a prompt before its last line, which alone the editor draws again.
func cutLast(prompt string) (before, last string) {
	at := strings.LastIndexByte(prompt, '\n') + 1
	return prompt[:at], prompt[at:]
}

// setReading records whether a line is read; nil ends that, and shows lines that were printed
// meanwhile and not shown.
func (e *Editor) setReading(ended func() error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading, e.ended = ended != nil, ended
	if ended == nil && len(e.pending) > 0 {
		_, _ = os.Stdout.Write(e.pending) // the terminal is gone if it cannot be written to
		e.pending = nil
	}
}

// Print shows whole lines, above the line that is read if one is.
func (e *Editor) Print(lines []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.reading {
		_, _ = os.Stdout.Write(lines)
		return
	}
	if len(e.pending)+len(lines) <= maxPending {
		e.pending = append(e.pending, lines...)
	}
	e.shell.Keys.RequestRefresh()
}

// maxPending bounds the text that waits to be shown above a line, in bytes.
const maxPending = 64 << 10

// checkEvents is called by the editor's loop before it draws a line. If there is something
// to show, or the context of the line has ended, it has the loop call handleEvents: the
// terminal may be written to there, and not here.
func (e *Editor) checkEvents(line []rune) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) > 0 || e.ended != nil && e.ended() != nil {
		e.shell.Keys.Feed(true, eventsKey)
	}
	return string(line)
}

// handleEvents shows lines that were printed, and ends a line whose context has ended.
func (e *Editor) handleEvents() {
	e.mu.Lock()
	text, ended := string(e.pending), e.ended != nil && e.ended() != nil
	e.pending = nil
	e.mu.Unlock()
	if text != "" {
		text = strings.TrimSuffix(text, "\n")
		_, _ = e.shell.PrintTransientf("%s", strings.ReplaceAll(text, "\n", "\r\n"))
	}
	if ended {
		e.shell.Display.AcceptLine()
		e.shell.History.Accept(false, false, ui.ErrInterrupted)
	}
}

func (e *Editor) insertNewline() {
	e.shell.History.Save()
	e.shell.Cursor().InsertAt('\n')
}

func (e *Editor) complete(line []rune, cursor int) readline.Completions {
	if e.options.Complete == nil || e.asking {
		return readline.Completions{}
	}
	words := e.options.Complete(string(line[:cursor]))
	list := make([]string, 0, 2*len(words))
	for _, w := range slices.Compact(words) {
		list = append(list, w.Text, w.About)
	}
	return readline.CompleteValuesDescribed(list...)
}

// editorHistory is the history as the editor uses it.
type editorHistory Editor

// Write implements the editor's history.
func (h *editorHistory) Write(line string) (int, error) {
	if !h.asking {
		h.options.History.add(strings.ReplaceAll(line, "\\\n", "\n"))
	}
	return h.options.History.Len(), nil
}

// GetLine implements the editor's history.
func (h *editorHistory) GetLine(i int) (string, error) { return h.options.History.line(i) }

// Len implements the editor's history. A question has none.
func (h *editorHistory) Len() int {
	if h.asking {
		return 0
	}
	return h.options.History.Len()
}

// Dump implements the editor's history.
func (h *editorHistory) Dump() any { return nil }
