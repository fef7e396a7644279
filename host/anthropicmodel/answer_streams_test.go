package anthropicmodel_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/internal/modeltest"
)

// deltasOf are the kinds of deltas that a block of each type has, by the
// documentation of the Messages API, "Streaming messages"; what a provider's own
// tool has found comes whole.
var deltasOf = map[string][]string{
	"text":                   {"text_delta", "citations_delta"},
	"thinking":               {"thinking_delta", "signature_delta"},
	"redacted_thinking":      {},
	"tool_use":               {"input_json_delta"},
	"server_tool_use":        {"input_json_delta"},
	"web_search_tool_result": {},
}

// The streams of testdata are as the provider publishes them.
func TestStreamsAreAsPublished(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sse")
		t.Run(name, func(t *testing.T) { checkStream(t, string(modeltest.Recorded(t, name))) })
	}
}

func checkStream(t *testing.T, stream string) {
	blocks := strings.Split(strings.TrimSpace(stream), "\n\n")
	block, next, ended := "", 0, ""
	for i, raw := range blocks {
		name, data, _ := strings.Cut(raw, "\n")
		var e struct {
			Type  string
			Index int
			Block struct{ Type string } `json:"content_block"`
			Delta struct {
				Type       string
				StopReason *string `json:"stop_reason"`
			}
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if name != "event: "+e.Type {
			t.Errorf("event %d: %q is named %q", i, e.Type, name)
		}
		fits := false
		switch e.Type {
		case "ping":
			fits = i > 0
		case "message_start":
			fits = i == 0
		case "content_block_start":
			_, known := deltasOf[e.Block.Type]
			fits = known && block == "" && e.Index == next && ended == ""
			block = e.Block.Type
		case "content_block_delta":
			fits = slices.Contains(deltasOf[block], e.Delta.Type) && e.Index == next
		case "content_block_stop":
			fits = block != "" && e.Index == next
			block, next = "", next+1
		case "message_delta":
			fits = block == "" && next > 0 && e.Delta.StopReason != nil
			ended = e.Type
		case "message_stop":
			fits = ended == "message_delta" && i == len(blocks)-1
		}
		if !fits {
			t.Errorf("event %d, %s, does not stand where it is published to: block %d is %q", i, raw, next, block)
		}
	}
}
