package main

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// go test tests a plugin as plain Go; agenthost plugin test tests the module.
func TestRoute(t *testing.T) {
	for input, want := range map[string]string{
		`{"router":"example","scope":{"tenant":"acme","run":"r1"},"call_count":0,"agents":[{"name":"clerk"},{"name":"packer"}]}`: "clerk",
		`{"router":"example","scope":{"tenant":"acme","run":"r1"},"call_count":1,"agents":[{"name":"clerk"},{"name":"packer"}]}`: "packer",
	} {
		var host pdktest.Host
		if got := host.Run(t, "route", pdk.Raw(input)); !strings.Contains(string(got), want) {
			t.Errorf("route(%s) = %s, want %s", input, got, want)
		}
	}
}
