package threads_test

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
)

// found are the threads and ids of what a search finds.
func found(t testing.TB, s *threads.Store, tenant, query string, opts *threads.SearchOptions) []string {
	t.Helper()
	hits, err := s.For(tenant).Search(t.Context(), query, opts)
	if err != nil {
		t.Fatalf("Search(%q) = %v", query, err)
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
		t.Errorf("Search(%q) (-want +got):\n%s", query, diff)
	}
}

func TestSearchFindsTheBestFirst(t *testing.T) {
	s, _ := newStore(t, nil)
	say(t, s, "shop", "", withID("m1", "Where is my order of apples?"))
	say(t, s, "shop", "", withID("m2", "It was ordered last week, with pears, plums, nuts and a large box of tea."))
	say(t, s, "garden", "", withID("m3", "Apples, apples and nothing but apples"))
	say(t, s, "other", "", withID("m4", "Good morning"))
	wantFound(t, s, "apple", "garden/m3", "shop/m1")
	wantFound(t, s, "orders", "shop/m1", "shop/m2")
	wantFound(t, s, "order apple", "shop/m1", "garden/m3", "shop/m2")
	wantFound(t, s, "quince")
	wantFound(t, s, " ,; ")
	if got := found(t, s, "", "apple", &threads.SearchOptions{Thread: "shop"}); !slices.Equal(got, []string{"shop/m1"}) {
		t.Errorf("Search in one thread = %q", got)
	}
	if got := found(t, s, "", "apple", &threads.SearchOptions{Limit: 1}); !slices.Equal(got, []string{"garden/m3"}) {
		t.Errorf("Search for one = %q", got)
	}
	if got := found(t, s, "globex", "apple", nil); len(got) > 0 {
		t.Errorf("another tenant finds %q", got)
	}
}

func TestSnippetsShowWhereTheWordsAre(t *testing.T) {
	s, _ := newStore(t, nil)
	far := strings.Repeat("Lorem ipsum dolor sit amet. ", 30)
	say(t, s, "t1", "", withID("m", far+"The parcel is lost; parcels are sometimes lost. "+far+"parcel"))
	hits, err := s.For("").Search(t.Context(), "lost parcel", nil)
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
	s, d := newStore(t, nil)
	talkWithIDs(t, s, "t1", 0, 2)
	edit(t, s, "t1", "q0", withID("q0b", "pears"))
	wantFound(t, s, "pear", "t1/q0b")
	wantFound(t, s, "question", "t1/q1")
	rewind(t, s, "t1", threads.At{Branch: "b1"})
	wantFound(t, s, "pear")
	wantFound(t, s, "question", "t1/q1", "t1/q0")
	fork(t, s, "t1", "t2", threads.At{Message: "a0"})
	say(t, s, "t2", "", withID("x", "a question of taste"))
	wantFound(t, s, "question", "t1/q1", "t1/q0", "t2/x")
	if err := s.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	wantFound(t, s, "question", "t2/q0", "t2/x")
	if err := s.For("").Delete(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	wantFound(t, s, "question")
	if left := keysOf(t, d, threads.DefaultTenant); len(left) > 0 {
		t.Errorf("%d keys are left, among them %s", len(left), left[0])
	}
}

// A fork is searched with what it was forked with, and a branch on which turns go on
// with what it alone shows; one that was left behind is not.
func TestSearchOfForksAndBranches(t *testing.T) {
	s, _ := newStore(t, nil)
	talkWithIDs(t, s, "t1", 0, 2)
	fork(t, s, "t1", "t2", threads.At{Message: "a0"})
	if got := found(t, s, "", "question", &threads.SearchOptions{Thread: "t2"}); !slices.Equal(got, []string{"t2/q0"}) {
		t.Errorf("in the fork are found %q", got)
	}
	branch, err := s.Branch(t.Context(), request("t1", "r9", nil), "q1")
	if err != nil {
		t.Fatal(err)
	}
	req := request("t1", "r9", withID("x", "a matter of plums"))
	req.Branch = branch
	if _, err := s.AppendUserMessage(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*threads.SearchOptions{nil, {Thread: "t1"}} {
		hits, err := s.For("").Search(t.Context(), "plum", opts)
		if err != nil || len(hits) != 1 || hits[0].Thread != "t1" || hits[0].Branch != branch || hits[0].Message != "x" {
			t.Errorf("of the branch are found %+v, %v", hits, err)
		}
		hits, err = s.For("").Search(t.Context(), "question", opts)
		if err != nil || len(hits) != 2 || hits[0].Branch != "" || hits[1].Branch != "" {
			t.Errorf("of what both show are found %+v, %v", hits, err)
		}
	}
	if got := found(t, s, "", "plum", &threads.SearchOptions{Thread: "t2"}); len(got) != 0 {
		t.Errorf("in the fork are found %q", got)
	}
	rewind(t, s, "t1", threads.At{Message: "a0"}) // what only the branch shows now
	hits, err := s.For("").Search(t.Context(), "question", &threads.SearchOptions{Thread: "t1"})
	if err != nil || len(hits) != 2 || hits[0].Branch+hits[1].Branch != branch {
		t.Errorf("after a rewind are found %+v, %v", hits, err)
	}
	rewind(t, s, "t1", threads.At{Branch: branch}) // and it is the thread's own line
	wantFound(t, s, "plum", "t1/x")
	edit(t, s, "t1", "x", withID("y", "pears"))
	if got := found(t, s, "", "pear", nil); !slices.Equal(got, []string{"t1/y"}) {
		t.Errorf("after an edit are found %q", got)
	}
}

// What tools have answered and data are found, calls and thoughts are not.
func TestSearchOfWhatIsNotText(t *testing.T) {
	s, _ := newStore(t, nil)
	call := host.NewMessage(host.Assistant, &host.Reasoning{Text: "quince"}, &host.Text{Text: "I look."}, &host.ToolCall{ID: "c", Name: "lookup", Arguments: json.RawMessage(`{"q":"medlar"}`)})
	call.ID = "call"
	plain := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "c", Name: "lookup", Content: json.RawMessage(`"The parcel is in the depot of Graz."`)})
	plain.ID = "plain"
	object := host.NewMessage(host.ToolRole, &host.ToolResult{ID: "d", Name: "lookup", Content: json.RawMessage(`{"city":"Linz","late":true}`)})
	object.ID = "object"
	data := host.NewMessage(host.User, &host.Text{Text: "See:"}, &host.Data{Value: json.RawMessage(`{"order":"A-77","colour":"teal"}`)})
	data.ID = "data"
	answer(t, s, "t1", "r", "", call, plain, object, data)
	wantFound(t, s, "depot", "t1/plain")
	wantFound(t, s, "linz", "t1/object")
	wantFound(t, s, "teal", "t1/data")
	wantFound(t, s, "look", "t1/call")
	wantFound(t, s, "quince")
	wantFound(t, s, "medlar")
	hits, err := s.For("").Search(t.Context(), "graz", nil)
	if err != nil || len(hits) != 1 || hits[0].Snippet != "is in the depot of Graz." || len(hits[0].Matches) != 1 || hits[0].Role != host.ToolRole {
		t.Errorf("hits are %+v, %v", hits, err)
	}
}

