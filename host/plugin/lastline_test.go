package plugin

// Scenario: a finished guest leaves an unterminated log line that costs more than the
// call has left.

import (
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// A line that has not ended is logged when the call is over. What that costs may
// be more than the call has left, and there is no guest any more to stop: that
// must not end the program.
func TestTheLastLineMayCostTooMuch(t *testing.T) {
	const code = `import wasi_snapshot_preview1 fd_write i32 i32 i32 i32 -> i32 as $write
		memory 4 4
		data 0 "x"
		data 16 "\x00\x00\x00\x00\x01\x00\x00\x00"
		---
		i32.const 1 i32.const 16 i32.const 1 i32.const 24 call $write drop
		i32.const 7 local.set 0
		loop i32.const 0 i32.const %d call $output_write local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end
		%s`
	for _, row := range []struct{ name, end string }{
		{"of a call that returns", `i32.const 0`},
		{"of a call that traps", `unreachable`},
		{"of a call that exits", `i32.const 1 call $tool`},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := loadHand(t, fmt.Sprintf(code, 226_800, row.end), Limits{Instructions: callmeter.FuelQuantum})
			_, err := p.Call(t.Context(), "a", "tool", nil, nil)
			if host.CodeOf(err) == "" {
				t.Error("a call whose last line is beyond its budget ends in no error")
			}
			if n := liveInstances(p); n != 0 {
				t.Errorf("%d instances are left", n)
			}
			if _, err := p.Call(t.Context(), "b", "tool", nil, nil); err == nil {
				t.Error("the next call ends in no error")
			}
		})
	}
}
