// Command hello is a plugin with one tool. Its size is what the kit costs.
package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

func init() {
	pdk.Describe(pdk.Manifest{Name: "hello", Version: "1.0.0", Description: "Greets people."})
	pdk.Tool("hello", "Greets a person by name.",
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
		func(c *pdk.Call) error {
			c.Text("hello, " + c.String("name"))
			return nil
		})
}

func main() {}
