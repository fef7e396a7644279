package mcpserver_test

// Scenario: clients that mean harm: messages that are too large, too deep, malformed, sent
// twice, or never read; sessions without end; other tenants' names and sessions.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// send sends a message, and returns the status and the body of the answer.
func (b *bench) send(credential, session, version, body string) (int, string, http.Header) {
	b.t.Helper()
	resp, err := b.post(b.t.Context(), credential, session, version, body)
	must(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	must(b.t, err)
	return resp.StatusCode, string(raw), resp.Header
}

func TestMessagesThatAreNoneAreRefused(t *testing.T) {
	b := newBench(t, func(o *mcpserver.Options) { o.MaxBodyBytes = 1 << 16 })
	_, _, header := b.send("acme", "", "", hello)
	session := header.Get("Mcp-Session-Id")
	for name, body := range map[string]string{
		"empty":            "",
		"no JSON":          "{",
		"too large":        `{"a":"` + strings.Repeat("a", 1<<16) + `"}`,
		"too deep":         strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000),
		"no JSON-RPC":      `{"a":1}`,
		"another version":  `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		"a number":         `7`,
		"two of one name":  `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"ping"}`,
		"unknown method":   `{"jsonrpc":"2.0","id":1,"method":"tools/steal"}`,
		"params of a list": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`,
		"no tool":          `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}`,
		"a wrong cursor":   `{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"cursor":"threads:%%"}}`,
		"a wrong URI":      `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"agenthost://threads/../artifacts/%ff"}}`,
		"a void answer":    `{"jsonrpc":"2.0","id":99,"result":{}}`,
		"a batch":          `[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 500) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		"its own session":  hello,
	} {
		for _, version := range append([]string{""}, versions...) {
			status, got, _ := b.send("acme", session, version, body)
			if status >= 500 || status < 300 && status != 202 && !strings.Contains(got, `"error"`) && name != "a batch" && name != "two of one name" {
				t.Errorf("%s, version %q: %d %.200s", name, version, status, got)
			}
		}
	}
	if status, got, _ := b.send("acme", session, "2025-11-25", `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`); status != 200 || !strings.Contains(got, "clerk-of-acme") {
		t.Errorf("afterwards the session answers %d %s", status, got)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	b := newBench(t, func(o *mcpserver.Options) {
		o.TenantSessions, o.MaxSessions, o.Follow = 20, 30, time.Hour // sessions are counted again by the test
	})
	counts := map[int]int{}
	for _, tenant := range []string{"acme", "globex"} {
		for range 30 {
			status, _, _ := b.send(tenant, "", "", hello)
			counts[status]++
		}
	}
	if counts[200] != 30 || counts[http.StatusTooManyRequests] != 30 {
		t.Errorf("60 sessions are answered %v", counts)
	}
	b.Refresh(t.Context())
	if status, got, _ := b.send("umbrella", "", "", hello); status != http.StatusTooManyRequests {
		t.Errorf("a session too many, after they were counted again: %d %.200s", status, got)
	}
	// The limit is the tenant's: another thread's credential has no sessions beyond it, and a
	// request of the protocol without sessions, which may be a stream, none either.
	for name, c := range map[string][2]string{"a credential of one thread": {"acme/thread=x", ""}, "without sessions": {"acme", "2026-07-28"}} {
		if status, got, _ := b.send(c[0], "", c[1], hello); status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %.200s", name, status, got)
		}
	}
	for range 50 { // requests that begin no session leave none behind
		b.send("umbrella", "", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	}
}

func TestACallInFlightIsNotRepeated(t *testing.T) {
	b := newBench(t, nil)
	begun, release := make(chan struct{}, 2), make(chan struct{})
	slow := host.NewTool("slow", "Is slow.", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		begun <- struct{}{}
		<-release
		return "done", nil
	}, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: slow}}})
	_, _, header := b.send("acme", "", "", hello)
	const message = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{}}}`
	var first sync.WaitGroup
	first.Go(func() {
		if status, got, _ := b.send("acme", header.Get("Mcp-Session-Id"), "2025-11-25", message); status != 200 || !strings.Contains(got, "done") {
			t.Errorf("the call: %d %s", status, got)
		}
	})
	<-begun
	if status, got, _ := b.send("acme", header.Get("Mcp-Session-Id"), "2025-11-25", message); status != 400 || !strings.Contains(got, "duplicate") {
		t.Errorf("the same message again: %d %s", status, got)
	}
	close(release)
	first.Wait()
	if len(begun) != 0 {
		t.Error("the tool ran twice")
	}
}

