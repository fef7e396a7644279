package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// ToolMedia is what CheckToolMedia needs of a kind of models.
type ToolMedia struct {
	New     New
	Stream  string // an answer as a stream of events
	Refusal string // the service's body of status 400 for an image that it does not take
	Shown   string // how a request shows the PNG image with the bytes "PNG"
}

// CheckToolMedia checks that a model is shown the image that a tool has returned, reads a
// sentence in the place of media that it does not take, and that a service that refuses
// the image is asked again with a sentence in its place.
func CheckToolMedia(t *testing.T, k ToolMedia) {
	t.Helper()
	var bodies []string
	m := k.New.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(b))
		if len(bodies) == 1 {
			Answer(http.StatusBadRequest, "application/json", k.Refusal)(w, r)
			return
		}
		Answer(http.StatusOK, "text/event-stream", k.Stream)(w, r)
	})
	call := chat.NewMessage(chat.Assistant, &chat.ToolCall{ID: "a", Name: "look", Arguments: json.RawMessage(`{}`)}, &chat.ToolCall{ID: "b", Name: "look", Arguments: json.RawMessage(`{}`)})
	result := chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "a", Name: "look", Content: json.RawMessage(`"seen"`),
		Media: []*chat.Media{{MediaType: "image/png", Data: []byte("PNG")}, {MediaType: "application/x-odd", Data: []byte("ODD")}}})
	other := chat.NewMessage(chat.ToolRole, &chat.ToolResult{ID: "b", Name: "look", Content: json.RawMessage(`"nothing"`)})
	o := Ask(t.Context(), m, &llm.Request{Messages: []*chat.Message{chat.UserText("look"), call, result, other}})
	if o.Err != nil || len(bodies) != 2 || len(o.Retries) > 0 {
		t.Fatalf("asked %d times, retried %v: %v", len(bodies), o.Retries, o.Err)
	}
	const oddNotShown, imageNotShown = "[application/x-odd not shown]", "[image/png not shown]"
	if b := bodies[0]; !strings.Contains(b, k.Shown) || !strings.Contains(b, oddNotShown) || strings.Contains(b, imageNotShown) || !json.Valid([]byte(b)) {
		t.Errorf("first request %s does not show %s, or not %q", b, k.Shown, oddNotShown)
	}
	if b := bodies[1]; strings.Contains(b, "UE5H") || !strings.Contains(b, oddNotShown) || !strings.Contains(b, imageNotShown) || !json.Valid([]byte(b)) {
		t.Errorf("second request %s shows the image, or has no sentence in its place", b)
	}
}
