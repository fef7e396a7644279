package bedrock_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/bedrock"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// signature computes Signature Version 4 by AWS's description of it, from a request as a
// server has received it. It shares no code with the signer.
func signature(r *http.Request, body []byte, secret, scope string, signedHeaders []string) string {
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	for _, name := range signedHeaders {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	sum := sha256.Sum256(body)
	fmt.Fprintf(&canonical, "\n%s\n%s", strings.Join(signedHeaders, ";"), hex.EncodeToString(sum[:]))
	request := sha256.Sum256([]byte(canonical.String()))
	toSign := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + hex.EncodeToString(request[:])
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, toSign))
}

// The verifier of these tests agrees with the vector get-vanilla of AWS's test suite for
// Signature Version 4.
func TestTheVerifierAgreesWithAWS(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://example.amazonaws.com/", nil)
	r.Header.Set("X-Amz-Date", "20150830T123600Z")
	got := signature(r, nil, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830/us-east-1/service/aws4_request", []string{"host", "x-amz-date"})
	if want := "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	token     = "session-token-of-a-role"
)

// verify returns the first fault of the signature of a request; "" if the signature is valid.
func verify(r *http.Request, body []byte, secret, service string, now time.Time) string {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return "it is not signed"
	}
	fields := map[string]string{}
	for f := range strings.SplitSeq(rest, ", ") {
		name, value, _ := strings.Cut(f, "=")
		fields[name] = value
	}
	id, scope, _ := strings.Cut(fields["Credential"], "/")
	if want := now.UTC().Format("20060102") + "/eu-west-1/" + service + "/aws4_request"; id != accessKey || scope != want {
		return fmt.Sprintf("credential %s of scope %s, want %s", id, scope, want)
	}
	signed := strings.Split(fields["SignedHeaders"], ";")
	for _, must := range []string{"host", "x-amz-date", "x-amz-security-token", "content-type"} {
		if !slices.Contains(signed, must) {
			return "it does not sign " + must
		}
	}
	if r.Header.Get("X-Amz-Date") != now.UTC().Format("20060102T150405Z") || r.Header.Get("X-Amz-Security-Token") != token {
		return "it has another date or token"
	}
	if got := signature(r, body, secret, scope, signed); got != fields["Signature"] {
		return "signature " + fields["Signature"] + ", want " + got
	}
	return ""
}

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newClient(t *testing.T, service string) *http.Client {
	t.Helper()
	c, err := bedrock.NewClient(&bedrock.Options{Region: "eu-west-1", Service: service, Now: func() time.Time { return now },
		Credentials: func(context.Context) (bedrock.Credentials, error) {
			return bedrock.Credentials{accessKey, secretKey, token}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// A service on loopback that verifies each request answers the models of two protocols, for
// requests that are short and those that are sent in pieces.
func TestModelsReachAServiceThatVerifiesSignatures(t *testing.T) {
	for _, tt := range []struct {
		name, service, path, stream string
		model                       func(base string, client *http.Client) (llm.Model, error)
	}{
		{"the Messages API", "", "/anthropic/v1/messages",
			`data: {"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
				`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hello."}}` + "\n\n" +
				`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n",
			func(base string, client *http.Client) (llm.Model, error) {
				return anthropicmodel.New("anthropic.claude-sonnet-4-5-20250929-v1:0", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: base + "/anthropic", HTTPClient: client, MaxRetries: -1}})
			}},
		{"chat completions", "bedrock-mantle", "/openai/v1/chat/completions",
			`data: {"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
			func(base string, client *http.Client) (llm.Model, error) {
				return openaimodel.New("openai.gpt-oss-120b", &openaimodel.Options{Server: modelhttp.Options{BaseURL: base + "/openai/v1", HTTPClient: client, MaxRetries: -1}})
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			service := tt.service
			if service == "" {
				service = bedrock.DefaultService
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if wrong := verify(r, body, secretKey, service, now); err != nil || wrong != "" || r.URL.Path != tt.path {
					t.Errorf("request to %s: %s, %v", r.URL.Path, wrong, err)
				}
				if verify(r, append(body, ' '), secretKey, service, now) == "" || verify(r, body, "another", service, now) == "" {
					t.Error("another body or key has the same signature")
				}
				modeltest.Answer(http.StatusOK, "text/event-stream", tt.stream)(w, r)
			}))
			defer server.Close()
			model, err := tt.model(server.URL, newClient(t, tt.service))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"hi", strings.Repeat("a long text, ", 10_000)} {
				req := &llm.Request{Messages: []*chat.Message{chat.UserText(text), chat.AssistantText("Yes?"), chat.UserText("hello")}}
				if o := modeltest.Ask(t.Context(), model, req); o.Err != nil || o.Text != "Hello." {
					t.Errorf("answer %q, %v", o.Text, o.Err)
				}
			}
		})
	}
}

// AWS repeats in a refusal what it expected to be signed, the token of the session included.
func TestRefusalsShowNoCredentials(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		modeltest.Answer(http.StatusForbidden, "application/json",
			`{"message":"The request signature we calculated does not match. The Canonical String should have been 'POST\nx-amz-security-token:`+r.Header.Get("X-Amz-Security-Token")+`' `+secretKey+`"}`)(w, r)
	}))
	defer server.Close()
	m, err := anthropicmodel.New("m", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: server.URL, HTTPClient: newClient(t, ""), MaxRetries: -1}})
	if err != nil {
		t.Fatal(err)
	}
	o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
	if fault.CodeOf(o.Err) != fault.PermissionDenied || strings.Contains(o.Err.Error(), token) || strings.Contains(o.Err.Error(), secretKey) || !strings.Contains(o.Err.Error(), "signature") {
		t.Errorf("%v", o.Err)
	}
}

// A signed request goes to no other address, and none is sent without credentials.
func TestSignedRequestsAreNotRedirected(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	resp, err := newClient(t, "").Post(server.URL, "application/json", io.MultiReader(strings.NewReader("{}"))) // which can be read once
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || asked != 1 {
		t.Errorf("status %d after %d requests", resp.StatusCode, asked)
	}
	none, err := bedrock.NewClient(&bedrock.Options{Region: "eu-west-1", Credentials: func(context.Context) (bedrock.Credentials, error) {
		return bedrock.Environment(func(string) string { return "" })
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Post(server.URL, "application/json", strings.NewReader("{}")); !strings.Contains(fmt.Sprint(err), "AWS_ACCESS_KEY_ID") || asked != 1 {
		t.Errorf("without credentials: %v, %d requests", err, asked)
	}
	var e *fault.Error
	if _, err := bedrock.Environment(func(string) string { return "" }); !errors.As(err, &e) || e.Code != fault.Unauthenticated {
		t.Errorf("Environment: %v", err)
	}
}

func TestClientsThatCannotBe(t *testing.T) {
	credentials := func(context.Context) (bedrock.Credentials, error) { return bedrock.Credentials{}, nil }
	for name, opts := range map[string]*bedrock.Options{
		"nothing": nil, "no credentials": {Region: "eu-west-1"}, "no region": {Credentials: credentials},
		"a region that is another host": {Region: "evil.example/", Credentials: credentials},
	} {
		if _, err := bedrock.NewClient(opts); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, want := bedrock.MessagesURL("eu-west-1")+" "+bedrock.OpenAIURL("eu-west-1"), "https://bedrock-runtime.eu-west-1.amazonaws.com/anthropic https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"; got != want {
		t.Errorf("addresses %s", got)
	}
}
