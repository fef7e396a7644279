package threads_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// uploadStore has a thread t1 of acme with uploads: one that a message refers to,
// one that an artifact does, one that nothing does, and an address of none.
func uploadStore(t *testing.T) (*threads.Store, *kv.Memory, []*threads.Ref) {
	t.Helper()
	s, d := threadtest.NewStore(t, nil)
	if _, _, err := s.For("acme").Create(t.Context(), &threads.CreateOptions{ID: "t1"}); err != nil {
		t.Fatal(err)
	}
	var refs []*threads.Ref
	for _, text := range []string{strings.Repeat("a", 700_000), "", "nobody's"} {
		ref, err := s.For("acme").Upload(t.Context(), "t1", strings.NewReader(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	made := threads.Ref{Digest: strings.Repeat("0", 64)}
	question := threadtest.WithID("q", "look")
	question.Parts = append(question.Parts, &host.Media{MediaType: "x/y", URL: refs[0].URL()}, &host.Media{MediaType: "x/y", URL: made.URL()})
	req := &host.HistoryRequest{Tenant: "acme", Thread: "t1", Run: "r", Input: question}
	head, err := s.AppendUserMessage(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	turn := threadtest.TurnOf(head, threadtest.WithID("a", "yes"))
	turn.Artifacts = []host.Artifact{{Name: "empty", Parts: []host.Part{&host.Media{MediaType: "x/y", URL: refs[1].URL()}, &host.Media{URL: refs[0].URL()}}}}
	if err := s.AppendResults(t.Context(), req, turn); err != nil {
		t.Fatal(err)
	}
	return s, d, refs
}

func TestUploadsAreMovedWithTheirThread(t *testing.T) {
	from, _, refs := uploadStore(t)
	text := threadtest.ExportOf(t, from, "acme", "t1", transfer.FormatThread)
	to, _ := threadtest.NewStore(t, nil)
	for range 2 {
		if _, err := threadtest.ImportInto(t, to, "other", "copy", "", text); err != nil {
			t.Fatal(err)
		}
	}
	for i, ref := range refs {
		r, _, err := to.For("other").OpenUpload(t.Context(), "copy", ref.Digest)
		if i == 2 {
			threadtest.WantCode(t, "OpenUpload of what nothing refers to", err, host.NotFound)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || len(b) != ref.Size {
			t.Errorf("upload %d has %d bytes (%v), want %d", i, len(b), err, ref.Size)
		}
	}
	if _, err := to.For("other").Fork(t.Context(), "copy", &threads.ForkOptions{ID: "t1"}); err != nil {
		t.Fatal(err)
	}
	if got := threadtest.ExportOf(t, to, "other", "t1", transfer.FormatThread); strings.Count(got, `"chunks"`) != 2 {
		t.Errorf("a fork is exported with %d uploads, want those it refers to", strings.Count(got, `"chunks"`))
	}
	threadtest.WantSame(t, text, strings.ReplaceAll(threadtest.ExportOf(t, to, "other", "copy", transfer.FormatThread), `"id":"copy"`, `"id":"t1"`))
}

func TestVerifyReadsUploads(t *testing.T) {
	s, d, _ := uploadStore(t)
	if got, err := s.For("acme").Verify(t.Context(), "t1"); err != nil || got.Blobs != 4 || got.Bytes < 700_008 {
		t.Errorf("Verify = %+v, %v, want an artifact and three uploads", got, err)
	}
	for _, key := range threadtest.KeysUnder(t, d, "acme", threads.ContentPrefix) {
		e, err := d.Get(t.Context(), "acme", key)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Value) == 0 || !bytes.Equal(bytes.Trim(e.Value, "a"), nil) { // a chunk
			continue
		}
		apply(t, d, kv.Put(key, flipped(e.Value)))
		_, err = s.For("acme").Verify(t.Context(), "t1")
		threadtest.WantCode(t, "Verify of a changed upload", err, host.DataLoss)
		apply(t, d, kv.Put(key, e.Value))
	}
}

func TestBadUploadsAreRefused(t *testing.T) {
	from, _, refs := uploadStore(t)
	text := threadtest.ExportOf(t, from, "acme", "t1", transfer.FormatThread)
	for name, bad := range map[string]string{
		"another digest":      strings.Replace(text, `{"digest":"`+refs[1].Digest, `{"digest":"`+strings.Repeat("0", 64), 1),
		"no digest":           strings.Replace(text, `{"digest":"`+refs[1].Digest+`",`, `{`, 1),
		"a digest of numbers": strings.Replace(text, `{"digest":"`+refs[1].Digest+`"`, `{"digest":7`, 1),
		"no base64":           strings.Replace(text, `"chunks":["YWFh`, `"chunks":["!!!!`, 1),
		"a chunk of numbers":  strings.Replace(text, `"chunks":["YWFh`, `"chunks":[7,"YWFh`, 1),
		"an unknown member":   strings.Replace(text, `"chunks":[`, `"more":1,"chunks":[`, 1),
		"cut off":             text[:len(text)-20],
		"cut in a chunk":      text[:len(text)-200_000],
	} {
		if bad == text {
			t.Fatalf("%s: the export is as it was", name)
		}
		s, d := threadtest.NewStore(t, nil)
		_, err := threadtest.ImportInto(t, s, "acme", "", "", bad)
		threadtest.WantCode(t, name, err, host.InvalidArgument)
		threadtest.WantNoThread(t, s, d, "acme")
	}
}
