package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/agenthost/agenthost/host"
)

// The defaults of [Options].
const (
	DefaultSettle   = 100 * time.Millisecond
	DefaultInterval = time.Second
	DefaultMaxFiles = 1000

	// missedAfter is how long a change may go unseen of which there was no
	// notification.
	missedAfter = 10 * time.Second

	// maxEntries bounds what is read of a directory. One that has more cannot be
	// watched: nobody could say what is in it.
	maxEntries = 100_000
)

// Options are the optional parts of watching.
type Options struct {
	Match    func(name string) bool // which files; default: those that end in .wasm
	Settle   time.Duration          // how long a file must not have changed before it counts (100 ms)
	Interval time.Duration          // how often the directory is read without notifications (1 s)
	MaxFiles int                    // that match (1,000); of more, those that are known stay and the rest, by name, is left out
	Poll     bool                   // without notifications, for file systems that send none
	Logger   *slog.Logger           // nil discards
}

func (o *Options) withDefaults() (Options, error) {
	if o == nil {
		o = &Options{}
	}
	out := *o
	if out.Settle < 0 || out.Interval < 0 || out.MaxFiles < 0 {
		return out, host.Errorf(host.InvalidArgument, "watch with Settle %s, Interval %s and MaxFiles %d", out.Settle, out.Interval, out.MaxFiles).
			WithHint("leave them out for the default")
	}
	if out.Match == nil {
		out.Match = func(name string) bool { return filepath.Ext(name) == moduleExt }
	}
	if out.Settle == 0 {
		out.Settle = DefaultSettle
	}
	if out.Interval == 0 {
		out.Interval = DefaultInterval
	}
	if out.MaxFiles == 0 {
		out.MaxFiles = DefaultMaxFiles
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out, nil
}

// Change is a file that is new or different, or gone.
type Change struct {
	Dir     string
	Name    string // in the directory
	Removed bool

	is stamp // of the file; absent: unknown
}

// Path returns the file's path.
func (c *Change) Path() string { return filepath.Join(c.Dir, c.Name) }

// Read returns what is in the file, at most max bytes. Errors: not_found if it
// is gone by now, conflict if it is another or being written by now, which is
// reported when it has settled, invalid_argument if it is larger,
// failed_precondition if it cannot be read or leads out of the directory.
func (c *Change) Read(max int) ([]byte, error) {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, readError(c, err)
	}
	defer root.Close()
	// A pipe may stand in the file's place by now: opening it waits for no writer.
	f, err := root.OpenFile(c.Name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, readError(c, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, readError(c, cmp.Or(err, errNotRegular))
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err != nil {
		return nil, readError(c, err)
	}
	info, err := f.Stat() // after reading: what was changed before or meanwhile has another time
	switch {
	case err != nil:
		return nil, readError(c, err)
	case !c.is.absent() && !c.is.equal(stampOf(info)):
		return nil, host.Errorf(host.Conflict, "%s has changed again", c.Path()).WithHint("wait for the next change that is told")
	case len(b) > max:
		return nil, host.Errorf(host.InvalidArgument, "%s is more than %d bytes", c.Path(), max)
	}
	return b, nil
}

var errNotRegular = errors.New("it is not a regular file")

func readError(c *Change, err error) error {
	code := host.FailedPrecondition
	if errors.Is(err, fs.ErrNotExist) {
		code = host.NotFound
	}
	return host.Errorf(code, "read %s: %w", c.Path(), err)
}

// Dir calls changed for each file of a directory, and then for each that changes,
// one after the other, until ctx ends. Subdirectories are not looked into. A
// directory that cannot be read later on changes nothing until it can be again.
// Code invalid_argument if it cannot be read at first; nil when ctx ends.
func Dir(ctx context.Context, dir string, opts *Options, changed func(ctx context.Context, c Change)) error {
	o, err := opts.withDefaults()
	if err != nil {
		return err
	}
	w := &watcher{dir: dir, opts: o, known: map[string]stamp{}, pending: map[string]sighting{}}
	if _, err := w.read(); err != nil {
		return host.Errorf(host.InvalidArgument, "watch %s: %w", dir, err)
	}
	notices, stop := w.notices()
	defer stop()
	return w.run(ctx, notices, changed)
}

// watcher knows what has been reported of a directory.
type watcher struct {
	dir     string
	opts    Options
	known   map[string]stamp    // as it was reported
	pending map[string]sighting // that differ from it
	failing bool                // the directory could not be read the last time
	tooMany bool
	polls   bool // there are no notifications
}

// stamp is by what a file is known to have changed; the zero stamp is no file. Its
// identity counts, because some builds give all they write the same time.
type stamp struct {
	size int64
	time time.Time
	file fs.FileInfo
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime(), info} }

func (s stamp) absent() bool { return s.file == nil }

func (s stamp) equal(o stamp) bool {
	if s.absent() || o.absent() {
		return s.absent() && o.absent()
	}
	return s.size == o.size && s.time.Equal(o.time) && os.SameFile(s.file, o.file)
}

// sighting is a stamp and since when it has been seen.
type sighting struct {
	stamp
	since time.Time
}

// notices returns a channel that says when to look, nil if there are no
// notifications.
func (w *watcher) notices() (<-chan struct{}, func()) {
	w.polls = true
	if w.opts.Poll {
		return nil, func() {}
	}
	notifier, err := fsnotify.NewWatcher()
	if err == nil {
		if err = notifier.Add(w.dir); err != nil {
			_ = notifier.Close() // the error is why it is of no use
		}
	}
	if err != nil {
		w.opts.Logger.Warn("no notifications of changed files; looking from time to time", "dir", w.dir, "interval", w.opts.Interval, "error", err)
		return nil, func() {}
	}
	w.polls = false
	notices, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		relay(notifier, notices)
	}()
	return notices, func() {
		_ = notifier.Close() // nothing is lost by an error
		<-done
	}
}

