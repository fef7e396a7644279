package trace

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
)

// Last names the last run in [Read].
const Last = "last"

// maxFileBytes bounds the bytes read from a run's file, with room for a larger
// Options.RunBytes.
const maxFileBytes = 256 << 20

// Summary describes a run in short.
type Summary struct {
	Run          string            `json:"run"`
	Tenant       string            `json:"tenant,omitempty"`
	Thread       string            `json:"thread,omitempty"`
	Target       string            `json:"target,omitempty"`  // the network, or the first agent
	Resumes      string            `json:"resumes,omitempty"` // the run that asked, if this one has the answers
	Began        time.Time         `json:"began"`
	DurationUS   int64             `json:"duration_us"`
	Finished     bool              `json:"finished"` // false: it is running, or its process was killed
	FinishReason host.FinishReason `json:"finish_reason,omitempty"`
	Usage        host.Usage        `json:"usage"`
	Cost         host.Cost         `json:"cost"`
	Error        *host.Error       `json:"error,omitempty"`
}

// Run is a run as a tree.
type Run struct {
	Summary
	Damaged int     `json:"damaged,omitempty"` // lines that could not be read
	Spans   []*Span `json:"spans"`             // in the order in which they began
}

// ReadOptions say which runs are read, and how.
type ReadOptions struct {
	Tenant string // whose runs; empty is all tenants', for an administrator
	Keys   Keys   // the keys of the runs; nil for unencrypted runs
}

// admits reports whether a run is to be read: it is the tenant's.
func (o *ReadOptions) admits(run *Run) bool {
	return o.Tenant == "" || cmp.Or(run.Tenant, host.DefaultTenant) == o.Tenant
}

// List returns the runs of a log's directory, the last one first. Runs whose keys
// are destroyed are left out. With nil options it lists all unencrypted runs. Code
// not_found without such a directory.
func List(dir string, opts *ReadOptions) ([]*Summary, error) {
	if opts == nil {
		opts = &ReadOptions{}
	}
	names, err := files(dir, opts.Tenant)
	if err != nil {
		return nil, err
	}
	var list []*Summary
	for _, name := range slices.Backward(names) {
		run, err := readFile(filepath.Join(dir, name), opts.Keys)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errSealed) {
			continue // removed meanwhile, or erased
		}
		if err != nil {
			return nil, err
		}
		if !opts.admits(run) {
			continue
		}
		list = append(list, &run.Summary)
	}
	return list, nil
}

// Read reads a run: [Last], its id, or a prefix of the id. Code not_found if no
// run matches, invalid_argument if several do.
func Read(dir, run string, opts *ReadOptions) (*Run, error) {
	if opts == nil {
		opts = &ReadOptions{}
	}
	names, err := files(dir, opts.Tenant)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		if id := filepath.Base(name)[len(timeFormat)+1:]; run == Last || strings.HasPrefix(id, fileWord(run)) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 0 && run == Last:
		return nil, host.Errorf(host.NotFound, "no run is kept in %s", dir)
	case len(found) == 0 || run == "":
		return nil, host.Errorf(host.NotFound, "run %q is not kept in %s", run, dir).WithHint("the last %d are kept, unless the host keeps more", DefaultRuns)
	case len(found) > 1 && run != Last:
		return nil, host.Errorf(host.InvalidArgument, "%d runs begin with %q", len(found), run).WithHint("give more of the id")
	}
	out, err := readFile(filepath.Join(dir, found[len(found)-1]), opts.Keys)
	switch {
	case errors.Is(err, errSealed):
		return nil, host.Errorf(host.FailedPrecondition, "read trace: %w", err).WithHint("give the key of the data directory")
	case err != nil:
		return nil, err
	case !opts.admits(out):
		return nil, host.Errorf(host.NotFound, "run %q is not kept in %s", run, dir)
	}
	return out, nil
}

// files returns the files of a tenant's runs, those that an earlier version kept
// for all tenants among them.
func files(dir, tenant string) ([]string, error) {
	names, err := fileNames(dir)
	if tenant != "" {
		names = slices.DeleteFunc(names, func(name string) bool {
			sub := filepath.Dir(name)
			return sub != "." && sub != tenantDir(tenant)
		})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, host.Errorf(host.NotFound, "no run is kept in %s", dir)
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read traces: %w", err)
	}
	return names, nil
}

// errSealed is a run that no key opens.
var errSealed = errors.New("it is encrypted, and its key is destroyed or not here")

func readFile(name string, keys Keys) (*Run, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read trace: %w", err)
	}
	if text, err = openLines(text, keys); err != nil {
		return nil, err
	}
	return parse(checkSums(filepath.Base(name), text)), nil
}

// openLines returns lines unsealed.
func openLines(text []byte, keys Keys) ([]byte, error) {
	var out []byte
	for line := range bytes.Lines(text) {
		if line[0] == '{' {
			out = append(out, line...)
			continue
		}
		sealed, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(line))
		switch {
		case err != nil:
			out = append(out, '\n') // half a line, as of a killed process
			continue
		case keys == nil:
			return nil, errSealed
		}
		opened, err := keys.Open(purpose, sealed)
		if err != nil {
			return nil, errSealed
		}
		out = append(append(out, opened...), '\n')
	}
	return out, nil
}

// event is an event read back from a file.
type event struct {
	Time    time.Time       `json:"time"`
	Type    string          `json:"type"`
	Run     string          `json:"run"`
	Network string          `json:"network"`
	Agent   string          `json:"agent"`
	Data    json.RawMessage `json:"data"`
}

// Of returns the tree of a run whose events the caller has, as [Read] returns one that is
// stored.
func Of(events []host.Event) (*Run, error) {
	var text []byte
	for _, ev := range events {
		line, err := ev.AppendJSON(nil)
		if err != nil {
			return nil, host.Errorf(host.Internal, "write an event: %w", err)
		}
		text = append(append(text, line...), '\n')
	}
	return parse(text), nil
}

// parse makes a tree of lines. Unreadable lines are counted and left out: the
// last line of a killed process may be incomplete.
func parse(text []byte) *Run {
	run := &Run{Spans: []*Span{}}
	b := &builder{}
	for line := range bytes.Lines(text) {
		var ev event
		if err := json.Unmarshal(line, &ev); err != nil || ev.Type == "" {
			run.Damaged++
			continue
		}
		if run.Run == "" {
			run.Run, run.Began, b.began = ev.Run, ev.Time, ev.Time
		}
		if !run.add(b, &ev) {
			run.Damaged++
		}
	}
	if !run.Finished {
		run.DurationUS = b.at
	}
	if b.spans != nil {
		run.Spans = b.spans
	}
	return run
}

// add adds an event, and reports whether it could be read.
func (r *Run) add(b *builder, ev *event) bool {
	if r.Target == "" {
		r.Target = ev.Network
	}
	if r.Target == "" {
		r.Target = ev.Agent
	}
	switch ev.Type {
	case "run.started":
		var d runevent.RunStarted
		ok := read(ev, &d)
		r.Tenant, r.Thread, r.Resumes = d.Tenant, d.Thread, d.Resumes
		return ok
	case "run.finished":
		var d runevent.RunFinished
		ok := read(ev, &d)
		r.Finished, r.FinishReason, r.DurationUS = ok, d.FinishReason, d.DurationUS
		r.Usage, r.Cost, r.Error = d.Usage, d.Cost, d.Error
		if d.Thread != "" {
			r.Thread = d.Thread
		}
		b.end()
		return ok
	}
	return b.add(ev)
}

func read(ev *event, data any) bool { return json.Unmarshal(ev.Data, data) == nil }
