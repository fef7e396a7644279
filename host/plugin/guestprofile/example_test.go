package guestprofile_test

import (
	"fmt"

	"github.com/agenthost/agenthost/host/plugin/guestprofile"
)

// A runtime with plugin.Options.ProfileCalls notes what its guests do in the profile of a call
// (plugin.CallOptions.Profile). Here the notes are made by hand.
func Example() {
	p := guestprofile.New()
	call := p.Begin()
	call.Enter(guestprofile.Named("agenthost_tool", 3), 0)
	call.Enter(guestprofile.Named("_ZN5hello5greet17h0123456789abcdefE", 4), 120) // 120 are used
	call.Leave(900)
	call.Leave(1000)
	call.Return(1000)
	call.Return(1010) // the host has read the answer

	fmt.Println(p.Instructions(), "instructions")
	for s := range p.Stacks() {
		fmt.Printf("%5d of %s, %d deep\n", s.Instructions, s.Functions[len(s.Functions)-1].Name, len(s.Functions))
	}
	// Output:
	// 1010 instructions
	//    10 of (host), 1 deep
	//   220 of agenthost_tool, 1 deep
	//   780 of hello::greet, 2 deep
}
