package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/metrics"
)

// Clients send any path and any method.
func TestRequestsAreMeasuredByThePatternOfTheirPath(t *testing.T) {
	c := metrics.New(nil)
	for i := range 3000 {
		r := httptest.NewRequest(fmt.Sprint("BREW", i), fmt.Sprint("/v1/runs/", i), nil)
		_, answered := c.Request(r, "/v1/runs/{run}")
		answered(405)
	}
	_, answered := c.Request(httptest.NewRequest("GET", "/nowhere", nil), "")
	answered(404)
	got := text(t, c, nil)
	checkFormat(t, got)
	wantLines(t, got,
		`agenthost_http_requests_total{method="other",route="/v1/runs/{run}",status="405"} 3000`,
		`agenthost_http_requests_total{method="GET",status="404"} 1`,
		`agenthost_http_request_seconds_count{method="other",route="/v1/runs/{run}"} 3000`)
	if n := strings.Count(got, "\nagenthost_http_requests_total{"); n != 2 {
		t.Errorf("%d series of requests, want 2", n)
	}
}
