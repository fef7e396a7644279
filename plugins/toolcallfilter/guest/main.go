// Command guest is the toolcallfilter plugin: the module that the package above
// embeds.
package main

import (
	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

func init() { toolcallfilter.Register(pdk.Registered()) }

func main() {}
