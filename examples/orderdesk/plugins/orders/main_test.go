package main

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

func TestLookupOrder(t *testing.T) {
	var host pdktest.Host
	got := host.Tool(t, "lookup_order", `{"id":1042}`)
	for key, want := range map[string]pdk.Raw{
		"id": "1042", "customer": `"Ines Moreau"`, "item": `"espresso grinder"`, "status": `"shipped"`, "eta": `"2026-02-27"`,
	} {
		if got.Get(key) != want {
			t.Errorf("%s is %s, want %s", key, got.Get(key), want)
		}
	}
}

func TestUnknownOrder(t *testing.T) {
	var host pdktest.Host
	for _, tool := range []string{"lookup_order", "refund_policy"} {
		err := host.ToolError(t, tool, `{"id":9999}`)
		if err.Code != pdk.NotFound || !strings.HasPrefix(err.Message, "There is no order 9999.") {
			t.Errorf("%s: %v, want code %s", tool, err, pdk.NotFound)
		}
	}
}

func TestListOrders(t *testing.T) {
	var host pdktest.Host
	for _, test := range []struct{ arguments, want pdk.Raw }{
		{`{"customer":"moreau","status":"shipped"}`, `[{"id":1042,"item":"espresso grinder","status":"shipped"}]`},
		{`{"customer":"Ines Moreau","status":"processing"}`, `[{"id":1043,"item":"oak step stool","status":"processing"}]`},
		{`{"customer":"nobody","status":null}`, `[]`},
	} {
		if got := host.Tool(t, "list_orders", test.arguments); got != test.want {
			t.Errorf("list_orders(%s) = %s, want %s", test.arguments, got, test.want)
		}
	}
}

func TestRefundPolicy(t *testing.T) {
	var host pdktest.Host
	seen := map[string]bool{}
	for order := range orders.Elements() {
		status, _ := order.Get("status").Str()
		seen[status] = true
		got := host.Tool(t, "refund_policy", `{"id":`+order.Get("id")+`}`)
		refund, _ := got.Get("refund").Str()
		until, delivered := order.Get("return_by").Str()
		if refund == "" || delivered != strings.Contains(refund, "until "+until) || delivered != (status == "delivered") {
			t.Errorf("refund_policy of %s: %s", order, got)
		}
	}
	if len(seen) != 4 {
		t.Errorf("orders are in %d states, want 4", len(seen))
	}
}

// The data is what the tools take it for.
func TestOrders(t *testing.T) {
	if !orders.Valid() {
		t.Fatal("orders.json is not JSON")
	}
	next := int64(1001)
	for order := range orders.Elements() {
		if id, _ := order.Get("id").Int(); id != next {
			t.Errorf("order %d stands where %d should", id, next)
		}
		next++
	}
	if next != 1049 {
		t.Errorf("the last order is %d, want 1048", next-1)
	}
}
