package plugin

import (
	"github.com/agenthost/agenthost/host"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// Isolation says what a call may find of the calls before it. Calls of different
// tenants never find anything of one another.
type Isolation string

const (
	// IsolationDefault is [IsolationFresh] for processors and routers, which are
	// functions of their input, and [IsolationReuse] for tools and providers.
	IsolationDefault Isolation = ""
	// IsolationFresh begins every call with the state after start-up. Where the
	// module allows it (most do) an instance is brought back to that state, for
	// some 30 us a megabyte of its memory; others get a new instance a call.
	IsolationFresh Isolation = "fresh"
	// IsolationReuse keeps memory and globals between calls of one tenant, as long
	// as the instance lives, which may end at any time.
	IsolationReuse Isolation = "reuse"
)

// fresh reports whether a call of an export begins with the state after start-up.
func (i Isolation) fresh(e abi.Export) bool {
	if i == IsolationDefault {
		return e == abi.Process || e == abi.Route || e == abi.Describe
	}
	return i == IsolationFresh
}

func (i Isolation) check() error {
	switch i {
	case IsolationDefault, IsolationFresh, IsolationReuse:
		return nil
	}
	return host.Errorf(host.InvalidArgument, "there is no isolation %q", clean(string(i))).WithHint("use fresh or reuse, or leave it out")
}
