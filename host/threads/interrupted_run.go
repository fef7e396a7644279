package threads

import (
	"context"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

// How a turn waits for a run that came before it on the thread, and whose host has died or
// has lost the store: another host continues that run soon. A turn that had the thread
// before it would end it, since its conversation is another one then.

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
	since time.Time // it does
}

// next returns a run that comes before the turn, which has the thread's lock; "" if none
// does. A process that is alone knows the runs that are not finished: it has continued them.
func (w *interruptedRuns) next(ctx context.Context) (string, error) {
	p := w.place
	if p.key.branch != "" || w.run == "" && len(p.store.locks.fence(p.key)) == 0 {
		return "", nil
	}
	j := journal{partition{p.store.driver, p.key.partition}, p.store.now}
	run, err := j.interrupted(ctx, p.key, p.own, &p.store.overtaken)
	if err != nil || run == "" {
		return "", err
	}
	if run != w.run {
		w.run, w.since = run, time.Now()
	}
	if time.Since(w.since) > interruptedLimit {
		p.store.overtaken.add(overtakenKey(p.key, run))
		return "", nil
	}
	return run, nil
}

func overtakenKey(key lockKey, run string) kv.Key { return kv.NewKey(key.partition, run) }

// interrupted returns an open run of a host on a thread's own line: one that does not run,
// since its turn would have the lock. own are left out.
func (j journal) interrupted(ctx context.Context, key lockKey, own [2]string, passed *overtaken) (string, error) {
	t, err := j.part.open(ctx, key.thread)
	if err != nil || t == nil {
		return "", err
	}
	for e, err := range j.part.all(ctx, kv.Range{Prefix: t.root().journals()}) {
		if err != nil {
			return "", wrap(err, "look for interrupted runs on thread %q", key.thread)
		}
		rest, _ := e.Key.CutPrefix(t.root().journals())
		run, _, ok := rest.CutString()
		if !ok || run == own[0] || run == own[1] || passed.has(overtakenKey(key, run)) {
			continue
		}
		r, err := j.find(ctx, run)
		if host.CodeOf(err) == host.NotFound {
			continue
		}
		if err != nil {
			return "", err
		}
		if r.rec.open() && r.rec.Host != "" && r.rec.Branch == "" {
			return run, nil
		}
	}
	return "", nil
}
