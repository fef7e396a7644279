package plugin

// Scenario: a module with a start section is instantiated several times.

import (
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/usage"
)

// A start section runs once, for the image: further instances are filled from it,
// as they are of a module with _initialize.
func TestStartSectionRunsOnceForTheImage(t *testing.T) {
	const burned = 2_000_000
	for _, start := range []string{"start $s\nfunc $s - : i32", "func $s _initialize : i32"} {
		rt := startRuntime(t, nil)
		p := loadIsolated(t, rt, start+`
			i32.const 400000 local.set 0
			loop local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end
			i32.const 0 i32.const 77 i32.store8
			---
			i32.const 0 i32.const 1 call $output_write
			i32.const 0`, IsolationReuse, Limits{})
		var spent []int64
		for range 2 {
			before := spentBy(t, rt, "a", usage.Instructions)
			if got := calls(t, p, "a", ""); got != "M" {
				t.Errorf("%.12q: a call answers %q, want what the start function wrote", start, got)
			}
			spent = append(spent, spentBy(t, rt, "a", usage.Instructions)-before)
			p.instances.Retire(time.Time{})
		}
		if spent[0] < burned || spent[1] >= burned {
			t.Errorf("%.12q: two instances cost %v, want %d or more for the first only", start, spent, burned)
		}
	}
}
