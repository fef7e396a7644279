package threads

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/wordindex"
)

// PruneOptions say which threads of a tenant go: those that one of them names.
type PruneOptions struct {
	// Before is for threads whose last update was earlier; zero is none.
	Before time.Time
	// Keep is how many stay, those that were updated last; 0 is all.
	Keep int
	// MaxBytes is how much the threads that stay have stored, those that were
	// updated last first; 0 is no bound. Each thread is read to be measured.
	MaxBytes int64
	// DryRun lists the threads that would go, and removes nothing.
	DryRun bool
}

// Pruned is the result of Prune.
type Pruned struct {
	Threads []*Thread `json:"threads"`
	// Kept is how many threads stayed.
	Kept int `json:"kept"`
	// Running is how many would have gone, but for a turn that was running on them
	// or came meanwhile.
	Running int `json:"running,omitempty"`
}

// Prune removes threads by age, number or size. The content that a remaining fork
// refers to stays when the thread it was forked from goes. A thread on which a turn of
// this Store is running, or that was updated since Prune has read it, stays. On an
// error, Prune returns the threads removed until then.
//
// Code invalid_argument if no option selects threads, and for negative numbers.
func (tn *Tenant) Prune(ctx context.Context, opts PruneOptions) (*Pruned, error) {
	out := &Pruned{Threads: []*Thread{}}
	if opts.Keep < 0 || opts.MaxBytes < 0 {
		return out, host.Errorf(host.InvalidArgument, "prune threads: a bound is negative")
	}
	if opts.Keep == 0 && opts.MaxBytes == 0 && opts.Before.IsZero() {
		return out, host.Errorf(host.InvalidArgument, "prune threads: nothing says which").WithHint("name an age, a number or a size")
	}
	going, err := tn.prunable(ctx, opts, out)
	if err != nil {
		return out, err
	}
	for _, t := range going {
		if err := tn.prune(ctx, t, opts.DryRun, out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// prunable returns the threads that go, the last updated first.
func (tn *Tenant) prunable(ctx context.Context, opts PruneOptions, out *Pruned) ([]*Thread, error) {
	var going []*Thread
	bytes := int64(0)
	list := &ListOptions{Limit: MaxListLimit}
	for {
		page, err := tn.List(ctx, list)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Threads {
			goes := t.Updated.Before(opts.Before) || opts.Keep > 0 && out.Kept >= opts.Keep
			if !goes && opts.MaxBytes > 0 {
				n, err := tn.size(ctx, t.ID)
				if err != nil {
					return nil, err
				}
				if goes = bytes+n > opts.MaxBytes; !goes {
					bytes += n
				}
			}
			if goes {
				going = append(going, t)
			} else {
				out.Kept++
			}
		}
		if list.Cursor = page.Next; page.Next == "" {
			return going, nil
		}
	}
}

// prune removes a thread unless its head has changed.
func (tn *Tenant) prune(ctx context.Context, t *Thread, dry bool, out *Pruned) error {
	if dry {
		out.Threads = append(out.Threads, t)
		return nil
	}
	unlock, err := tn.write.lock(ctx, t.ID, host.RaceConflict)
	if err == nil {
		err = tn.write.deleteIf(ctx, t.ID, func(now *Moment) bool { return now.rec.Head == t.Head })
		unlock()
	}
	switch {
	case err == nil:
		out.Threads = append(out.Threads, t)
	case errors.Is(err, errNothing), host.CodeOf(err) == host.Conflict:
		out.Running++
	case host.CodeOf(err) != host.NotFound: // deleted meanwhile
		return err
	}
	return nil
}

// size returns how many bytes of keys and values a thread has stored; those that
// it refers to in other threads are theirs.
func (tn *Tenant) size(ctx context.Context, id string) (int64, error) {
	t, err := tn.write.read.open(ctx, id)
	if err != nil || t == nil {
		return 0, err
	}
	contents := []string{t.rec.root()}
	for e, err := range t.part.all(ctx, kv.Range{Prefix: t.root().owned()}) {
		if err != nil {
			return 0, wrap(err, "measure thread %q", id)
		}
		rest, _ := e.Key.CutPrefix(t.root().owned())
		if name, _, ok := rest.CutString(); ok {
			contents = append(contents, name)
		}
	}
	total := int64(0)
	for _, c := range contents {
		for _, prefix := range []kv.Key{contentOf(c).all(), wordindex.KeysOf(c)} {
			for e, err := range t.part.all(ctx, kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
				if err != nil {
					return 0, wrap(err, "measure thread %q", id)
				}
				total += int64(len(e.Key) + len(e.Value))
			}
		}
	}
	return total, nil
}
