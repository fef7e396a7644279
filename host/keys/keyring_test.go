package keys_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestListIsByCursorAndTenant(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	want := map[string]bool{}
	for range 7 {
		_, k := create(t, s.Of("acme"))
		want[k.ID] = true
	}
	create(t, s.Of("acm"))
	create(t, s.Of("acme2"))
	create(t, s.Admins())
	var after, last string
	pages := 0
	for {
		page, next, err := s.Of("acme").List(t.Context(), after, 3)
		if err != nil || len(page) > 3 {
			t.Fatalf("List = %d keys, %v", len(page), err)
		}
		for _, k := range page {
			if !want[k.ID] || k.ID <= last || k.Tenant != "acme" {
				t.Errorf("key %+v after %s", k, last)
			}
			delete(want, k.ID)
			last = k.ID
		}
		pages++
		if after = next; next == "" {
			break
		}
	}
	if len(want) > 0 || pages != 3 {
		t.Errorf("%d keys were not listed, in %d pages", len(want), pages)
	}
	if page, _, err := s.Admins().List(t.Context(), "", 0); err != nil || len(page) != 1 {
		t.Errorf("administrators: %d keys, %v", len(page), err)
	}
}

func TestKeysOfAnotherTenantAreNotFound(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	credential, key := create(t, s.Of("acme"))
	theirs := s.Of("other")
	_, err := theirs.Get(t.Context(), key.ID)
	wantCode(t, "Get", err, fault.NotFound)
	wantCode(t, "Revoke", theirs.Revoke(t.Context(), key.ID), fault.NotFound)
	_, _, err = theirs.Rotate(t.Context(), key.ID, 0)
	wantCode(t, "Rotate", err, fault.NotFound)
	_, _, err = theirs.Mint(t.Context(), key.ID, &keys.Token{Thread: "t", Origin: "https://a.example"})
	wantCode(t, "Mint", err, fault.NotFound)
	if _, err := s.Verify(t.Context(), credential); err != nil {
		t.Errorf("the key is not as before: %v", err)
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	s := open(t, testdriver.New(t), nil)
	many := make([]string, keys.MaxScopes+1)
	for i := range many {
		many[i] = fmt.Sprintf("s%d", i)
	}
	for name, spec := range map[string]*keys.Spec{
		"nil": nil, "past": {Expires: time.Now().Add(-time.Second)}, "long name": {Name: strings.Repeat("x", 201)},
		"control character": {Name: "a\x00"}, "empty scope": {Scopes: []string{""}}, "space": {Scopes: []string{"a b"}},
		"twice": {Scopes: []string{"a", "a"}}, "many scopes": {Scopes: many}, "not ASCII": {Scopes: []string{"ä"}},
	} {
		_, _, err := s.Of("acme").Create(t.Context(), spec)
		wantCode(t, name, err, fault.InvalidArgument)
	}
	for _, tenant := range []string{"", "agenthost/keys", "a\n"} {
		_, _, err := s.Of(tenant).Create(t.Context(), &keys.Spec{})
		wantCode(t, fmt.Sprintf("tenant %q", tenant), err, fault.InvalidArgument)
	}
	for name, token := range map[string]*keys.Token{
		"nil": nil, "no thread": {Origin: "https://a.example"}, "no origin": {Thread: "t"}, "path": {Thread: "t", Origin: "https://a.example/"},
		"scheme": {Thread: "t", Origin: "ftp://a.example"}, "user": {Thread: "t", Origin: "https://u@a.example"},
		"any": {Thread: "t", Origin: "*"}, "null": {Thread: "t", Origin: "null"}, "upper case": {Thread: "t", Origin: "HTTPS://a.example"},
		"long life": {Thread: "t", Origin: "https://a.example", Life: 2 * time.Hour}, "negative": {Thread: "t", Origin: "https://a.example", Life: -1},
	} {
		_, _, err := s.Of("acme").Mint(t.Context(), "aaaaaaaa", token)
		wantCode(t, "token: "+name, err, fault.InvalidArgument)
	}
	_, _, err := s.Of("acme").Rotate(t.Context(), "aaaaaaaa", -1)
	wantCode(t, "a negative overlap", err, fault.InvalidArgument)
	wantCode(t, "an id that is none", s.Of("acme").Revoke(t.Context(), "../../etc"), fault.NotFound)
}

func TestTokenIsForOneThreadAndOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, kv.NewMemory(), nil)
		_, key := create(t, s.Of("acme"), "runs:write", "threads:read")
		token, expires, err := s.Of("acme").Mint(t.Context(), key.ID, &keys.Token{
			Thread: "t1", Origin: "https://app.example", Scopes: []string{"runs:write"}, Subject: "ann", Life: time.Minute,
		})
		if err != nil || expires.After(time.Now().Add(time.Minute)) {
			t.Fatalf("Mint: %v until %s", err, expires)
		}
		p, err := s.VerifyFrom(t.Context(), token, keys.Sender{Origin: "https://app.example"})
		if err != nil || p.Tenant != "acme" || p.Thread != "t1" || p.Subject != "ann" || p.Key != key.ID || p.Has("threads:read") || !p.Has("runs:write") {
			t.Errorf("Verify = %+v, %v", p, err)
		}
		for _, origin := range []string{"", "https://evil.example", "http://app.example", "null", "https://app.example:8443"} {
			_, err := s.VerifyFrom(t.Context(), token, keys.Sender{Origin: origin})
			wantCode(t, "origin "+origin, err, fault.Unauthenticated)
		}
		_, _, err = s.Of("acme").Mint(t.Context(), key.ID, &keys.Token{Thread: "t1", Origin: "https://app.example", Scopes: []string{"admin"}})
		wantCode(t, "a scope that the key does not have", err, fault.PermissionDenied)
		time.Sleep(time.Minute)
		_, err = s.VerifyFrom(t.Context(), token, keys.Sender{Origin: "https://app.example"})
		wantCode(t, "a minute later", err, fault.Unauthenticated)
	})
}

func TestHostsCreateKeysOfOneTenantAtOnce(t *testing.T) {
	d := testdriver.New(t)
	var wg sync.WaitGroup
	for range 3 {
		s := open(t, d, nil)
		wg.Go(func() {
			for range 5 {
				if _, _, err := s.Of("acme").Create(t.Context(), &keys.Spec{}); err != nil {
					t.Errorf("Create: %v", err)
				}
			}
		})
	}
	wg.Wait()
	s := open(t, d, nil)
	if n, err := s.Find(t.Context(), "acme"); n != 15 || err != nil {
		t.Errorf("Find = %d, %v", n, err)
	}
}

func TestErasedTenantHasNoKeys(t *testing.T) {
	d := testdriver.New(t)
	s := open(t, d, nil)
	credential, _ := create(t, s.Of("acme"))
	create(t, s.Of("acme"))
	kept, _ := create(t, s.Of("acme2"))
	if _, err := s.Verify(t.Context(), credential); err != nil {
		t.Fatal(err)
	}
	s.WriteUses()
	for range 2 { // also repeated
		if err := s.Erase(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Verify(t.Context(), credential)
	wantCode(t, "an erased key", err, fault.Unauthenticated)
	if _, err := s.Verify(t.Context(), kept); err != nil {
		t.Error(err)
	}
	rows := 0
	for e, err := range kv.All(t.Context(), d, keys.Partition, kv.Range{}) {
		if rows++; err != nil || strings.Contains(string(e.Value), `"acme"`) {
			t.Errorf("row %s is left: %v", e.Key, err)
		}
	}
	if rows != 2 {
		t.Errorf("%d rows, want the record and the ring of another tenant", rows)
	}
}
