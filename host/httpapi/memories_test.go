package httpapi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/memory"
)

func TestMemoriesAreKeptByScope(t *testing.T) {
	s := newServer(t, nil)
	const ann = "/v1/memories?user=ann"
	var first, again memory.Memory
	s.do("acme", "POST", ann, `{"id":"m1","text":"likes green tea"}`, 201, &first)
	s.do("acme", "POST", ann, `{"id":"m1","text":"likes green tea"}`, 201, &again)
	if first.ID != "m1" || again.Created != first.Created {
		t.Errorf("a memory sent again is %+v, want %+v", again, first)
	}
	var changed httpapi.ChangedMemories
	s.do("acme", "POST", "/v1/memory/changes?user=ann", `{"changes":[{"kind":"add","id":"m2","text":"lives in Graz"},{"kind":"update","id":"m1","text":"likes black tea"}]}`, 200, &changed)
	s.do("acme", "POST", "/v1/memory/changes?user=ann", `{"changes":[{"kind":"add","id":"m3","text":"never kept"},{"kind":"delete","id":"m9"}]}`, 404, nil)
	var page httpapi.MemoryPage
	s.do("acme", "GET", ann+"&limit=1", "", 200, &page)
	if len(changed.Memories) != 2 || len(page.Memories) != 1 || page.Next != "m1" {
		t.Errorf("changed %+v; the page is %+v", changed, page)
	}
	var last httpapi.MemoryPage
	s.do("acme", "GET", ann+"&limit=2&cursor="+page.Next, "", 200, &last)
	if len(last.Memories) != 1 || last.Memories[0].ID != "m2" || last.Next != "" {
		t.Errorf("the last page is %+v", last)
	}
	var hits httpapi.MemoryHits
	s.do("acme", "GET", "/v1/memory/search?user=ann&q=tea", "", 200, &hits)
	if len(hits.Hits) != 1 || hits.Hits[0].Text != "likes black tea" {
		t.Errorf("the search found %+v", hits)
	}
	for _, where := range []string{"?user=bob&q=tea", "?q=tea"} {
		s.do("acme", "GET", "/v1/memory/search"+where, "", 200, &hits)
		if len(hits.Hits) != 0 {
			t.Errorf("another scope has %+v", hits)
		}
	}
	var m memory.Memory
	s.do("acme", "PATCH", "/v1/memories/m2?user=ann", `{"metadata":{"since":2020}}`, 200, &m)
	s.do("acme", "GET", "/v1/memories/m2?user=ann", "", 200, &m)
	if m.Text != "lives in Graz" || string(m.Metadata["since"]) != "2020" {
		t.Errorf("the changed memory is %+v", m)
	}
	s.do("acme", "DELETE", "/v1/memories/m2?user=ann", "", 204, nil)
	s.do("acme", "GET", "/v1/memories/m2?user=ann", "", 404, nil)
	var events httpapi.MemoryEvents
	s.do("acme", "GET", "/v1/memories/m2/history?user=ann", "", 200, &events)
	if len(events.Events) < 2 {
		t.Errorf("the history is %+v", events.Events)
	}
	var scopes httpapi.MemoryScopes
	s.do("acme", "GET", "/v1/memory/scopes", "", 200, &scopes)
	if len(scopes.Scopes) != 1 || scopes.Scopes[0] != (httpapi.MemoryScope{User: "ann"}) {
		t.Errorf("the scopes are %+v", scopes)
	}
	s.do("acme", "DELETE", ann, "", 204, nil)
	s.do("acme", "GET", "/v1/memory/scopes", "", 200, &scopes)
	if len(scopes.Scopes) != 0 {
		t.Errorf("the scopes that were forgotten are %+v", scopes)
	}
}

func TestScopesComeInPages(t *testing.T) {
	s := newServer(t, nil)
	var want []httpapi.MemoryScope
	for i := range 7 {
		of := httpapi.MemoryScope{User: "ann", Run: fmt.Sprintf("r%d", i)}
		if i == 0 {
			of = httpapi.MemoryScope{} // shared by all
		}
		s.do("acme", "POST", fmt.Sprintf("/v1/memories?user=%s&run=%s", of.User, of.Run), `{"text":"x"}`, 201, nil)
		want = append(want, of)
	}
	for query, want := range map[string][]httpapi.MemoryScope{"": want, "&user=ann": want[1:], "&run=r3": want[3:4]} {
		for limit := 1; limit < 9; limit++ {
			var got []httpapi.MemoryScope
			var page httpapi.MemoryScopes
			for more := true; more; more = page.Next != "" {
				next := page.Next
				page = httpapi.MemoryScopes{}
				s.do("acme", "GET", fmt.Sprintf("/v1/memory/scopes?limit=%d&cursor=%s%s", limit, next, query), "", 200, &page)
				got = append(got, page.Scopes...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the pages of %d of %q are %+v, want %+v", limit, query, got, want)
			}
		}
	}
	s.do("acme", "GET", "/v1/memory/scopes?cursor=b2xk", "", 400, nil)
	s.do("acme", "GET", "/v1/memory/scopes?limit=100000", "", 400, nil)
}
