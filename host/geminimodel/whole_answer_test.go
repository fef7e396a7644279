package geminimodel_test

// Scenario: a model asks for its answers in one piece.

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	const call = `{"functionCall":{"id":"c1","name":"look","args":{"order":7}},"thoughtSignature":"c2ln"}`
	streamed := httptest.NewRecorder()
	stream(said("", `{"text":"Hm.","thought":true}`), said("", `{"text":"Hel"}`), said("", `{"text":"lo"}`), said("STOP", call))(streamed, nil)
	var paths []string
	modeltest.CheckWhole(t, modeltest.Whole{
		New: func(t *testing.T, baseURL string, whole bool, client *http.Client) llm.Model {
			m, err := geminimodel.New("m1", &geminimodel.Options{Server: modelhttp.Options{BaseURL: baseURL, APIKey: testKey, Whole: whole, HTTPClient: client}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.CloseIdleConnections)
			return m
		},
		Streams: func(path, _ string) bool {
			paths = append(paths, path)
			return path == "/models/m1:streamGenerateContent"
		},
		Stream:   streamed.Body.String(),
		Document: said("STOP", `{"text":"Hm.","thought":true}`, `{"text":"Hello"}`, call),
	})
	if all := strings.Join(paths, " "); !strings.Contains(all, "/models/m1:generateContent") {
		t.Errorf("asked %s, want generateContent once", all)
	}
}
