package responsesmodel_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// streamEvent is what the reference "Streaming events" of the Responses API says
// that an event has.
type streamEvent struct {
	Type     string `json:"type"`
	Sequence *int   `json:"sequence_number"`
	Output   int    `json:"output_index"`
	ItemID   string `json:"item_id"`
	Delta    string `json:"delta"`
	Text     string `json:"text"`
	Args     string `json:"arguments"`
	Item     struct {
		ID      string
		Type    string
		Summary []json.RawMessage
	} `json:"item"`
	Response struct {
		Status string
		Output []struct{ ID string }
	} `json:"response"`
}

func readStream(t *testing.T, file string) []streamEvent {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var events []streamEvent
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		name, data, ok := strings.Cut(block, "\n")
		var e streamEvent
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &e); err != nil || !ok {
			t.Fatalf("%s: %q: %v", file, block, err)
		}
		if name != "event: "+e.Type {
			t.Errorf("%s: %q is named %q", file, e.Type, name)
		}
		events = append(events, e)
	}
	return events
}

// follows says what may stand behind an event within an item, by the reference.
var follows = map[string][]string{
	"response.output_item.added": {"response.output_item.done", "response.content_part.added", "response.reasoning_summary_part.added",
		"response.function_call_arguments.delta", "response.function_call_arguments.done", "response.web_search_call.in_progress"},
	"response.content_part.added":            {"response.output_text.delta", "response.output_text.done"},
	"response.output_text.delta":             {"response.output_text.delta", "response.output_text.annotation.added", "response.output_text.done"},
	"response.output_text.annotation.added":  {"response.output_text.delta", "response.output_text.annotation.added", "response.output_text.done"},
	"response.output_text.done":              {"response.content_part.done"},
	"response.content_part.done":             {"response.content_part.added", "response.output_item.done"},
	"response.reasoning_summary_part.added":  {"response.reasoning_summary_text.delta", "response.reasoning_summary_text.done"},
	"response.reasoning_summary_text.delta":  {"response.reasoning_summary_text.delta", "response.reasoning_summary_text.done"},
	"response.reasoning_summary_text.done":   {"response.reasoning_summary_part.done"},
	"response.reasoning_summary_part.done":   {"response.reasoning_summary_part.added", "response.output_item.done"},
	"response.function_call_arguments.delta": {"response.function_call_arguments.delta", "response.function_call_arguments.done"},
	"response.function_call_arguments.done":  {"response.output_item.done"},
	"response.web_search_call.in_progress":   {"response.web_search_call.searching"},
	"response.web_search_call.searching":     {"response.web_search_call.completed"},
	"response.web_search_call.completed":     {"response.output_item.done"},
	"response.output_item.done":              {},
}

// The streams of testdata are the published ones.
func TestStreamsAreAsPublished(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "interleaved.sse") {
			continue // see the page beside it
		}
		t.Run(filepath.Base(file), func(t *testing.T) { checkStream(t, readStream(t, file)) })
	}
}

func checkStream(t *testing.T, events []streamEvent) {
	for i, e := range events {
		if e.Sequence == nil || *e.Sequence != i {
			t.Errorf("event %d (%s) has another number", i, e.Type)
		}
	}
	last := events[len(events)-1]
	if events[0].Type != "response.created" || events[1].Type != "response.in_progress" || last.Type != "response."+last.Response.Status {
		t.Errorf("it begins with %s and %s, and ends with %s", events[0].Type, events[1].Type, last.Type)
	}
	before, item, said, done := "", "", "", 0
	for _, e := range events[2 : len(events)-1] {
		if e.Type == "response.output_item.added" {
			if before != "" || e.Output != done {
				t.Errorf("item %d begins behind %q, want item %d", e.Output, before, done)
			}
			before, item, said = e.Type, e.Item.ID, ""
			continue
		}
		if !slices.Contains(follows[before], e.Type) || e.Output != done || e.ItemID+e.Item.ID != item {
			t.Errorf("%s of item %d (%s) stands behind %s of %s", e.Type, e.Output, e.ItemID+e.Item.ID, before, item)
		}
		before = e.Type
		switch {
		case strings.HasSuffix(e.Type, ".delta"):
			said += e.Delta
		case e.Type == "response.output_item.done":
			before, done = "", done+1
		case strings.HasSuffix(e.Type, "_text.done"), strings.HasSuffix(e.Type, "arguments.done"):
			if said != e.Text+e.Args {
				t.Errorf("%s says %q, the pieces %q", e.Type, e.Text+e.Args, said)
			}
			said = ""
		}
	}
	if last.Type != "response.failed" && (before != "" || len(last.Response.Output) != done) {
		t.Errorf("%d items were closed, the response has %d; the last event is %q", done, len(last.Response.Output), before)
	}
}
