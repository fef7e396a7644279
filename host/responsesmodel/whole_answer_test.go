package responsesmodel_test

// Scenario: a model asks for its answers in one piece.

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	streamed := modeltest.Recorded(t, "tools")
	modeltest.CheckWhole(t, modeltest.Whole{
		New: func(t *testing.T, baseURL string, whole bool, client *http.Client) llm.Model {
			m, err := responsesmodel.New("gpt-5-mini", &responsesmodel.Options{Server: modelhttp.Options{BaseURL: baseURL, APIKey: testKey, Whole: whole, HTTPClient: client}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.CloseIdleConnections)
			return m
		},
		Streams:  func(_, body string) bool { return strings.Contains(body, `"stream":true`) },
		Stream:   string(streamed),
		Document: completedResponse(t, streamed),
	})
}

// completedResponse returns the response object at the end of a stream, which is the
// document of a service that is asked for no stream.
func completedResponse(t *testing.T, stream []byte) string {
	t.Helper()
	_, last, found := bytes.Cut(stream, []byte("event: response.completed\n"))
	_, object, opens := bytes.Cut(last, []byte(`"response":`))
	object, _, ends := bytes.Cut(object, []byte("\n"))
	if !found || !opens || !ends {
		t.Fatal("the recorded stream has no response.completed")
	}
	return string(bytes.TrimSuffix(bytes.TrimSpace(object), []byte("}")))
}
