package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/internal/testhost"
)

// addTool is a tool that adds two numbers.
func addTool(opts *host.ToolOptions) mcpserver.Tool {
	type in struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	type out struct {
		Sum int `json:"sum"`
	}
	return mcpserver.Tool{
		Tool: host.NewTool("add", "Adds two numbers.", func(_ context.Context, call *host.Call, v in) (out, error) {
			return out{v.A + v.B}, nil
		}, opts),
		Result: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`),
	}
}

func TestClientsOfEachVersionListAndCallTools(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{
		Targets: []mcpserver.Target{{Target: echoAgent(t, "clerk")}},
		Tools:   []mcpserver.Tool{addTool(&host.ToolOptions{ReadOnly: true, Idempotent: true})},
	})
	for _, version := range versions {
		s := b.connect("acme", version, nil)
		list, err := s.ListTools(t.Context(), nil)
		must(t, err)
		if len(list.Tools) != 2 || list.Tools[0].Name != "add" || list.Tools[1].Name != "clerk" {
			t.Fatalf("%s: tools = %v", version, list.Tools)
		}
		a := list.Tools[0].Annotations
		if !a.ReadOnlyHint || !a.IdempotentHint || a.DestructiveHint == nil || *a.DestructiveHint || list.Tools[0].OutputSchema == nil {
			t.Errorf("%s: add has annotations %+v and output %v", version, a, list.Tools[0].OutputSchema)
		}
		sum := call(t, s, "add", map[string]any{"a": 2, "b": 3})
		if got, _ := json.Marshal(sum.StructuredContent); string(got) != `{"sum":5}` || text(sum) != `{"sum":5}` || sum.IsError {
			t.Errorf("%s: add = %s, %q", version, got, text(sum))
		}
		said := call(t, s, "clerk", map[string]any{"message": "hello"})
		if text(said) != "clerk heard: hello" || said.Meta["agenthost/run"] == "" {
			t.Errorf("%s: clerk = %q, %v", version, text(said), said.Meta)
		}
		wrong := call(t, s, "add", map[string]any{"a": "x", "b": 3})
		if !wrong.IsError || !strings.Contains(text(wrong), "a") {
			t.Errorf("%s: bad arguments = %v %q", version, wrong.IsError, text(wrong))
		}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "none"}); err == nil {
			t.Errorf("%s: an unknown tool is called", version)
		}
	}
}

func TestACallThatNamesAThreadContinuesIt(t *testing.T) {
	for name, keep := range map[string]bool{"named by the client": false, "kept by the session": true} {
		b := newBench(t, func(o *mcpserver.Options) { o.KeepThreads = keep })
		count := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			return hosttest.Say(strings.Repeat("m", len(req.Messages)))
		})
		agent := testhost.NewAgent(t, "counter", &host.AgentOptions{Model: count, Description: "Counts."})
		b.catalog.set("acme", &mcpserver.Offers{Targets: []mcpserver.Target{{Target: agent}}})
		s := b.connect("acme", versions[0], nil)
		first := call(t, s, "counter", map[string]any{"message": "one"})
		arguments := map[string]any{"message": "two"}
		if !keep {
			arguments["thread"] = first.Meta["agenthost/thread"]
		}
		second := call(t, s, "counter", arguments)
		if text(first) != "m" || text(second) != "mmm" || first.Meta["agenthost/thread"] != second.Meta["agenthost/thread"] {
			t.Errorf("%s: %q and %q, %v and %v", name, text(first), text(second), first.Meta, second.Meta)
		}
		other := call(t, b.connect("acme", versions[0], nil), "counter", map[string]any{"message": "three"})
		if text(other) != "m" {
			t.Errorf("%s: another session continues the thread: %q", name, text(other))
		}
	}
}

func TestProgressIsSentWhileACallRuns(t *testing.T) {
	b := newBench(t, nil)
	seen := make(chan struct{})
	step := host.NewTool("steps", "Takes steps.", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		for i := range 3 {
			if err := call.Progress(host.Progress{Message: "step", Done: float64(i), Total: 2}); err != nil {
				return "", err
			}
		}
		select {
		case <-seen: // the client has read all while the call runs
		case <-ctx.Done():
		}
		return "done", nil
	}, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: step}}})
	for _, version := range versions {
		seen = make(chan struct{})
		var mu sync.Mutex
		var values []float64
		s := b.connect("acme", version, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			if values = append(values, r.Params.Progress); len(values) == 3 {
				close(seen)
			}
		}})
		params := &mcp.CallToolParams{Name: "steps", Arguments: map[string]any{}}
		params.SetProgressToken("p1")
		r, err := s.CallTool(t.Context(), params)
		must(t, err)
		if text(r) != "done" || !slices.Equal(values, []float64{0, 1, 2}) {
			t.Errorf("%s: %q, progress %v", version, text(r), values)
		}
	}
}

func TestTheTextOfAnAgentIsSentAsProgress(t *testing.T) {
	b := newBench(t, nil)
	pieces := make(chan string, 100)
	s := b.connect("acme", versions[0], &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		pieces <- r.Params.Message
	}})
	params := &mcp.CallToolParams{Name: "clerk-of-acme", Arguments: map[string]any{"message": "many words here"}}
	params.SetProgressToken(7)
	r, err := s.CallTool(t.Context(), params)
	must(t, err)
	said := ""
	for len(said) < len(text(r)) { // the client may take the result up before the last piece
		said += <-pieces
	}
	if said != text(r) {
		t.Errorf("progress says %q, and the result %q", said, text(r))
	}
}

func TestACanceledCallCancelsItsRun(t *testing.T) {
	b := newBench(t, nil)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	wait := host.NewTool("wait", "Waits.", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	}, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: wait}}})
	for _, version := range versions {
		s := b.connect("acme", version, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{}})
			done <- err
		}()
		<-begun
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the call ends with %v", version, err)
		}
		<-ended
		page, err := b.runs.List(t.Context(), &runs.ListRequest{Tenant: "acme"})
		must(t, err)
		if run, err := b.runs.Wait(t.Context(), "acme", page.Runs[0].ID); run == nil || run.Status != runs.Canceled {
			t.Errorf("%s: the run is %+v, %v", version, run, err)
		}
	}
}

func TestAClientThatLeavesCancelsItsCalls(t *testing.T) {
	b := newBench(t, nil)
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	wait := host.NewTool("wait", "Waits.", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return "", ctx.Err()
	}, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: wait}}})
	s := b.connect("acme", versions[0], nil)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		resp, err := b.post(ctx, "acme", s.ID(), versions[0], `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"wait","arguments":{}}}`)
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-begun
	cancel()
	<-ended
	<-gone
}

func TestErrorsOfRunsAreMasked(t *testing.T) {
	b := newBench(t, nil)
	secret := "dial tcp 10.1.2.3:5432: password of the database"
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Fail(errors.New(secret)) })
	broken := testhost.NewAgent(t, "broken", &host.AgentOptions{Model: model, Description: "Fails."})
	fails := host.NewTool("fails", "Fails.", func(context.Context, *host.Call, struct{}) (string, error) {
		return "", host.Errorf(host.Internal, "%s", secret)
	}, nil)
	b.catalog.set("acme", &mcpserver.Offers{Targets: []mcpserver.Target{{Target: broken}}, Tools: []mcpserver.Tool{{Tool: fails}}})
	for _, version := range versions {
		s := b.connect("acme", version, nil)
		for name, arguments := range map[string]map[string]any{"broken": {"message": "go"}, "fails": {}} {
			r := call(t, s, name, arguments)
			if all, _ := json.Marshal(r); !r.IsError || strings.Contains(string(all), "10.1.2.3") {
				t.Errorf("%s: %s answers %s", version, name, all)
			}
		}
	}
}

func TestACallerWithoutARightSeesNothingOfIt(t *testing.T) {
	b := newBench(t, nil)
	for _, version := range versions {
		if got := toolNames(t, b.connect("acme/read", version, nil)); len(got) != 0 {
			t.Errorf("%s: a caller that may only read sees %q", version, got)
		}
		list, err := b.connect("acme/run", version, nil).ListResourceTemplates(t.Context(), nil)
		must(t, err)
		if len(list.ResourceTemplates) != 0 {
			t.Errorf("%s: a caller that may only run sees %v", version, list.ResourceTemplates)
		}
	}
}

func TestACallerOfOneThreadReachesNoOther(t *testing.T) {
	b := newBench(t, nil)
	whole := b.connect("acme", versions[0], nil)
	first := call(t, whole, "clerk-of-acme", map[string]any{"message": "one"})
	thread, _ := first.Meta["agenthost/thread"].(string)
	bound := b.connect("acme/thread="+thread, versions[0], nil)
	r := call(t, bound, "clerk-of-acme", map[string]any{"message": "two"})
	if r.Meta["agenthost/thread"] != thread {
		t.Errorf("the call is in %v, want %s", r.Meta, thread)
	}
	if r := call(t, bound, "clerk-of-acme", map[string]any{"message": "three", "thread": "another"}); !r.IsError {
		t.Errorf("a call in another thread = %q", text(r))
	}
}

func TestMediaOfAToolAreContentOfItsResult(t *testing.T) {
	b := newBench(t, nil)
	draw := host.NewTool("draw", "Draws.", func(context.Context, *host.Call, struct{}) (*host.ToolOutput, error) {
		return &host.ToolOutput{Content: json.RawMessage(`"a chart"`), Media: []*host.Media{{MediaType: "image/png", Data: []byte{1}}, {MediaType: "audio/wav", Data: []byte{2}}, {MediaType: "application/pdf", Data: []byte{3}}, {MediaType: "image/png", URL: "https://example.com/a.png"}}}, nil
	}, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: draw}}})
	for _, version := range versions {
		r := call(t, b.connect("acme", version, nil), "draw", nil)
		if len(r.Content) != 5 || text(r) != "a chart" {
			t.Fatalf("%s: the result is %+v", version, r.Content)
		}
		image, ok1 := r.Content[1].(*mcp.ImageContent)
		audio, ok2 := r.Content[2].(*mcp.AudioContent)
		file, ok3 := r.Content[3].(*mcp.EmbeddedResource)
		link, ok4 := r.Content[4].(*mcp.ResourceLink)
		if !ok1 || !ok2 || !ok3 || !ok4 || string(image.Data)+string(audio.Data)+string(file.Resource.Blob) != "\x01\x02\x03" || link.URI != "https://example.com/a.png" {
			t.Errorf("%s: the result is %+v", version, r.Content)
		}
	}
}

func TestAnnotationsSayWhatACallMayDo(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{
		{Tool: namedTool(t, "plain", "").Tool}, {Tool: namedTool(t, "wipes", "").Tool, Destructive: true}, {Tool: namedTool(t, "adds", "").Tool, Additive: true},
	}})
	list, err := b.connect("acme", versions[0], nil).ListTools(t.Context(), nil)
	must(t, err)
	got := map[string]*bool{}
	for _, tool := range list.Tools {
		got[tool.Name] = tool.Annotations.DestructiveHint
	}
	if got["plain"] != nil || got["wipes"] == nil || !*got["wipes"] || got["adds"] == nil || *got["adds"] {
		t.Errorf("the hints are %v", got)
	}
}
