package host_test

// Scenario: the runs of a tenant have tighter limits than those of the host.

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

func TestTenantLimitsAreTighterThanTheHosts(t *testing.T) {
	h, err := host.New(&host.Options{
		Model:  hosttest.NewModel(hosttest.Reply{Text: "ok"}, hosttest.Reply{Text: "ok"}),
		Limits: host.Limits{InputBytes: 1000},
		TenantLimits: func(tenant string) host.Limits {
			if tenant == "small" {
				return host.Limits{InputBytes: 300}
			}
			return host.Limits{InputBytes: 10_000}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("a", &host.AgentOptions{Instructions: "answer"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenant string
		bytes  int
		ok     bool
	}{{"small", 500, false}, {"small", 100, true}, {"large", 2000, false}, {"large", 500, true}} {
		_, err := h.Run(context.Background(), agent, &host.Request{Tenant: c.tenant, Text: strings.Repeat("x", c.bytes)})
		var e *host.Error
		if c.ok != (err == nil) || err != nil && (!errors.As(err, &e) || e.Code != host.ResourceExhausted && e.Code != host.InvalidArgument) {
			t.Errorf("%d bytes of tenant %s: %v", c.bytes, c.tenant, err)
		}
	}
}
