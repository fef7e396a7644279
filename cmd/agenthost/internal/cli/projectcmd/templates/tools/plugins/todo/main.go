// Command todo is a plugin with two tools and a router. The list is in the
// network's state: it belongs to the conversation, and outlives the process.
package main

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// item is the JSON Schema of add_item's arguments; the host holds the model to it.
const item = `{"type":"object","additionalProperties":false,"required":["item"],"properties":{
	"item":{"type":"string","minLength":1,"description":"What is to be done, in a few words."}}}`

func init() {
	pdk.Describe(pdk.Manifest{
		Name: "todo", Version: "1.0.0", Description: "Keeps a list of things to do.",
		Permissions: pdk.Permissions{State: pdk.AccessWrite}, // asked for here, granted in agenthost.yaml
	})
	pdk.Tool("add_item", "Adds something to the list.", item, add)
	pdk.Tool("list_items", "Lists what is to be done.", `{"type":"object","properties":{}}`, list).ReadOnly = true
	pdk.Router("todo", route)
}

func main() {} // never runs: the host calls what init has registered

// add changes the state with a patch, which is applied if the call succeeds.
func add(c *pdk.Call) error {
	what := strings.TrimSpace(c.String("item"))
	if what == "" {
		return pdk.Errorf(pdk.InvalidArgument, "An item has no text. Ask what is to be done.") // the model reads this
	}
	c.Patch(pdk.Set("/items/-", pdk.Quote(what)))
	c.Text("Added: " + what + ".")
	return nil
}

func list(c *pdk.Call) error {
	var items []string
	for item := range c.State.Get("items").Elements() {
		text, _ := item.Str()
		items = append(items, text)
	}
	if len(items) == 0 {
		c.Text("Nothing is on the list.")
		return nil
	}
	c.Text("On the list: " + strings.Join(items, ", ") + ".")
	return nil
}

// route is asked before the first agent runs, and again after each one.
func route(r *pdk.Route) error {
	if r.Last == nil {
		r.Next("clerk")
	}
	return nil // no agent is next: the run ends
}
