package anthropicmodel_test

import (
	"net/http"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func TestLongLinesTakeLittleMemory(t *testing.T) {
	line := func(begin, element, end string) string {
		return "data: " + started + "\n\n" + modeltest.Line("data: "+begin, element, end) + "\n\n"
	}
	ends := "data: " + because("end_turn") + "\n\ndata: " + stopped + "\n\n"
	modeltest.CheckLines(t, func(client *http.Client) host.Model {
		m, err := anthropicmodel.New("m1", &anthropicmodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1}})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		return m
	}, map[string]string{
		"text":                 line(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"`, "abcdefg", `"}}`) + ends,
		"escaped text":         line(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"`, `\"`, `"}}`) + ends,
		"content of the start": line(`{"type":"message_start","message":{"content":[`, `{}`, `]}}`) + ends,
		"members of an event":  line(`{"type":"ping",`, `"%d":0`, `}`) + ends,
		"members of a block":   line(`{"type":"content_block_start","index":0,"content_block":{"type":"x",`, `"%d":0`, `}}`) + "data: " + grow(0, `{"type":"input_json_delta","partial_json":"{}"}`) + "\n\n" + ends,
		"input of a call":      line(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":[`, `{}`, `]}}`) + ends,
		"a document":           modeltest.Line(`{"type":"message","content":[`, `{}`, `]}`),
		"text of a document":   modeltest.Line(`{"type":"message","content":[{"type":"text","text":"`, `abcdefg`, `"}]}`),
		"an error":             line(`{"type":"error","error":{"message":"`, "Word of ", `"}}`),
		"usage again":          line(`{"type":"message_delta",`, `"usage":null,"usage":{}`, `}`) + ends,
		"no JSON":              line(`<html>`, "a b c d", ``),
	})
}
