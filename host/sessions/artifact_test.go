package sessions_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
)

func TestArtifactsArePutAndOpened(t *testing.T) {
	s := stored(t, newAgent(t, "clerk", model(hosttest.Call("write", "{}"), hosttest.Say("1"), hosttest.Fail(errModel), hosttest.Say("2")), writer(t)))
	remote, _ := serveHTTP(t, s)
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	put := func(name string, content []byte) *sessions.Snapshot {
		t.Helper()
		snap, err := remote.PutArtifact(t.Context(), "s", &sessions.ArtifactUpload{Name: name, MediaType: "text/plain"}, bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	first := put("report", content)
	chat := newChat(t, remote, &sessions.Start{Session: "s"})
	if out, err := chat.Send(t.Context(), "a"); err != nil || out.Parent != first.ID {
		t.Fatalf("the turn after: %+v, %v", out, err)
	}
	if _, err := chat.Send(t.Context(), "b"); err == nil {
		t.Fatal("the turn does not fail")
	}
	put("", content)
	last := put("report", content[1:])
	snap, err := remote.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: "s"})
	if err != nil || snap.ID != last.ID {
		t.Fatalf("the session is at %+v, %v", snap, err)
	}
	var names []string
	for _, a := range snap.Artifacts {
		names = append(names, a.Name)
	}
	if diff := cmp.Diff([]string{"report", "hushed", ""}, names); diff != "" {
		t.Errorf("the artifacts: %s", diff)
	}
	if diff := cmp.Diff([]string{"user: a", "assistant: ", "tool: ", "assistant: 1"}, texts(snap.State.Messages)); diff != "" {
		t.Errorf("the failed turn is still there: %s", diff)
	}
	for i, want := range [][]byte{content[1:], nil, content} {
		r, err := remote.OpenArtifact(t.Context(), "s", snap.Artifacts[i].Digest)
		if want == nil {
			if host.CodeOf(err) != host.NotFound {
				t.Errorf("OpenArtifact of one that was not put: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("artifact %d has %d bytes, %v; want %d", i, len(got), err, len(want))
		}
	}
	old := readSnapshot(t, remote, first.ID)
	if len(old.Artifacts) != 1 || old.Artifacts[0].Digest == snap.Artifacts[0].Digest {
		t.Errorf("the first snapshot has %+v", old.Artifacts)
	}
	if _, err := chat.Send(t.Context(), "c"); err != nil {
		t.Errorf("the next turn: %v", err)
	}
}

func readSnapshot(t testing.TB, c sessions.Client, id string) *sessions.Snapshot {
	t.Helper()
	snap, err := c.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: id})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestBadArtifacts(t *testing.T) {
	s := stored(t, agentOf(t)())
	if _, err := s.PutArtifact(t.Context(), "", "s", &sessions.ArtifactUpload{Limit: 3}, strings.NewReader("four")); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("one that is too large: %v", err)
	}
	if _, err := s.PutArtifact(t.Context(), "", " ", nil, strings.NewReader("x")); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("one of a blank session: %v", err)
	}
	if _, err := newService(t, agentOf(t)(), nil).PutArtifact(t.Context(), "", "s", nil, strings.NewReader("x")); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("one of a session that its client keeps: %v", err)
	}
	if _, _, _, err := s.OpenArtifact(t.Context(), "", "s", "x"); host.CodeOf(err) != host.NotFound {
		t.Errorf("one that is not there: %v", err)
	}
}

// A question stays open while artifacts are put: the person may upload what was
// asked for, and then answer.
func TestArtifactsMayBePutBeforeAnAnswer(t *testing.T) {
	s := stored(t, newAgent(t, "clerk", model(hosttest.Call("ask", "{}"), hosttest.Say("done"), hosttest.Say("on")), askOnce(t)))
	out := run(t, s, &request{Text: "a"})
	var last *sessions.Snapshot
	for _, name := range []string{"one", "two"} {
		var err error
		if last, err = s.PutArtifact(t.Context(), "", out.Session, &sessions.ArtifactUpload{Name: name}, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: out.Session})
	if err == nil && (last.Digest == "" || last.Digest != snap.Artifacts[1].Digest) {
		t.Errorf("PutArtifact answers digest %q, the session lists %+v", last.Digest, snap.Artifacts)
	}
	if err != nil || snap.ID != last.ID || len(snap.Questions) != 1 || snap.Questions[0].ID != out.Questions[0].ID {
		t.Fatalf("the session is at %+v, %v; want the question open", snap, err)
	}
	answers := []host.Answer{{Question: out.Questions[0].ID, Decision: host.Reply, Value: []byte(`"yes"`)}}
	answered := run(t, s, &request{Session: out.Session, Answers: answers})
	if answered.Text() != "done" || answered.Parent != last.ID {
		t.Errorf("answered: %+v", answered)
	}
	snap, err = s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: out.Session})
	if err != nil || len(snap.Questions) != 0 || len(snap.Artifacts) != 2 {
		t.Errorf("in the end the session is %+v, %v", snap, err)
	}
	if _, err := s.Run(t.Context(), &request{Session: out.Session, Answers: answers}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("answered again: %v", err)
	}
	// What is said closes the question, and artifacts do not open it again.
	run(t, s, &request{Session: out.Session, Text: "b"})
	last, err = s.PutArtifact(t.Context(), "", out.Session, nil, strings.NewReader("x"))
	if err != nil || len(last.Questions) != 0 {
		t.Errorf("after more was said: %+v, %v", last, err)
	}
}

// An old snapshot shows what it asked, and that the session has moved on; the newest
// one asks.
func TestAnOldQuestionIsSuperseded(t *testing.T) {
	s := stored(t, newAgent(t, "clerk", model(hosttest.Call("ask", "{}"), hosttest.Say("on"), hosttest.Call("ask", "{}"), hosttest.Say("done")), askOnce(t)))
	asks := run(t, s, &request{Text: "a"})
	if snap := snapshot(t, s, asks.Snapshot); len(snap.Questions) != 1 || snap.Superseded {
		t.Errorf("the snapshot is %+v, want a question", snap)
	}
	run(t, s, &request{Session: asks.Session, Text: "never mind"})
	if snap := snapshot(t, s, asks.Snapshot); len(snap.Questions) != 1 || !snap.Superseded {
		t.Errorf("the old snapshot is %+v, want a question that is superseded", snap)
	}
	again := run(t, s, &request{Session: asks.Session, Text: "b"})
	if snap := snapshot(t, s, again.Snapshot); len(snap.Questions) != 1 || snap.Superseded {
		t.Errorf("the snapshot is %+v, want a question", snap)
	}
}

// askOnce is a tool that asks, and answers with what it is told.
func askOnce(t *testing.T) *host.Tool {
	return rawTool(t, "ask", func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		if len(call.Resumed) == 0 {
			return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "sure?"}}, nil
		}
		return &host.ToolOutput{Content: call.Resumed[0].Answer}, nil
	})
}
