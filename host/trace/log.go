package trace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
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
	Runs     int          // how many runs of all tenants are kept; default DefaultRuns
	RunBytes int64        // how much of a run is kept; default DefaultRunBytes
	Logger   *slog.Logger // receives failures to keep a run; nil discards

	// Keys encrypt each tenant's runs; nil writes plain text.
	Keys Keys
}

// Keys encrypt tenants' runs, with the keys of the tenants' other data, so that
// destroying a key destroys the traces too. Safe for concurrent use.
type Keys interface {
	// Seal returns text encrypted, or unchanged where nothing is encrypted. An
	// error means that no data of the tenant may be written.
	Seal(tenant, purpose string, text []byte) ([]byte, error)
	// Open undoes Seal. The error says that the key is destroyed, or not here.
	Open(purpose string, sealed []byte) ([]byte, error)
}

// purpose is the purpose that traces are sealed with.
const purpose = "trace"

// Log keeps the events of the last runs in a directory, a file a run. It may be
// used concurrently, and several processes may keep runs in one directory.
type Log struct {
	dir  string
	opts Options

	mu      sync.Mutex
	writers map[writerKey]*writer // of runs that have begun and not ended, for Trace
}

// maxWriters bounds the runs that Trace follows at one time. Those beyond are not
// kept.
const maxWriters = 4096

type writerKey struct{ tenant, run string }

var _ host.Tracer = (*Log)(nil)

// Open returns a log in a directory, which it makes. Code failed_precondition if
// that cannot be.
func Open(dir string, opts *Options) (*Log, error) {
	l := &Log{dir: dir, writers: map[writerKey]*writer{}}
	if opts != nil {
		l.opts = *opts
	}
	defaults.Set(&l.opts.Runs, DefaultRuns)
	defaults.Set(&l.opts.RunBytes, DefaultRunBytes)
	if l.opts.Logger == nil {
		l.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "keep traces: %w", err).WithHint("name a directory that this user can write to")
	}
	if l.opts.Keys != nil {
		if err := l.removeUnsealed(); err != nil {
			return nil, host.Errorf(host.FailedPrecondition, "keep traces: %w", err).WithHint("name a directory that this user can write to")
		}
	}
	return l, nil
}

// removeUnsealed removes runs that an earlier version kept without a tenant's
// directory, if new runs would be encrypted.
func (l *Log) removeUnsealed() error {
	if sealed, err := l.opts.Keys.Seal(host.DefaultTenant, purpose, []byte("{}")); err != nil || string(sealed) == "{}" {
		return nil
	}
	names, err := fileNames(l.dir)
	for _, name := range names {
		if filepath.Dir(name) == "." {
			err = errors.Join(err, os.Remove(filepath.Join(l.dir, name)))
		}
	}
	return err
}

// Trace implements [host.Tracer]: a host that has l in its options keeps all of its
// runs, also those of sessions and in the background.
func (l *Log) Trace(scope host.Scope, ev host.Event) {
	key := writerKey{scope.Tenant, ev.Run}
	_, last := ev.Data.(*runevent.RunFinished)
	l.mu.Lock()
	w := l.writers[key]
	if w == nil && len(l.writers) < maxWriters {
		w = &writer{log: l, left: l.opts.RunBytes, tenant: scope.Tenant}
		l.writers[key] = w
	}
	if last {
		delete(l.writers, key)
	}
	l.mu.Unlock()
	if w == nil {
		return
	}
	w.add(ev)
	if last {
		w.end()
	}
}

// Keep returns a run's events unchanged, and keeps them, but for those of a stored
// answer, which has a trace from when it ran. A run that cannot be kept is logged and
// continues.
func (l *Log) Keep(events iter.Seq2[host.Event, error]) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		w := &writer{log: l, left: l.opts.RunBytes}
		defer w.end()
		replayed := false
		for ev, err := range events {
			if started, ok := ev.Data.(*runevent.RunStarted); ok {
				w.tenant, replayed = started.Tenant, started.Replayed
			}
			if err == nil && !replayed {
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
	tenant string
	path   string
	left   int64
	begun  bool
	inText bool // a piece of the answer that is coming has been kept
	failed bool

	dropped atomic.Bool // the run was erased while it went on
}

func (w *writer) add(ev host.Event) {
	if w.failed || w.dropped.Load() || w.skips(ev.Data) {
		return
	}
	if err := w.write(ev); err != nil {
		w.failed = true
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, kv.ErrErasing) {
			return // it was erased, or its tenant is being
		}
		w.log.opts.Logger.Warn("keep trace", "run", ev.Run, "error", err)
	}
}

