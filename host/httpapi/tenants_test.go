package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
)

// Scenario: no route shows a tenant another one's bytes, names or existence.

// TestEveryRouteIsBlindToOtherTenants calls each operation of the document with the
// ids of another tenant, and with ids that nobody has: both get the same answer.
func TestEveryRouteIsBlindToOtherTenants(t *testing.T) {
	s := newServer(t, nil)
	secret := "the launch code is 7351"
	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", fmt.Sprintf(`{"thread":"plans","text":%q}`, secret), 200, &run)
	var shown threads.Transcript
	s.do("acme", "GET", "/v1/threads/plans/messages", "", 200, &shown)
	theirs := map[string]string{"run": run.ID, "thread": "plans", "message": shown.Messages[0].ID, "digest": "sha256:" + strings.Repeat("0", 64)}
	bodies := map[string]string{
		"startRun": `{"text":"go"}`, "answerRun": `{"answers":[]}`, "createThread": `{"id":"mine"}`, "updateThread": `{"title":"x"}`,
		"editMessage": `{"role":"user","parts":[{"type":"text","text":"x"}]}`, "rewindThread": `{"branch":"b1"}`, "forkThread": `{"id":"f"}`,
	}
	for _, op := range operations(t, s) {
		their, unknown := op.path, op.path
		for name, id := range theirs {
			their = strings.ReplaceAll(their, "{"+name+"}", id)
			unknown = strings.ReplaceAll(unknown, "{"+name+"}", strings.Repeat("0", len(id)))
		}
		if op.id == "searchMessages" {
			their, unknown = their+"?q=launch", unknown+"?q=launch"
		}
		resp, raw := s.request("other", op.method, their, bodies[op.id])
		for _, leak := range []string{"launch", "7351", "plans\"", shown.Messages[1].ID} {
			if op.path != their && strings.Contains(leak, "plans") {
				continue // the request itself names the thread
			}
			if bytes.Contains(raw, []byte(leak)) {
				t.Errorf("%s shows another tenant %q: %s", op.id, leak, raw)
			}
		}
		if their == unknown {
			continue
		}
		again, rawAgain := s.request("other", op.method, unknown, bodies[op.id])
		if resp.StatusCode != http.StatusNotFound || again.StatusCode != resp.StatusCode {
			t.Errorf("%s of another tenant's id is %d %s, of an unknown one %d %s", op.id, resp.StatusCode, raw, again.StatusCode, rawAgain)
		}
	}
	var page threads.Page
	s.do("acme", "GET", "/v1/threads", "", 200, &page)
	if len(page.Threads) != 1 || page.Threads[0].Head == "" {
		t.Errorf("the requests of the other tenant left %+v", page.Threads)
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
