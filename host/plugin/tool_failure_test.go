package plugin

// Scenario: a plugin's tool fails, and the model reads one line about it.

import (
	"context"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// A plugin's failure is told to a model as a Go tool's is: one line without stacks
// and places, whether the plugin says it or the runtime says it of the plugin.
func TestWhatAModelIsToldOfAPluginsFailure(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[abi.Export]answer // what the tool does not answer traps
		want    string
	}{
		"its own words":     {map[abi.Export]answer{abi.Tool: {`{"code":"not_found","message":"no order 7","hint":"look in /etc/x"}`, 1}}, "no order 7"},
		"a path":            {map[abi.Export]answer{abi.Tool: {`{"code":"internal","message":"open /etc/agent/keys.yaml: denied"}`, 1}}, "open (path): denied"},
		"a stack":           {map[abi.Export]answer{abi.Tool: {`{"code":"internal","message":"boom\n    at run (/app/tool.js:3:4)"}`, 1}}, "boom"},
		"a stack in a line": {map[abi.Export]answer{abi.Tool: {`{"code":"internal","message":"boom at run (/app/tool.js:3:4)"}`, 1}}, "boom"},
		"no words":          {map[abi.Export]answer{abi.Tool: {`{}`, 1}}, `plugin "p": agenthost_tool returned an error without a message`},
		"a trap":            {nil, `plugin "p": agenthost_tool trapped: unreachable`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlot(t, startRuntime(t, nil), describing(t, everyKind, c.answers), nil)
			tools, err := s.Tools(nil)
			if err != nil {
				t.Fatal(err)
			}
			result, _ := runOnce(t, context.Background(), &host.AgentOptions{Tools: tools}, func() {})
			if !result.IsError || result.ContentText() != c.want {
				t.Errorf("the model is told %q (error %t), want %q", result.ContentText(), result.IsError, c.want)
			}
		})
	}
}
