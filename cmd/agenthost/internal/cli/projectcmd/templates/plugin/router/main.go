// Command example is a router: it decides which agent of a network is next.
package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

func init() {
	pdk.Describe(pdk.Manifest{Name: "example", Version: "0.1.0", Description: "Asks each agent once."})
	pdk.Router("example", route)
}

func main() {} // never runs: the host calls what init has registered

// route is asked before the first agent runs, and again after each one. Without a next
// agent the run ends.
func route(r *pdk.Route) error {
	if r.CallCount < len(r.Agents) {
		r.Next(r.Agents[r.CallCount].Name)
		r.Reason("it has not been asked")
	}
	return nil
}
