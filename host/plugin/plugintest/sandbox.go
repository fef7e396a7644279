package plugintest

import (
	"context"
	"math"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/queue"
)

// sandbox loads and calls the plugin under test.
type sandbox struct {
	ctx     context.Context // the lifetime of the test, or of its present rule
	runtime *plugin.Runtime
	jobs    *queue.Queue // nil if the test's own options have one
	wasm    []byte
	options plugin.LoadOptions
	plugin  *plugin.Plugin
	single  *plugin.Plugin // each of its instances answers one call; nil until callFresh loads it
	stops   stops
}

// tenant is the tenant of all calls.
const tenant = "acme"

func (s *sandbox) close() {
	if s.jobs != nil {
		_ = s.jobs.Close()
	}
	_ = s.runtime.Close(context.WithoutCancel(s.ctx))
}

// call makes a call under the limits of the test. A plugin that reaches them is counted
// in [stops].
func (s *sandbox) call(p *plugin.Plugin, c Call) (*plugin.CallResult, error) {
	if err := s.stops.reached(); err != nil {
		return &plugin.CallResult{}, err
	}
	r, err := s.callOnce(p, c)
	s.stops.count(r, err)
	return r, err
}

func (s *sandbox) callOnce(p *plugin.Plugin, c Call) (*plugin.CallResult, error) {
	return p.Call(s.ctx, tenant, c.Export, []byte(c.Input), nil)
}

// loadedAs is the id of the plugin in every load, so that the host's errors, which name it, are
// the same.
const loadedAs = "guest"

// callFresh makes a call of a new instance.
func (s *sandbox) callFresh(c Call) (*plugin.CallResult, error) {
	if err := s.stops.reached(); err != nil {
		return &plugin.CallResult{}, err
	}
	if err := s.loadSingle(); err != nil {
		return &plugin.CallResult{}, err
	}
	r, err := s.callOnce(s.single, c)
	s.stops.count(r, err)
	return r, err
}

// loadSingle loads the plugin once for all calls of new instances: loading a module of
// some megabytes again takes far longer than most calls.
func (s *sandbox) loadSingle() (err error) {
	if s.single == nil {
		options := s.options
		options.Limits.MaxCallsPerInstance = 1
		s.single, err = s.runtime.Load(s.ctx, loadedAs, s.wasm, &options)
	}
	return err
}

// callLoaded makes a call of a plugin that is loaded for it, whose first instance runs all
// of the code that starts it.
func (s *sandbox) callLoaded(c Call) (*plugin.CallResult, error) {
	if err := s.stops.reached(); err != nil {
		return &plugin.CallResult{}, err
	}
	r, err := s.callUnder(c, s.options.Limits)
	s.stops.count(r, err)
	return r, err
}

// callUnder is callLoaded under other limits, which a plugin may reach.
func (s *sandbox) callUnder(c Call, limits plugin.Limits) (*plugin.CallResult, error) {
	options := s.options
	options.Limits = limits
	p, err := s.runtime.Load(s.ctx, loadedAs, s.wasm, &options)
	if err != nil {
		return &plugin.CallResult{}, err
	}
	defer p.Close()
	return s.callOnce(p, c)
}

// reachesOut reports whether the plugin is granted an input, such as the clock, that may
// differ in the next call, also of a new instance.
func (s *sandbox) reachesOut() bool {
	p := s.plugin.Granted()
	return p.Clock || p.Random || p.Model || p.KV != "" && p.KV != plugin.None || len(p.HTTP) > 0 || len(p.Tools) > 0
}

// varies reports whether such an input makes a call's answers differ: they are then not
// compared.
func (s *sandbox) varies(c Call, want *plugin.CallResult) bool {
	if !s.reachesOut() {
		return false
	}
	again, err := s.callFresh(c)
	return err == nil && !sameResult(again, want)
}

// lasting loads the plugin such that an instance is replaced only because of its own
// behaviour: not for its number of calls, nor for being idle.
func (s *sandbox) lasting() (*plugin.Plugin, error) {
	options := s.options
	options.Limits.MaxCallsPerInstance, options.Limits.IdleTime = math.MaxInt32, time.Hour
	return s.runtime.Load(s.ctx, loadedAs, s.wasm, &options)
}

// serves returns why a host would not deploy the plugin as a new version: it does not
// describe itself, or fails its health calls.
func (s *sandbox) serves() error {
	slot, err := s.runtime.NewSlot(s.ctx, loadedAs, s.wasm, &plugin.SlotOptions{LoadOptions: s.options})
	if err == nil {
		slot.Close()
	}
	return err
}
