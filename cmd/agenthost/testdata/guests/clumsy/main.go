// Command clumsy is a plugin that misbehaves as it is asked to, for the tests of
// the command line.
package main

import (
	"os"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "clumsy", Version: "0.1.0"})
	pdk.Tool("clumsy", "Misbehaves.", `{"type":"object","properties":{"how":{"type":"string"}}}`, tool)
}

func tool(c *pdk.Call) error {
	switch c.String("how") {
	case "panic":
		os.Stderr.WriteString("about to panic\n")
		panic("no such order: 1042")
	case "eat":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
			all[len(all)-1][0] = byte(len(all))
		}
	case "log":
		os.Stdout.WriteString("\x1b[31mred\x1b[0m and\nblue\n")
	case "fail":
		return pdk.Errorf(pdk.NotFound, "There is no order 7.")
	}
	c.Text("done")
	return nil
}

func main() {}
