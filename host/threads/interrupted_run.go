package threads

import (
	"context"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/turnqueue"
)

// How a turn waits for a run that came before it on the thread, and whose host has died or
// has lost the store: another host, or this one, continues that run soon. A turn that had the
// thread before it would end it, since its conversation is another one then.

const (
	interruptedPoll  = 50 * time.Millisecond // between two looks at the run
	interruptedLimit = 15 * time.Second      // for another host to continue it: 7 s with the default lease
	maxOvertaken     = 1000                  // runs that a store remembers
)

// overtaken are runs for which turns have waited in vain. It is safe for concurrent use;
// the zero value is ready.
type overtaken struct {
	mu   sync.Mutex
	runs map[kv.Key]bool
}

func (o *overtaken) has(run kv.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.runs[run]
}

func (o *overtaken) add(run kv.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil || len(o.runs) >= maxOvertaken {
		o.runs = map[kv.Key]bool{}
	}
	o.runs[run] = true
}

// interruptedRuns is the wait of one turn.
type interruptedRuns struct {
	place *Place
	run   string    // the one that the turn waits for
	fence int64     // of its present owner
	since time.Time // when the turn began to wait for another owner
}

// next returns a run that comes before the turn, which has the thread's lock; nil if none
// does.
func (w *interruptedRuns) next(ctx context.Context) (*runRecord, error) {
	p := w.place
	if p.key.Branch != "" || w.run == "" && p.store.unfinished == nil && len(p.store.locks.turns.Fence(p.key)) == 0 {
		return nil, nil
	}
	r, err := p.interruptedRun(ctx)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Run != w.run || r.Fence != w.fence {
		w.run, w.fence, w.since = r.Run, r.Fence, time.Now()
	}
	if time.Since(w.since) > interruptedLimit {
		p.store.overtaken.add(overtakenKey(p.key, r.Run))
		return nil, nil
	}
	return r, nil
}

// wait has a run continued that comes before the turn, and waits a moment. The thread is not
// locked.
func (w *interruptedRuns) wait(ctx context.Context, r *runRecord) error {
	p := w.place
	if p.store.unfinished != nil {
		if p.store.unfinished(ctx, r.public(p.key.Partition)) != nil {
			p.store.overtaken.add(overtakenKey(p.key, r.Run))
			return nil
		}
	}
	if !p.wait {
		return host.Errorf(host.Conflict, "run %q on thread %q was interrupted and continues first", r.Run, p.key.Thread)
	}
	select {
	case <-time.After(interruptedPoll):
		return nil
	case <-ctx.Done():
		return contextError(ctx, "wait for run %q on thread %q, which was interrupted", r.Run, p.key.Thread)
	}
}

func overtakenKey(key turnqueue.Key, run string) kv.Key { return kv.NewKey(key.Partition, run) }

// interruptedRun returns an open run on the thread's own line that is not the place's: one
// that no process executes, since its turn would have the lock. The result is nil without one.
func (p *Place) interruptedRun(ctx context.Context) (*runRecord, error) {
	j := journal{partitionIn(p.store.driver, p.key.Partition), p.store}
	root, err := p.threadRoot(ctx, j.part)
	if err != nil || root == "" {
		return nil, err
	}
	journals := contentOf(root).journals()
	for e, err := range j.part.All(ctx, kv.Range{Prefix: journals}) {
		if err != nil {
			return nil, wrap(err, "look for interrupted runs on thread %q", p.key.Thread)
		}
		rest, _ := e.Key.CutPrefix(journals)
		run, _, ok := rest.CutString()
		if !ok || run == p.own[0] || run == p.own[1] || p.store.overtaken.has(overtakenKey(p.key, run)) {
			continue
		}
		r, err := j.find(ctx, run)
		if host.CodeOf(err) == host.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.rec.open() && r.rec.Branch == "" && (r.rec.Host != "" || p.store.unfinished != nil) {
			return &r.rec, nil
		}
	}
	return nil, nil
}

// threadRoot returns the content that keeps the index of the thread's runs, "" for a thread
// that does not exist. A process that has the store to itself knows it from its last commit.
func (p *Place) threadRoot(ctx context.Context, part partition) (string, error) {
	if p.store.locks.shared == nil {
		if t := p.store.windows.record(p.key.Partition, p.key.Thread); t != nil {
			return t.rec.root(), nil
		}
	}
	return part.rootOf(ctx, p.key.Thread)
}
