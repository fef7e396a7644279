package runs

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// liveRuns are the runs of a registry: those that run, and for some time those that have
// ended. It is safe for concurrent use.
type liveRuns struct {
	maxRuns, maxEnded int
	keptFor           time.Duration

	mu       sync.Mutex
	byTenant map[string]map[string]*liveRun
	ended    []endedRun // in the order of their ends; the first is removed first
	running  int
	idle     chan struct{} // closed when running becomes 0, if a drain waits for that
	stopped  bool          // no further run begins
	sweep    *time.Timer   // removes ended runs; nil without any
}

// endedRun is a run that is removed at a time.
type endedRun struct {
	run   *liveRun
	until time.Time
}

func newLiveRuns(o *Options) *liveRuns {
	return &liveRuns{maxRuns: o.MaxRuns, maxEnded: o.MaxEnded, keptFor: o.KeptFor, byTenant: map[string]map[string]*liveRun{}}
}

// add registers a run that begins.
func (s *liveRuns) add(l *liveRun) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFree(l); err != nil {
		return err
	}
	if s.running >= s.maxRuns {
		e := host.Errorf(host.ResourceExhausted, "%d runs are live, as many as the limit MaxRuns allows", s.running).WithHint("try again when one has ended")
		e.Limit, e.RetryAfter = "MaxRuns", time.Second
		return e
	}
	s.register(l)
	s.running++
	return nil
}

// checkFree refuses a run that cannot be registered. s.mu is held.
func (s *liveRuns) checkFree(l *liveRun) error {
	switch {
	case s.stopped:
		return host.Errorf(host.Unavailable, "the host is being stopped").WithHint("start the run on another one")
	case s.byTenant[l.info.Tenant][l.info.ID] != nil:
		return host.Errorf(host.AlreadyExists, "there is a run %.100q", l.info.ID)
	}
	return nil
}

// register has find return a run. s.mu is held.
func (s *liveRuns) register(l *liveRun) {
	tenant := l.info.Tenant
	if s.byTenant[tenant] == nil {
		s.byTenant[tenant] = map[string]*liveRun{}
	}
	s.byTenant[tenant][l.info.ID] = l
}

// retire keeps a run that has ended for some time; one that was refused is removed.
func (s *liveRuns) retire(l *liveRun, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	if refused {
		s.removeRun(l)
		return
	}
	s.keep(l)
}

// addEnded registers a run that has ended, and keeps it for some time.
func (s *liveRuns) addEnded(l *liveRun) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFree(l); err != nil {
		return err
	}
	s.register(l)
	s.keep(l)
	return nil
}

// keep keeps a run that has ended for some time. s.mu is held.
func (s *liveRuns) keep(l *liveRun) {
	now := time.Now()
	s.ended = append(s.ended, endedRun{l, now.Add(s.keptFor)})
	s.removeExpired(now)
}

// removeExpired removes the ended runs whose time is over, or that are too many. s.mu
// is held.
func (s *liveRuns) removeExpired(now time.Time) {
	n := max(len(s.ended)-s.maxEnded, 0)
	for n < len(s.ended) && !s.ended[n].until.After(now) {
		n++
	}
	for i := range s.ended[:n] {
		s.removeRun(s.ended[i].run)
		s.ended[i] = endedRun{}
	}
	s.ended = s.ended[n:]
	if len(s.ended) == 0 {
		s.ended = nil
		return
	}
	if s.sweep == nil && !s.stopped {
		s.sweep = time.AfterFunc(s.ended[0].until.Sub(now), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sweep = nil
			s.removeExpired(time.Now())
		})
	}
}

// remove takes a run out.
func (s *liveRuns) remove(l *liveRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeRun(l)
}

// removeRun is remove with s.mu held.
func (s *liveRuns) removeRun(l *liveRun) {
	of := s.byTenant[l.info.Tenant]
	if of[l.info.ID] != l {
		return
	}
	if delete(of, l.info.ID); len(of) == 0 {
		delete(s.byTenant, l.info.Tenant)
	}
	l.storedLog().forget()
}

// find returns a run, or nil.
func (s *liveRuns) find(tenant, id string) *liveRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byTenant[tenant][id]
}

// of returns the runs of a tenant, in no order.
func (s *liveRuns) of(tenant string) []*liveRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byTenant[tenant]))
}

// list returns the runs that a request chooses behind a position, in no order.
func (s *liveRuns) list(req *ListRequest, after position) []*Run {
	found := s.of(req.Tenant)
	out := make([]*Run, 0, len(found))
	for _, l := range found {
		info := l.snapshot()
		if (req.Thread == "" || info.Thread == req.Thread) && (req.Status == "" || info.Status == req.Status) && after.isBefore(info) {
			out = append(out, info)
		}
	}
	return out
}

// all returns the runs of all tenants, in no order.
func (s *liveRuns) all() (out []*liveRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.byTenant {
		out = slices.AppendSeq(out, maps.Values(of))
	}
	return out
}

// cancelAll cancels the runs that have not ended, and returns how many there are.
func (s *liveRuns) cancelAll() (n int) {
	for _, l := range s.all() {
		if !l.snapshot().Status.Ended() {
			l.cancel(host.Errorf(host.Canceled, "the host is being stopped"))
			n++
		}
	}
	return n
}

// stop refuses further runs, and returns a channel that is closed when none is live.
func (s *liveRuns) stop() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	if s.running == 0 {
		close(idle)
		s.idle = nil
	}
	return idle
}

// forget takes all runs out. Their stored events stay, for other hosts.
func (s *liveRuns) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweep != nil {
		s.sweep.Stop()
	}
	s.byTenant, s.ended = map[string]map[string]*liveRun{}, nil
}
