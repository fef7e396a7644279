package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/internal/schema"
	"github.com/agenthost/agenthost/host/threads"
)

// TestAnswersFitTheDocument sends each request that has an answer in JSON and validates
// the answer with the schema that the document gives for it.
func TestAnswersFitTheDocument(t *testing.T) {
	s := newServer(t, nil)
	var doc struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	s.do("", "GET", "/v1/openapi.json", "", 200, &doc)
	defs, err := json.Marshal(doc.Components.Schemas)
	must(t, err)
	defs = []byte(strings.ReplaceAll(string(defs), "#/components/schemas/", "#/$defs/"))

	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"thread":"t1","text":"hello there","target":"clerk"}`, 200, &run)
	s.do("acme", "POST", "/v1/runs", `{"target":"asker","thread":"asked","text":"pay"}`, 200, nil)
	var shown threads.Transcript
	s.do("acme", "GET", "/v1/threads/t1/messages", "", 200, &shown)
	path := strings.NewReplacer("{run}", run.ID, "{thread}", "t1", "{message}", shown.Messages[0].ID)
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"acme","plan":{"usage":{"limits":[{"resource":"tokens","amount":1000000}]}}}`, 201, nil)
	var made, admin httpapi.IssuedKey
	s.do("@root", "POST", "/v1/admin/tenants/acme/keys", `{"scopes":["runs:read"]}`, 201, &made)
	s.do("@root", "POST", "/v1/admin/keys", `{"scopes":["keys:read"]}`, 201, &admin)
	bodies := map[string]string{
		"createTenant": `{"id":"globex"}`, "changeTenant": `{"name":"x"}`, "suspendTenant": `{}`,
		"createTenantKey": `{"scopes":[]}`, "rotateTenantKey": `{"overlap":"1h"}`, "createAdminKey": `{"scopes":[]}`, "rotateAdminKey": `{}`,
		"startRun": `{"text":"go"}`, "createThread": `{"id":"fresh"}`, "updateThread": `{"title":"x"}`,
		"editMessage": `{"role":"user","parts":[{"type":"text","text":"x"}]}`, "rewindThread": `{"branch":"b1"}`, "forkThread": `{}`,
	}
	last := []string{"suspendTenant", "resumeTenant", "deleteMessage", "rewindThread", "editMessage", "deleteThread", "deleteTenant"} // change what the others read
	order := operations(t, s)
	for _, id := range last {
		for _, op := range order {
			if op.id == id {
				order = append(order, op)
			}
		}
	}
	seen := map[string]int{}
	for _, op := range order {
		if seen[op.id]++; seen[op.id] == 1 && strings.Contains(strings.Join(last, " "), op.id) {
			continue
		}
		var of struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					} `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		}
		must(t, json.Unmarshal(op.raw, &of))
		for status, answer := range of.Responses {
			ref := answer.Content["application/json"].Schema.Ref
			if strings.HasSuffix(status, "XX") || ref == "" || op.id == "answerRun" || op.id == "getArtifact" || op.id == "mintToken" {
				continue // these are in tests of their own
			}
			credential, key := "acme", made.Key.ID
			if strings.HasPrefix(op.path, "/v1/admin") {
				credential = "@root"
			}
			if strings.HasPrefix(op.path, "/v1/admin/keys") {
				key = admin.Key.ID
			}
			where := strings.NewReplacer("{tenant}", "acme", "{key}", key).Replace(path.Replace(op.path))
			resp, raw := s.request(credential, op.method, where, bodies[op.id])
			if fmt.Sprint(resp.StatusCode) != status {
				t.Errorf("%s is %d %s, want %s", op.id, resp.StatusCode, raw, status)
				continue
			}
			compiled, err := schema.Compile(t.Context(), json.RawMessage(fmt.Sprintf(`{"$ref":%q,"$defs":%s}`, strings.Replace(ref, "components/schemas", "$defs", 1), defs)))
			must(t, err)
			if err := compiled.Validate(t.Context(), raw); err != nil {
				t.Errorf("%s answers %s, which does not fit %s: %v", op.id, raw, ref, err)
			}
		}
	}
}

// TestTheDocumentNamesEachOperationOnce checks what generators of clients need.
func TestTheDocumentNamesEachOperationOnce(t *testing.T) {
	s := newServer(t, nil)
	ids := map[string]bool{}
	for _, op := range operations(t, s) {
		var of struct {
			Summary   string                     `json:"summary"`
			Tags      []string                   `json:"tags"`
			Responses map[string]json.RawMessage `json:"responses"`
		}
		must(t, json.Unmarshal(op.raw, &of))
		if ids[op.id] || of.Summary == "" || len(of.Tags) != 1 || len(of.Responses) < 3 {
			t.Errorf("%s %s is described as %s", op.method, op.path, op.raw)
		}
		ids[op.id] = true
	}
}
