package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testhost"
)

// Scenario: requests that cannot be answered come to each route of the document.

// refusal is an error of either form: a Problem, or that of the routes of sessions.
type refusal struct {
	Code, Detail, Hint string
}

// refusalOf reads an answer that is an error, and checks its form.
func refusalOf(t interface {
	Helper()
	Errorf(string, ...any)
}, what string, op operation, resp *http.Response, raw []byte) (r refusal) {
	t.Helper()
	if strings.HasPrefix(op.path, "/v1/sessions") {
		var body struct {
			Error *host.Error `json:"error"`
		}
		if json.Unmarshal(raw, &body) != nil || body.Error == nil || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: the answer is %d %s", what, resp.StatusCode, raw)
			return r
		}
		r = refusal{string(body.Error.Code), body.Error.Message, body.Error.Hint}
	} else if isOpenAI(op) {
		var body struct {
			Error *struct{ Message, Type, Code string } `json:"error"`
		}
		if json.Unmarshal(raw, &body) != nil || body.Error == nil || body.Error.Type == "" || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: the answer is %d %s", what, resp.StatusCode, raw)
			return r
		}
		text, hint, _ := strings.Cut(body.Error.Message, ": ")
		r = refusal{body.Error.Code, text, hint}
	} else {
		var p httpapi.Problem
		if json.Unmarshal(raw, &p) != nil || p.Status != resp.StatusCode || p.Title == "" && p.Status != 499 || p.Request != resp.Header.Get("X-Request-Id") || resp.Header.Get("Content-Type") != httpapi.ProblemType {
			t.Errorf("%s: the answer is %d %s", what, resp.StatusCode, raw)
		}
		r = refusal{string(p.Code), p.Detail, p.Hint}
	}
	if r.Code == "" || r.Detail == "" {
		t.Errorf("%s: the refusal is %+v", what, r)
	}
	for _, code := range []string{"goroutine ", ".go:", "json:", "unmarshal", os.TempDir(), "github.com"} {
		if strings.Contains(string(raw), code) {
			t.Errorf("%s shows %q of the program: %s", what, code, raw)
		}
	}
	return r
}

// isOpenAI reports whether an operation is one of OpenAI's API, with its form of errors.
func isOpenAI(op operation) bool {
	return slices.ContainsFunc([]string{"/v1/models", "/v1/chat/", "/v1/responses"}, func(prefix string) bool { return strings.HasPrefix(op.path, prefix) })
}

func TestEveryRouteRefusesBadCredentials(t *testing.T) {
	s := newServer(t, nil)
	own := s.fill("acme")
	for _, op := range operationsOfTenants(t, s) {
		var of struct {
			Security *[]any `json:"security"`
		}
		must(t, json.Unmarshal(op.raw, &of))
		if of.Security != nil && len(*of.Security) == 0 {
			continue // for everyone
		}
		e, with := exampleOf(t, op.id), own.of(op)
		for name, c := range map[string]struct {
			credential string
			status     int
		}{
			"missing": {"", 401}, "wrong": {"wrong", 401}, "expired": {"expired", 401}, "without a tenant": {"/", 401}, "of a suspended tenant": {"suspended", 403},
			"without the scope": {"acme/nothing:read", 403}, "an administrator's": {"@root", 403},
		} {
			if op.id == "me" && c.status == 403 && c.credential != "suspended" {
				continue // it is for any credential
			}
			resp, raw := s.request(c.credential, op.method, with.replace(op.path), with.replace(e.body), e.headers...)
			r := refusalOf(t, op.id+", a credential that is "+name, op, resp, raw)
			if resp.StatusCode != c.status || c.status == 401 && resp.Header.Get("WWW-Authenticate") == "" || r.Hint == "" && name == "missing" {
				t.Errorf("%s, a credential that is %s: the answer is %d %s, want %d", op.id, name, resp.StatusCode, raw, c.status)
			}
		}
	}
}

