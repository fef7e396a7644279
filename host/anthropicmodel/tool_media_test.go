package anthropicmodel_test

// Scenario: a tool has returned an image, and the service takes it or refuses it.

import (
	"testing"

	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func newMediaModel(name string) func(t *testing.T, baseURL string) llm.Model {
	return func(t *testing.T, baseURL string) llm.Model {
		m, err := anthropicmodel.New(name, &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: baseURL, APIKey: "k", MaxRetries: -1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.CloseIdleConnections)
		return m
	}
}

func TestImagesOfToolsReachTheModel(t *testing.T) {
	modeltest.CheckToolMedia(t, modeltest.ToolMedia{
		New: newMediaModel("m1"),
		Stream: `data: {"type":"message_start","message":{"id":"msg_1","model":"m1","usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"A cat."}}` + "\n\n" +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n",
		Refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.2.content.0.tool_result: Could not process image"}}`,
		Shown: `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"seen\n[application/x-odd not shown]"},` +
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}}]}`,
	})
}
