// Command hello is a whole plugin: one tool, which greets.
package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

func init() {
	pdk.Describe(pdk.Manifest{Name: "hello", Version: "1.0.0"})
	pdk.Tool("hello", "Greets a person by name.",
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
		func(c *pdk.Call) error {
			c.Text("Hello, " + c.String("name") + "!")
			return nil
		})
}

func main() {}
