package abi

import (
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// prices are the operations that this host knows, in instructions.
var prices = map[string]int64{
	"artifact.read":  20_000,
	"artifact.write": 20_000,

	"provider_state.get": 5_000,
	"provider_state.put": 20_000,

	"emit":           5_000,
	"http.fetch":     100_000,
	"kv.delete":      20_000,
	"kv.get":         10_000,
	"kv.list":        20_000,
	"kv.put":         20_000,
	"messages.get":   5_000,
	"model.generate": 200_000,
	"queue.send":     50_000,
	"state.get":      5_000,
	"state.patch":    20_000,
	"step.begin":     20_000,
	"step.end":       20_000,
	"tokens.count":   20_000,
	"tool.call":      50_000,
}

// bytePrices are the further prices of operations for each byte of the request, if
// they are high: counting tokens takes the host as long as some hundred instructions
// take a guest.
var bytePrices = map[string]int64{"tokens.count": 64}

// OperationPrice returns the price of an operation with a request of so many bytes, in
// instructions, beside the price of reading the request. known is false for an operation
// that this host does not have.
func OperationPrice(op string, request int) (price int64, known bool) {
	price, known = prices[op]
	return price + int64(request)*bytePrices[op], known
}

// Operations returns the names of the operations that guests can call, in order.
func Operations() []string { return slices.Sorted(maps.Keys(prices)) }

// ReadRequest decodes the request of an operation. Code invalid_argument for bytes that are
// no such request.
func ReadRequest(op string, req []byte, into any) error {
	if err := jsondoc.Unmarshal(req, into); err != nil {
		return fault.Errorf(fault.InvalidArgument, "request of %s: %v", op, err)
	}
	return nil
}
