package sessions_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// A snapshot has the artifacts of its time to the last byte, whatever was put in
// their place since and wherever the session went on.
func TestASnapshotKeepsItsArtifacts(t *testing.T) {
	s := stored(t, newAgent(t, "clerk", model(hosttest.Call("write", "{}"), hosttest.Say("1"), hosttest.Say("2"), hosttest.Say("3")), writer(t)))
	remote, _ := serveHTTP(t, s)
	put := func(content string) *sessions.Snapshot {
		t.Helper()
		snap, err := remote.PutArtifact(t.Context(), "s", &sessions.ArtifactUpload{Name: "hushed"}, strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return readSnapshot(t, remote, snap.ID)
	}
	first := put("the first")
	run(t, s, &request{Tenant: "ada", Session: "s", Text: "write one of that name"})
	small := readSnapshot(t, remote, must(s.Snapshot(t.Context(), &sessions.SnapshotRequest{Tenant: "ada", Session: "s"})).ID)
	run(t, s, &request{Tenant: "ada", Snapshot: first.ID, Text: "go on from the first"})
	branched := put("the second")
	run(t, s, &request{Tenant: "ada", Snapshot: small.ID, Text: "and back"})
	for _, c := range []struct {
		snap *sessions.Snapshot
		want string
	}{{first, "the first"}, {branched, "the second"}} {
		r, err := remote.OpenArtifactAt(t.Context(), c.snap.ID, c.snap.Artifacts[0].Digest)
		if err != nil {
			t.Errorf("%s: %v", c.want, err)
			continue
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || string(got) != c.want {
			t.Errorf("%s is %q, %v", c.want, got, err)
		}
		if a, err := remote.ArtifactAt(t.Context(), c.snap.ID, c.snap.Artifacts[0].Digest); err != nil || a.Name != "hushed" {
			t.Errorf("%s: %+v, %v", c.want, a, err)
		}
	}
	if a, err := remote.ArtifactAt(t.Context(), small.ID, small.Artifacts[0].Digest); err != nil || a.Parts[0].(*host.Text).Text != "x" {
		t.Errorf("the small one: %+v, %v", a, err)
	}
	digest := first.Artifacts[0].Digest
	for name, read := range map[string]func() error{
		"of another snapshot": func() error { _, err := remote.ArtifactAt(t.Context(), small.ID, digest); return err },
		"of no snapshot":      func() error { _, err := remote.ArtifactAt(t.Context(), "x:s", digest); return err },
		"of what is none":     func() error { _, err := remote.OpenArtifactAt(t.Context(), "x", digest); return err },
		"of another tenant":   func() error { _, err := s.ArtifactAt(t.Context(), "eve", first.ID, digest); return err },
		"of the session now":  func() error { _, err := remote.Artifact(t.Context(), "s", digest); return err },
	} {
		if err := read(); host.CodeOf(err) != host.NotFound {
			t.Errorf("an artifact %s: %v", name, err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Names are names: none of them is a path, an address or another's.
func TestNamesOfArtifacts(t *testing.T) {
	s := stored(t, agentOf(t)())
	names := []string{"../../etc/passwd", "a/b", "a", "a\x00", "a\x00b", ".", "..", "upload:" + strings.Repeat("0", 64), "%2e%2e", "ä", "a\u0308", "A", " a", "a ", "\u202egnp.exe", `"quoted"`, "line\r\nSet-Cookie: x"}
	for i, name := range names {
		if _, err := s.PutArtifact(t.Context(), "", "s", &sessions.ArtifactUpload{Name: name}, strings.NewReader(fmt.Sprint(i))); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
	}
	snap := must(s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: "s"}))
	if len(snap.Artifacts) != len(names) {
		t.Fatalf("%d artifacts of %d names", len(snap.Artifacts), len(names))
	}
	for i, a := range snap.Artifacts {
		r, _, size, err := s.OpenArtifact(t.Context(), "", "s", a.Digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || a.Name != names[i] || string(got) != fmt.Sprint(i) || size != int64(len(got)) {
			t.Errorf("%q is %q with %q, %v", names[i], a.Name, got, err)
		}
	}
	huge := strings.Repeat("x", sessions.MaxArtifactInfoBytes)
	for name, c := range map[string]struct {
		up   sessions.ArtifactUpload
		code host.Code
	}{
		"a long name":         {sessions.ArtifactUpload{Name: huge}, host.ResourceExhausted},
		"a long type":         {sessions.ArtifactUpload{MediaType: huge}, host.ResourceExhausted},
		"much metadata":       {sessions.ArtifactUpload{Metadata: map[string]json.RawMessage{"a": json.RawMessage(`"` + huge + `"`)}}, host.ResourceExhausted},
		"a name not UTF-8":    {sessions.ArtifactUpload{Name: "\xff"}, host.InvalidArgument},
		"a type not UTF-8":    {sessions.ArtifactUpload{MediaType: "\xff"}, host.InvalidArgument},
		"metadata not JSON":   {sessions.ArtifactUpload{Metadata: map[string]json.RawMessage{"a": json.RawMessage(`{`)}}, host.InvalidArgument},
		"a limit below zero":  {sessions.ArtifactUpload{Limit: -1}, host.InvalidArgument},
		"a limit beyond ours": {sessions.ArtifactUpload{Limit: threads.MaxUploadBytes + 1}, host.InvalidArgument},
	} {
		if _, err := s.PutArtifact(t.Context(), "", "s", &c.up, bytes.NewReader(nil)); host.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

// Artifacts of one name that are put at one time take each other's place, one
// after the other: each has a snapshot, and the session has one of them.
func TestArtifactsArePutAtOnce(t *testing.T) {
	s := stored(t, agentOf(t)())
	var mu sync.Mutex
	parents := map[string]string{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			snap, err := s.PutArtifact(t.Context(), "", "s", &sessions.ArtifactUpload{Name: "plan"}, strings.NewReader(fmt.Sprint("version ", i)))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			parents[snap.ID] = snap.Parent
		})
	}
	all.Wait()
	snap := must(s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: "s"}))
	if len(snap.Artifacts) != 1 {
		t.Errorf("the session has %+v", snap.Artifacts)
	}
	n := 0
	for id := snap.ID; id != ""; id = parents[id] {
		if n++; len(must(s.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: id})).Artifacts) != 1 {
			t.Errorf("snapshot %s has not one artifact", id)
		}
	}
	if n != 8 {
		t.Errorf("%d snapshots lead to the last, want 8", n)
	}
}

// Who hides artifacts hides those of snapshots as well.
func TestHiddenArtifactsOfSnapshots(t *testing.T) {
	view, err := stream.NewView(&stream.ViewOptions{Hide: []string{"/artifacts"}})
	if err != nil {
		t.Fatal(err)
	}
	store := threads.New(testdriver.New(t), nil)
	open := newService(t, agentOf(t)(), &sessions.Options{Store: store})
	snap, err := open.PutArtifact(t.Context(), "", "s", nil, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	digest := snapshot(t, open, snap.ID).Artifacts[0].Digest
	s := newService(t, agentOf(t)(), &sessions.Options{Store: store, View: view})
	if _, err := s.ArtifactAt(t.Context(), "", snap.ID, digest); host.CodeOf(err) != host.NotFound {
		t.Errorf("ArtifactAt: %v", err)
	}
	if _, _, _, err := s.OpenArtifactAt(t.Context(), "", snap.ID, digest); host.CodeOf(err) != host.NotFound {
		t.Errorf("OpenArtifactAt: %v", err)
	}
}
