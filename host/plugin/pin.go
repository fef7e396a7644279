package plugin

import (
	"context"
	"maps"
	"sync"

	"github.com/agenthost/agenthost/host"
)

// pins are the versions that one run holds on to.
type pins map[*Slot]*version

type pinsKey struct{}

// Pin returns a context in which every call goes to the version that serves
// now, whatever is published, rolled back or unloaded meanwhile; of the given
// slots, or of all that the runtime has. A run that is started with the context
// sees one version of each plugin from its first call to its last.
//
// release lets the versions go; call it when the run has ended. Until then they
// stay in memory, and [Slot.Close] waits for them. It may be called twice. A
// slot without a version is not pinned.
func (rt *Runtime) Pin(ctx context.Context, slots ...*Slot) (pinned context.Context, release func()) {
	if slots == nil {
		slots = rt.Slots()
	}
	held := make(pins, len(slots))
	for _, s := range slots {
		if held[s] != nil {
			continue
		}
		if v := s.enter(); v != nil {
			v.pins.Add(1)
			held[s] = v
		}
	}
	all := held
	if outer, ok := ctx.Value(pinsKey{}).(pins); ok {
		all = maps.Clone(outer)
		maps.Copy(all, held)
	}
	return context.WithValue(ctx, pinsKey{}, all), sync.OnceFunc(func() {
		for _, v := range held {
			v.pins.Add(-1)
			v.leave()
		}
	})
}

// at lets a call into the version that ctx pins, or else the one that serves.
// It is left with version.leave.
func (s *Slot) at(ctx context.Context) (*version, error) {
	if held, ok := ctx.Value(pinsKey{}).(pins); ok && held[s] != nil {
		v := held[s]
		if v.refs.Add(2)>>1 > 1 { // the pin itself, or else it has been released
			return v, nil
		}
		v.leave()
	}
	if v := s.enter(); v != nil {
		return v, nil
	}
	return nil, s.errUnloaded()
}

// errNoPart says that the serving version does not offer a part in use.
func (v *version) errNoPart(kind, name string) error {
	return host.Errorf(host.NotFound, "plugin %q: version %d offers no %s %q any more", v.slot.id, v.number, kind, name).
		WithHint("load a version that does, or take it out of the agent")
}
