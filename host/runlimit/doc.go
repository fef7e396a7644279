// Package runlimit bounds runs: how often models and tools are called in one, how large
// its parts are, and how long it takes.
//
// Package host has [Limits] under its own name, host.Limits: see host.Options. The package
// knows nothing of what runs.
package runlimit
