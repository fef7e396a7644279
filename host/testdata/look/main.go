// Command look is the sandboxed tool and router of BenchmarkRun.
package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

func init() {
	pdk.Describe(pdk.Manifest{Name: "look", Version: "1.0.0"})
	pdk.Tool("look", "Looks up an order.",
		`{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}`,
		func(c *pdk.Call) error {
			if c.Int("order") != 1042 {
				return pdk.Errorf(pdk.NotFound, "no such order")
			}
			c.Text("shipped")
			return nil
		})
	pdk.Router("inorder", func(r *pdk.Route) error {
		if r.CallCount < len(r.Agents) {
			r.Next(r.Agents[r.CallCount].Name)
		}
		return nil
	})
}

func main() {}
