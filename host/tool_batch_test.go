package host_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// With SerialTools no call begins before the one before it has an answer.
func TestSerialToolsRunOneAfterTheOther(t *testing.T) {
	var running, most atomic.Int32
	var order []int // guarded by the rule that is tested, which the race detector checks
	tool := host.NewTool("step", "", func(_ context.Context, c *host.Call, in struct{ N int }) (string, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		order = append(order, in.N)
		var seen []int
		_, _ = c.State.Get("/seen", &seen)
		if len(seen) != in.N {
			return "", fmt.Errorf("call %d sees %v", in.N, seen)
		}
		return "ok", c.State.Set("/seen", append(seen, in.N))
	}, nil)
	reply := hosttest.Call("step", `{"N":0}`)
	for n := 1; n < 8; n++ {
		reply = reply.Call("step", fmt.Sprintf(`{"N":%d}`, n))
	}
	result, _, err := runWith(t, &host.AgentOptions{Tools: []*host.Tool{tool}, SerialTools: true}, nil, reply, hosttest.Say("done"))
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() != 1 || !cmp.Equal(order, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("%d calls ran at once, in the order %v", most.Load(), order)
	}
	for _, r := range result.Results[0].ToolResults() {
		if r.IsError {
			t.Errorf("a call failed: %s", r.Content)
		}
	}
}
