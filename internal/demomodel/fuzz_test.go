package demomodel_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"
)

// FuzzAnswer sends any bytes as a request, and any bytes as a tool's schema.
// There is one JSON document in answer: a completion, whose arguments are JSON,
// or an error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"where is order 1042?"}]}`), []byte(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`), "ping 1042")
	f.Add([]byte(`{"model":"m","messages":[{"role":"tool","content":[{"text":"x"}]},{"role":"user"}],"tools":[{"function":null}],"tool_choice":{}}`), []byte(`true`), "")
	f.Add([]byte(`{`), []byte(`{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"anyOf":[{"$ref":"#/$defs/b"}]}}}`), "ping \"x\" and the other one?")
	f.Add([]byte(`[]`), []byte(`{"type":["null","array"],"properties":{"a":{"type":"array","items":{"type":"array"}},"p":{"pattern":"("}},"required":["a","p","gone"]}`), "ping a@b.c")
	f.Fuzz(func(t *testing.T, raw, parameters []byte, text string) {
		h := newHandler(t)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(raw)))
		if !bytes.HasPrefix(w.Body.Bytes(), []byte("data: ")) && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("status %d: %q", w.Code, w.Body)
		}
		if !json.Valid(parameters) {
			return
		}
		got := complete(t, h, chat{"messages": []any{user(text)}, "tools": []any{toolOf("ping", "Pings.", string(parameters))}, "tool_choice": "required"})
		for _, c := range got.Calls {
			if !json.Valid([]byte(c[len("ping "):])) {
				t.Fatalf("call %s", c)
			}
		}
	})
}
