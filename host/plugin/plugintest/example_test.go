package plugintest_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// compiled is a directory that outlives the process.
var compiled = testcode.Dir()

// A command asks for the rules one by one. A test calls TestGuest.
func ExampleCheck() {
	opts := &plugintest.Options{
		Repeats: 100,                                 // a plugin's own test leaves it at 10,000
		Runtime: &plugin.Options{CacheDir: compiled}, // so that it is compiled once, which takes seconds
	}
	for r := range plugintest.Check(context.Background(), toolcallfilter.Wasm, opts) {
		switch {
		case !r.OK():
			fmt.Println("broken: ", r.Rule, r.Problems)
		case r.Skipped != "":
			fmt.Println("skipped:", r.Rule)
		default:
			fmt.Println("ok:     ", r.Rule)
		}
	}
	// Output:
	// ok:      it loads, and its manifest and exports fit
	// ok:      calls are answered with results
	// ok:      bad input is answered with an error
	// ok:      after an error it answers as before
	// ok:      unknown fields are passed over
	// skipped: unknown fields and parts of messages are carried
	// ok:      the same JSON, written otherwise, gives the same answer
	// ok:      deep and large input is read
	// ok:      the golden vectors are read as they are meant
	// ok:      answers are what the contract says
	// ok:      the same input gives the same answer
	// ok:      a kept instance answers like a fresh one
	// ok:      with too little of anything it answers the same or fails
	// ok:      memory does not grow with calls
}
