package plugin

// HandWritten is the assembler of this package's tests, for those outside it.
var HandWritten = handWritten

// IdleInstances is how many instances of a plugin are kept.
func IdleInstances(p *Plugin) int {
	return p.instances.Count().Idle
}

// liveInstances is how many instances of a plugin exist, in use or kept.
func liveInstances(p *Plugin) int {
	return p.instances.Count().Live
}

// NewTestStore returns a new store in memory. store_test.go sets it: package
// pluginkv imports this one, so that tests inside the package cannot name it.
var NewTestStore func() Store
