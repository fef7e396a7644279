package main

import (
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// go test ./... tests a plugin as plain Go; agenthost plugin test tests the module.
func TestList(t *testing.T) {
	host := pdktest.Host{State: `{"items":[]}`}
	for _, step := range []struct {
		tool            string
		arguments, want pdk.Raw
	}{
		{"list_items", `{}`, `"Nothing is on the list."`},
		{"add_item", `{"item":" milk "}`, `"Added: milk."`},
		{"add_item", `{"item":"bread"}`, `"Added: bread."`},
		{"list_items", `{}`, `"On the list: milk, bread."`},
	} {
		if got := host.Tool(t, step.tool, step.arguments); got != step.want {
			t.Errorf("%s(%s) answers %s, want %s", step.tool, step.arguments, got, step.want)
		}
	}
}