func TestSearchOfALargeTurn(t *testing.T) {
	s, _ := newStore(t, nil)
	var messages []*host.Message
	for i := range 3 * threads.MaxTurnEntries {
		messages = append(messages, withID(fmt.Sprint(i), fmt.Sprintf("word%d", i)))
	}
	answer(t, s, "t1", "r", "", messages...)
	for _, i := range []int{0, 1, 255, 256, 700} {
		wantFound(t, s, fmt.Sprintf("word%d", i), fmt.Sprintf("t1/%d", i))
	}
}

func TestReindex(t *testing.T) {
	d := kv.NewMemory()
	without := threads.New(d, &threads.Options{SearchDisabled: true})
	talkWithIDs(t, without, "t1", 0, 200)
	fork(t, without, "t1", "t2", threads.At{Snapshot: "r9"})
	if err := without.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	wantFound(t, without, "question")
	if n, err := without.For("").Reindex(t.Context()); err != nil || n != 400 {
		t.Errorf("Reindex = %d, %v", n, err)
	}
	if got := found(t, without, "", "question", &threads.SearchOptions{Limit: 100}); len(got) != 10 {
		t.Errorf("%d are found, want the 10 of the fork", len(got))
	}
}

func TestSearchRefuses(t *testing.T) {
	s, d := newStore(t, nil)
	say(t, s, "t1", "", withID("m", "hello"))
	for _, limit := range []int{-1, threads.MaxHits + 1} {
		_, err := s.For("").Search(t.Context(), "hello", &threads.SearchOptions{Limit: limit})
		wantCode(t, "Search", err, host.InvalidArgument)
	}
	_, err := s.For("").Search(t.Context(), "hello", &threads.SearchOptions{Thread: "t9"})
	wantCode(t, "Search of an unknown thread", err, host.NotFound)
	for _, value := range []string{"", "\x02", "\x01\x05\xff", "\x01\x05\x02abcde"} {
		for _, key := range keysUnder(t, d, threads.DefaultTenant, kv.NewKey("threads", "words")) {
			if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{kv.Put(key, []byte(value))}}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.For("").Search(t.Context(), "hello", nil)
		wantCode(t, fmt.Sprintf("Search of the damaged index %q", value), err, host.DataLoss)
	}
}

// Of 10,000 messages in a hundred threads.
func BenchmarkSearch(b *testing.B) {
	s, _ := newStore(b, nil)
	for i := range 100 {
		var messages []*host.Message
		for j := range 100 {
			messages = append(messages, host.AssistantText(fmt.Sprintf("word%d of %d and a few more words about thing%d, which nobody asked for", j, i, i*j%977)))
		}
		answer(b, s, fmt.Sprint(i), "r", "", messages...)
	}
	for b.Loop() {
		if _, err := s.For("").Search(b.Context(), "thing42 word7", nil); err != nil {
			b.Fatal(err)
		}
	}
}

// What the index adds to a commit of a kilobyte of text.
func BenchmarkIndexOfAKilobyte(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < 1000; i++ {
		fmt.Fprintf(&text, "word%d said and heard again ", i*i%1009)
	}
	for _, disabled := range []bool{true, false} {
		b.Run(fmt.Sprintf("disabled=%t", disabled), func(b *testing.B) {
			d := &spy{Driver: kv.NewMemory()}
			s := threads.New(d, &threads.Options{SearchDisabled: disabled})
			i := 0
			bytes, _, _ := d.measure(func() {
				for b.Loop() {
					say(b, s, "t1", "", withID(fmt.Sprint(i), text.String()))
					i++
				}
			})
			b.ReportMetric(float64(bytes)/float64(i), "kvbytes/op")
		})
	}
}
