package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/internal/schema"
)

// TestAnswersFitTheDocument sends each request of a tenant, and validates the answer with
// the schema that the document gives for it.
func TestAnswersFitTheDocument(t *testing.T) {
	s := newServer(t, nil)
	fits := s.schemas()
	for _, op := range operationsOfTenants(t, s) {
		e := exampleOf(t, op.id)
		if e.refused {
			continue
		}
		tenant := "of-" + op.id // what one changes, the others do not read
		with := s.fill(tenant).of(op)
		resp, raw := s.request(tenant, op.method, with.replace(op.path)+"?"+with.replace(e.query), with.replace(e.body), e.headers...)
		fits(op, resp, raw)
	}
}

// TestAnswersToAdministratorsFitTheDocument is the same for administrators.
func TestAnswersToAdministratorsFitTheDocument(t *testing.T) {
	s := newServer(t, nil)
	fits := s.schemas()
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"acme","plan":{"usage":{"limits":[{"resource":"tokens","amount":1000000}]}}}`, 201, nil)
	var made, admin httpapi.IssuedKey
	s.do("@root", "POST", "/v1/admin/tenants/acme/keys", `{"scopes":["runs:read"]}`, 201, &made)
	s.do("@root", "POST", "/v1/admin/keys", `{"scopes":["keys:read"]}`, 201, &admin)
	bodies := map[string]string{
		"createTenant": `{"id":"globex"}`, "changeTenant": `{"name":"x"}`, "suspendTenant": `{}`,
		"createTenantKey": `{"scopes":[]}`, "rotateTenantKey": `{"overlap":"1h"}`, "createAdminKey": `{"scopes":[]}`, "rotateAdminKey": `{}`,
	}
	last := []string{"revokeTenantKey", "revokeAdminKey", "suspendTenant", "resumeTenant", "deleteTenant"} // change what the others read
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
		if seen[op.id]++; !strings.HasPrefix(op.path, "/v1/admin") || seen[op.id] == 1 && slices.Contains(last, op.id) {
			continue
		}
		key := made.Key.ID
		if strings.HasPrefix(op.path, "/v1/admin/keys") {
			key = admin.Key.ID
		}
		with := ids{"tenant": "acme", "key": key}
		e := example{body: bodies[op.id]}
		if strings.HasPrefix(op.path, "/v1/admin/plugins") { // as a tenant's
			e = exampleOf(t, strings.NewReplacer("SharedPlugin", "Plugin", "sharedPlugin", "plugin").Replace(op.id))
			with["plugin"] = "of-" + op.id
			with["version"] = s.fillPlugin("@root", "/v1/admin/plugins/"+with["plugin"], op.id)
		}
		resp, raw := s.request("@root", op.method, with.replace(op.path), e.body, e.headers...)
		fits(op, resp, raw)
	}
}

// schemas returns a function that validates an answer with what the document says of it.
func (s *server) schemas() func(op operation, resp *http.Response, raw []byte) {
	var doc struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	s.do("", "GET", "/v1/openapi.json", "", 200, &doc)
	defs, err := json.Marshal(doc.Components.Schemas)
	must(s.t, err)
	defs = []byte(strings.ReplaceAll(string(defs), "#/components/schemas/", "#/$defs/"))
	return func(op operation, resp *http.Response, raw []byte) {
		s.t.Helper()
		var of struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					} `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		}
		must(s.t, json.Unmarshal(op.raw, &of))
		answer, documented := of.Responses[strconv.Itoa(resp.StatusCode)]
		if !documented {
			s.t.Errorf("%s is %d %s, which the document does not have", op.id, resp.StatusCode, raw)
			return
		}
		ref := answer.Content["application/json"].Schema.Ref
		if ref == "" {
			return // a file, or nothing
		}
		compiled, err := schema.Compile(s.t.Context(), json.RawMessage(fmt.Sprintf(`{"$ref":%q,"$defs":%s}`, strings.Replace(ref, "components/schemas", "$defs", 1), defs)))
		must(s.t, err)
		if err := compiled.Validate(s.t.Context(), raw); err != nil {
			s.t.Errorf("%s answers %s, which does not fit %s: %v", op.id, raw, ref, err)
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
