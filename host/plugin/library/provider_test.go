package library_test

import (
	"context"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
)

// offered returns the names of the tools that a provider offers a run of a tenant.
func offered(t *testing.T, h *hostOf, tenant string, opts *library.ProviderOptions) (names []string) {
	t.Helper()
	p := library.NewProvider("uploaded", func(context.Context) (*library.Library, error) { return h.Library, nil }, opts)
	got, err := p.Provide(t.Context(), &host.ProvideRequest{Scope: host.Scope{Tenant: tenant}})
	if err != nil {
		t.Fatal(err)
	}
	if got != nil {
		for _, tool := range got.Tools {
			names = append(names, tool.Name)
		}
	}
	return names
}

func TestAProviderOffersWhatServesTheTenant(t *testing.T) {
	h := newHost(t, kv.NewMemory(), &library.Options{Plans: plans{"planned": map[string]plugin.Permissions{"own": {}}}})
	for _, tenant := range []string{"acme", "planned"} {
		activate(t, h, tenant, "own", upload(t, h, tenant, "own", marked("echo", tenant)))
	}
	activate(t, h, "", "shared", upload(t, h, "", "shared", guest("loop-l")))
	upload(t, h, "acme", "idle", guest("trap")) // no version serves
	all := &library.ProviderOptions{}
	for _, c := range []struct {
		tenant string
		opts   *library.ProviderOptions
		want   []string
	}{
		{"acme", nil, []string{"t", "l"}},
		{"acme", all, []string{"t", "l"}},
		{"acme", &library.ProviderOptions{Plugins: []string{"shared", "nothing"}}, []string{"l"}},
		{"acme", &library.ProviderOptions{Plugins: []string{}}, nil},
		{"planned", nil, []string{"t"}}, // its plan names the plugins that it has
		{"umbrella", nil, []string{"l"}},
		{"acm", &library.ProviderOptions{Plugins: []string{"own"}}, nil},
	} {
		if got := offered(t, h, c.tenant, c.opts); !slices.Equal(got, c.want) {
			t.Errorf("%q with %+v is offered %q, want %q", c.tenant, c.opts, got, c.want)
		}
	}
	if got := h.Serving("acme"); !slices.Equal(got, []string{"own", "shared"}) {
		t.Errorf("Serving = %q", got)
	}
	if err := h.Remove(t.Context(), "acme", "own"); err != nil {
		t.Fatal(err)
	}
	if got := offered(t, h, "acme", nil); !slices.Equal(got, []string{"l"}) {
		t.Errorf("after the removal a run is offered %q", got)
	}
	if _, err := h.Module(t.Context(), "planned", "own", "sha256:0"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("the module of an unknown version: %v", err)
	}
}
