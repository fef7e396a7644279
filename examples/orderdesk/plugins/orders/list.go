package main

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

const byCustomer = `{"type":"object","additionalProperties":false,"required":["customer"],"properties":{
	"customer":{"type":"string","description":"The customer's name, or a part of it."},
	"status":{"enum":["processing","shipped","delivered","cancelled",null],"description":"Only orders in this state."}}}`

// list is the tool list_orders.
func list(c *pdk.Call) error {
	name, status := strings.ToLower(c.String("customer")), c.String("status")
	w := c.JSON().BeginArray()
	for order := range orders.Elements() {
		customer, _ := order.Get("customer").Str()
		state, _ := order.Get("status").Str()
		if strings.Contains(strings.ToLower(customer), name) && (status == "" || status == state) {
			w.BeginObject().Key("id").Raw(order.Get("id")).Key("item").Raw(order.Get("item")).Key("status").Str(state).EndObject()
		}
	}
	w.EndArray()
	return nil
}
