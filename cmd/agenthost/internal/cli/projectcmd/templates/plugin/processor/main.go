// Command example is a history processor: it changes the messages that models see. The
// stored conversation keeps them.
package main

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "example", Version: "0.1.0", Description: "Takes doubled spaces out of what models see."})
	pdk.Processor("example", func(p *pdk.Process) error {
		p.MapStrings(tidy) // of every message; those that do not change are not sent back
		return nil
	})
}

func main() {} // never runs: the host calls what init has registered

func tidy(text string) string { return strings.Join(strings.Fields(text), " ") }
