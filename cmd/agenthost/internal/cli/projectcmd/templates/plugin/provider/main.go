// Command example is a context provider: it adds to an agent's instructions before its
// model is asked.
package main

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "example", Version: "0.1.0", Description: "Has agents answer in the language of the question."})
	pdk.Provider("example", func(p *pdk.Provide) error {
		if n := len(p.Messages); n > 0 {
			p.Instruct(advice(p.Messages[n-1].Text()))
		}
		return nil
	})
}

func main() {} // never runs: the host calls what init has registered

// advice says how a message is to be answered.
func advice(text string) string {
	if strings.HasSuffix(strings.TrimSpace(text), "?") {
		return "Answer the question first, in its language, and explain after that."
	}
	return "Answer in the language of the message."
}
