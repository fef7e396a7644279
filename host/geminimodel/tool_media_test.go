package geminimodel_test

// Scenario: a tool has returned an image, and the service takes it or refuses it.

import (
	"testing"

	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func newMediaModel(name string) func(t *testing.T, baseURL string) llm.Model {
	return func(t *testing.T, baseURL string) llm.Model {
		m, err := geminimodel.New(name, &geminimodel.Options{Server: modelhttp.Options{BaseURL: baseURL, APIKey: "k", MaxRetries: -1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.CloseIdleConnections)
		return m
	}
}

// Models of generation 3 and later take an image in the result, those before beside it.
func TestImagesOfToolsReachTheModel(t *testing.T) {
	for name, shown := range map[string]string{
		"gemini-3-pro":     `"response":{"output":"seen","media":"[application/x-odd not shown]"},"parts":[{"inlineData":{"mimeType":"image/png","data":"UE5H"}}]}}`,
		"gemini-2.5-flash": `"response":{"output":"seen","media":"[application/x-odd not shown]"}}},{"inlineData":{"mimeType":"image/png","data":"UE5H"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.CheckToolMedia(t, modeltest.ToolMedia{
				New:     newMediaModel(name),
				Stream:  `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"A cat."}]},"finishReason":"STOP"}]}` + "\n\n",
				Refusal: `{"error":{"code":400,"message":"Unable to process input image.","status":"INVALID_ARGUMENT"}}`,
				Shown:   shown,
			})
		})
	}
}
