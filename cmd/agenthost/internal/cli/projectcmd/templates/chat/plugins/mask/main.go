// Command mask is a history processor: it hides e-mail addresses from models.
// The stored conversation keeps them.
package main

import (
	"regexp"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "mask", Version: "1.0.0", Description: "Hides e-mail addresses from models."})
	pdk.Processor("mask", func(p *pdk.Process) error {
		p.MapStrings(mask) // of every message; those without an address are not sent back
		return nil
	})
}

func main() {} // never runs: the host calls what init has registered

var address = regexp.MustCompile(`[\w.+-]+@[\w-]+(\.[\w-]+)+`)

// mask hides the addresses in a text.
func mask(text string) string { return address.ReplaceAllString(text, "<address>") }