// relay makes one notice of any number of events. What an error says, that
// events were lost, is a reason to look too.
func relay(n *fsnotify.Watcher, notices chan<- struct{}) {
	for {
		select {
		case _, ok := <-n.Events:
			if !ok {
				return
			}
		case _, ok := <-n.Errors:
			if !ok {
				return
			}
		}
		select {
		case notices <- struct{}{}:
		default:
		}
	}
}

func (w *watcher) run(ctx context.Context, notices <-chan struct{}, changed func(context.Context, Change)) error {
	for ctx.Err() == nil {
		for _, c := range w.look(time.Now()) {
			if ctx.Err() != nil {
				return nil
			}
			changed(ctx, c)
		}
		timer := time.NewTimer(w.pause())
		select {
		case <-ctx.Done():
		case <-notices:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// pause is how long to wait before looking again, without a notice.
func (w *watcher) pause() time.Duration {
	switch {
	case len(w.pending) > 0:
		return w.opts.Settle
	case w.polls, w.failing:
		return w.opts.Interval
	}
	return missedAfter
}

// look reads the directory and returns what has changed and settled.
func (w *watcher) look(now time.Time) (changes []Change) {
	found, err := w.read()
	if err != nil {
		if !w.failing {
			w.opts.Logger.Warn("read watched directory", "dir", w.dir, "error", err)
		}
		w.failing = true
		return nil
	}
	w.failing = false
	for name := range w.known {
		if _, ok := found[name]; !ok {
			found[name] = stamp{}
		}
	}
	for name := range w.pending {
		if _, ok := found[name]; !ok {
			delete(w.pending, name) // it came and went
		}
	}
	for name, s := range found {
		if w.settled(name, s, now) {
			changes = append(changes, Change{Dir: w.dir, Name: name, Removed: s.absent(), is: s})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return changes
}

// settled reports whether a file is other than it was reported, and has been so
// for long enough; it is then as it is reported.
func (w *watcher) settled(name string, s stamp, now time.Time) bool {
	if w.known[name].equal(s) {
		delete(w.pending, name)
		return false
	}
	p, ok := w.pending[name]
	if !ok || !p.stamp.equal(s) {
		w.pending[name] = sighting{s, now}
		return false
	}
	if now.Sub(p.since) < w.opts.Settle {
		return false
	}
	delete(w.pending, name)
	w.known[name] = s
	if s.absent() {
		delete(w.known, name)
	}
	return true
}

// read returns the files that match, with their stamps. The directory is opened
// anew each time: it may be another one by the same name.
func (w *watcher) read() (map[string]stamp, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := w.names(root)
	if err != nil {
		return nil, err
	}
	found := make(map[string]stamp, len(names))
	for _, name := range names {
		info, err := root.Stat(name) // does not leave the directory
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		found[name] = stampOf(info)
	}
	return found, nil
}

func (w *watcher) names(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(maxEntries + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("it has more than %d entries", maxEntries)
	}
	var names []string
	for _, e := range entries {
		if w.opts.Match(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		switch newA, newB := w.known[a].absent(), w.known[b].absent(); {
		case newB && !newA:
			return -1
		case newA && !newB:
			return 1
		}
		return strings.Compare(a, b)
	})
	if tooMany := len(names) > w.opts.MaxFiles; tooMany {
		if !w.tooMany {
			w.opts.Logger.Warn("watched directory has more files than MaxFiles; the rest is left out", "dir", w.dir, "files", len(names), "MaxFiles", w.opts.MaxFiles)
		}
		w.tooMany, names = true, names[:w.opts.MaxFiles]
	} else {
		w.tooMany = false
	}
	return names, nil
}
