package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/runs"
)

// Scenario: no route shows a tenant another one's bytes, names or existence.

// others are credentials that reach nothing of a tenant: of tenants with names like its own,
// each of one operation, so that they find nothing that others have made; of another one
// that has the same; of administrators; and none.
func others(tenant, another string, op operation) []string {
	list := []string{tenant[:len(tenant)-1] + "." + op.id, tenant + op.id, strings.ToUpper(tenant) + op.id, "@root", ""}
	if op.method == "GET" {
		list = append(list, another)
	}
	return list
}

// checkBlind refuses an answer that has something of a tenant which the request did not name.
func checkBlind(t interface {
	Helper()
	Errorf(string, ...any)
}, what, tenant string, of ids, sent string, raw []byte) {
	t.Helper()
	leaks := []string{secretOf(tenant)}
	for _, id := range of {
		if id != of["target"] && !strings.Contains(sent, id) {
			leaks = append(leaks, id)
		}
	}
	for _, leak := range leaks {
		if bytes.Contains(raw, []byte(leak)) {
			t.Errorf("%s shows %q of another tenant: %s", what, leak, raw)
		}
	}
	for _, code := range []string{"goroutine ", ".go:", "/host/", os.TempDir(), "runtime error"} {
		if bytes.Contains(raw, []byte(code)) {
			t.Errorf("%s shows %q of the program: %s", what, code, raw)
		}
	}
}

// state returns all that a tenant reads of itself.
func (s *server) state(tenant string, own ids) string {
	s.t.Helper()
	var all strings.Builder
	for _, op := range operationsOfTenants(s.t, s) {
		if op.method != "GET" && op.id != "sessionSnapshot" || slices.Contains([]string{"health", "ready", "openapi", "getUsage", "usageRecords", "usageLimits"}, op.id) {
			continue
		}
		path, query := own.replace(op.path), own.replace(exampleOf(s.t, op.id).query)
		resp, raw := s.request(tenant, op.method, path+"?"+query, own.replace(exampleOf(s.t, op.id).body))
		fmt.Fprintf(&all, "%s %d %s\n", op.id, resp.StatusCode, raw)
	}
	return all.String()
}

// TestEveryRouteIsBlindToOtherTenants calls each operation of the document with the ids of
// another tenant, and with ids that nobody has: both get the same answer.
func TestEveryRouteIsBlindToOtherTenants(t *testing.T) {
	s := newServer(t, nil)
	owners := map[string]ids{"acme": s.fill("acme"), "umbrella": s.fill("umbrella")}
	before := map[string]string{}
	for owner, own := range owners {
		before[owner] = s.state(owner, own)
	}
	for owner, own := range owners {
		unknown := ids{}
		for name, id := range own {
			unknown[name] = strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
					return '0'
				}
				return r
			}, id)
		}
		unknown["target"] = own["target"]
		for _, op := range operationsOfTenants(t, s) {
			e := exampleOf(t, op.id)
			for _, credential := range others(owner, map[string]string{"acme": "umbrella", "umbrella": "acme"}[owner], op) {
				name := fmt.Sprintf("%s of %s for %q", op.id, owner, credential)
				status, raw, sent := s.call(credential, op, e, own.of(op))
				checkBlind(t, name, owner, own, sent, raw)
				again, rawAgain, _ := s.call(credential, op, e, unknown.of(op))
				if status != again {
					t.Errorf("%s is %d %s, and with unknown ids %d %s", name, status, raw, again, rawAgain)
				}
				if strings.Contains(strings.ReplaceAll(op.path, "{target}", ""), "{") && status < 400 && op.id != "uploadPlugin" {
					t.Errorf("%s is %d %s", name, status, raw)
				}
			}
		}
	}
	for owner, own := range owners {
		if after := s.state(owner, own); after != before[owner] {
			t.Errorf("the requests of others changed %s from\n%s to\n%s", owner, before[owner], after)
		}
	}
}

// TestACredentialOfOneThread reaches that thread and its runs, and answers everything
// else of its tenant like what is not there.
func TestACredentialOfOneThread(t *testing.T) {
	s := newServer(t, nil)
	var own, other httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"thread":"own","text":"a"}`, 200, &own)
	s.do("acme", "POST", "/v1/runs", `{"thread":"else","text":"b"}`, 200, &other)
	browser := "acme//own"
	s.do(browser, "POST", "/v1/runs", `{"thread":"own","text":"more"}`, 200, nil)
	s.do(browser, "GET", "/v1/runs/"+own.ID, "", 200, nil)
	s.do(browser, "GET", "/v1/threads/own/messages", "", 200, nil)
	var page runs.Page
	s.do(browser, "GET", "/v1/runs?thread=else", "", 200, &page)
	if slices.ContainsFunc(page.Runs, func(r *runs.Run) bool { return r.Thread != "own" }) {
		t.Errorf("the list shows runs of other threads: %+v", page.Runs)
	}
	for _, row := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/runs", `{"thread":"else","text":"x"}`, 404},
		{"POST", "/v1/runs", `{"text":"x"}`, 404},
		{"GET", "/v1/runs/" + other.ID, "", 404},
		{"POST", "/v1/runs/" + other.ID + "/cancel", "", 404},
		{"GET", "/v1/threads/else", "", 404},
		{"GET", "/v1/threads", "", 403},
		{"GET", "/v1/search?q=a", "", 403},
		{"POST", "/v1/threads", `{"id":"new"}`, 403},
		{"POST", "/v1/threads/own/forks", `{"id":"new"}`, 403},
		{"DELETE", "/v1/threads/own", "", 403},
		{"GET", "/v1/usage", "", 403},
		{"GET", "/v1/usage/records", "", 403},
		{"GET", "/v1/usage/limits", "", 403},
	} {
		s.do(browser, row.method, row.path, row.body, row.status, nil)
	}
}

// operation is one operation of the OpenAPI document.
type operation struct {
	method, path, id string
	raw              json.RawMessage
}

// operations returns those of the document that the server sends.
func operations(t *testing.T, s *server) (list []operation) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	s.do("", "GET", "/v1/openapi.json", "", 200, &doc)
	for path, of := range doc.Paths {
		for method, raw := range of {
			op := operation{method: strings.ToUpper(method), path: path, raw: raw}
			var named struct {
				ID string `json:"operationId"`
			}
			must(t, json.Unmarshal(raw, &named))
			op.id = named.ID
			list = append(list, op)
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	if len(list) < 20 {
		t.Fatalf("the document has %d operations", len(list))
	}
	return list
}
