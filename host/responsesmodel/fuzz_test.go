package responsesmodel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

// FuzzStream reads any bytes as a server's answer. Whatever comes, there is one
// response or one error with a code, and the response can be stored and sent
// back.
func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatalf("no streams in testdata: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, seed := range []string{"", `{"status":"queued","output":[]}`, `{"output":[{"type":"x"},7]}`, `data: {"type":"error","code":"x"}`,
		`data: {"type":"response.output_item.done","output_index":-1,"item":{"type":"function_call"}}` + "\n\n" + `data: {"type":"response.completed","response":{}}`,
		`data: {"type":"response.completed"}`, `data: {"type":"response.completed","response":null}`, `data: [DONE]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		client := &http.Client{Transport: modeltest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, nil
		})}
		m, err := responsesmodel.New("m1", &responsesmodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1, KeepRaw: true}, Store: true})
		if err != nil {
			t.Fatal(err)
		}
		o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
		var e *host.Error
		switch {
		case o.Err != nil:
			if !errors.As(o.Err, &e) || !e.Code.Valid() || e.Code == host.Internal || len(e.Error()) > 2000 {
				t.Fatalf("error %#v", o.Err)
			}
		case o.Response == nil:
			t.Fatal("neither a response nor an error")
		case !json.Valid(o.Response.Raw):
			t.Fatalf("Raw is %q", o.Response.Raw)
		default:
			msg := host.NewMessage(host.Assistant, o.Response.Parts...)
			modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi"), msg}})
		}
	})
}