func TestEveryRouteRefusesBadQueriesAndIDs(t *testing.T) {
	s := newServer(t, nil)
	own := s.fill("acme")
	for _, op := range operationsOfTenants(t, s) {
		e, with := exampleOf(t, op.id), own.of(op)
		for _, query := range []string{"tenant=umbrella", "limit=1&limit=2", "%zz=1", "q=%ff", "cursor=" + strings.Repeat("x", 9000)} {
			if op.id == "metrics" {
				continue
			}
			resp, raw := s.request("acme", op.method, with.replace(op.path)+"?"+query, with.replace(e.body), e.headers...)
			if refusalOf(t, op.id+"?"+query[:min(len(query), 20)], op, resp, raw); resp.StatusCode != 400 && resp.StatusCode != 414 {
				t.Errorf("%s?%.20s: the answer is %d %s", op.id, query, resp.StatusCode, raw)
			}
		}
		for name := range own {
			if !strings.Contains(op.path, "{"+name+"}") {
				continue
			}
			for _, id := range []string{"%00", "%ff", "..%2f..%2fetc%2fpasswd", strings.Repeat("x", 300), "%ed%a0%80", "%0d%0aX-Evil:1"} {
				path := strings.ReplaceAll(op.path, "{"+name+"}", id)
				resp, raw := s.request("acme", op.method, with.replace(path)+"?"+with.replace(e.query), with.replace(e.body), e.headers...)
				if refused := resp.StatusCode >= 400 && resp.StatusCode < 500; !refused && op.id != "uploadPlugin" || resp.Header.Get("X-Evil") != "" {
					t.Errorf("%s with %s %s: the answer is %d %s", op.id, name, id, resp.StatusCode, raw)
				} else if refused {
					refusalOf(t, op.id+" with "+name+" "+id, op, resp, raw)
				}
			}
		}
	}
}

// bodies are bodies that no route takes.
func badBodies(limit int) map[string]string {
	return map[string]string{
		"empty": "", "not JSON": "text=go", "an array": "[1]", "a number": "7", "cut off": `{"a":`, "two values": `{} {}`,
		"a member twice": `{"a":1,"a":2}`, "not UTF-8": "{\"a\":\"\xff\"}", "a huge number": `{"a":1e999999}`,
		"too deep":  strings.Repeat(`{"a":`, limit/6-10) + "1" + strings.Repeat("}", limit/6-10),
		"too large": `{"a":"` + strings.Repeat("x", limit) + `"}`,
	}
}

func TestEveryRouteRefusesBadBodies(t *testing.T) {
	const limit = 64 << 10
	s := newServer(t, func(o *httpapi.Options) {
		o.Bounds.MaxBodyBytes, o.Bounds.MaxModuleBytes, o.Bounds.MaxFileBytes = limit, limit, limit
	})
	own := s.fill("acme")
	before := s.state("acme", own)
	for _, op := range operationsOfTenants(t, s) {
		var of struct {
			RequestBody struct {
				Content map[string]any `json:"content"`
			} `json:"requestBody"`
		}
		must(t, json.Unmarshal(op.raw, &of))
		session := strings.HasPrefix(op.path, "/v1/sessions")
		_, takesJSON := of.RequestBody.Content["application/json"]
		for name, body := range badBodies(limit) {
			if len(of.RequestBody.Content) == 0 || !takesJSON && (name != "too large" || op.id == "putSessionArtifact") {
				continue // files are refused in tests of their own; sessions take any
			}
			if session && name == "too large" {
				continue // the limit is the service's, and the test that of host/sessions
			}
			if session && strings.HasPrefix(name, "a number") {
				body = `"text"`
			}
			resp, raw := s.request("acme", op.method, own.of(op).replace(op.path), body)
			want := 400
			if name == "too large" {
				want = 413
			}
			if refusalOf(t, op.id+" with a body that is "+name, op, resp, raw); resp.StatusCode != want {
				t.Errorf("%s with a body that is %s: the answer is %d %.300s, want %d", op.id, name, resp.StatusCode, raw, want)
			}
		}
		if takesJSON && !session {
			for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "nonsense/", "application/json; charset"} {
				resp, raw := s.request("acme", op.method, own.of(op).replace(op.path), `{}`, "Content-Type", media)
				if refusalOf(t, op.id+" as "+media, op, resp, raw); resp.StatusCode != http.StatusUnsupportedMediaType {
					t.Errorf("%s as %s: the answer is %d %s", op.id, media, resp.StatusCode, raw)
				}
			}
		}
	}
	if after := s.state("acme", own); after != before {
		t.Errorf("refused bodies changed\n%s to\n%s", before, after)
	}
}

// TestOddTextsAreTexts sends what JSON allows and few expect: a NUL, half a pair of surrogates,
// which becomes U+FFFD, and characters that change the direction of text.
func TestOddTextsAreTexts(t *testing.T) {
	s := newServer(t, nil)
	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs", `{"text":"a\u0000b\ud800c\u202e"}`, 200, &run)
	if run.Text != "you said a\x00b\uFFFDc\u202e" {
		t.Errorf("the answer is %q", run.Text)
	}
	s.do("acme", "POST", "/v1/threads", `{"id":"a\u0000b"}`, 400, nil)
	s.do("acme", "POST", "/v1/threads", `{"title":"a\u0000b"}`, 201, nil)
	s.do("acme", "POST", "/v1/memories?user=a%00b", `{"text":"x"}`, 400, nil)
}

