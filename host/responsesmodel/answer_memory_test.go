package responsesmodel_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

func TestLongLinesTakeLittleMemory(t *testing.T) {
	const completed = "data: " + `{"type":"response.completed","response":{"id":"r1","status":"completed"}}` + "\n\n"
	line := func(begin, element, end string) string {
		return modeltest.Line("data: "+begin, element, end) + "\n\n" + completed
	}
	last := func(begin, element, end string) string {
		return modeltest.Line(`data: {"type":"response.completed","response":{"id":"r1","status":"completed",`+begin, element, end+`}}`) + "\n\n"
	}
	modeltest.CheckLines(t, func(client *http.Client) host.Model {
		m, err := responsesmodel.New("m1", &responsesmodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1}})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		return m
	}, map[string]string{
		"text":                line(`{"type":"response.output_text.delta","delta":"`, "abcdefg", `"}`),
		"escaped text":        line(`{"type":"response.output_text.delta","delta":"`, `\"`, `"}`),
		"text of an item":     line(`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"`, "abcdefg", `"}]}}`),
		"parts of an item":    line(`{"type":"response.output_item.done","item":{"type":"message","content":[`, `{}`, `]}}`),
		"parts of a new item": line(`{"type":"response.output_item.added","item":{"type":"message","content":[`, `{}`, `]}}`),
		"summary of an item":  line(`{"type":"response.output_item.done","item":{"type":"reasoning","summary":[`, `{}`, `]}}`),
		"members of an item":  line(`{"type":"response.output_item.done","item":{"type":"x",`, `"%d":0`, `}}`),
		"members of an event": line(`{"type":"x",`, `"%d":0`, `}`),
		"output":              last(`"output":[`, `{}`, `]`),
		"text of the output":  last(`"output":[{"type":"message","content":[{"type":"output_text","text":"`, "abcdefg", `"}]}]`),
		"parts of the output": last(`"output":[{"type":"message","content":[`, `{}`, `]}]`),
		"many parts of many":  last(`"output":[`, `{"type":"message","content":[`+strings.Repeat("{},", 1400)+`{}]}`, `]`),
		"annotations":         last(`"output":[{"type":"message","content":[{"type":"output_text","text":"x","annotations":[`, `{}`, `]}]}]`),
		"a document":          modeltest.Line(`{"status":"completed","output":[`, `{}`, `]}`),
		"texts of a document": modeltest.Line(`{"status":"completed","output":[{"type":"message","content":[`, `{"type":"output_text","text":"x"}`, `]}]}`),
		"an error":            line(`{"type":"error","error":{"message":"`, "Word of ", `"}}`),
		"no JSON":             line(`<html>`, "a b c d", ``),
	})
}
