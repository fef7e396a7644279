// Package completiontest asks a handler of chat completions, for tests of scripts and of
// what answers behind them.
package completiontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Request is a request as a client writes it.
type Request map[string]any

// Message is a message of a request, or another JSON object in it.
type Message = map[string]any

// User is a message of the user.
func User(text string) Message { return Message{"role": "user", "content": text} }

// Assistant is an answer without calls.
func Assistant(text string) Message { return Message{"role": "assistant", "content": text} }

// System is a system message.
func System(text string) Message { return Message{"role": "system", "content": text} }

// CalledWith is an assistant's message with one call for each of name, arguments.
func CalledWith(pairs ...string) Message {
	var calls []any
	for i := 0; i < len(pairs); i += 2 {
		calls = append(calls, Message{"id": fmt.Sprint("id", i/2), "type": "function", "function": Message{"name": pairs[i], "arguments": pairs[i+1]}})
	}
	return Message{"role": "assistant", "tool_calls": calls}
}

// ResultOf is a tool's result, of the call of that number in the answer before, from 0.
func ResultOf(call int, text string) Message {
	return Message{"role": "tool", "tool_call_id": fmt.Sprint("id", call), "content": text}
}

// ToolOf is a tool that a request offers; parameters is its JSON Schema.
func ToolOf(name, description, parameters string) Message {
	return Message{"type": "function", "function": Message{"name": name, "description": description, "parameters": json.RawMessage(parameters)}}
}

// Said is an answer: its text, its calls as "name {arguments}" and their IDs, why it ended,
// its usage in tokens and its system fingerprint.
type Said struct {
	Text   string
	Calls  []string
	Finish string
	IDs    []string
	Usage  struct {
		In  int `json:"prompt_tokens"`
		Out int `json:"completion_tokens"`
	}
	Print string
}

// Post sends a request to a handler and returns status and body.
func Post(t *testing.T, h http.Handler, req any) (int, []byte) {
	t.Helper()
	raw, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(raw)))
	return w.Code, w.Body.Bytes()
}

// Complete sends a request with a name of a model, and fails the test unless the answer is
// one document with status 200.
func Complete(t *testing.T, h http.Handler, req Request) Said {
	t.Helper()
	req["model"] = "any"
	status, raw := Post(t, h, req)
	if status != 200 {
		t.Fatalf("status %d: %s", status, raw)
	}
	return readSaid(t, raw)
}

func readSaid(t *testing.T, raw []byte) Said {
	t.Helper()
	var doc struct {
		Print   string `json:"system_fingerprint"`
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct {
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			In  int `json:"prompt_tokens"`
			Out int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil || len(doc.Choices) != 1 {
		t.Fatalf("answer %s: %v", raw, err)
	}
	out := Said{Text: doc.Choices[0].Message.Content, Finish: doc.Choices[0].FinishReason, Usage: doc.Usage, Print: doc.Print}
	for _, c := range doc.Choices[0].Message.ToolCalls {
		out.Calls = append(out.Calls, c.Function.Name+" "+c.Function.Arguments)
		out.IDs = append(out.IDs, c.ID)
	}
	return out
}
