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
	p := &pruner{write: tn.write, opts: opts, out: out}
	list := &ListOptions{Limit: MaxListLimit}
	for {
		page, err := tn.List(ctx, list)
		if err != nil {
			return out, err
		}
		if err := p.pick(ctx, page.Threads); err != nil {
			return out, err
		}
		if list.Cursor = page.Next; page.Next == "" {
			return out, p.run(ctx)
		}
	}
}

// pruner picks threads from their list, and removes those that go.
type pruner struct {
	write threadWriter
	opts  PruneOptions
	bytes int64     // of the threads that stay
	going []*Thread // the last updated first
	out   *Pruned
}

// pick picks the threads that go from the next ones of the list.
func (p *pruner) pick(ctx context.Context, list []*Thread) error {
	for _, t := range list {
		goes := t.Updated.Before(p.opts.Before) || p.opts.Keep > 0 && p.out.Kept >= p.opts.Keep
		if !goes && p.opts.MaxBytes > 0 {
			n, err := p.write.read.part.storedBytes(ctx, t.ID)
			if err != nil {
				return err
			}
			if goes = p.bytes+n > p.opts.MaxBytes; !goes {
				p.bytes += n
			}
		}
		if goes {
			p.going = append(p.going, t)
		} else {
			p.out.Kept++
		}
	}
	return nil
}

// run removes the threads that go; a dry run only lists them.
func (p *pruner) run(ctx context.Context) error {
	if p.opts.DryRun {
		p.out.Threads = append(p.out.Threads, p.going...)
		return nil
	}
	for _, t := range p.going {
		if err := p.remove(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a thread unless its head has changed.
func (p *pruner) remove(ctx context.Context, t *Thread) error {
	unlock, err := p.write.lock(ctx, t.ID, host.RaceConflict)
	if err == nil {
		err = p.write.deleteIf(ctx, t.ID, func(now *Moment) bool { return now.rec.Head == t.Head })
		unlock()
	}
	switch {
	case err == nil:
		p.out.Threads = append(p.out.Threads, t)
	case errors.Is(err, errNothing), host.CodeOf(err) == host.Conflict:
		p.out.Running++
	case host.CodeOf(err) != host.NotFound: // deleted meanwhile
		return err
	}
	return nil
}

// storedBytes returns how many bytes of keys and values a thread has stored; those that
// it refers to in other threads are theirs.
func (p partition) storedBytes(ctx context.Context, id string) (int64, error) {
	t, err := p.open(ctx, id)
	if err != nil || t == nil {
		return 0, err
	}
	contents := []string{t.rec.root()}
	for e, err := range t.part.All(ctx, kv.Range{Prefix: t.root().owned()}) {
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
			for e, err := range t.part.All(ctx, kv.Range{Prefix: prefix, Limit: kv.MaxScanLimit}) {
				if err != nil {
					return 0, wrap(err, "measure thread %q", id)
				}
				total += int64(len(e.Key) + len(e.Value))
			}
		}
	}
	return total, nil
}
