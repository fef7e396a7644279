package openaimodel_test

// Scenario: a tool has returned an image, and the service takes it or refuses it.

import (
	"testing"

	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

func newMediaModel(name string) func(t *testing.T, baseURL string) llm.Model {
	return func(t *testing.T, baseURL string) llm.Model {
		m, err := openaimodel.New(name, &openaimodel.Options{Server: modelhttp.Options{BaseURL: baseURL, APIKey: "k", MaxRetries: -1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.CloseIdleConnections)
		return m
	}
}

func TestImagesOfToolsReachTheModel(t *testing.T) {
	modeltest.CheckToolMedia(t, modeltest.ToolMedia{
		New:     newMediaModel("m1"),
		Stream:  `data: {"choices":[{"index":0,"delta":{"content":"A cat."},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
		Refusal: `{"error":{"message":"Invalid image data.","type":"invalid_request_error"}}`,
		// behind the results of both calls
		Shown: `"tool_call_id":"b"},{"role":"user","content":[{"type":"text","text":"Returned by the tool look (call a), not written by the user:"},` +
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}}]}`,
	})
}