// TestFuzzedPathsShowNothing sends ids and paths that were changed at random, of one tenant,
// with the credential of another.
func TestFuzzedPathsShowNothing(t *testing.T) {
	s := newServer(t, nil)
	own := s.fill("acme")
	before := s.state("acme", own)
	ops := operationsOfTenants(t, s)
	pieces := []string{"", "/", "..", "%2f", "%00", "acme/", "/acme", "acme", "%61cme", "*", "%", "\\", "%c0%af", "?", "#", ";", "%e2%80%ae", " ", "@root", "{thread}"}
	rapid.Check(t, func(rt *rapid.T) {
		op := rapid.SampledFrom(ops).Draw(rt, "op")
		with, of := ids{}, own.of(op)
		for _, name := range slices.Sorted(maps.Keys(of)) {
			id := url.PathEscape(of[name])
			at := rapid.IntRange(0, len(id)).Draw(rt, "at "+name)
			with[name] = id[:at] + rapid.SampledFrom(pieces).Draw(rt, "piece "+name) + id[at:]
			if rapid.Bool().Draw(rt, "upper "+name) {
				with[name] = strings.ToUpper(with[name])
			}
		}
		method := rapid.SampledFrom([]string{op.method, "GET", "POST", "HEAD", "OPTIONS", "TRACE"}).Draw(rt, "method")
		path := rapid.SampledFrom(pieces).Draw(rt, "prefix") + with.replace(op.path)
		raw := s.raw(method, "/"+strings.TrimPrefix(path, "/"), rapid.SampledFrom([]string{"acmex", "umbrella", "@root"}).Draw(rt, "credential"), with.replace(exampleOf(t, op.id).body))
		sent := path + strings.ReplaceAll(path, "%61", "a") + with.replace(exampleOf(t, op.id).body) // an answer may repeat it
		checkBlind(rt, method+" "+path, "acme", own, sent, raw)
		if strings.Contains(string(raw), " 500 ") {
			rt.Errorf("%s %s: %s", method, path, raw)
		}
	})
	if after := s.state("acme", own); after != before {
		t.Errorf("the requests changed\n%s to\n%s", before, after)
	}
}

func TestPathsThatAreNotCleanAreNotFound(t *testing.T) {
	s := newServer(t, nil)
	for _, path := range []string{"//v1/me", "/v1//me", "/v1/threads/../me", "/v1/./me", "/..", "/v1/me//"} {
		raw := string(s.raw("GET", path, "acmex", ""))
		if !strings.Contains(raw, " 404 ") || !strings.Contains(raw, "application/problem+json") {
			t.Errorf("GET %s: %s", path, raw)
		}
	}
}

// raw sends a request whose line no client would write, and returns the answer as it came.
func (s *server) raw(method, path, credential, body string) []byte {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	must(s.t, err)
	defer conn.Close()
	must(s.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", method, strings.ReplaceAll(path, " ", "%20"), credential, len(body), body)
	must(s.t, err)
	raw, _ := io.ReadAll(conn) // an answer before the body's end may end in a reset
	return raw
}

// TestSlowRequestsEnd sends a header or a body that does not come to its end.
func TestSlowRequestsEnd(t *testing.T) {
	const short = 50 * time.Millisecond
	s := newServer(t, nil)
	own := s.fill("acme") // with bodies that may take longer
	options := *s.options
	options.Bounds.BodyTimeout, options.Bounds.UploadTimeout = short, short
	impatient, err := httpapi.New(credential, &options)
	must(t, err)
	bounded := httptest.NewServer(impatient)
	defer bounded.Close()
	strict := httptest.NewUnstartedServer(s.api)
	strict.Config.MaxHeaderBytes = 16 << 10
	strict.Start()
	defer strict.Close()
	answer := func(of *httptest.Server, request string) (status int) {
		conn, err := net.Dial("tcp", of.Listener.Addr().String())
		must(t, err)
		defer conn.Close()
		must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = io.WriteString(conn, request) // the server may have ended it
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0 // the connection was closed
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	hasty := httptest.NewUnstartedServer(s.api)
	hasty.Config.ReadHeaderTimeout = short
	hasty.Start()
	defer hasty.Close()
	if got := answer(hasty, "GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Slow: "); got != 0 && got != http.StatusRequestTimeout {
		t.Errorf("a header that does not end is answered %d", got)
	}
	if got := answer(strict, "GET /v1/me HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-Many: 1234567890\r\n", 4000)+"\r\n"); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("thousands of headers are answered %d", got)
	}
	for _, op := range operationsOfTenants(t, s) {
		if !strings.Contains(string(op.raw), `"requestBody"`) {
			continue
		}
		got := answer(bounded, fmt.Sprintf("%s %s?%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\nContent-Length: 100\r\n\r\n{", op.method, own.of(op).replace(op.path), own.replace(exampleOf(t, op.id).query)))
		if got != http.StatusRequestTimeout && !(strings.HasPrefix(op.path, "/v1/sessions") && got >= 400 && got < 500) {
			t.Errorf("%s with a body that does not end is answered %d", op.id, got)
		}
	}
}

