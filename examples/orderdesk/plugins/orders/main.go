// Command orders is a plugin with the order desk's tools. It knows the orders in
// orders.json, which is built into it.
package main

import (
	_ "embed"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

//go:embed orders.json
var orders pdk.Raw // an array of objects

// byID is the JSON Schema of the arguments; the host holds the model to it.
const byID = `{"type":"object","additionalProperties":false,"required":["id"],"properties":{
	"id":{"type":"integer","description":"The order's number, such as 1042."}}}`

func init() {
	pdk.Describe(pdk.Manifest{Name: "orders", Version: "1.0.0", Description: "Looks up the order desk's orders."})
	pdk.Tool("lookup_order", "Looks up an order by its number: item, status, dates and price.", byID, lookup).ReadOnly = true
	pdk.Tool("list_orders", "Lists the orders of a customer.", byCustomer, list).ReadOnly = true
	pdk.Tool("refund_policy", "Says whether an order can be returned, until when, and what is refunded.", byID, refund).ReadOnly = true
}

func main() {} // never runs: the host calls what init has registered

// lookup is the tool lookup_order. The card number that an order holds is not for
// a model to see: examples/piimask hides it.
func lookup(c *pdk.Call) error {
	order, err := find(c.Int("id"))
	c.Return(order)
	return err
}

// find returns the order with a number. What it says of one that is not there,
// the model reads.
func find(id int) (pdk.Raw, error) {
	for order := range orders.Elements() {
		if n, _ := order.Get("id").Int(); int(n) == id {
			return order, nil
		}
	}
	return "", pdk.Errorf(pdk.NotFound, "There is no order %d. Ask the customer for the number; it has four digits.", id)
}
