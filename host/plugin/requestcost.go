package plugin

import (
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// The cost of reading JSON depends on its values more than on its bytes: two
// million empty strings take the host a second, and a guest a millisecond to
// write. So values are priced, and bounded where they become Go values one by
// one; JSON that the host only passes on is not priced.

const (
	// valuePrice is the price of a sign that stands between values of a request.
	valuePrice = 250
	// maxRequestSigns bounds those signs in one request, since reading a request
	// is not interrupted.
	maxRequestSigns = 50_000
)

// requestPrice is what reading a request costs beside the operation itself.
func requestPrice(size, signs int) int64 {
	return int64(size)/callmeter.BytesPerInstruction + int64(min(signs, maxRequestSigns))*valuePrice
}

func checkSigns(op string, n int) error {
	if n <= maxRequestSigns {
		return nil
	}
	return host.Errorf(host.ResourceExhausted, "request of %s has %d commas, colons and brackets, more than %d", op, n, maxRequestSigns).
		WithHint("ask for less at once")
}
