package pprofile_test

import (
	"bytes"
	"fmt"

	"github.com/agenthost/agenthost/host/plugin/guestprofile"
	"github.com/agenthost/agenthost/host/plugin/guestprofile/pprofile"
)

// A profile is written to a file, such as guest.pb.gz, which "go tool pprof guest.pb.gz" opens.
func Example() {
	p := guestprofile.New()
	call := p.Begin()
	call.Enter(guestprofile.Named("agenthost_tool", 3), 0)
	call.Return(1000)

	var file bytes.Buffer
	fmt.Println(pprofile.Write(&file, p), file.Len() > 0)
	// Output: <nil> true
}
