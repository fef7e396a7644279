package runlimit_test

import (
	"fmt"

	"github.com/agenthost/agenthost/host/runlimit"
)

func ExampleLimits_Within() {
	ofHost := runlimit.Limits{MaxRounds: 20}.WithDefaults()
	ofTenant := runlimit.Limits{MaxRounds: 5, MaxToolCalls: 5000}
	l := ofTenant.Within(&ofHost)
	fmt.Println(l.MaxRounds, l.MaxToolCalls, l.ParallelTools)
	// Output: 5 1000 16
}
