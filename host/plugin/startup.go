package plugin

import (
	"context"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// StartUp says what a plugin's code has done that runs before its first call: its
// start section and _initialize.
type StartUp struct {
	Instructions int64 `json:"instructions"`

	// Clock: it has read a clock. The host gave it the virtual one, whatever is
	// granted, so that an image can be taken of it.
	Clock bool `json:"clock"`

	// Random: it has read random bytes. With the permission random they are real,
	// so no image is taken, and every fresh call runs the start-up code again.
	Random bool `json:"random"`

	// Image: instances can be made of an image of what it leaves, as long as it has
	// read no real random bytes.
	Image bool `json:"image"`
}

// StartUp returns what the plugin's start-up code has done, after running it with
// nothing granted if it has not run yet. Code unimplemented for a plugin that another
// engine runs.
func (p *Plugin) StartUp(ctx context.Context) (StartUp, error) {
	if p.module.engine != nil {
		return StartUp{}, host.Errorf(host.Unimplemented, "plugin %q: its engine does not tell what start-up does", p.id)
	}
	if did, known := p.module.images().startUp.get(); known {
		return did, nil
	}
	// Without the export the call fails after the instance was made.
	_, err := p.call(ctx, describeTenant, abi.Describe, nil, nil, nil)
	if did, known := p.module.images().startUp.get(); known {
		return did, nil
	}
	return StartUp{}, err
}

// startRecord is what start-up code did when it ran last, of one compiled module.
type startRecord struct {
	mu    sync.Mutex
	did   StartUp
	known bool
}

func (s *startRecord) get() (StartUp, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.did, s.known
}

func (s *startRecord) set(did StartUp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did, s.known = did, true
}

// started notes that the start-up code of an instance has run.
func (inst *instance) started() {
	w := inst.wasi
	w.EndStart(w.Elapsed())
	random, _ := w.ReadRandom()
	inst.plugin.module.images().startUp.set(StartUp{
		Instructions: inst.meter.Spent(), Clock: w.ReadClock(), Random: random,
		Image: inst.plugin.module.hasImages() && !w.KeepsState() && !inst.extism.HasOwn(),
	})
}
