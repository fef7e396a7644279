package plugin

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/breaker"
)

// Phase is the state of a plugin's version in its life.
type Phase string

// The phases. A version that is replaced, failed or unloaded holds nothing any
// more.
const (
	Serving  Phase = "serving"  // calls go to it
	Kept     Phase = "kept"     // it served, and waits for a rollback
	Draining Phase = "draining" // it is closed when its last call has ended
	Held     Phase = "held"     // it asks for more than it is granted
	Failed   Phase = "failed"   // it could not be taken into service, or was rolled back for its errors
	Replaced Phase = "replaced" // another one took its place
	Unloaded Phase = "unloaded" // the plugin was unloaded
)

// retired is the bit of version.refs that refuses new calls and pins.
const retired int64 = 1

// version is one module in a slot.
type version struct {
	slot   *Slot
	number int
	refs   atomic.Int64 // calls and pins in progress, times 2, and the bit retired
	pins   atomic.Int64
	calls  atomic.Int64
	faults atomic.Int64
	gone   chan struct{} // closed with the plugin

	plugin *Plugin // set before the version is published

	// breaker judges its calls since it was last published. Pinned calls continue
	// through a rollback to it, which starts with a new breaker.
	breaker atomic.Pointer[breaker.Breaker]

	// Guarded by Slot.mu.
	phase   Phase
	last    Phase // after Draining
	since   time.Time
	missing []string
	err     *host.Error
	closing bool
}

// enter lets a call or a pin into the version that serves; nil if none does.
// What it returns is left with version.leave.
func (s *Slot) enter() *version {
	for {
		v := s.current.Load()
		if v == nil {
			return nil
		}
		if v.refs.Add(2)&retired == 0 {
			return v
		}
		v.leave() // another one has just been published
	}
}

// leave ends a call or pin that enter began. The last one of a retired version
// closes it.
func (v *version) leave() {
	if v.refs.Add(-2) != retired {
		return
	}
	v.slot.mu.Lock()
	defer v.slot.mu.Unlock()
	v.slot.revisions.drained(v)
}

// VersionState tells of one version of a plugin.
type VersionState struct {
	Number  int         `json:"number"` // counts from 1
	Phase   Phase       `json:"phase"`
	Since   time.Time   `json:"since"`             // of the phase; of a draining one, when it was retired
	Digest  string      `json:"digest,omitempty"`  // of the module
	Name    string      `json:"name,omitempty"`    // what the manifest says
	Version string      `json:"version,omitempty"` // what the manifest says
	Calls   int64       `json:"calls"`             // that have ended
	Faults  int64       `json:"faults"`            // of these, by a fault of the plugin's
	Running int64       `json:"running"`           // calls in progress
	Pins    int64       `json:"pins,omitempty"`    // runs that hold on to it
	Missing []string    `json:"missing,omitempty"` // what it asks for beyond what it is granted
	Error   *host.Error `json:"error,omitempty"`   // why it is held back, failed or was rolled back
	Open    []OpenState `json:"open,omitempty"`    // tenants whose calls it is not given
}

// state tells of a version. Slot.mu is held.
func (v *version) state() VersionState {
	pins := v.pins.Load()
	st := VersionState{
		Number: v.number, Phase: v.phase, Since: v.since, Calls: v.calls.Load(), Faults: v.faults.Load(),
		Running: max(0, v.refs.Load()>>1-pins), Pins: pins, Missing: slices.Clone(v.missing), Error: v.err,
	}
	if p := v.plugin; p != nil {
		st.Digest, st.Name, st.Version = p.module.digest, p.manifest.Name, p.manifest.Version
	}
	if b := v.breaker.Load(); b != nil {
		st.Open = b.Open()
	}
	return st
}

// SlotState is the state of a plugin that can be replaced.
type SlotState struct {
	ID       string         `json:"id"`
	Owner    string         `json:"owner,omitempty"`    // the tenant that it is of
	Phase    Phase          `json:"phase"`              // serving or unloaded
	Loading  bool           `json:"loading,omitempty"`  // a version is being loaded
	Open     bool           `json:"open,omitempty"`     // some tenants' calls are refused for a while: see VersionState.Open
	Held     bool           `json:"held,omitempty"`     // a version is held back
	Versions []VersionState `json:"versions,omitempty"` // the oldest first; of those that hold nothing, the last 32
	Error    *host.Error    `json:"error,omitempty"`    // the last of a version, until another is published
}

// State returns the slot's versions and their phases.
func (s *Slot) State() SlotState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SlotState{ID: s.id, Owner: s.opts.Owner, Phase: Unloaded, Loading: s.loading, Error: s.lastErr, Held: s.revisions.held() != nil, Versions: slices.Clone(s.revisions.past)}
	for _, v := range s.revisions.live {
		st.Versions = append(st.Versions, v.state())
	}
	slices.SortFunc(st.Versions, func(a, b VersionState) int { return a.Number - b.Number })
	for _, v := range st.Versions {
		if v.Phase == Serving {
			st.Phase, st.Open = Serving, len(v.Open) > 0
		}
	}
	return st
}

// Serving returns the state of the version that serves; nil if none does.
func (s *SlotState) Serving() *VersionState {
	for i := range s.Versions {
		if s.Versions[i].Phase == Serving {
			return &s.Versions[i]
		}
	}
	return nil
}