// skips reports whether an event is a piece of an answer, and not the first.
func (w *writer) skips(data host.EventData) bool {
	switch data := data.(type) {
	case *runevent.TextDelta, *runevent.ReasoningDelta, *llm.ToolCallDelta:
		skips := w.inText
		w.inText = true
		return skips
	case *runevent.ModelCalled:
		w.inText = false
	case *runevent.ToolProgress:
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
	_, last := ev.Data.(*runevent.RunFinished)
	if w.left -= int64(len(line)) + 1; w.left < 0 && !last {
		return nil // the end still tells how it ended
	}
	if line, err = w.log.seal(w.tenant, withSum(filepath.Base(w.path), line)); err != nil {
		return err
	}
	return appendTo(w.path, 0, append(line, '\n'))
}

// seal returns the stored form of a line: JSON, or its sealed bytes in base64.
func (l *Log) seal(tenant string, line []byte) ([]byte, error) {
	if l.opts.Keys == nil {
		return line, nil
	}
	sealed, err := l.opts.Keys.Seal(cmp.Or(tenant, host.DefaultTenant), purpose, line)
	if err != nil || bytes.Equal(sealed, line) {
		return sealed, err
	}
	return base64.StdEncoding.AppendEncode(nil, sealed), nil
}

// appendTo writes to the end of a file. Without a flag to create it, one that was
// removed meanwhile stays removed.
func appendTo(path string, flag int, b []byte) error {
	f, err := os.OpenFile(path, flag|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

func (w *writer) begin(ev host.Event) error {
	w.begun = true
	if _, err := w.log.seal(w.tenant, []byte("{}")); err != nil {
		return err // before there is a file
	}
	dir := filepath.Join(w.log.dir, tenantDir(w.tenant))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w.path = filepath.Join(dir, ev.Time.UTC().Format(timeFormat)+"-"+fileWord(ev.Run)+extension)
	return appendTo(w.path, os.O_CREATE|os.O_EXCL, nil)
}

// tenantDir is the directory of a tenant's runs: a digest, because a name may be
// anything.
func tenantDir(tenant string) string {
	sum := sha256.Sum256([]byte(cmp.Or(tenant, host.DefaultTenant)))
	return hex.EncodeToString(sum[:16])
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
	if w.path == "" {
		return
	}
	if err := w.log.prune(); err != nil {
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

// fileNames returns the files of a log, the oldest run first, with the directories
// of their tenants.
func fileNames(dir string) ([]string, error) {
	var names []string
	add := func(sub string) error {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		for _, e := range entries {
			if e.Type().IsRegular() && strings.HasSuffix(e.Name(), extension) && len(e.Name()) > len(timeFormat) {
				names = append(names, filepath.Join(sub, e.Name()))
			}
		}
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if err := add("."); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && len(e.Name()) == len(tenantDir("")) {
			if err := add(e.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	return names, nil
}

// shortened returns an event's data without contents that are too large.
func shortened(data host.EventData) host.EventData {
	switch d := data.(type) {
	case *runevent.ToolStarted:
		c := *d
		c.Arguments = short(d.Arguments)
		return &c
	case *runevent.ToolFinished:
		c := *d
		c.Content = short(d.Content)
		return &c
	case *runevent.ToolProgress:
		c := *d
		c.Data = short(d.Data)
		return &c
	case *runevent.ProcessorRan:
		c := *d
		c.Report = short(d.Report)
		return &c
	case *runevent.Interrupted:
		if d.Question != nil {
			q := *d.Question
			q.Arguments, q.Data = short(q.Arguments), short(q.Data)
			return &runevent.Interrupted{Question: &q, Key: d.Key}
		}
	case *runevent.MessageDone:
		if len(d.Raw) > maxContentBytes {
			c := *d
			c.Raw = short(d.Raw)
			d, data = &c, &c
		}
		if d.Message != nil && sizeOf(d.Message) > maxContentBytes {
			m := d.Message
			return &runevent.MessageDone{Usage: d.Usage, Raw: d.Raw, Message: &host.Message{ID: m.ID, Role: m.Role, Agent: m.Agent, CreatedAt: m.CreatedAt,
				Parts: []host.Part{&host.Text{Text: left(sizeOf(m))}}}}
		}
	case *runevent.StatePatched:
		if sizeOf(d.Ops) > maxContentBytes {
			return &runevent.StatePatched{}
		}
	case *runevent.ArtifactMade:
		if d.Artifact != nil && sizeOf(d.Artifact) > maxContentBytes {
			return &runevent.ArtifactMade{Artifact: &host.Artifact{Name: d.Artifact.Name}}
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
