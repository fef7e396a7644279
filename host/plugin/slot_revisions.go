package plugin

import (
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// revisions are the versions of a slot, with their resources and lifetimes. Its fields
// below the mutex are guarded by it.
type revisions struct {
	plugin   string // its id
	kept     int    // earlier versions that are kept for a rollback
	draining int    // most that wait for their last call
	closers  sync.WaitGroup

	mu     *sync.Mutex    // the slot's
	number int            // of the last version
	live   []*version     // those that hold something, the oldest first
	past   []VersionState // those that do not, the oldest first; at most slotRecords
}

// next returns the number of another version.
func (rs *revisions) next() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.number++
	return rs.number
}

// add keeps a version that holds something. rs.mu is held.
func (rs *revisions) add(v *version) {
	if !slices.Contains(rs.live, v) {
		rs.live = append(rs.live, v)
	}
}

// before returns the last kept version before v; nil without one. rs.mu is held.
func (rs *revisions) before(v *version) *version {
	i := slices.Index(rs.live, v) - 1
	for i >= 0 && rs.live[i].phase != Kept {
		i--
	}
	if i < 0 {
		return nil
	}
	return rs.live[i]
}

// dropAll drops every version and returns those that are yet to be closed. rs.mu is
// held.
func (rs *revisions) dropAll() []*version {
	for _, v := range rs.live {
		if v.phase != Draining {
			rs.drop(v, Unloaded)
		}
	}
	return slices.Clone(rs.live)
}

// roomToDrain refuses another version while too many wait for their last call.
func (rs *revisions) roomToDrain() error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	n := 0
	for _, v := range rs.live {
		if v.phase == Draining {
			n++
		}
	}
	if n < rs.draining {
		return nil
	}
	return host.Errorf(host.ResourceExhausted, "plugin %q: %d versions still have calls or pinned runs in progress, as many as the limit Draining", rs.plugin, n).
		WithHint("wait for them, or release the pins")
}

// retire lets no new call into a version. rs.mu is held.
func (rs *revisions) retire(v *version) {
	v.refs.Or(retired)
	rs.drained(v)
}

// drop closes a version when its last call has ended, and remembers it as last.
// rs.mu is held.
func (rs *revisions) drop(v *version, last Phase) {
	v.phase, v.last = Draining, last
	rs.retire(v)
}

// dropSurplus drops the oldest of the kept versions that are too many. rs.mu is
// held.
func (rs *revisions) dropSurplus() {
	kept := 0
	for _, v := range slices.Backward(rs.live) {
		if v.phase != Kept {
			continue
		}
		if kept++; kept > rs.kept {
			rs.drop(v, Replaced)
		}
	}
}

// drained frees a version's resources once its last call has ended: a kept version
// keeps its code only, a dropped one nothing. rs.mu is held.
func (rs *revisions) drained(v *version) {
	if v.refs.Load() != retired || v.closing {
		return
	}
	switch v.phase {
	case Kept:
		rs.closers.Go(func() { v.plugin.instances.Retire(time.Time{}) })
	case Draining:
		v.closing = true
		rs.closers.Go(func() { rs.close(v) })
	}
}

// close frees the resources of a version.
func (rs *revisions) close(v *version) {
	v.plugin.Close()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	v.phase = v.last
	rs.remember(v)
	close(v.gone)
}

// remember makes a record of a version that holds nothing. rs.mu is held.
func (rs *revisions) remember(v *version) {
	rs.live = slices.DeleteFunc(rs.live, func(u *version) bool { return u == v })
	rs.past = append(rs.past, v.state())
	if n := len(rs.past) - slotRecords; n > 0 {
		rs.past = slices.Delete(rs.past, 0, n)
	}
}

// closeNow closes a version that has pins, unless its close has begun already.
func (rs *revisions) closeNow(v *version) {
	rs.mu.Lock()
	closing := v.closing
	v.closing = true
	rs.mu.Unlock()
	if !closing {
		rs.close(v)
	}
}

// dropHeld drops the version that is held back. rs.mu is held.
func (rs *revisions) dropHeld() {
	if v := rs.held(); v != nil {
		rs.drop(v, Replaced)
	}
}

// held returns the version that is held back, if there is one. rs.mu is held.
func (rs *revisions) held() *version {
	i := slices.IndexFunc(rs.live, func(v *version) bool { return v.phase == Held })
	if i < 0 {
		return nil
	}
	return rs.live[i]
}

func (rs *revisions) stateOf(v *version) VersionState {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return v.state()
}
