// Command guest is the toolcallfilter plugin: the module that the package above
// embeds.
package main

import (
	pdk "github.com/agenthost/agenthost/pdk/go"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

func init() { toolcallfilter.Register(pdk.Registered()) }

func main() {}
