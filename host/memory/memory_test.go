package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ada = memory.Scope{Tenant: "acme", User: "ada"}

// someone is a scope that no other test uses, nor another round of the same.
func someone() memory.Scope { return memory.Scope{Tenant: "acme-" + host.NewID(), User: "ada"} }

func open(t testing.TB, opts *memory.Options) *memory.Store {
	t.Helper()
	driver := testdriver.New(t)
	t.Cleanup(func() { _ = driver.Close() })
	s, err := memory.New(driver, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t testing.TB, s *memory.Store, scope memory.Scope, text string) *memory.Memory {
	t.Helper()
	m, err := s.Add(t.Context(), scope, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// found are the texts that a search finds, the best first.
func found(t testing.TB, s *memory.Store, scope memory.Scope, query string) []string {
	t.Helper()
	hits, err := s.Search(t.Context(), scope, query, nil)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{}
	for _, h := range hits {
		texts = append(texts, h.Text)
	}
	return texts
}

func wants(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantCode(t testing.TB, what string, err error, code host.Code) {
	t.Helper()
	if host.CodeOf(err) != code {
		t.Errorf("%s: %v, want code %s", what, err, code)
	}
}

func TestSearch(t *testing.T) {
	s := open(t, nil)
	for _, text := range []string{
		"Ada is allergic to nuts and to bees.", "Ada likes walks in the mountains.", "The walk on Sunday was long.",
		"彼女は東京に住んでいます", "Её любимый цвет — синий.", "naïve café", "order 1042 was late",
	} {
		add(t, s, ada, text)
	}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"is she allergic?", []string{"Ada is allergic to nuts and to bees."}},
		{"walking", []string{"Ada likes walks in the mountains.", "The walk on Sunday was long."}},
		{"WALK mountain", []string{"Ada likes walks in the mountains.", "The walk on Sunday was long."}},
		{"東京", []string{"彼女は東京に住んでいます"}},
		{"цвет", []string{"Её любимый цвет — синий."}},
		{"CAFÉ", []string{"naïve café"}},
		{"1042", []string{"order 1042 was late"}},
		{"elephants", []string{}},
		{"", []string{}},
		{"...!", []string{}},
	} {
		wants(t, c.query, found(t, s, ada, c.query), c.want)
	}
	hits, err := s.Search(t.Context(), ada, "walk", &memory.SearchOptions{Limit: 1})
	if err != nil || len(hits) != 1 || hits[0].Score <= 0 {
		t.Errorf("the best hit: %v, %v", hits, err)
	}
}

func TestAMemorysLife(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := open(t, &memory.Options{Now: func() time.Time { now = now.Add(time.Minute); return now }})
	m := add(t, s, ada, "Ada drinks tea.")
	got, err := s.Update(t.Context(), ada, m.ID, "Ada drinks coffee.")
	if err != nil || got.Text != "Ada drinks coffee." || !got.Updated.After(got.Created) || !got.Created.Equal(m.Created) {
		t.Errorf("updated %+v, %v", got, err)
	}
	wants(t, "the old word", found(t, s, ada, "tea"), []string{})
	wants(t, "the new word", found(t, s, ada, "coffee"), []string{"Ada drinks coffee."})
	if err := s.Delete(t.Context(), ada, m.ID); err != nil {
		t.Fatal(err)
	}
	wants(t, "a deleted one", found(t, s, ada, "coffee"), []string{})
	_, err = s.Get(t.Context(), ada, m.ID)
	wantCode(t, "Get", err, host.NotFound)
	wantCode(t, "Delete", s.Delete(t.Context(), ada, m.ID), host.NotFound)
	_, err = s.Update(t.Context(), ada, m.ID, "x")
	wantCode(t, "Update", err, host.NotFound)
	if _, err := s.Add(t.Context(), ada, "Ada drinks water.", &memory.AddOptions{ID: m.ID}); err != nil {
		t.Fatal(err)
	}
	events, err := s.History(t.Context(), ada, m.ID)
	if err != nil {
		t.Fatal(err)
	}
	var story []string
	for _, e := range events {
		story = append(story, fmt.Sprintf("%s %q %q", e.Kind, e.Before, e.After))
	}
	wants(t, "the history", story, []string{`add "" "Ada drinks tea."`, `update "Ada drinks tea." "Ada drinks coffee."`, `delete "Ada drinks coffee." ""`, `add "" "Ada drinks water."`})
	_, err = s.History(t.Context(), ada, "other")
	wantCode(t, "History", err, host.NotFound)
}

func TestTheSameIsKeptOnce(t *testing.T) {
	s := open(t, nil)
	first := add(t, s, ada, "Ada drinks tea.")
	if again := add(t, s, ada, "Ada drinks tea."); again.ID != first.ID {
		t.Errorf("the same text is kept as %s and %s", first.ID, again.ID)
	}
	named := &memory.AddOptions{ID: "m1"}
	for _, text := range []string{"Ada sings.", "Ada dances."} {
		if m, err := s.Add(t.Context(), ada, text, named); err != nil || m.Text != "Ada sings." {
			t.Errorf("adding m1 again: %+v, %v", m, err)
		}
	}
	_, err := s.Update(t.Context(), ada, "m1", "Ada drinks tea.")
	wantCode(t, "to say what another says", err, host.AlreadyExists)
	if n, err := s.Count(t.Context(), ada); n != 2 || err != nil {
		t.Errorf("%d memories, %v; want 2", n, err)
	}
	// In another scope it is another memory.
	if m := add(t, s, memory.Scope{Tenant: "acme", User: "bob"}, "Ada drinks tea."); m.ID == first.ID {
		t.Error("two scopes share a memory")
	}
}

func TestAllOrNothing(t *testing.T) {
	s := open(t, nil)
	m := add(t, s, ada, "Ada drinks tea.")
	_, err := s.Apply(t.Context(), ada,
		memory.Change{Kind: memory.Add, Text: "Ada sings."},
		memory.Change{Kind: memory.Delete, ID: m.ID},
		memory.Change{Kind: memory.Update, ID: "nobody", Text: "x"})
	wantCode(t, "a batch with an unknown id", err, host.NotFound)
	wants(t, "afterwards", found(t, s, ada, "Ada"), []string{"Ada drinks tea."})
	got, err := s.Apply(t.Context(), ada,
		memory.Change{Kind: memory.Delete, ID: m.ID},
		memory.Change{Kind: memory.Add, Text: "Ada drinks tea."},
		memory.Change{Kind: memory.Add, Text: "Ada sings."},
		memory.Change{Kind: memory.Add, Text: "Ada sings."})
	if err != nil || len(got) != 4 || got[1].ID == m.ID || got[2].ID != got[3].ID {
		t.Errorf("a batch that undoes and repeats: %+v, %v", got, err)
	}
	wants(t, "afterwards", found(t, s, ada, "Ada"), []string{"Ada sings.", "Ada drinks tea."})
}

func TestScopesAreApart(t *testing.T) {
	s := open(t, nil)
	scopes := []memory.Scope{
		{Tenant: "acme"}, {Tenant: "acme", User: "a"}, {Tenant: "acme", User: "ab"}, {Tenant: "acme", Agent: "a"}, {Tenant: "acme", Application: "a"},
		{Tenant: "acme", User: "a", Agent: "a"}, {Tenant: "acme", Run: "a"}, {Tenant: "acme", User: "a/b"}, {Tenant: "other", User: "a"}, {User: "a"},
	}
	for i, scope := range scopes {
		add(t, s, scope, fmt.Sprintf("secret %d", i))
	}
	for i, scope := range scopes {
		wants(t, fmt.Sprint(scope), found(t, s, scope, "secret"), []string{fmt.Sprintf("secret %d", i)})
	}
	for _, c := range []struct {
		filter memory.Scope
		want   int
	}{{memory.Scope{Tenant: "acme"}, 8}, {memory.Scope{Tenant: "acme", User: "a"}, 2}, {memory.Scope{Tenant: "acme", Agent: "a"}, 2},
		{memory.Scope{Tenant: "acme", User: "a", Agent: "a"}, 1}, {memory.Scope{Tenant: "acme", User: "nobody"}, 0}, {memory.Scope{Tenant: "nobody"}, 0}} {
		if got, err := s.Scopes(t.Context(), c.filter); len(got) != c.want || err != nil {
			t.Errorf("scopes within %+v: %v, %v; want %d", c.filter, got, err, c.want)
		}
	}
	if err := s.DeleteAll(t.Context(), scopes[1]); err != nil {
		t.Fatal(err)
	}
	for i, scope := range scopes {
		want := []string{fmt.Sprintf("secret %d", i)}
		if i == 1 {
			want = []string{}
		}
		wants(t, fmt.Sprint("after a's are deleted: ", scope), found(t, s, scope, "secret"), want)
	}
	if got, err := s.Scopes(t.Context(), memory.Scope{Tenant: "acme", User: "a"}); len(got) != 1 || err != nil {
		t.Errorf("after a's are deleted, scopes %v, %v", got, err)
	}
	wants(t, "a scope that begins again", add(t, s, scopes[1], "new").Text, "new")
	wants(t, "what it finds", found(t, s, scopes[1], "new secret"), []string{"new"})
}

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := open(t, &memory.Options{Now: func() time.Time { return now }})
	soon, err := s.Add(t.Context(), ada, "Ada is away.", &memory.AddOptions{Expires: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	later, err := s.Add(t.Context(), ada, "Ada is busy.", &memory.AddOptions{Expires: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), ada, memory.Change{Kind: memory.Update, ID: later.ID, Expires: now.Add(3 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Expire(t.Context(), "acme"); n != 0 || err != nil {
		t.Errorf("Expire before its time = %d, %v", n, err)
	}
	now = now.Add(2 * time.Hour)
	wants(t, "found", found(t, s, ada, "Ada"), []string{"Ada is busy."})
	_, err = s.Get(t.Context(), ada, soon.ID)
	wantCode(t, "Get of an expired one", err, host.NotFound)
	list, err := s.List(t.Context(), ada, nil)
	if err != nil || len(list) != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
	again, err := s.Add(t.Context(), ada, "Ada is away.", nil)
	if err != nil || again.ID == soon.ID {
		t.Errorf("said again: %+v, %v", again, err)
	}
	now = now.Add(2 * time.Hour)
	if n, err := s.Expire(t.Context(), "acme"); n != 1 || err != nil {
		t.Errorf("Expire = %d, %v; want 1", n, err)
	}
	if n, err := s.Count(t.Context(), ada); n != 1 || err != nil {
		t.Errorf("%d memories are left, %v; want 1", n, err)
	}
	if n, err := s.Expire(t.Context(), "acme"); n != 0 || err != nil {
		t.Errorf("Expire again = %d, %v", n, err)
	}
}

// A memory that ends within a millisecond, or whose time a clock that goes backwards
// has left again, is removed when it ends.
func TestExpiryAgainstTheClock(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := open(t, &memory.Options{Now: func() time.Time { return now }})
	end := now.Add(time.Hour + 600*time.Microsecond)
	if _, err := s.Add(t.Context(), ada, "Ada is away.", &memory.AddOptions{Expires: end}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   time.Time
		want int
	}{{end.Add(-time.Microsecond), 0}, {end.Add(-2 * time.Hour), 0}, {end.Add(-time.Microsecond), 0}, {end, 1}, {end, 0}} {
		now = c.at
		if n, err := s.Expire(t.Context(), "acme"); n != c.want || err != nil {
			t.Errorf("Expire at %s = %d, %v; want %d", c.at.Format(time.StampNano), n, err, c.want)
		}
	}
	if n, err := s.Count(t.Context(), ada); n != 0 || err != nil {
		t.Errorf("%d memories are left, %v", n, err)
	}
}

func TestList(t *testing.T) {
	s := open(t, nil)
	for i := range 7 {
		add(t, s, ada, fmt.Sprintf("number %d", i))
	}
	var texts []string
	for after := ""; ; {
		page, err := s.List(t.Context(), ada, &memory.ListOptions{After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			texts = append(texts, m.Text)
			after = m.ID
		}
		if len(page) < 3 {
			break
		}
	}
	wants(t, "page by page", texts, []string{"number 0", "number 1", "number 2", "number 3", "number 4", "number 5", "number 6"})
}

func TestBadInput(t *testing.T) {
	s := open(t, nil)
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		scope  memory.Scope
		change memory.Change
		code   host.Code
	}{
		"no scope":         {memory.Scope{}, memory.Change{Kind: memory.Add, Text: "x"}, host.InvalidArgument},
		"a long user":      {memory.Scope{User: long}, memory.Change{Kind: memory.Add, Text: "x"}, host.InvalidArgument},
		"NUL in a user":    {memory.Scope{User: "a\x00b"}, memory.Change{Kind: memory.Add, Text: "x"}, host.InvalidArgument},
		"a user not UTF-8": {memory.Scope{User: "\xff"}, memory.Change{Kind: memory.Add, Text: "x"}, host.InvalidArgument},
		"no text":          {ada, memory.Change{Kind: memory.Add, Text: " \n"}, host.InvalidArgument},
		"blank update":     {ada, memory.Change{Kind: memory.Update, ID: "x", Text: " \n"}, host.InvalidArgument},
		"text not UTF-8":   {ada, memory.Change{Kind: memory.Add, Text: "\xff"}, host.InvalidArgument},
		"a long text":      {ada, memory.Change{Kind: memory.Add, Text: strings.Repeat(long, 9)}, host.InvalidArgument},
		"a long id":        {ada, memory.Change{Kind: memory.Add, ID: long, Text: "x"}, host.InvalidArgument},
		"large metadata":   {ada, memory.Change{Kind: memory.Add, Text: "x", Metadata: map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat(long, 5) + `"`)}}, host.InvalidArgument},
		"bad metadata":     {ada, memory.Change{Kind: memory.Add, Text: "x", Metadata: map[string]json.RawMessage{"a": json.RawMessage(`{`)}}, host.InvalidArgument},
		"no kind":          {ada, memory.Change{Text: "x"}, host.InvalidArgument},
		"update of nobody": {ada, memory.Change{Kind: memory.Update, Text: "x"}, host.InvalidArgument},
		"an unknown id":    {ada, memory.Change{Kind: memory.Delete, ID: "../x"}, host.NotFound},
	} {
		_, err := s.Apply(t.Context(), c.scope, c.change)
		wantCode(t, name, err, c.code)
	}
	_, err := s.Apply(t.Context(), ada, make([]memory.Change, memory.MaxChanges+1)...)
	wantCode(t, "many changes", err, host.ResourceExhausted)
	_, err = memory.New(testdriver.New(t), &memory.Options{Language: "klingon"})
	wantCode(t, "a language", err, host.InvalidArgument)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Add(ctx, ada, "x", nil)
	wantCode(t, "a cancelled context", err, host.Canceled)
}

// Everything that the longest text could need fits one transaction.
func TestTextsOfManyWords(t *testing.T) {
	s := open(t, nil)
	text := func(first rune) string {
		var b strings.Builder
		for i := 0; b.Len() < memory.MaxTextBytes-8; i++ {
			fmt.Fprintf(&b, "%c%x ", first, i)
		}
		return b.String()
	}
	m := add(t, s, ada, text('g'))
	if _, err := s.Update(t.Context(), ada, m.ID, text('h')); err != nil {
		t.Fatal(err)
	}
	wants(t, "the old words", found(t, s, ada, "g0 g10 gff"), []string{})
	if err := s.Delete(t.Context(), ada, m.ID); err != nil {
		t.Fatal(err)
	}
}

func TestWritersAtOnce(t *testing.T) {
	driver := testdriver.New(t)
	defer driver.Close()
	var stores []*memory.Store // as of two processes
	for range 2 {
		s, err := memory.New(driver, nil)
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			for j := range 10 {
				if _, err := stores[i%2].Add(t.Context(), ada, fmt.Sprintf("writer says w%dx%d", i, j), nil); err != nil {
					t.Error(err)
				}
				if _, err := stores[i%2].Search(t.Context(), ada, "writer", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if n, err := stores[0].Count(t.Context(), ada); n != 160 || err != nil {
		t.Errorf("%d memories, %v; want 160", n, err)
	}
	wants(t, "a search", found(t, stores[0], ada, "w3x7"), []string{"writer says w3x7"})
}

func TestDataOfANewerVersion(t *testing.T) {
	driver := testdriver.New(t)
	defer driver.Close()
	s, err := memory.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, ada, "Ada drinks tea.")
	stored := kv.Checked(driver)
	for e, err := range kv.All(t.Context(), stored, "acme", kv.Range{Prefix: kv.NewKey("memory", "scope")}) {
		if err != nil {
			t.Fatal(err)
		}
		for value, code := range map[string]host.Code{
			strings.Replace(string(e.Value), `"v":1`, `"v":2`, 1): host.FailedPrecondition,
			string(e.Value[:len(e.Value)-3]):                      host.DataLoss,
			"\xee" + string(e.Value):                              host.FailedPrecondition,
		} {
			if _, err := kv.Apply(t.Context(), stored, kv.Tx{Partition: "acme", Writes: []kv.Write{kv.Put(e.Key, []byte(value))}}); err != nil {
				t.Fatal(err)
			}
			_, err = s.Search(t.Context(), ada, "tea", nil)
			wantCode(t, "a scope that is "+value, err, code)
			_, err = s.Add(t.Context(), ada, "more", nil)
			wantCode(t, "a write to it", err, code)
		}
	}
}
