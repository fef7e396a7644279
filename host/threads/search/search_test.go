package search_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/search"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// found are the threads and ids of what a search finds.
func found(t testing.TB, s *threads.Store, tenant, query string, opts *search.Options) []string {
	t.Helper()
	hits, err := search.New(s).Messages(t.Context(), tenant, query, opts)
	if err != nil {
		t.Fatalf("Messages(%q) = %v", query, err)
	}
	out := []string{}
	for _, h := range hits {
		out = append(out, h.Thread+"/"+h.Message)
	}
	return out
}

func wantFound(t testing.TB, s *threads.Store, query string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), found(t, s, "", query, nil)); diff != "" {
		t.Errorf("Messages(%q) (-want +got):\n%s", query, diff)
	}
}

func TestSearchFindsTheBestFirst(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.Say(t, s, "shop", "", threadtest.WithID("m1", "Where is my order of apples?"))
	threadtest.Say(t, s, "shop", "", threadtest.WithID("m2", "It was ordered last week, with pears, plums, nuts and a large box of tea."))
	threadtest.Say(t, s, "garden", "", threadtest.WithID("m3", "Apples, apples and nothing but apples"))
	threadtest.Say(t, s, "other", "", threadtest.WithID("m4", "Good morning"))
	wantFound(t, s, "apple", "garden/m3", "shop/m1")
	wantFound(t, s, "orders", "shop/m1", "shop/m2")
	wantFound(t, s, "order apple", "shop/m1", "garden/m3", "shop/m2")
	wantFound(t, s, "quince")
	wantFound(t, s, " ,; ")
	if got := found(t, s, "", "apple", &search.Options{Thread: "shop"}); !slices.Equal(got, []string{"shop/m1"}) {
		t.Errorf("Search in one thread = %q", got)
	}
	if got := found(t, s, "", "apple", &search.Options{Limit: 1}); !slices.Equal(got, []string{"garden/m3"}) {
		t.Errorf("Search for one = %q", got)
	}
	if got := found(t, s, "globex", "apple", nil); len(got) > 0 {
		t.Errorf("another tenant finds %q", got)
	}
}

func TestSnippetsShowWhereTheWordsAre(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	far := strings.Repeat("Lorem ipsum dolor sit amet. ", 30)
	threadtest.Say(t, s, "t1", "", threadtest.WithID("m", far+"The parcel is lost; parcels are sometimes lost. "+far+"parcel"))
	hits, err := search.New(s).Messages(t.Context(), "", "lost parcel", nil)
	if err != nil || len(hits) != 1 {
		t.Fatalf("Search = %+v, %v", hits, err)
	}
	var words []string
	for _, m := range hits[0].Matches {
		words = append(words, hits[0].Snippet[m[0]:m[1]])
	}
	if diff := cmp.Diff([]string{"parcel", "lost", "parcels", "lost"}, words); diff != "" {
		t.Errorf("matches of %q (-want +got):\n%s", hits[0].Snippet, diff)
	}
	if n := len(hits[0].Snippet); n > 200 {
		t.Errorf("the snippet has %d bytes", n)
	}
	if hits[0].Title == "" || hits[0].Role != host.User || hits[0].Score <= 0 || hits[0].Time.IsZero() {
		t.Errorf("hit is %+v", hits[0])
	}
}

