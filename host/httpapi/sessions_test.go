package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/usage"
)

// TestARemoteIsAClientOfTheSessions runs turns through the client of host/sessions.
func TestARemoteIsAClientOfTheSessions(t *testing.T) {
	s := newServer(t, nil)
	remote := &sessions.Remote{URL: s.URL + "/v1/sessions/clerk", Header: func(context.Context) (http.Header, error) {
		return http.Header{"Authorization": {"Bearer acme"}}, nil
	}}
	chat, err := sessions.NewChat(remote, &sessions.Start{Session: "s1"})
	must(t, err)
	out, err := chat.Send(t.Context(), "hello")
	if err != nil || out.Text() != "you said hello" {
		t.Fatalf("the turn is %+v, %v", out, err)
	}
	snapshot, err := remote.PutArtifact(t.Context(), "s1", &sessions.ArtifactUpload{Name: "note"}, bytes.NewReader([]byte("milk")))
	must(t, err)
	if a, err := remote.Artifact(t.Context(), "s1", snapshot.Digest); err != nil || a.Name != "note" {
		t.Errorf("the artifact is %+v, %v", a, err)
	}
	stranger := *remote
	stranger.Header = func(context.Context) (http.Header, error) { return http.Header{"Authorization": {"Bearer wrong"}}, nil }
	if _, err := stranger.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: "s1"}); host.CodeOf(err) != host.Unauthenticated {
		t.Errorf("a client with a wrong credential: %v", err)
	}
	var bill httpapi.Bill
	s.do("acme", "GET", "/v1/usage", "", 200, &bill)
	if !slices.ContainsFunc(bill.Items, func(item usage.LineItem) bool { return item.Key == "k-acme" && item.Agent == "clerk" }) {
		t.Errorf("the turn is billed to %+v", bill.Items)
	}
	s.do("acme", "POST", "/v1/sessions/nobody/turn", `{"text":"x"}`, 404, nil)
	s.do("acme//s1", "POST", "/v1/sessions/clerk/turn", `{"text":"x"}`, 403, nil)
}

func TestAnswersInASessionAreInTheAuditLog(t *testing.T) {
	s := newServer(t, nil)
	var asked struct {
		Result struct {
			Questions []*host.Question `json:"questions"`
		} `json:"result"`
	}
	s.do("acme", "POST", "/v1/sessions/asker/turn", `{"session":"s1","text":"pay"}`, 200, &asked)
	questions := asked.Result.Questions
	if len(questions) != 1 {
		t.Fatalf("the turn is %+v", asked)
	}
	s.do("acme", "POST", "/v1/sessions/asker/turn", fmt.Sprintf(`{"session":"s1","answers":[{"question":%q,"decision":"approve"}]}`, questions[0].ID), 200, nil)
	var log httpapi.AuditPage
	s.do("@root", "GET", "/v1/admin/audit?action=run.answer", "", 200, &log)
	if len(log.Entries) != 1 || log.Entries[0].Actor != "key/k-acme" || len(log.Entries[0].Object) <= len("run/") || log.Entries[0].Outcome != "allowed" {
		t.Errorf("the audit log has %+v", log.Entries)
	}
}
