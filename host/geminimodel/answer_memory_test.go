package geminimodel_test

import (
	"net/http"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func TestLongLinesTakeLittleMemory(t *testing.T) {
	line := func(begin, element, end string) string {
		return modeltest.Line("data: "+begin, element, end) + "\n\n" + "data: " + said("STOP", `{"text":"x"}`) + "\n\n"
	}
	modeltest.CheckLines(t, func(client *http.Client) host.Model {
		m, err := geminimodel.New("m1", &geminimodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1}})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		return m
	}, map[string]string{
		"text":              line(`{"candidates":[{"content":{"parts":[{"text":"`, "abcdefg", `"}]}}]}`),
		"candidates":        line(`{"candidates":[`, `{}`, `]}`),
		"parts":             line(`{"candidates":[{"content":{"parts":[`, `{}`, `]}}]}`),
		"empty texts":       line(`{"candidates":[{"content":{"parts":[`, `{"text":""}`, `]}}]}`),
		"members of a part": line(`{"candidates":[{"content":{"parts":[{`, `"%d":0`, `}]}}]}`),
		"members":           line(`{`, `"%d":0`, `}`),
		"a document":        modeltest.Line(`{"candidates":[{"content":{"parts":[`, `{}`, `]},"finishReason":"STOP"}]}`),
		"an error":          line(`{"error":{"message":"`, "Word of ", `"}}`),
		"no JSON":           line(`<html>`, "a b c d", ``),
	})
}
