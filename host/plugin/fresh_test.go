package plugin_test

// Scenario: a Go guest answers thousands of calls, each with the state of its first.

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/longtest"
)

// A Go guest begins every one of 10,000 calls as if it were its first, whatever
// it left behind, and costs the same.
func TestFreshGoGuest(t *testing.T) {
	calls := longtest.Rounds(500, 10_000)
	rt := newRuntime(t, nil)
	p := load(t, rt, "restless", buildGuest(t, "host/plugin/testdata/guests/restless"), &plugin.LoadOptions{Isolation: plugin.IsolationFresh})
	first := map[int]string{}
	for i := range calls {
		size := i % 4
		if i%500 == 0 {
			size = 7 // it collects its garbage
		}
		r, err := p.Call(t.Context(), fmt.Sprint(i%3), "tool", []byte("abcdefg")[:size], nil)
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		got := fmt.Sprintf("%s, %d instructions, %d bytes", r.Output, r.Cost.Instructions, r.Cost.PeakMemory)
		if first[size] == "" {
			first[size] = got
			t.Log(got)
		}
		if got != first[size] {
			t.Fatalf("call %d finds %s, want %s", i, got, first[size])
		}
	}
	if n := plugin.IdleInstances(p); n != 1 { // it imports os, whose start-up sets flags of the standard files
		t.Errorf("%d instances are kept, want the one that is restored for each call", n)
	}
}

// A plugin that was loaded outside a test's bubble is called in it, and closed
// outside.
func TestPluginsMayBeCalledInABubble(t *testing.T) {
	rt := newRuntime(t, nil)
	p := load(t, rt, "echo", buildGuest(t, "host/plugin/testdata/guests/echo"), nil)
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			if _, err := p.Call(t.Context(), "a", "tool", []byte(`{"tool":"echo"}`), nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n := plugin.IdleInstances(p); n != 1 {
		t.Errorf("%d instances are kept", n)
	}
	p.Close()
}