// What is out of sight is not found, what comes back is, and what a fork shows is
// found once, for as long as anybody shows it.
func TestSearchFindsWhatShows(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	threadtest.Edit(t, s, "t1", "q0", threadtest.WithID("q0b", "pears"))
	wantFound(t, s, "pear", "t1/q0b")
	wantFound(t, s, "question", "t1/q1")
	threadtest.Rewind(t, s, "t1", threads.At{Branch: "b1"})
	wantFound(t, s, "pear")
	wantFound(t, s, "question", "t1/q1", "t1/q0")
	threadtest.Fork(t, s, "t1", "t2", threads.At{Message: "a0"})
	threadtest.Say(t, s, "t2", "", threadtest.WithID("x", "a question of taste"))
	wantFound(t, s, "question", "t1/q1", "t1/q0", "t2/x")
	if err := s.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	wantFound(t, s, "question", "t2/q0", "t2/x")
	if err := s.For("").Delete(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	wantFound(t, s, "question")
	if left := threadtest.KeysOf(t, d, threads.DefaultTenant); len(left) > 0 {
		t.Errorf("%d keys are left, among them %s", len(left), left[0])
	}
}

// A fork is searched with what it was forked with, and a branch on which turns go on
// with what it alone shows; one that was left behind is not.
func TestSearchOfForksAndBranches(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	threadtest.Fork(t, s, "t1", "t2", threads.At{Message: "a0"})
	if got := found(t, s, "", "question", &search.Options{Thread: "t2"}); !slices.Equal(got, []string{"t2/q0"}) {
		t.Errorf("in the fork are found %q", got)
	}
	branch, err := s.Branch(t.Context(), threadtest.Request("t1", "r9", nil), "q1")
	if err != nil {
		t.Fatal(err)
	}
	req := threadtest.Request("t1", "r9", threadtest.WithID("x", "a matter of plums"))
	req.Branch = branch
	if _, err := s.AppendUserMessage(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*search.Options{nil, {Thread: "t1"}} {
		hits, err := search.New(s).Messages(t.Context(), "", "plum", opts)
		if err != nil || len(hits) != 1 || hits[0].Thread != "t1" || hits[0].Branch != branch || hits[0].Message != "x" {
			t.Errorf("of the branch are found %+v, %v", hits, err)
		}
		hits, err = search.New(s).Messages(t.Context(), "", "question", opts)
		if err != nil || len(hits) != 2 || hits[0].Branch != "" || hits[1].Branch != "" {
			t.Errorf("of what both show are found %+v, %v", hits, err)
		}
	}
	if got := found(t, s, "", "plum", &search.Options{Thread: "t2"}); len(got) != 0 {
		t.Errorf("in the fork are found %q", got)
	}
	threadtest.Rewind(t, s, "t1", threads.At{Message: "a0"}) // what only the branch shows now
	hits, err := search.New(s).Messages(t.Context(), "", "question", &search.Options{Thread: "t1"})
	if err != nil || len(hits) != 2 || hits[0].Branch+hits[1].Branch != branch {
		t.Errorf("after a rewind are found %+v, %v", hits, err)
	}
	threadtest.Rewind(t, s, "t1", threads.At{Branch: branch}) // and it is the thread's own line
	wantFound(t, s, "plum", "t1/x")
	threadtest.Edit(t, s, "t1", "x", threadtest.WithID("y", "pears"))
	if got := found(t, s, "", "pear", nil); !slices.Equal(got, []string{"t1/y"}) {
		t.Errorf("after an edit are found %q", got)
	}
}

// What tools have answered and data are found, calls and thoughts are not.
func TestSearchOfWhatIsNotText(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	call := host.NewMessage(host.Assistant, &host.Reasoning{Text: "quince"}, &host.Text{Text: "I look."}, &host.ToolCall{ID: "c", Name: "lookup", Arguments: json.RawMessage(`{"q":"medlar"}`)})
	call.ID = "call"
	plain := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c", Name: "lookup", Content: json.RawMessage(`"The parcel is in the depot of Graz."`)})
	plain.ID = "plain"
	object := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "d", Name: "lookup", Content: json.RawMessage(`{"city":"Linz","late":true}`)})
	object.ID = "object"
	data := host.NewMessage(host.User, &host.Text{Text: "See:"}, &host.Data{Value: json.RawMessage(`{"order":"A-77","colour":"teal"}`)})
	data.ID = "data"
	threadtest.Answer(t, s, "t1", "r", "", call, plain, object, data)
	wantFound(t, s, "depot", "t1/plain")
	wantFound(t, s, "linz", "t1/object")
	wantFound(t, s, "teal", "t1/data")
	wantFound(t, s, "look", "t1/call")
	wantFound(t, s, "quince")
	wantFound(t, s, "medlar")
	hits, err := search.New(s).Messages(t.Context(), "", "graz", nil)
	if err != nil || len(hits) != 1 || hits[0].Snippet != "is in the depot of Graz." || len(hits[0].Matches) != 1 || hits[0].Role != host.ToolRole {
		t.Errorf("hits are %+v, %v", hits, err)
	}
}

func TestSearchOfALargeTurn(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	var messages []*host.Message
	for i := range 3 * 256 {
		messages = append(messages, threadtest.WithID(fmt.Sprint(i), fmt.Sprintf("word%d", i)))
	}
	threadtest.Answer(t, s, "t1", "r", "", messages...)
	for _, i := range []int{0, 1, 255, 256, 700} {
		wantFound(t, s, fmt.Sprintf("word%d", i), fmt.Sprintf("t1/%d", i))
	}
}

func TestReindex(t *testing.T) {
	d := testdriver.New(t)
	without := threads.New(d, &threads.Options{SearchDisabled: true})
	threadtest.TalkWithIDs(t, without, "t1", 0, 200)
	threadtest.Fork(t, without, "t1", "t2", threads.At{Snapshot: "r9"})
	if err := without.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	wantFound(t, without, "question")
	if n, err := without.For("").Reindex(t.Context()); err != nil || n != 400 {
		t.Errorf("Reindex = %d, %v", n, err)
	}
	if got := found(t, without, "", "question", &search.Options{Limit: 100}); len(got) != 10 {
		t.Errorf("%d are found, want the 10 of the fork", len(got))
	}
}

func TestSearchRefuses(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	threadtest.Say(t, s, "t1", "", threadtest.WithID("m", "hello"))
	for _, limit := range []int{-1, search.MaxHits + 1} {
		_, err := search.New(s).Messages(t.Context(), "", "hello", &search.Options{Limit: limit})
		threadtest.WantCode(t, "Search", err, host.InvalidArgument)
	}
	_, err := search.New(s).Messages(t.Context(), "", "hello", &search.Options{Thread: "t9"})
	threadtest.WantCode(t, "Search of an unknown thread", err, host.NotFound)
	for _, value := range []string{"", "\x02", "\x01\x05\xff", "\x01\x05\x02abcde"} {
		for _, key := range threadtest.KeysUnder(t, d, threads.DefaultTenant, kv.NewKey("threads", "words")) {
			if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{kv.Put(key, []byte(value))}}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := search.New(s).Messages(t.Context(), "", "hello", nil)
		threadtest.WantCode(t, fmt.Sprintf("Search of the damaged index %q", value), err, host.DataLoss)
	}
}

// Of 10,000 messages in a hundred threads.
func BenchmarkSearch(b *testing.B) {
	s, _ := threadtest.NewStore(b, nil)
	for i := range 100 {
		var messages []*host.Message
		for j := range 100 {
			messages = append(messages, host.AssistantText(fmt.Sprintf("word%d of %d and a few more words about thing%d, which nobody asked for", j, i, i*j%977)))
		}
		threadtest.Answer(b, s, fmt.Sprint(i), "r", "", messages...)
	}
	searcher := search.New(s)
	for b.Loop() {
		if _, err := searcher.Messages(b.Context(), "", "thing42 word7", nil); err != nil {
			b.Fatal(err)
		}
	}
}
