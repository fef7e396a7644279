// Command guest is the summarizer plugin: the module that the package above
// embeds.
package main

import (
	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/plugins/summarizer"
)

func init() { summarizer.Register(pdk.Registered()) }

func main() {}
