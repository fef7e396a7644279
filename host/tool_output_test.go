package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A function that returns a ToolOutput answers with it, and not with its JSON.
func TestNewToolWithAToolOutputDoesWhatItSays(t *testing.T) {
	type in struct{}
	picture := &host.Media{MediaType: "image/png", Data: []byte{1}}
	whole := &host.ToolOutput{
		Content:   json.RawMessage(`{"n":1}`),
		Media:     []*chat.Media{picture},
		State:     []host.PatchOp{{Op: "add", Path: "/seen", Value: json.RawMessage(`true`)}},
		Artifacts: []host.Artifact{{Name: "picture", Parts: []host.Part{picture}}},
		Cost:      &host.Cost{Instructions: 7},
	}
	for name, tool := range map[string]*host.Tool{
		"by pointer": host.NewTool("out", "", func(context.Context, *host.Call, in) (*host.ToolOutput, error) { return whole, nil }, nil),
		"by value":   host.NewTool("out", "", func(context.Context, *host.Call, in) (host.ToolOutput, error) { return *whole, nil }, nil),
		"as any":     host.NewTool("out", "", func(context.Context, *host.Call, in) (any, error) { return whole, nil }, nil),
	} {
		t.Run(name, func(t *testing.T) {
			result, _, err := runWith(t, &host.AgentOptions{Tools: []*host.Tool{tool}}, nil, hosttest.Call("out", `{}`), hosttest.Say("done"))
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Results[0].ToolResults()[0]; string(got.Content) != `{"n":1}` || got.IsError || !cmp.Equal(got.Media, []*chat.Media{picture}) {
				t.Errorf("the model is told %s, and shown %v", got.Content, got.Media)
			}
			if string(result.State) != `{"seen":true}` || result.Cost.Instructions != 7 {
				t.Errorf("state %s, cost %+v", result.State, result.Cost)
			}
			if a := result.Artifacts; len(a) != 1 || a[0].Name != "picture" || !cmp.Equal(a[0].Parts[0], host.Part(picture)) {
				t.Errorf("artifacts %+v", a)
			}
		})
	}
	none := host.NewTool("out", "", func(context.Context, *host.Call, in) (*host.ToolOutput, error) { return nil, nil }, nil)
	if got := call(t, none, `{}`); string(got.Content) != `"out successfully executed"` || got.IsError {
		t.Errorf("without an output the model is told %s", got.Content)
	}
	fails := host.NewTool("out", "", func(context.Context, *host.Call, in) (*host.ToolOutput, error) {
		return &host.ToolOutput{Content: json.RawMessage(`"hidden"`), Cost: &host.Cost{Instructions: 3}}, errors.New("it rains")
	}, nil)
	result, _, err := runWith(t, &host.AgentOptions{Tools: []*host.Tool{fails}}, nil, hosttest.Call("out", `{}`), hosttest.Say("done"))
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Results[0].ToolResults()[0]; string(got.Content) != `"it rains"` || !got.IsError || result.Cost.Instructions != 3 {
		t.Errorf("a failure is told as %s (error %t), and costs %+v", got.Content, got.IsError, result.Cost)
	}
}

func TestNewToolInterrupts(t *testing.T) {
	ask := host.NewTool("ask", "", func(_ context.Context, c *host.Call, _ struct{}) (*host.ToolOutput, error) {
		if len(c.Resumed) == 0 {
			return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "which colour?"}}, nil
		}
		return &host.ToolOutput{Content: c.Resumed[0].Answer}, nil
	}, nil)
	result, _, err := runWith(t, &host.AgentOptions{Tools: []*host.Tool{ask}}, nil, hosttest.Call("ask", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	if result.FinishReason != chat.FinishInterrupted || len(result.Questions) != 1 || result.Questions[0].Reason != "which colour?" {
		t.Errorf("the run ends with %s and asks %+v", result.FinishReason, result.Questions)
	}
}

func TestToolsMediaIsCheckedAndBounded(t *testing.T) {
	for name, c := range map[string]struct {
		media *chat.Media
		says  string
	}{
		"nil":                  {nil, "media 0 has no type"},
		"no type":              {&chat.Media{Data: []byte("x")}, "media 0 has no type"},
		"no data":              {&chat.Media{MediaType: "image/png"}, "neither data nor an address"},
		"longer than a result": {&chat.Media{MediaType: "image/png", Data: make([]byte, 1<<20)}, "more than the 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := host.NewTool("draw", "", func(context.Context, *host.Call, struct{}) (*host.ToolOutput, error) {
				return &host.ToolOutput{Media: []*chat.Media{c.media}}, nil
			}, nil)
			if got := call(t, tool, `{}`); !got.IsError || !strings.Contains(string(got.Content), c.says) || got.Media != nil {
				t.Errorf("the model is told %s, want an error that says %q", got.Content, c.says)
			}
		})
	}
}
