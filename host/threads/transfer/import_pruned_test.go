package transfer_test

import (
	"iter"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/transfer"
)

// thenSource is an itemSource that does something at its end.
type thenSource struct {
	items itemSource
	then  func()
}

func (s thenSource) Items() iter.Seq2[transfer.Item, error] {
	return func(yield func(transfer.Item, error) bool) {
		for item, err := range s.items.Items() {
			if !yield(item, err) {
				return
			}
		}
		s.then()
	}
}

// An artifact that is imported is nobody's until the end. Who prunes the thread
// meanwhile removes it, and then the import does not say that the thread has it.
func TestImportOfAThreadThatIsPrunedMeanwhile(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	items := itemSource{{Thread: &threads.Thread{ID: "t"}}, {Message: threadtest.WithID("m0", "hello")},
		{Snapshot: &threads.Snapshot{ID: "r0", To: 1}}}
	if _, err := transfer.Import(t.Context(), s.For(""), items, nil); err != nil {
		t.Fatal(err)
	}
	items = append(items, transfer.Item{Artifact: &host.Artifact{Name: "report", Parts: []host.Part{&host.Text{Text: "all of it"}}}})
	prune := func() {
		if _, err := s.For("").PruneHeads(t.Context(), "t", threads.PruneHeadsOptions{Before: time.Now().Add(time.Hour)}); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		_, err := transfer.Import(t.Context(), s.For(""), thenSource{items, prune}, nil)
		threadtest.WantCode(t, "Import beside PruneHeads", err, host.Conflict)
		if _, err := s.For("").Verify(t.Context(), "t"); err != nil {
			t.Errorf("Verify = %v", err)
		}
	}
	if _, err := transfer.Import(t.Context(), s.For(""), items, nil); err != nil {
		t.Fatal(err)
	}
	prune()
	list, err := s.For("").Artifacts(t.Context(), "t")
	if err != nil || len(list) != 1 {
		t.Fatalf("Artifacts = %v, %v", list, err)
	}
	if _, err := s.For("").Artifact(t.Context(), "t", list[0].Digest); err != nil {
		t.Error(err)
	}
}