// TestTenantsSeeNothingOfEachOther has clients of two tenants list, call and listen in both
// protocols while their offers change, and looks for the other's name in all that they get.
func TestTenantsSeeNothingOfEachOther(t *testing.T) {
	b := newBench(t, func(o *mcpserver.Options) { o.Follow = time.Millisecond })
	tenants := map[string]string{"acme": "globex", "globex": "acme"}
	offers := func(tenant string, n int) *mcpserver.Offers {
		o := &mcpserver.Offers{Targets: []mcpserver.Target{{Target: echoAgent(t, "clerk-of-"+tenant)}}}
		for i := range n {
			i := i
			o.Tools = append(o.Tools, mcpserver.Tool{Tool: host.NewTool(fmt.Sprintf("%s_%d", tenant, i), tenant, func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
				if i%2 == 1 {
					return "", host.Errorf(host.FailedPrecondition, "%s of %s fails", call.Tool, tenant)
				}
				return call.Scope.Tenant, nil
			}, nil)})
			o.Prompts = append(o.Prompts, mcpserver.Prompt{Name: fmt.Sprintf("%s_%d", tenant, i), Description: tenant,
				Messages: func(context.Context, mcpserver.Caller, map[string]string) ([]*host.Message, error) {
					return []*host.Message{host.UserText(tenant)}, nil
				}})
		}
		return o
	}
	for tenant := range tenants {
		b.catalog.set(tenant, offers(tenant, 3))
	}
	rounds := 15
	stop := make(chan struct{})
	var changing, running sync.WaitGroup
	changing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			for tenant := range tenants {
				b.catalog.set(tenant, offers(tenant, 1+n%4))
			}
		}
	})
	for tenant, other := range tenants {
		for _, version := range versions {
			running.Go(func() {
				look := func(what string, v any, err error) {
					raw, jerr := json.Marshal(v)
					if text := string(raw) + fmt.Sprint(err); jerr != nil || strings.Contains(text, other) {
						t.Errorf("%s reads of %s in %s: %s, %v", tenant, other, what, text, jerr)
					}
				}
				s := b.connect(tenant, version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}})
				for range rounds {
					tools, err := s.ListTools(t.Context(), nil)
					look("the list of tools", tools, err)
					prompts, err := s.ListPrompts(t.Context(), nil)
					look("the list of prompts", prompts, err)
					files, err := s.ListResources(t.Context(), nil)
					look("the list of resources", files, err)
					said, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "clerk-of-" + tenant, Arguments: map[string]any{"message": "hi"}})
					look("an answer", said, err)
					own, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: fmt.Sprintf("%s_%d", tenant, rand.IntN(4)), Arguments: map[string]any{}})
					look("a call", own, err)
					if theirs, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "clerk-of-" + other, Arguments: map[string]any{"message": "hi"}}); err == nil {
						t.Errorf("%s calls a tool of %s: %+v", tenant, other, theirs)
					}
					if theirs, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: other + "_0"}); err == nil {
						t.Errorf("%s reads a prompt of %s: %+v", tenant, other, theirs)
					}
				}
			})
		}
	}
	running.Wait()
	close(stop)
	changing.Wait()
}

// TestManySessionsTakeBoundedMemory holds idle sessions to a bar: see BenchmarkIdleSessions.
func TestManySessionsTakeBoundedMemory(t *testing.T) {
	if per := idleSessions(newBench(t, nil), 200); per > 2*maxIdleSession {
		t.Errorf("an idle session takes %d bytes; the bar is %d", per, maxIdleSession)
	}
}

// maxIdleSession is the bar of an idle session, in bytes of heap and stacks.
const maxIdleSession = 20_000

// idleSessions connects sessions of one tenant, and returns the bytes that each takes once it
// is idle.
func idleSessions(b *bench, n int) int64 {
	b.t.Helper()
	for range 3 {
		b.send("acme", "", "", hello)
	}
	http.DefaultClient.CloseIdleConnections()
	before := inUse()
	for range n {
		status, _, header := b.send("acme", "", "", hello)
		if status != 200 {
			b.t.Fatalf("a session is refused: %d", status)
		}
		b.send("acme", header.Get("Mcp-Session-Id"), "2025-11-25", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	http.DefaultClient.CloseIdleConnections()
	return (inUse() - before) / int64(n)
}

func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
