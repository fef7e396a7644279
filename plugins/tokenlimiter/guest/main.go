// Command guest is the tokenlimiter plugin: the module that the package above
// embeds.
package main

import (
	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

func init() { tokenlimiter.Register(pdk.Registered()) }

func main() {}
