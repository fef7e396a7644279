package plugin

// Scenario: plugins fail on purpose and by accident, and each reader gets its own error
// text.

import (
	"context"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// What a plugin said under internal, and its traps, are for the tenant that it was
// loaded for; what it said on purpose is for whoever called it.
func TestErrorsOfPluginsAreForTheirOwner(t *testing.T) {
	own := &LoadOptions{Tenants: []string{"acme"}}
	panics := map[abi.Export]answer{abi.Tool: {`{"code":"internal","message":"panic: key=hunter2"}`, 1}}
	denies := map[abi.Export]answer{abi.Tool: {`{"code":"not_found","message":"no order 7"}`, 1}}
	for name, c := range map[string]struct {
		answers map[abi.Export]answer
		load    *LoadOptions
		want    string
	}{
		"a panic of a tenant's plugin": {panics, own, "key=hunter2"},
		"a trap of a tenant's plugin":  {nil, own, "trapped"},
		"a panic of the host's plugin": {panics, nil, "internal error (run r)"},
		"a trap of the host's plugin":  {nil, nil, "internal error (run r)"},
		"words of the host's plugin":   {denies, nil, "no order 7"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := startRuntime(t, nil).Load(context.Background(), "p", describing(t, everyKind, c.answers), c.load)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.call(t.Context(), "acme", abi.Tool, []byte("{}"), nil, func(context.Context, []byte) error { return nil })
			if got := fault.ForClient(err, "r"); got == nil || !strings.Contains(got.Message, c.want) {
				t.Errorf("a client reads %v, want %q", got, c.want)
			}
		})
	}
}
