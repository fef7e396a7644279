package mcpclient_test

//lint:file-ignore SA1019 servers of versions before 2026-07-28 ask for samples

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpclient"
)

// newAsker returns a server whose tools ask the person and the model.
func newAsker() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, nil)
	question := &mcp.ElicitParams{Mode: "form", Message: "Which size?\u202e", RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{"size": map[string]any{"type": "string", "enum": []string{"S", "M"}}}, "required": []string{"size"}}}
	say := func(r *mcp.ElicitResult) *mcp.CallToolResult {
		raw, _ := json.Marshal(r.Content)
		return textResult(r.Action + " " + string(raw))
	}
	mcp.AddTool(s, &mcp.Tool{Name: "order"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if answer, ok := req.Params.InputResponses["size"].(*mcp.ElicitResult); ok {
			return say(answer), nil, nil
		}
		if req.Session.InitializeParams().ProtocolVersion >= "2026" {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"size": question}, RequestState: "s"}, nil, nil
		}
		answer, err := req.Session.Elicit(ctx, question)
		if err != nil {
			return nil, nil, err
		}
		return say(answer), nil, nil
	})
	ask := &mcp.CreateMessageParams{MaxTokens: 1 << 30, SystemPrompt: "You are a poet.", Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Rhyme."}}}}
	mcp.AddTool(s, &mcp.Tool{Name: "rhyme"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if req.Session.InitializeParams().ProtocolVersion >= "2026" {
			answer, ok := req.Params.InputResponses["rhyme"].(*mcp.CreateMessageWithToolsResult)
			if !ok || strings.HasPrefix(answer.Content[0].(*mcp.TextContent).Text, "again") {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"rhyme": ask}}, nil, nil
			}
			return textResult(answer.Content[0].(*mcp.TextContent).Text), nil, nil
		}
		for {
			answer, err := req.Session.CreateMessage(ctx, ask)
			if err != nil {
				return nil, nil, err
			}
			if text := answer.Content.(*mcp.TextContent).Text; !strings.HasPrefix(text, "again") {
				return textResult(text), nil, nil
			}
		}
	})
	return s
}

func TestAServerAsksThePersonByPermission(t *testing.T) {
	for _, protocol := range []string{"", "2025-11-25", "2025-06-18"} {
		for _, row := range []struct {
			name, answer, want string
			failed             bool
		}{
			{name: "accepted", answer: `{"action":"accept","content":{"size":"M"}}`, want: `accept {"size":"M"}`},
			{name: "the content alone", answer: `{"size":"S"}`, want: `accept {"size":"S"}`},
			{name: "declined", answer: `{"action":"decline"}`, want: `decline null`},
			{name: "another schema", answer: `{"size":"XL"}`, want: "The answer does not fit the question", failed: true},
		} {
			t.Run(protocol+" "+row.name, func(t *testing.T) {
				server := stdioServer(t, "asker", "asker")
				server.Elicitation, server.Protocol = true, protocol
				servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}})
				model := hosttest.NewModel(hosttest.Call("asker__order", `{}`), hosttest.Say("done"))
				agent := newAgent(t, servers, model)
				h := newHost(t, &host.Options{Journal: hosttest.NewJournal()})
				asked, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
				must(t, err)
				questions, err := h.Questions(t.Context(), agent, "acme", asked.Run)
				must(t, err)
				if len(questions) != 1 || questions[0].Reason != "The MCP server asker asks: Which size?" || !strings.Contains(string(questions[0].Data), `"enum":["S","M"]`) {
					t.Fatalf("the run asks %+v", questions)
				}
				_, err = h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Resume: asked.Run, Answers: []host.Answer{{Question: questions[0].ID, Decision: host.Reply, Value: json.RawMessage(row.answer)}}})
				must(t, err)
				if got, failed := lastResult(t, model); !strings.Contains(got, row.want) || failed != row.failed {
					t.Errorf("the tool answered %q, %v; want %q", got, failed, row.want)
				}
			})
		}
	}
}

