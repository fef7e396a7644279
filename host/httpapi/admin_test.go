package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/erasure"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/tenants"
)

func TestATenantIsMadeChangedSuspendedAndDeleted(t *testing.T) {
	s := newServer(t, nil)
	var tenant tenants.Tenant
	resp := s.do("@root", "POST", "/v1/admin/tenants", `{"id":"acme","name":"Acme Ltd.","plan":{"models":["small"]}}`, 201, &tenant)
	if tenant.Status != tenants.Active || resp.Header.Get("Location") != "/v1/admin/tenants/acme" {
		t.Errorf("the tenant is %+v at %s", tenant, resp.Header.Get("Location"))
	}
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"acme"}`, 409, nil)
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"a\u0000b"}`, 400, nil)
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"globex","plan":{"colour":1}}`, 400, nil)
	tag := s.do("@root", "GET", "/v1/admin/tenants/acme", "", 200, &tenant).Header.Get("ETag")

	// Of two changes on condition of one revision, the second is refused.
	s.do("@root", "PATCH", "/v1/admin/tenants/acme", `{"plan":{}}`, 200, &tenant, "If-Match", tag)
	s.do("@root", "PATCH", "/v1/admin/tenants/acme", `{"name":"Other"}`, 412, nil, "If-Match", tag)
	s.do("@root", "PATCH", "/v1/admin/tenants/acme", `{"name":"Other"}`, 400, nil, "If-Match", "7")
	s.do("@root", "PATCH", "/v1/admin/tenants/acme", `{}`, 400, nil)
	s.do("@root", "PATCH", "/v1/admin/tenants/nobody", `{"name":"Other"}`, 404, nil)
	if tenant.Name != "Acme Ltd." || tenant.Plan.Models != nil {
		t.Errorf("the changed tenant is %+v", tenant)
	}

	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"target":"stuck","text":"go","thread":"t1"}`, 202, &run, "Prefer", "respond-async")
	s.do("@root", "POST", "/v1/admin/tenants/acme/suspend", `{"reason":"the invoice of March is open"}`, 200, &tenant)
	if tenant.Status != tenants.Suspended || tenant.Reason == "" {
		t.Errorf("the suspended tenant is %+v", tenant)
	}
	s.request("acme", "GET", "/v1/runs/"+run.ID+"/events", "") // until its end
	s.do("acme", "GET", "/v1/runs/"+run.ID, "", 200, &run)
	if run.Status != runs.Canceled {
		t.Errorf("the run of a suspended tenant is %s", run.Status)
	}
	s.do("@root", "POST", "/v1/admin/tenants/acme/resume", "", 200, &tenant)
	if tenant.Status != tenants.Active || tenant.Reason != "" {
		t.Errorf("the resumed tenant is %+v", tenant)
	}

	_, raw := s.request("@root", "GET", "/v1/admin/tenants/acme/export", "")
	if lines := strings.Split(string(raw), "\n"); len(lines) != 3 || !strings.Contains(lines[0], `"part":"tenant"`) || lines[1] != `{"part":"numbers","data":7}` {
		t.Errorf("the export is %s", raw)
	}
	s.do("@root", "GET", "/v1/admin/tenants/nobody/export", "", 404, nil)
	var page httpapi.TenantPage
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"globex"}`, 201, nil)
	s.do("@root", "GET", "/v1/admin/tenants?limit=1", "", 200, &page)
	if len(page.Tenants) != 1 || page.Next == "" {
		t.Fatalf("the first page is %+v", page)
	}
	s.do("@root", "GET", "/v1/admin/tenants?cursor="+page.Next, "", 200, &page)
	if len(page.Tenants) != 1 || page.Tenants[0].ID != "globex" {
		t.Errorf("the second page is %+v", page)
	}

	var report erasure.Report
	s.do("@root", "GET", "/v1/admin/tenants/acme/proof", "", 200, &report)
	if report.Gone || report.Store.Readable == 0 {
		t.Errorf("the proof before the deletion is %+v", report)
	}
	for range 2 { // a deletion may be sent again
		s.do("@root", "DELETE", "/v1/admin/tenants/acme", "", 200, &report)
		if !report.Gone || report.Tenant != "acme" {
			t.Errorf("the proof after the deletion is %+v", report)
		}
	}
	s.do("@root", "GET", "/v1/admin/tenants/acme", "", 404, nil)
	s.do("acme", "GET", "/v1/threads/t1", "", 404, nil)
}

func TestKeysAreMadeRotatedAndRevoked(t *testing.T) {
	s := newServer(t, nil)
	for path, prefix := range map[string]string{"/v1/admin/tenants/acme/keys": keys.PrefixKey, "/v1/admin/keys": keys.PrefixAdmin} {
		var made, again httpapi.IssuedKey
		resp := s.do("@root", "POST", path, `{"name":"shop","scopes":["usage:read"],"expires":"2100-01-01T00:00:00Z"}`, 201, &made)
		if !strings.HasPrefix(made.Credential, prefix) || made.Key.Name != "shop" || resp.Header.Get("Location") != path+"/"+made.Key.ID {
			t.Errorf("the key is %+v at %s", made, resp.Header.Get("Location"))
		}
		s.do("@root", "POST", path, `{"scopes":["two words"]}`, 400, nil)
		s.do("@root", "POST", path, `{"scopes":[],"expires":"2020-01-01T00:00:00Z"}`, 400, nil)
		s.do("@root", "POST", path+"/"+made.Key.ID+"/rotate", `{"overlap":"1h"}`, 200, &again)
		for _, credential := range []string{made.Credential, again.Credential} {
			if p, err := s.keys.Verify(t.Context(), credential); err != nil || p.Key != made.Key.ID {
				t.Errorf("during the overlap a credential is %+v, %v", p, err)
			}
		}
		s.do("@root", "POST", path+"/"+made.Key.ID+"/rotate", `{"overlap":"a day"}`, 400, nil)
		var key keys.Key
		s.do("@root", "GET", path+"/"+made.Key.ID, "", 200, &key)
		if key.Replaces.IsZero() {
			t.Errorf("the rotated key is %+v", key)
		}
		_, raw := s.request("@root", "GET", path, "")
		if !bytes.Contains(raw, []byte(made.Key.ID)) || bytes.Contains(raw, []byte(again.Credential)) {
			t.Errorf("the list is %s", raw)
		}
		s.do("@root", "DELETE", path+"/"+made.Key.ID, "", 204, nil)
		s.do("@root", "DELETE", path+"/"+made.Key.ID, "", 404, nil)
		if _, err := s.keys.Verify(t.Context(), again.Credential); host.CodeOf(err) != host.Unauthenticated {
			t.Errorf("a revoked key is %v", err)
		}
	}
	var made httpapi.IssuedKey
	s.do("@root", "POST", "/v1/admin/tenants/acme/keys", `{"scopes":[]}`, 201, &made)
	s.do("@root", "GET", "/v1/admin/tenants/globex/keys/"+made.Key.ID, "", 404, nil)
	s.do("@root", "GET", "/v1/admin/keys/"+made.Key.ID, "", 404, nil)
}

// TestNoKeyHasRightsThatItsMakerLacks makes and rotates keys as an administrator who may
// write keys and little else.
func TestNoKeyHasRightsThatItsMakerLacks(t *testing.T) {
	s := newServer(t, nil)
	const few = "@root/keys:write,keys:read"
	var all, own httpapi.IssuedKey
	s.do("@root", "POST", "/v1/admin/keys", `{"scopes":["keys:write","tenants:write"]}`, 201, &all)
	s.do(few, "POST", "/v1/admin/keys", `{"scopes":["keys:read"]}`, 201, &own)
	var refused httpapi.Problem
	s.do(few, "POST", "/v1/admin/keys", `{"scopes":["keys:read","tenants:write"]}`, 403, &refused)
	if refused.Code != host.PermissionDenied || !strings.Contains(refused.Detail, "tenants:write") || refused.Hint == "" {
		t.Errorf("a key beyond the maker's is answered %+v", refused)
	}
	s.do(few, "POST", "/v1/admin/keys/"+all.Key.ID+"/rotate", `{"overlap":"1h"}`, 403, &refused)
	if p, err := s.keys.Verify(t.Context(), all.Credential); err != nil || !p.Has("tenants:write") {
		t.Errorf("the key that was not rotated is %+v, %v", p, err)
	}
	s.do(few, "POST", "/v1/admin/keys/"+own.Key.ID+"/rotate", `{}`, 200, nil)
	s.do("@root", "POST", "/v1/admin/keys/"+all.Key.ID+"/rotate", `{}`, 200, nil)
	s.do(few, "POST", "/v1/admin/keys/abcd2345/rotate", `{}`, 404, nil)

	// The scopes of a tenant's key are those of tenants, and an administrator's of administrators.
	s.do(few, "POST", "/v1/admin/tenants/acme/keys", `{"scopes":["threads:read"]}`, 201, nil)
	for path, scope := range map[string]string{"/v1/admin/tenants/acme/keys": "tenants:write", "/v1/admin/keys": "threads:read"} {
		for _, unknown := range []string{scope, "thread:read", "*", ""} {
			s.do("@root", "POST", path, fmt.Sprintf(`{"scopes":[%q]}`, unknown), 400, &refused)
			if refused.Code != host.InvalidArgument || refused.Hint == "" {
				t.Errorf("the scope %q at %s is answered %+v", unknown, path, refused)
			}
		}
	}
}

// TestAdministratorsAreApartFromTenants sends each operation of the document with a real
// key of the other kind.
func TestAdministratorsAreApartFromTenants(t *testing.T) {
	s := newServer(t, nil)
	_, admin, err := create(t, s.keys.Admins(), append(httpapi.AdminScopes(), httpapi.Scopes()...))
	must(t, err)
	_, tenant, err := create(t, s.keys.Of("acme"), append(httpapi.AdminScopes(), httpapi.Scopes()...))
	must(t, err)
	real := reachedBy(t, s, s.keys.Authenticate)
	paths := strings.NewReplacer("{tenant}", "acme", "{key}", "abcd2345", "{thread}", "t", "{run}", "r", "{message}", "m", "{digest}", "d")
	seen := 0
	for _, op := range operations(t, s) {
		var of struct {
			Security *[]any `json:"security"`
		}
		must(t, json.Unmarshal(op.raw, &of))
		if of.Security != nil || op.id == "me" { // open to everyone, or to each credential
			continue
		}
		other := admin
		if strings.HasPrefix(op.path, "/v1/admin") {
			other = tenant
		}
		seen++
		resp, raw := real.request(other, op.method, paths.Replace(op.path), "{}")
		if resp.StatusCode != 403 || !bytes.Contains(raw, []byte("administrator")) {
			t.Errorf("%s answers a credential of the other kind with %d %s", op.id, resp.StatusCode, raw)
		}
	}
	if seen < 40 {
		t.Errorf("%d operations were called", seen)
	}
	var me httpapi.Me
	real.do(admin, "GET", "/v1/me", "", 200, &me)
	if !me.Admin || me.Tenant != "" {
		t.Errorf("an administrator is %+v", me)
	}
	real.do(admin, "GET", "/v1/admin/keys", "", 200, nil)
	real.do(tenant, "GET", "/v1/threads", "", 200, nil)
	s.do("@root/tenants:read", "POST", "/v1/admin/tenants", `{"id":"acme"}`, 403, nil)
	s.do("@root/tenants:read", "GET", "/v1/admin/tenants", "", 200, nil)
}

func create(t *testing.T, ring *keys.Keyring, scopes []string) (id, credential string, err error) {
	t.Helper()
	slices.Sort(scopes)
	credential, key, err := ring.Create(t.Context(), &keys.Spec{Scopes: slices.Compact(scopes)})
	if err != nil {
		return "", "", err
	}
	return key.ID, credential, nil
}

// reachedBy returns the same routes for the holders of real credentials.
func reachedBy(t *testing.T, s *server, authenticate httpapi.Authenticate) *server {
	t.Helper()
	api, err := httpapi.New(authenticate, s.options)
	must(t, err)
	other := *s
	other.Server = httptest.NewServer(api)
	t.Cleanup(other.Close)
	return &other
}

func TestATokenReachesOneThreadFromOneOrigin(t *testing.T) {
	s := newServer(t, nil)
	_, key, err := create(t, s.keys.Of("acme"), httpapi.Scopes())
	must(t, err)
	real := reachedBy(t, s, s.keys.Authenticate)
	real.do(key, "POST", "/v1/runs", `{"thread":"own","text":"hello"}`, 200, nil)
	real.do(key, "POST", "/v1/runs", `{"thread":"else","text":"hello"}`, 200, nil)
	var token httpapi.IssuedToken
	real.do(key, "POST", "/v1/tokens", `{"thread":"own","origin":"https://app.example.com","scopes":["threads:read","tokens:mint"],"life":"1m"}`, 201, &token)
	at := []string{"Origin", "https://app.example.com"}
	real.do(token.Token, "GET", "/v1/threads/own/messages", "", 200, nil, at...)
	real.do(token.Token, "GET", "/v1/threads/else/messages", "", 404, nil, at...)
	real.do(token.Token, "GET", "/v1/threads/own/messages", "", 401, nil, "Origin", "https://evil.test")
	real.do(token.Token, "POST", "/v1/runs", `{"thread":"own","text":"hello"}`, 403, nil, at...)
	real.do(token.Token, "POST", "/v1/tokens", `{"thread":"own","origin":"https://app.example.com","scopes":[]}`, 403, nil, at...) // a token makes none
	for _, body := range []string{
		`{"thread":"own","origin":"https://app.example.com/page","scopes":[]}`, `{"origin":"https://app.example.com","scopes":[]}`,
		`{"thread":"own","origin":"https://app.example.com","scopes":[],"life":"2h"}`,
	} {
		real.do(key, "POST", "/v1/tokens", body, 400, nil)
	}
	real.do(key, "POST", "/v1/tokens", `{"thread":"own","origin":"https://app.example.com","scopes":["tenants:write"]}`, 403, nil)
}

func TestAnAdministratorReadsEachTenantsUsage(t *testing.T) {
	s := newServer(t, nil)
	s.do("acme", "POST", "/v1/runs", `{"text":"hello"}`, 200, nil)
	var bill httpapi.Bill
	var records httpapi.UsageRecords
	s.do("@root", "GET", "/v1/admin/tenants/acme/usage", "", 200, &bill)
	s.do("@root", "GET", "/v1/admin/tenants/acme/usage/records?key=k-acme", "", 200, &records)
	if bill.Total.Runs != 1 || len(records.Records) != 1 || records.Records[0].Key != "k-acme" {
		t.Errorf("the bill is %+v, the records %+v", bill, records)
	}
	var other httpapi.Bill
	s.do("@root", "GET", "/v1/admin/tenants/globex/usage", "", 200, &other)
	if other.Total.Runs != 0 {
		t.Errorf("another tenant's bill is %+v", other)
	}
	s.do("@root", "GET", "/v1/admin/tenants/acme/usage/limits", "", 200, nil)
}

// TestChangesAreInTheAuditLog reads the entries of changes by a tenant and by an
// administrator.
func TestChangesAreInTheAuditLog(t *testing.T) {
	s := newServer(t, nil)
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"acme"}`, 201, nil, "X-Request-Id", "r-1")
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"acme"}`, 409, nil)
	s.do("@root", "POST", "/v1/admin/tenants/acme/suspend", `{"reason":"a secret reason"}`, 200, nil)
	s.do("@root", "POST", "/v1/admin/tenants/acme/resume", "", 200, nil)
	var made httpapi.IssuedKey
	s.do("@root", "POST", "/v1/admin/tenants/acme/keys", `{"scopes":[]}`, 201, &made)
	s.do("acme", "POST", "/v1/runs", `{"text":"hello","thread":"t1"}`, 200, nil)
	s.do("acme", "DELETE", "/v1/threads/t1", "", 204, nil)
	s.do("acme", "POST", "/v1/admin/tenants/globex/suspend", "{}", 403, nil)
	s.do("wrong", "DELETE", "/v1/threads/t1", "", 401, nil)
	s.do("@root", "POST", "/v1/admin/tenants", `{`, 400, nil)

	var page httpapi.AuditPage
	s.do("@root", "GET", "/v1/admin/audit", "", 200, &page)
	got := []string{}
	for _, e := range slices.Backward(page.Entries) {
		got = append(got, fmt.Sprintf("%s %s %s %s %s", e.Actor, e.Action, e.Tenant, e.Object, e.Outcome))
	}
	want := []string{
		"admin/root tenant.create acme tenant/acme allowed",
		"admin/root tenant.create acme tenant/acme allowed", "admin/root tenant.create acme tenant/acme already_exists",
		"admin/root tenant.suspend acme tenant/acme allowed",
		"admin/root tenant.resume acme tenant/acme allowed",
		"admin/root key.create acme tenant/acme allowed", "admin/root key.create acme key/" + made.Key.ID + " done",
		"key/k-acme thread.delete acme thread/t1 allowed",
		"key/k-acme tenant.suspend globex tenant/globex denied",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if first := page.Entries[len(page.Entries)-1]; first.Request != "r-1" {
		t.Errorf("the first entry is of request %q", first.Request)
	}
	var first, second httpapi.AuditPage
	s.do("@root", "GET", "/v1/admin/audit?tenant=acme&limit=2", "", 200, &first)
	s.do("@root", "GET", "/v1/admin/audit?tenant=acme&limit=2&cursor="+first.Next, "", 200, &second)
	if len(first.Entries) != 2 || len(second.Entries) != 2 || second.Entries[0].Seq >= first.Entries[1].Seq {
		t.Errorf("two pages are %+v and %+v", first, second)
	}
	s.do("@root", "GET", "/v1/admin/audit?object=key/"+made.Key.ID, "", 200, &first)
	if len(first.Entries) != 1 {
		t.Errorf("of the key there is %+v", first.Entries)
	}
	for _, query := range []string{"?from=May", "?cursor=0", "?limit=5000"} {
		s.do("@root", "GET", "/v1/admin/audit"+query, "", 400, nil)
	}

	var head httpapi.AuditHead
	s.do("@root", "GET", "/v1/admin/audit/verify", "", 200, &head)
	_, lines := s.request("@root", "GET", "/v1/admin/audit/export", "")
	read, err := audit.VerifyExport(audit.Head{}, bytes.NewReader(lines))
	if err != nil || read.Seq != head.Seq+1 { // the export is an entry, too
		t.Errorf("the export ends with %d, %v, and the head is %d", read.Seq, err, head.Seq)
	}
	s.do("@root", "GET", fmt.Sprintf("/v1/admin/audit/verify?seq=%d&sum=%s", head.Seq, head.Sum), "", 200, nil)
	s.do("@root", "GET", fmt.Sprintf("/v1/admin/audit/verify?seq=%d&sum=%s", head.Seq, strings.Repeat("0", 64)), "", 500, nil)
	s.do("@root", "GET", "/v1/admin/audit/verify?seq=1", "", 400, nil)
}

func TestEachChangeHasAnActionInTheAuditLog(t *testing.T) {
	s := newServer(t, nil)
	// A run has a record of usage with its key, and there are thousands of them in a second.
	// Two others read.
	unwritten := []string{"startRun", "createChatCompletion", "createResponse", "sessionTurn", "sessionSnapshot", "sessionWait"}
	for _, op := range operations(t, s) {
		if _, written := httpapi.AuditAction(s.api, op.id); op.method != "GET" && written == slices.Contains(unwritten, op.id) {
			t.Errorf("%s is written to the audit log: %t", op.id, written)
		}
	}
}

func TestFewDeniedChangesAreInTheAuditLog(t *testing.T) {
	s := newServer(t, nil)
	for range 50 {
		s.do("acme", "POST", "/v1/admin/tenants", `{"id":"x"}`, 403, nil)
		s.do("wrong", "POST", "/v1/admin/tenants", `{"id":"x"}`, 401, nil)
	}
	suspended := reachedBy(t, s, func(*http.Request) (*keys.Principal, error) {
		return nil, host.Errorf(host.PermissionDenied, "the tenant is not active")
	})
	suspended.do("acme", "DELETE", "/v1/threads/t1", "", 403, nil)
	page, err := s.audit.List(t.Context(), &audit.Filter{Limit: 1000})
	must(t, err)
	if n := len(page.Entries); n == 0 || n > 20 { // in at most two windows
		t.Errorf("50 denied changes are %d entries", n)
	}
	if strange := slices.IndexFunc(page.Entries, func(e *audit.Entry) bool { return e.Actor != "key/k-acme" }); strange >= 0 {
		t.Errorf("a caller that is not known has the entry %+v", page.Entries[strange])
	}
}

func TestNothingIsChangedWithoutAnEntry(t *testing.T) {
	s := newServer(t, nil)
	s.do("acme", "POST", "/v1/threads", `{"id":"t1"}`, 201, nil)
	s.full.Store(true)
	s.do("@root", "POST", "/v1/admin/tenants", `{"id":"acme"}`, 503, nil)
	s.do("acme", "DELETE", "/v1/threads/t1", "", 503, nil)
	s.full.Store(false)
	s.do("@root", "GET", "/v1/admin/tenants/acme", "", 404, nil)
	s.do("acme", "GET", "/v1/threads/t1", "", 200, nil)
}

func TestABackupIsWholeOrCutOff(t *testing.T) {
	s := newServer(t, nil)
	resp, raw := s.request("@root", "GET", "/v1/admin/backup", "")
	if resp.StatusCode != 200 || string(raw) != "all of it" {
		t.Errorf("the backup is %d %s", resp.StatusCode, raw)
	}
	broken := newServer(t, func(o *httpapi.Options) {
		o.Admin.Backup = func(_ context.Context, w io.Writer) error {
			_, _ = io.WriteString(w, strings.Repeat("half of it", 10_000))
			return host.Errorf(host.Unavailable, "the disk is gone")
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), "GET", broken.URL+"/v1/admin/backup", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer @root")
	if resp, err = broken.Client().Do(req); err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("a backup that failed is read as if it were whole")
	}
}
