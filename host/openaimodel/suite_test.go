package openaimodel_test

// Scenario: the checks that models of every protocol pass.

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

var newModel modeltest.New = func(t testing.TB, server modelhttp.Options) llm.Model {
	return modelWith(t, "m1", openaimodel.Options{Server: server})
}

func modelWith(t testing.TB, name string, opts openaimodel.Options) *openaimodel.Model {
	t.Helper()
	m, err := openaimodel.New(name, &opts)
	return modeltest.Close(t, m, err)
}

func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	streamed := httptest.NewRecorder()
	stream(delta(`{"content":"H"}`), delta(`{"content":"i","tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"look","arguments":"{}"}}]}`), finish("tool_calls"),
		`data: {"id":"c1","model":"m1-2026","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, done)(streamed, nil)
	modeltest.CheckWhole(t, modeltest.Whole{
		New: newModel,
		Streams: func(_, body string) bool {
			streams := strings.Contains(body, `"stream":true`)
			if options := strings.Contains(body, "stream_options"); options != streams {
				t.Errorf("asked for a stream: %t, with options: %t", streams, options)
			}
			return streams
		},
		Stream:   streamed.Body.String(),
		Document: wholeDocument,
	})
}

func TestImagesOfToolsReachTheModel(t *testing.T) {
	modeltest.CheckToolMedia(t, modeltest.ToolMedia{
		New:     newModel,
		Stream:  delta(`{"content":"A cat."}`) + "\n\n" + finish("stop") + "\n\n" + done + "\n\n",
		Refusal: `{"error":{"message":"Invalid image data.","type":"invalid_request_error"}}`,
		// behind the results of both calls
		Shown: `"tool_call_id":"b"},{"role":"user","content":[{"type":"text","text":"Returned by the tool look (call a), not written by the user:"},` +
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}}]}`,
	})
}

func TestLongLinesTakeLittleMemory(t *testing.T) {
	ends := "\n\n" + finish("stop") + "\n\n" + done + "\n\n"
	line := func(begin, element, end string) string { return modeltest.Line("data: "+begin, element, end) + ends }
	piece := func(begin, element, end string) string {
		return line(`{"choices":[{"delta":`+begin, element, end+`}]}`)
	}
	newModel.CheckLines(t, map[string]string{
		"text":                   piece(`{"content":"`, "abcdefg", `"}`),
		"escaped text":           piece(`{"content":"`, `\"`, `"}`),
		"parts of text":          piece(`{"content":[`, `{"text":"x"}`, `]}`),
		"empty parts of text":    piece(`{"content":[`, `{}`, `]}`),
		"choices":                line(`{"choices":[`, `{}`, `]}`),
		"choices with deltas":    line(`{"choices":[`, `{"delta":{}}`, `]}`),
		"choices in other words": line(`{"Choices":[`, `{"Delta":{}}`, `]}`),
		"calls":                  piece(`{"tool_calls":[`, `{}`, `]}`),
		"calls in other words":   piece(`{"Tool_calls":[`, `{}`, `]}`),
		"members of a call":      piece(`{"tool_calls":[{`, `"x":0`, `}]}`),
		"members of calls":       piece(`{"tool_calls":[`, `{"x":0,"y":0}`, `]}`),
		"reasoning details":      piece(`{"reasoning_details":[`, `{"index":0}`, `]}`),
		"empty details":          piece(`{"reasoning_details":[`, `{}`, `]}`),
		"members of a detail":    piece(`{"reasoning_details":[{`, `"x":0`, `}]}`),
		"long details":           piece(`{"reasoning_details":[`, `{"x":"`+strings.Repeat("y", 270)+`"}`, `]}`),
		"other members":          piece(`{"tool_calls":[{`, `"%d":0`, `}]}`),
		"members of long calls":  piece(`{"tool_calls":[`, `{"x":"`+strings.Repeat("y", 5000)+`"}`, `]}`),
		"usage again":            line(`{`, `"usage":null,"usage":{}`, `}`),
		"deltas again":           line(`{"choices":[{`, `"delta":null,"delta":{}`, `}]}`),
		"members":                line(`{`, `"x":0`, `}`),
		"a document":             modeltest.Line(`{"choices":[{"message":{"content":[`, `{}`, `]}}]}`),
		"an error":               line(`{"error":{"message":"`, "Word of ", `"}}`),
		"details of an error":    line(`{"error":{"message":"no","details":[`, `{}`, `]}}`),
		"no JSON":                line(`<html>`, "a b c d", ``),
		"no chunk":               line(`[`, "0", `]`),
	})
}

// FuzzStream reads any bytes as a server's answer.
func FuzzStream(f *testing.F) {
	newModel.Fuzz(f, modeltest.CheckText,
		"", "data: [DONE]\n\n", "<html>", `{"error":"x"}`, "data: {\"error\":{\"message\":[1]}}\n",
		strings.Join([]string{delta(`{"content":"x"}`), finish("stop"), usage, done, ""}, "\n\n"),
		delta(`{"tool_calls":[{"index":5,"id":"a","function":{"name":"f","arguments":"{"}},{"index":-1,"function":{"arguments":{"a":1}}}]}`)+"\n"+done,
		`{"id":"c","choices":[{"message":{"content":[{"text":"x"}]},"finish_reason":"stop"}]}`,
		delta(`{"reasoning":"x","reasoning_details":[{"text":"x","index":0},{"text":7,"index":0},null,{}]}`)+"\n"+delta(`{"reasoning_details":{"a":1}}`)+"\n"+done,
		": c\nevent: e\ndata:\n\ndata: {\"choices\":[{\"delta\":{\"content\":", "\xef\xbb\xbf{}")
}
