package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

// refund is the tool refund_policy.
func refund(c *pdk.Call) error {
	order, err := find(c.Int("id"))
	if err != nil {
		return err
	}
	status, _ := order.Get("status").Str()
	c.JSON().BeginObject().
		Key("id").Raw(order.Get("id")).
		Key("item").Raw(order.Get("item")).
		Key("status").Str(status).
		Key("refund").Str(policy(status, order)).
		Key("total").Raw(order.Get("total")).
		EndObject()
	return nil
}

func policy(status string, order pdk.Raw) string {
	switch status {
	case "processing":
		return "It has not left yet: cancel it and nothing is charged."
	case "shipped":
		return "It is on its way: refuse it, or return it within 30 days of its delivery."
	case "delivered":
		until, _ := order.Get("return_by").Str()
		return "It can be returned until " + until + ", unused and at the customer's cost; the price is refunded."
	}
	return "It is cancelled: what was paid has been refunded."
}
