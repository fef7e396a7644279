package mcpserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
)

// namedTool returns a tool of a name and description.
func namedTool(t testing.TB, name, description string) mcpserver.Tool {
	t.Helper()
	tool, err := host.NewRawTool(llm.ToolSpec{Name: name, Description: description}, func(context.Context, *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{}, nil
	}, nil)
	must(t, err)
	return mcpserver.Tool{Tool: tool}
}

func TestChangedOffersReachTheSessionsOfTheirTenant(t *testing.T) {
	b := newBench(t, nil)
	for _, version := range versions {
		changed, other := make(chan struct{}, 10), make(chan struct{}, 10)
		listen := func(credential string, to chan struct{}) *mcp.ClientSession {
			return b.connect(credential, version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { to <- struct{}{} }})
		}
		mine, theirs := listen("acme", changed), listen("globex", other)
		b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{namedTool(t, "one", "One."), namedTool(t, "two", "Two.")}})
		<-changed
		if got := toolNames(t, mine); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("%s: tools = %q", version, got)
		}
		b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{namedTool(t, "two", "Two, better.")}})
		<-changed
		if got := toolNames(t, mine); !slices.Equal(got, []string{"two"}) {
			t.Errorf("%s: tools = %q", version, got)
		}
		if got := toolNames(t, theirs); !slices.Equal(got, []string{"clerk-of-globex"}) || len(other) != 0 {
			t.Errorf("%s: another tenant sees %q and %d notifications", version, got, len(other))
		}
	}
}

func TestOffersThatLookTheSameNotifyNobody(t *testing.T) {
	b := newBench(t, nil)
	offers := func() *mcpserver.Offers {
		return &mcpserver.Offers{Tools: []mcpserver.Tool{namedTool(t, "one", "One.")}}
	}
	b.catalog.set("acme", offers())
	changed := make(chan struct{}, 10)
	s := b.connect("acme", versions[0], &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	toolNames(t, s)
	b.catalog.set("acme", offers()) // another version of the plugin, with the same tool
	b.Refresh(t.Context())
	b.catalog.set("acme", &mcpserver.Offers{})
	<-changed // of the removal
	if len(changed) != 0 {
		t.Errorf("%d more notifications", len(changed))
	}
}

func TestAToolThatTheProtocolCannotSayIsLeftOut(t *testing.T) {
	b := newBench(t, nil)
	bad, err := host.NewRawTool(llm.ToolSpec{Name: "bad", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"no header"}}}`)},
		func(context.Context, *host.Call) (*host.ToolOutput, error) { return &host.ToolOutput{}, nil }, nil)
	must(t, err)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: bad}, namedTool(t, "good", "Good.")}})
	if got := toolNames(t, b.connect("acme", versions[0], nil)); !slices.Equal(got, []string{"good"}) {
		t.Errorf("tools = %q", got)
	}
}

func TestOfTwoToolsOfOneNameTheFirstIsOffered(t *testing.T) {
	b := newBench(t, nil)
	offers := &mcpserver.Offers{Targets: []mcpserver.Target{{Target: echoAgent(t, "the clerk")}}, Tools: []mcpserver.Tool{namedTool(t, "the_clerk", "Another.")}}
	if got := offers.Clashes(); !slices.Equal(got, []string{"the_clerk"}) {
		t.Errorf("clashes = %q", got)
	}
	b.catalog.set("acme", offers)
	if got := text(call(t, b.connect("acme", versions[0], nil), "the_clerk", map[string]any{"message": "x"})); got != "the clerk heard: x" {
		t.Errorf("the_clerk = %q", got)
	}
}

// TestRightsWithoutASessionAreForgotten has requests with more sets of rights than are kept:
// the tokens of many threads. A set with a session stays, and one that was forgotten is served
// again.
func TestRightsWithoutASessionAreForgotten(t *testing.T) {
	const most = 8
	b := newBench(t, func(o *mcpserver.Options) { o.MaxIdle = most })
	connected := b.connect("acme/thread=mine", versions[0], nil)
	for range 2 {
		for i := range 5 * most {
			credential := "acme/thread=" + strconv.Itoa(i)
			s := b.connect(credential, versions[1], nil)
			if got := toolNames(t, s); !slices.Equal(got, []string{"clerk-of-acme"}) {
				t.Errorf("%s sees %q", credential, got)
			}
			must(t, s.Close())
			if n := b.Endpoints(); n > 2*most { // requests whose answers were read may not have ended
				t.Fatalf("%d sets of rights are in memory, want %d and those in use", n, most)
			}
		}
	}
	if got := text(call(t, connected, "clerk-of-acme", map[string]any{"message": "hi"})); got != "clerk-of-acme heard: hi" {
		t.Errorf("the session answers %q", got)
	}
}
