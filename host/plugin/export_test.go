package plugin

// HandWritten is the assembler of this package's tests, for those outside it.
var HandWritten = handWritten

// IdleInstances is how many instances of a plugin are kept.
func IdleInstances(p *Plugin) int {
	p.instances.mu.Lock()
	defer p.instances.mu.Unlock()
	return p.instances.idle.n
}

// liveInstances is how many instances of a plugin exist, in use or kept.
func liveInstances(p *Plugin) int {
	p.instances.mu.Lock()
	defer p.instances.mu.Unlock()
	return p.instances.live
}

// NewTestStore returns a new store in memory. store_test.go sets it: package
// pluginkv imports this one, so that tests inside the package cannot name it.
var NewTestStore func() Store
