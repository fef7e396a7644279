package watch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// The defaults of [DirOptions].
const (
	defaultSettle      = 100 * time.Millisecond
	defaultDirInterval = time.Second
	defaultMaxFiles    = 1000

	// maxEntries bounds how much of a directory is read. A directory with more
	// cannot be watched: its changes are unknown.
	maxEntries = 100_000
)

// DirOptions are the optional parts of [Dir]. A zero field is its default.
type DirOptions struct {
	Match    func(name string) bool // which files; nil is all
	Settle   time.Duration          // how long a file must not have changed before it counts (100 ms)
	Interval time.Duration          // between two looks at a directory in which nothing changes (1 s)
	MaxFiles int                    // that match (1,000); of more, those that are known stay and the rest, by name, is left out
	Logger   *slog.Logger           // nil discards
}

func (o *DirOptions) withDefaults() (DirOptions, error) {
	if o == nil {
		o = &DirOptions{}
	}
	out := *o
	if out.Settle < 0 || out.Interval < 0 || out.MaxFiles < 0 {
		return out, fault.Errorf(fault.InvalidArgument, "watch with Settle %s, Interval %s and MaxFiles %d", out.Settle, out.Interval, out.MaxFiles).
			WithHint("leave them out for the default")
	}
	if out.Match == nil {
		out.Match = func(string) bool { return true }
	}
	out.Settle = cmp.Or(out.Settle, defaultSettle)
	out.Interval = cmp.Or(out.Interval, defaultDirInterval)
	out.MaxFiles = cmp.Or(out.MaxFiles, defaultMaxFiles)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out, nil
}

// Dir calls changed for each file of a directory that matches, and then for each
// that changes, one after the other, until ctx ends. Subdirectories are not looked
// into, and links out of the directory are not followed. A directory that becomes
// unreadable changes nothing until it can be read again. Code invalid_argument if
// it cannot be read at first; nil when ctx ends.
func Dir(ctx context.Context, dir string, opts *DirOptions, changed func(ctx context.Context, c Change)) error {
	o, err := opts.withDefaults()
	if err != nil {
		return err
	}
	w := &watcher{dir: dir, opts: o, known: map[string]stamp{}, pending: map[string]sighting{}}
	if _, err := w.read(); err != nil {
		return fault.Errorf(fault.InvalidArgument, "watch %s: %w", dir, err)
	}
	Poll(ctx, 0, func() time.Duration {
		for _, c := range w.look(time.Now()) {
			if ctx.Err() != nil {
				break
			}
			changed(ctx, c)
		}
		return w.pause()
	})
	return nil
}

// watcher remembers the reported state of a directory's files.
type watcher struct {
	dir     string
	opts    DirOptions
	known   map[string]stamp    // files in their reported state
	pending map[string]sighting // files that differ from known and have not settled
	failing bool                // the directory could not be read the last time
	tooMany bool                // there were more files than MaxFiles the last time
}

// sighting is a stamp and since when it has been seen.
type sighting struct {
	stamp
	since time.Time
}

// pause returns how long to wait before the next look.
func (w *watcher) pause() time.Duration {
	if len(w.pending) > 0 {
		return w.opts.Settle
	}
	return w.opts.Interval
}

// look reads the directory and returns the changes that have settled.
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

// settled reports whether a file differs from its reported state, unchanged for
// the time Settle; that state then counts as reported.
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

// read returns the files that match, with their stamps. It opens the directory each
// time, because another one may have taken its name.
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