func TestAServerAsksTheModelByPermission(t *testing.T) {
	server := stdioServer(t, "asker", "asker")
	ofServer := func(req *llm.Request) bool { return req.Messages[0].Role == host.System }
	for _, row := range []struct {
		name    string
		allowed bool
		legacy  bool
		rhyme   string
		want    string
		failed  bool
	}{
		{name: "allowed", allowed: true, rhyme: "A cat, a hat.", want: "A cat, a hat."},
		{name: "allowed", allowed: true, legacy: true, rhyme: "A cat, a hat.", want: "A cat, a hat."},
		{name: "not allowed", want: "may not ask the model", failed: true},
		{name: "not allowed", legacy: true, failed: true},
		{name: "without end", allowed: true, rhyme: "again", want: "asks for more than 8 times in one call", failed: true},
		{name: "without end", allowed: true, legacy: true, rhyme: "again", want: "one call may ask the model 8 times", failed: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if server.Sampling, server.Protocol = row.allowed, ""; row.legacy {
				server.Protocol = "2025-11-25"
			}
			servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{server}})
			calls := 0
			model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
				if ofServer(req) {
					return hosttest.Say(row.rhyme)
				}
				if calls++; calls == 1 {
					return hosttest.Call("asker__rhyme", `{}`)
				}
				return hosttest.Say("done")
			})
			result := run(t, newAgent(t, servers, model), "acme")
			got, failed := lastResult(t, model)
			if !strings.Contains(got, row.want) || failed != row.failed {
				t.Errorf("the tool answered %q, %v", got, failed)
			}
			asked := 0
			for _, req := range model.Requests() {
				if !ofServer(req) {
					continue
				}
				asked++
				if req.MaxOutputTokens != 4096 || len(req.Tools) > 0 || len(req.Messages) != 2 || !strings.Contains(req.Messages[0].Text(), "MCP server asker") {
					t.Errorf("the question to the model is %+v", req)
				}
			}
			if want := map[string]int{"allowed": 1, "without end": 8}[row.name]; asked != want || result.Usage.InputTokens != 2+want {
				t.Errorf("the model was asked %d times, want %d; the run used %+v", asked, want, result.Usage)
			}
		})
	}
}

func TestMediaOfAResultBecomeArtifacts(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "photo"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "A cat."}, &mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")},
			&mcp.ResourceLink{URI: "file:///cat", Name: "cat"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///text", Text: "Meow."}},
		}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]int, error) {
		return nil, map[string]int{"cats": 2}, nil
	})
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{httpServer(t, "shop", s)}})
	model := hosttest.NewModel(hosttest.Call("shop__photo", `{}`), hosttest.Call("shop__count", `{}`), hosttest.Say("done"))
	result := run(t, newAgent(t, servers, model), "acme")
	text := string(model.Requests()[1].Messages[2].ToolResults()[0].Content)
	for _, want := range []string{"A cat.", "[image/png, in the artifact shop-", "[resource file:///cat cat]", "Meow."} {
		if !strings.Contains(text, want) {
			t.Errorf("the model reads %s, want %q in it", text, want)
		}
	}
	if len(result.Artifacts) != 1 || string(result.Artifacts[0].Parts[0].(*chat.Media).Data) != "png" {
		t.Errorf("the artifacts are %+v", result.Artifacts)
	}
	if got, _ := lastResult(t, model); got != `{"cats":2}` {
		t.Errorf("structured content reaches the model as %q", got)
	}
}

// TestModelsAreShownTheImagesThatFitIntoAResult has a result with more images than the limit
// ResultBytes of a run allows, and one of no use.
func TestModelsAreShownTheImagesThatFitIntoAResult(t *testing.T) {
	big, small := bytes.Repeat([]byte{1}, 700<<10), []byte("png")
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "photos"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ImageContent{MIMEType: "image/png", Data: big}, &mcp.ImageContent{MIMEType: "image/png", Data: big},
			&mcp.ImageContent{MIMEType: "text/html", Data: small}, &mcp.AudioContent{MIMEType: "audio/wav", Data: small},
		}}, nil, nil
	})
	servers := newServers(t, &mcpclient.Options{Servers: []mcpclient.Server{httpServer(t, "shop", s)}})
	model := hosttest.NewModel(hosttest.Call("shop__photos", `{}`), hosttest.Say("done"))
	result := run(t, newAgent(t, servers, model), "acme")
	answer := model.Requests()[1].Messages[2].ToolResults()[0]
	var shown []string
	for _, m := range answer.Media {
		shown = append(shown, fmt.Sprint(m.MediaType, " ", len(m.Data)))
	}
	if want := []string{fmt.Sprint("image/png ", len(big)), "audio/wav 3"}; answer.IsError || !slices.Equal(shown, want) {
		t.Errorf("the model is shown %q, %v; want %q", shown, answer.IsError, want)
	}
	if len(result.Artifacts) != 4 || strings.Count(string(answer.Content), "in the artifact") != 4 {
		t.Errorf("there are %d artifacts, and the model reads %s", len(result.Artifacts), answer.Content)
	}
}

func init() {
	roles["asker"] = func(ctx context.Context) error { return newAsker().Run(ctx, &mcp.StdioTransport{}) }
}
