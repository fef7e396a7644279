package main

import (
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// go test tests a plugin as plain Go; agenthost plugin test tests the module.
func TestCountWords(t *testing.T) {
	var host pdktest.Host
	if got := host.Tool(t, "count_words", `{"text":"one two  three"}`); got != `"3"` {
		t.Errorf("count_words answers %s, want 3", got)
	}
	if err := host.ToolError(t, "count_words", `{"text":" "}`); err == nil {
		t.Error("count_words counts the words of nothing")
	}
}
