package httpapi_test

import (
	"bytes"
	"context"
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
