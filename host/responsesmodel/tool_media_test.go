package responsesmodel_test

// Scenario: a tool has returned an image, and the service takes it or refuses it.

import (
	"testing"

	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

func newMediaModel(name string) func(t *testing.T, baseURL string) llm.Model {
	return func(t *testing.T, baseURL string) llm.Model {
		m, err := responsesmodel.New(name, &responsesmodel.Options{Server: modelhttp.Options{BaseURL: baseURL, APIKey: "k", MaxRetries: -1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.CloseIdleConnections)
		return m
	}
}

func TestImagesOfToolsReachTheModel(t *testing.T) {
	modeltest.CheckToolMedia(t, modeltest.ToolMedia{
		New:     newMediaModel("gpt-5-mini"),
		Stream:  string(modeltest.Recorded(t, "tools")),
		Refusal: `{"error":{"message":"The image data you provided does not represent a valid image.","type":"invalid_request_error","code":"invalid_value"}}`,
		Shown: `{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"seen\n[application/x-odd not shown]"},` +
			`{"type":"input_image","image_url":"data:image/png;base64,UE5H"}]}`,
	})
}
