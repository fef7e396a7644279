package scriptedmodel_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// FuzzRequest sends any bytes as a request. There is one JSON document in answer, a
// completion or an error, or a stream.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"where are orders 1042 and 1043?"}],"tools":[{"function":{"name":"lookup_order","parameters":{"properties":{"order_id":{"type":"integer"}}}}}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"tool","content":[{"text":"x"}]},{"role":"user"}],"tools":[{"function":null}],"tool_choice":{}}`))
	f.Add([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"orders 1 and 2"}],"tools":[{"function":{"name":"lookup_order","parameters":{"$ref":"#/$defs/b","$defs":{"b":{"anyOf":[{"$ref":"#/$defs/b"}]}}}}}]}`))
	f.Add([]byte(`{`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h := newHandler(t, two, scriptedmodel.Rule{Match: scriptedmodel.Match{After: "*"}, Reply: scriptedmodel.Reply{Text: "${result}"}})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(raw)))
		if !bytes.HasPrefix(w.Body.Bytes(), []byte("data: ")) && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("status %d: %q", w.Code, w.Body)
		}
	})
}
