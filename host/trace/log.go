package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// The defaults of Options.
const (
	DefaultRuns     = 100
	DefaultRunBytes = 8 << 20
)

// maxContentBytes bounds each content of an event: arguments, a result, a
// message.
const maxContentBytes = 16 << 10

// Options are the optional parts of a log.
type Options struct {
	Runs     int          // how many runs are kept; default DefaultRuns
	RunBytes int64        // how much of a run is kept; default DefaultRunBytes
	Logger   *slog.Logger // is told when a run cannot be kept; nil discards
}

// Log keeps the events of the last runs in a directory, a file a run. It may be
// used concurrently, and several processes may keep runs in one directory.
type Log struct {
	dir  string
	opts Options
}

// Open returns a log in a directory, which it makes. Code failed_precondition if
// that cannot be.
func Open(dir string, opts *Options) (*Log, error) {
	l := &Log{dir: dir}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.Runs <= 0 {
		l.opts.Runs = DefaultRuns
	}
	if l.opts.RunBytes <= 0 {
		l.opts.RunBytes = DefaultRunBytes
	}
	if l.opts.Logger == nil {
		l.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "keep traces: %w", err).WithHint("name a directory that this user can write to")
	}
	return l, nil
}

// Keep returns a run's events as they are, and keeps them. A run that cannot be
// kept is told to the logger and goes on.
func (l *Log) Keep(events iter.Seq2[host.Event, error]) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		w := &writer{log: l, left: l.opts.RunBytes}
		defer w.end()
		for ev, err := range events {
			if err == nil {
				w.add(ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// timeFormat makes names of files sort by time.
const timeFormat = "20060102T150405.000000000Z"

// extension is that of a run's file.
const extension = ".jsonl"

// writer writes one run.
type writer struct {
	log    *Log
	file   *os.File
	left   int64
	begun  bool
	inText bool // a piece of the answer that is coming has been kept
	failed bool
}

func (w *writer) add(ev host.Event) {
	if w.failed || w.skips(ev.Data) {
		return
	}
	if err := w.write(ev); err != nil {
		w.failed = true
		w.log.opts.Logger.Warn("keep trace", "run", ev.Run, "error", err)
	}
}

// skips reports whether an event is a piece of an answer, and not the first.
func (w *writer) skips(data host.EventData) bool {
	switch data := data.(type) {
	case *host.TextDelta, *host.ReasoningDelta, *host.ToolCallDelta:
		skips := w.inText
		w.inText = true
		return skips
	case *host.ModelCalled:
		w.inText = false
	case *host.ToolProgress:
		return data.Kind == agentKind && isDelta(data.Data)
	}
	return false
}

// isDelta reports whether an event of an agent that works as a tool is a piece
// of an answer.
func isDelta(raw json.RawMessage) bool {
	var ev struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(raw, &ev) == nil && strings.HasSuffix(ev.Type, ".delta")
}

func (w *writer) write(ev host.Event) error {
	if !w.begun {
		if err := w.begin(ev); err != nil {
			return err
		}
	}
	ev.Data = shortened(ev.Data)
	line, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	_, last := ev.Data.(*host.RunFinished)
	if w.left -= int64(len(line)) + 1; w.left < 0 && !last {
		return nil // the end still tells how it ended
	}
	_, err = w.file.Write(append(line, '\n'))
	return err
}

func (w *writer) begin(ev host.Event) (err error) {
	w.begun = true
	name := ev.Time.UTC().Format(timeFormat) + "-" + fileWord(ev.Run) + extension
	w.file, err = os.OpenFile(filepath.Join(w.log.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}

// fileWord makes an id fit for a file's name.
func fileWord(id string) string {
	const longest = 64
	id = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, id)
	return id[:min(len(id), longest)]
}

func (w *writer) end() {
	if w.file == nil {
		return
	}
	if err := errors.Join(w.file.Close(), w.log.prune()); err != nil {
		w.log.opts.Logger.Warn("keep trace", "error", err)
	}
}

// prune removes the oldest runs beyond those that are kept.
func (l *Log) prune() error {
	names, err := fileNames(l.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names[:max(0, len(names)-l.opts.Runs)] {
		if err := os.Remove(filepath.Join(l.dir, name)); !errors.Is(err, os.ErrNotExist) { // another process may prune as well
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// fileNames returns the files of a log, the oldest run first.
func fileNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), extension) && len(e.Name()) > len(timeFormat) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// shortened returns what happened without contents that are too large.
func shortened(data host.EventData) host.EventData {
	switch d := data.(type) {
	case *host.ToolStarted:
		c := *d
		c.Arguments = short(d.Arguments)
		return &c
	case *host.ToolFinished:
		c := *d
		c.Content = short(d.Content)
		return &c
	case *host.ToolProgress:
		c := *d
		c.Data = short(d.Data)
		return &c
	case *host.ProcessorRan:
		c := *d
		c.Report = short(d.Report)
		return &c
	case *host.Interrupted:
		if d.Question != nil {
			q := *d.Question
			q.Arguments, q.Data = short(q.Arguments), short(q.Data)
			return &host.Interrupted{Question: &q}
		}
	case *host.MessageDone:
		if len(d.Raw) > maxContentBytes {
			c := *d
			c.Raw = short(d.Raw)
			d, data = &c, &c
		}
		if d.Message != nil && sizeOf(d.Message) > maxContentBytes {
			m := d.Message
			return &host.MessageDone{Usage: d.Usage, Raw: d.Raw, Message: &host.Message{ID: m.ID, Role: m.Role, Agent: m.Agent, CreatedAt: m.CreatedAt,
				Parts: []host.Part{&host.Text{Text: left(sizeOf(m))}}}}
		}
	case *host.StatePatched:
		if sizeOf(d.Ops) > maxContentBytes {
			return &host.StatePatched{}
		}
	case *host.ArtifactMade:
		if d.Artifact != nil && sizeOf(d.Artifact) > maxContentBytes {
			return &host.ArtifactMade{Artifact: &host.Artifact{Name: d.Artifact.Name}}
		}
	}
	return data
}

func short(raw json.RawMessage) json.RawMessage {
	if len(raw) <= maxContentBytes {
		return raw
	}
	b, _ := json.Marshal(left(len(raw))) // a string always has JSON
	return b
}

func left(size int) string { return fmt.Sprintf("(%d bytes, left out)", size) }

// sizeOf is how long a value's JSON is.
func sizeOf(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0 // it cannot be written in any case
	}
	return len(b)
}
