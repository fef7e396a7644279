package openaimodel_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

func TestLongLinesTakeLittleMemory(t *testing.T) {
	ends := "\n\n" + finish("stop") + "\n\n" + done + "\n\n"
	line := func(begin, element, end string) string { return modeltest.Line("data: "+begin, element, end) + ends }
	piece := func(begin, element, end string) string {
		return line(`{"choices":[{"delta":`+begin, element, end+`}]}`)
	}
	modeltest.CheckLines(t, func(client *http.Client) host.Model {
		m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1}})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		return m
	}, map[string]string{
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
