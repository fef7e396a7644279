package openaimodel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

// FuzzStream reads any bytes as a server's answer. Whatever comes, there is one
// response or one error with a code, and the response holds what the deltas
// said.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "data: [DONE]\n\n", "<html>", `{"error":"x"}`, "data: {\"error\":{\"message\":[1]}}\n",
		strings.Join([]string{delta(`{"content":"x"}`), finish("stop"), usage, done, ""}, "\n\n"),
		delta(`{"tool_calls":[{"index":5,"id":"a","function":{"name":"f","arguments":"{"}},{"index":-1,"function":{"arguments":{"a":1}}}]}`) + "\n" + done,
		`{"id":"c","choices":[{"message":{"content":[{"text":"x"}]},"finish_reason":"stop"}]}`,
		delta(`{"reasoning":"x","reasoning_details":[{"text":"x","index":0},{"text":7,"index":0},null,{}]}`) + "\n" + delta(`{"reasoning_details":{"a":1}}`) + "\n" + done,
		": c\nevent: e\ndata:\n\ndata: {\"choices\":[{\"delta\":{\"content\":", "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed), 200)
		f.Add([]byte(seed), 429)
	}
	f.Fuzz(func(t *testing.T, data []byte, status int) {
		if status < 200 || status > 599 || status >= 300 && status < 400 {
			status = 200
		}
		client := &http.Client{Transport: modeltest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, nil
		})}
		m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1, KeepRaw: true}})
		if err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		var response *llm.Response
		var failure error
		for chunk, err := range m.Generate(t.Context(), modeltest.Question("hi")) {
			if response != nil || failure != nil {
				t.Fatalf("%+v, %v after the end", chunk, err)
			}
			told.WriteString(chunk.Text)
			response, failure = chunk.Response, err
		}
		checkEnd(t, response, failure, told.String(), status)
	})
}

func checkEnd(t *testing.T, response *llm.Response, failure error, told string, status int) {
	t.Helper()
	var e *host.Error
	switch {
	case failure != nil:
		if !errors.As(failure, &e) || !e.Code.Valid() || e.Code == host.Internal || len(e.Error()) > 2000 {
			t.Fatalf("error %#v", failure)
		}
	case response == nil:
		t.Fatal("neither a response nor an error")
	case status != 200:
		t.Fatalf("status %d makes a response", status)
	case !json.Valid(response.Raw):
		t.Fatalf("Raw is %q", response.Raw)
	default:
		if got := (&host.Message{Parts: response.Parts}).Text(); got != told {
			t.Fatalf("deltas say %q, the response %q", told, got)
		}
	}
}