// TestCanceledRequestsLeaveTheServerWhole closes the connection of a request to each route.
func TestCanceledRequestsLeaveTheServerWhole(t *testing.T) {
	s := newServer(t, nil)
	for _, op := range operationsOfTenants(t, s) {
		tenant := "of-" + op.id
		e := exampleOf(t, op.id)
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		must(t, err)
		with := ids{"target": "stuck", "thread": "t1"}
		body := with.replace(e.body)
		_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", op.method, with.replace(strings.NewReplacer("{", "", "}", "").Replace(op.path)), tenant, len(body), body)
		must(t, err)
		must(t, conn.Close())
		s.do(tenant, "GET", "/v1/me", "", 200, nil)
	}
}

// TestWorkThatALimitRefuses is answered with 429 and Retry-After, before any event, on each
// route that starts work.
func TestWorkThatALimitRefuses(t *testing.T) {
	s := newServer(t, nil)
	budget := func(tokens int64) {
		must(t, s.options.Ledger.SetPlan("acme", &usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: tokens, Window: usage.CalendarMonth}}}))
	}
	budget(1_000_000)
	own := s.fill("acme")
	budget(1)
	for _, op := range operationsOfTenants(t, s) {
		if !slices.Contains([]string{"startRun", "sessionTurn", "answerRun", "createChatCompletion", "createResponse"}, op.id) {
			continue
		}
		for _, headers := range [][]string{nil, {"Accept", "text/event-stream"}, {"Accept", "application/x-ndjson"}, {"Prefer", "respond-async"}} {
			if op.id == "sessionTurn" && headers != nil && headers[0] == "Prefer" {
				continue // it has detach
			}
			with := own.of(op)
			resp, raw := s.request("acme", op.method, with.replace(op.path), with.replace(exampleOf(t, op.id).body), headers...)
			if refusalOf(t, op.id, op, resp, raw); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s, %v: the answer is %d %v %s", op.id, headers, resp.StatusCode, resp.Header, raw)
			}
		}
	}
}

// lateLedger refuses each run when it is released.
type lateLedger struct {
	host.Ledger
	released chan struct{}
}

func (l lateLedger) AdmitRun(context.Context, string, string) error {
	<-l.released
	refusal := host.Errorf(host.ResourceExhausted, "the budget is used up")
	refusal.RetryAfter = time.Minute
	return refusal
}

// TestAStreamOfARunThatIsRefusedLateIsAProblem refuses a run when its client waits for the
// first event.
func TestAStreamOfARunThatIsRefusedLateIsAProblem(t *testing.T) {
	ledger := lateLedger{released: make(chan struct{})}
	s := newServer(t, func(o *httpapi.Options) {
		h := testhost.New(t, &host.Options{Ledger: ledger})
		var err error
		o.Runs, err = runs.New(h, &runs.Options{StartWait: time.Nanosecond})
		must(t, err)
		t.Cleanup(func() { must(t, o.Runs.Close()) })
	})
	go func() {
		defer close(ledger.released)
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
			page, err := s.options.Runs.List(context.Background(), &runs.ListRequest{Tenant: "acme"})
			if err != nil {
				t.Error(err)
				return
			}
			if len(page.Runs) > 0 {
				return
			}
		}
		t.Error("the run is not listed")
	}()
	resp, raw := s.request("acme", "POST", "/v1/runs", `{"text":"go"}`, "Accept", "text/event-stream")
	var p httpapi.Problem
	if json.Unmarshal(raw, &p) != nil || resp.StatusCode != http.StatusTooManyRequests || p.Code != host.ResourceExhausted || resp.Header.Get("Content-Type") != httpapi.ProblemType || resp.Header.Get("Retry-After") != "60" {
		t.Errorf("the answer is %d %v %s", resp.StatusCode, resp.Header, raw)
	}
}
