package mcpserver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/internal/testhost"
)

// drawing is an agent that makes two artifacts in each turn.
func drawing(t *testing.T) *host.Agent {
	t.Helper()
	draw := host.NewTool("draw", "Draws.", func(_ context.Context, call *host.Call, _ struct{}) (*host.ToolOutput, error) {
		return &host.ToolOutput{Artifacts: []host.Artifact{
			{Name: "plan.txt", Parts: []host.Part{&host.Text{Text: "the plan"}}},
			{Name: "dot.png", Parts: []host.Part{&host.Media{MediaType: "image/png", Data: []byte{1, 2, 3}}}},
		}}, nil
	}, nil)
	var replies []hosttest.Reply
	for range 10 {
		replies = append(replies, hosttest.Call("draw", "{}"), hosttest.Say("Here it is."))
	}
	a := testhost.NewAgent(t, "artist", &host.AgentOptions{Description: "Draws.", Tools: []*host.Tool{draw}, Model: hosttest.NewModel(replies...)})
	return a
}

func TestArtifactsOfThreadsAreResources(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{Targets: []mcpserver.Target{{Target: drawing(t)}}})
	for _, version := range versions {
		s := b.connect("acme", version, nil)
		r := call(t, s, "artist", map[string]any{"message": "draw"})
		if len(r.Content) != 3 {
			t.Fatalf("%s: artist = %+v", version, r.Content)
		}
		listed := map[string]bool{}
		for res, err := range s.Resources(t.Context(), nil) {
			must(t, err)
			listed[res.URI] = true
		}
		for i, want := range []string{"the plan", "\x01\x02\x03"} {
			link := r.Content[i+1].(*mcp.ResourceLink)
			got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
			must(t, err)
			if c := got.Contents[0]; c.Text+string(c.Blob) != want || c.MIMEType != link.MIMEType || !listed[link.URI] {
				t.Errorf("%s: %s = %+v, listed %v", version, link.URI, c, listed[link.URI])
			}
			for _, other := range []string{"globex", "acme/thread=x", "acme/run"} {
				if got, err := b.connect(other, version, nil).ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI}); err == nil {
					t.Errorf("%s: %s reads %+v", version, other, got.Contents[0])
				}
			}
		}
		for res, err := range b.connect("globex", version, nil).Resources(t.Context(), nil) {
			must(t, err)
			t.Errorf("%s: another tenant lists %s", version, res.URI)
		}
	}
}

func TestAViewThatHidesArtifactsOffersNone(t *testing.T) {
	b := newBench(t, func(o *mcpserver.Options) {
		var err error
		o.View, err = stream.NewView(&stream.ViewOptions{Hide: []string{"/artifacts"}})
		must(t, err)
	})
	b.catalog.set("acme", &mcpserver.Offers{Targets: []mcpserver.Target{{Target: drawing(t)}}})
	s := b.connect("acme", versions[0], nil)
	if r := call(t, s, "artist", map[string]any{"message": "draw"}); text(r) != "Here it is." || len(r.Content) != 1 {
		t.Errorf("artist = %q and %d contents", text(r), len(r.Content))
	}
	for res, err := range s.Resources(t.Context(), nil) {
		must(t, err)
		t.Errorf("%s is listed", res.URI)
	}
}

func TestResourcesOfTheCatalogAreRead(t *testing.T) {
	b := newBench(t, nil)
	read := func(_ context.Context, caller mcpserver.Caller, uri string) ([]host.Part, error) {
		if strings.HasSuffix(uri, "/none") {
			return nil, host.Errorf(host.NotFound, "there is no order")
		}
		return []host.Part{&host.Text{Text: caller.Tenant + " reads " + uri}}, nil
	}
	b.catalog.set("acme", &mcpserver.Offers{Resources: []mcpserver.Resource{
		{URI: "shop://rules", Name: "rules", MediaType: "text/plain", Read: read},
		{URI: "shop://orders/{id}", Name: "order", Read: read},
	}})
	for _, version := range versions {
		s := b.connect("acme", version, nil)
		for _, uri := range []string{"shop://rules", "shop://orders/7"} {
			got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			must(t, err)
			if got.Contents[0].Text != "acme reads "+uri {
				t.Errorf("%s: %s = %+v", version, uri, got.Contents[0])
			}
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "shop://orders/none"}); err == nil {
			t.Errorf("%s: an order that does not exist is read", version)
		}
	}
}

func TestSubscribersLearnOfAChangedResourceOfTheirTenant(t *testing.T) {
	b := newBench(t, nil)
	read := func(_ context.Context, _ mcpserver.Caller, uri string) ([]host.Part, error) {
		return []host.Part{&host.Text{Text: uri}}, nil
	}
	for _, tenant := range []string{"acme", "globex"} {
		b.catalog.set(tenant, &mcpserver.Offers{Resources: []mcpserver.Resource{{URI: "shop://rules", Name: "rules", Read: read}}})
	}
	for _, version := range versions {
		mine, theirs := make(chan string, 10), make(chan string, 10)
		for credential, to := range map[string]chan string{"acme": mine, "globex": theirs} {
			s := b.connect(credential, version, &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { to <- r.Params.URI }})
			must(t, s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "shop://rules"}))
		}
		must(t, b.Updated(t.Context(), "acme", "shop://rules"))
		if got := <-mine; got != "shop://rules" || len(theirs) != 0 {
			t.Errorf("%s: acme learns of %q, globex of %d", version, got, len(theirs))
		}
	}
}
