package geminimodel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// stream answers with chunks.
func stream(chunks ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range chunks {
			fmt.Fprintf(w, "data: %s\r\n\r\n", c)
		}
	}
}

// said is a chunk with parts, and with a reason if it is the last.
func said(reason string, parts ...string) string {
	end := ""
	if reason != "" {
		end = `,"finishReason":"` + reason + `"`
	}
	return `{"candidates":[{"content":{"role":"model","parts":[` + strings.Join(parts, ",") + `]},"index":0` + end + `}],"modelVersion":"m1-001","responseId":"r1",` +
		`"usageMetadata":{"promptTokenCount":25,"toolUsePromptTokenCount":3,"cachedContentTokenCount":20,"candidatesTokenCount":8,"thoughtsTokenCount":4}}`
}

func foreign(part string) host.Part {
	return &chat.Unknown{Kind: "gemini", JSON: json.RawMessage(`{"type":"gemini","part":` + part + `}`)}
}

func signed(signature string) chat.Extra {
	return chat.Extra{{Name: "gemini", Value: json.RawMessage(`{"signature":"` + signature + `"}`)}}
}

func TestAnswers(t *testing.T) {
	used := host.Usage{InputTokens: 28, OutputTokens: 12, CachedTokens: 20, ReasoningTokens: 4}
	want := func(reason host.FinishReason, parts ...host.Part) *llm.Response {
		return &llm.Response{ID: "r1", Model: "m1-001", Parts: parts, FinishReason: reason, Usage: used}
	}
	hello := &host.Text{Text: "Hello"}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    *llm.Response
	}{
		{"text in pieces", stream(said("", `{"text":"Hel"}`), said("", `{"text":""}`), said("STOP", `{"text":"lo"}`)), want(chat.FinishStop, hello)},
		{"cut", stream(said("MAX_TOKENS", `{"text":"Hello"}`)), want(chat.FinishLength, hello)},
		{"withheld", stream(said("", `{"text":"Hello"}`), said("SAFETY")), want(chat.FinishContentFilter, hello)},
		{"recited", stream(said("RECITATION")), want(chat.FinishContentFilter)},
		{"a prompt that is not answered", stream(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":25,"toolUsePromptTokenCount":3,"cachedContentTokenCount":20,"candidatesTokenCount":8,"thoughtsTokenCount":4},"modelVersion":"m1-001","responseId":"r1"}`),
			want(chat.FinishContentFilter)},
		{"a reason of tomorrow", stream(said("SOMETHING_NEW", `{"text":"Hello"}`)), want(chat.FinishStop, hello)},
		{"nothing", stream(said("STOP")), want(chat.FinishStop)},
		{"thoughts", stream(said("", `{"text":"H","thought":true}`), said("", `{"text":"m.","thought":true}`), said("STOP", `{"text":"Hello"}`)),
			want(chat.FinishStop, &host.Reasoning{Text: "Hm."}, hello)},
		{"parallel calls, of which the first is signed", stream(said("", `{"functionCall":{"id":"a","name":"look","args":{"id":9007199254740993}},"thoughtSignature":"c2ln"}`), said("STOP", `{"functionCall":{"id":"b","name":"ping"}}`)),
			want(chat.FinishToolCalls, &host.ToolCall{ID: "a", Name: "look", Arguments: json.RawMessage(`{"id":9007199254740993}`), Extra: signed("c2ln")}, &host.ToolCall{ID: "b", Name: "ping", Arguments: json.RawMessage(`{}`)})},
		{"signed text is not joined with other text", stream(said("", `{"text":"Hel"}`), said("", `{"text":"lo","thoughtSignature":"c2ln"}`), said("STOP", `{"text":"!"}`)),
			want(chat.FinishStop, &host.Text{Text: "Hel"}, &host.Text{Text: "lo", Extra: signed("c2ln")}, &host.Text{Text: "!"})},
		{"a signature that comes alone", stream(said("", `{"text":"Hello"}`), said("STOP", `{"text":"","thoughtSignature":"c2ln"}`)),
			want(chat.FinishStop, hello, foreign(`{"text":"","thoughtSignature":"c2ln"}`))},
		{"a signed thought", stream(said("STOP", `{"text":"Hm.","thought":true,"thoughtSignature":"c2ln"}`, `{"text":"Hello"}`)),
			want(chat.FinishStop, &host.Reasoning{Text: "Hm.", Extra: signed("c2ln")}, hello)},
		{"a picture", stream(said("STOP", `{"inlineData":{"mimeType":"image/png","data":"eA=="},"thoughtSignature":"c2ln"}`)),
			want(chat.FinishStop, &host.Media{MediaType: "image/png", Data: []byte("x"), Extra: signed("c2ln")})},
		{"parts that are not known stay as they came", stream(said("STOP", `{"executableCode":{"language":"PYTHON","code":"print(1)"}}`, `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}`, `{"text":"Hello"}`)),
			want(chat.FinishStop, foreign(`{"executableCode":{"language":"PYTHON","code":"print(1)"}}`), foreign(`{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}`), hello)},
		{"another candidate than the one that was asked for", stream(`{"candidates":[{"index":1,"content":{"parts":[{"text":"No"}]},"finishReason":"STOP"}]}`, said("STOP", `{"text":"Hello"}`)), want(chat.FinishStop, hello)},
		{"usage after the end", stream(`{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}],"modelVersion":"m1-001","responseId":"r1"}`, strings.Replace(said(""), `"candidates":[{"content":{"role":"model","parts":[]},"index":0}],`, "", 1)), want(chat.FinishStop, hello)},
		{"nonsense after the end", stream(said("STOP", `{"text":"Hello"}`), `[DONE]`), want(chat.FinishStop, hello)},
		{"not streamed", modeltest.Answer(200, "application/json", said("STOP", `{"text":"Hello"}`)), want(chat.FinishStop, hello)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newModel.CheckAnswer(t, tt.handler, tt.want)
		})
	}
}

// A call without an id is given one, each another.
func TestCallsWithoutIDsAreGivenSome(t *testing.T) {
	o := modeltest.Ask(t.Context(), newModel.Serve(t, stream(said("STOP", `{"functionCall":{"name":"look","args":{"n":1}}}`, `{"functionCall":{"name":"look","args":{"n":1}}}`))), modeltest.Question("hi"))
	var deltas string
	for _, d := range o.Deltas {
		deltas += fmt.Sprintf("%d %s %s;", d.Index, d.Name, d.Arguments)
	}
	if o.Err != nil || deltas != `0 look {"n":1};1 look {"n":1};` {
		t.Fatalf("deltas %s, %v", deltas, o.Err)
	}
	calls := (&host.Message{Parts: o.Response.Parts}).ToolCalls()
	if len(calls) != 2 || calls[0].ID == calls[1].ID || !strings.HasPrefix(calls[0].ID, geminimodel.MadeID) {
		t.Errorf("calls %+v", calls)
	}
}

func TestFaults(t *testing.T) {
	complaint := func(code int, status, text string, details ...string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q,"details":[%s]}}`, code, text, status, strings.Join(details, ","))
	}
	const wait = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}`
	for _, tt := range []struct {
		name      string
		handler   http.HandlerFunc
		code      host.Code
		retryable bool
		says      string
		after     time.Duration
	}{
		{"a wrong key", modeltest.Answer(400, "application/json", complaint(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", `{"reason":"API_KEY_INVALID"}`)), host.Unauthenticated, false, "GEMINI_API_KEY", 0},
		{"not allowed", modeltest.Answer(403, "application/json", complaint(403, "PERMISSION_DENIED", "no")), host.PermissionDenied, false, "GEMINI_API_KEY", 0},
		{"no such model", modeltest.Answer(404, "application/json", complaint(404, "NOT_FOUND", "models/m1 is not found")), host.NotFound, false, "/v1/models", 0},
		{"a request it does not take", modeltest.Answer(400, "application/json", complaint(400, "INVALID_ARGUMENT", "bad contents")), host.InvalidArgument, false, "bad contents", 0},
		{"too long a conversation", modeltest.Answer(400, "application/json", complaint(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")), host.ResourceExhausted, false, "token limiter", 0},
		{"too many requests, for which the plan is to blame", modeltest.Answer(429, "application/json", complaint(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details.", `{"@type":"x","links":[1]}`, wait)), host.ResourceExhausted, true, "quota", 34500 * time.Millisecond},
		{"no credit", modeltest.Answer(429, "application/json", complaint(429, "RESOURCE_EXHAUSTED", "Your billing account is closed.")), host.ResourceExhausted, false, "credit", 0},
		{"a wait that is none", modeltest.Answer(429, "application/json", complaint(429, "RESOURCE_EXHAUSTED", "slow down", `{"retryDelay":"-3s"}`, `7`)), host.ResourceExhausted, true, "slow down", 0},
		{"overloaded", modeltest.Answer(503, "application/json", complaint(503, "UNAVAILABLE", "The model is overloaded.")), host.Unavailable, true, "overloaded", 0},
		{"overloaded in the stream", stream(said("", `{"text":"x"}`), complaint(503, "UNAVAILABLE", "The model is overloaded.")), host.Unavailable, true, "overloaded", 0},
		{"an error without words in the stream", stream(`{"error":{}}`), host.Unavailable, true, "answers with an error", 0},
		{"a garbled call", stream(said("MALFORMED_FUNCTION_CALL")), host.Unavailable, true, "MALFORMED_FUNCTION_CALL", 0},
		{"a web page", modeltest.Answer(200, "application/json", "<html>"), host.Unavailable, false, "not an answer of generateContent", 0},
		{"another protocol", modeltest.Answer(200, "application/json", `{"choices":[]}`), host.Unavailable, false, "not an answer of generateContent", 0},
		{"a part that is none", stream(`{"candidates":[{"content":{"parts":[1]}}]}`), host.Unavailable, false, "not an answer of generateContent", 0},
		{"parts without end", stream(said("STOP", strings.TrimSuffix(strings.Repeat(`{"executableCode":{}},`, 1025), ","))), host.Unavailable, false, "more than 1024 parts", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newModel.CheckFault(t, tt.handler, modeltest.Fault{Code: tt.code, Retryable: tt.retryable, After: tt.after, Says: tt.says})
		})
	}
}

// A server that repeats what it was asked with shows no key: not the one of the options,
// of a header, or of the address.
func TestSecretsThatAServerRepeats(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":%q}}`, fmt.Sprintf("%s, %s, %s: %s", r.Header.Get("X-Goog-Api-Key"), token, r.URL.Query().Get("key"), r.URL.RawQuery))
	}))
	defer srv.Close()
	m := newModel(t, modelhttp.Options{BaseURL: srv.URL + "/v1beta?key=in%2Bthe-address", APIKey: modeltest.Key, MaxRetries: -1, Headers: http.Header{"Authorization": {"Bearer of-a-header"}}})
	var e *host.Error
	if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); !errors.As(o.Err, &e) {
		t.Fatal(o.Err)
	}
	for _, secret := range []string{modeltest.Key, "of-a-header", "in+the-address", "in%2Bthe-address"} {
		if text := e.Error() + e.Hint; strings.Contains(text, secret) || !strings.Contains(text, "[secret]") {
			t.Errorf("%s is in the error: %s", secret, text)
		}
	}
}

// The wait that the service asks for in the body of its error is the one before the
// next attempt.
func TestRetriesAfterTheDelayInTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		client := &http.Client{Transport: modeltest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			code, text := 429, `{"error":{"code":429,"message":"Quota exceeded, check your plan and billing.","details":[{"retryDelay":"40s"}]}}`
			if requests++; requests == 2 {
				code, text = 200, "data: "+said("STOP", `{"text":"Hello"}`)+"\n\n"
			}
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		})}
		m := newModel(t, modelhttp.Options{HTTPClient: client})
		began := time.Now()
		if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil || o.Text != "Hello" || len(o.Retries) != 1 || time.Since(began) != 40*time.Second {
			t.Errorf("%+v after %s, want an answer after one retry and 40 s", o, time.Since(began))
		}
	})
}

func TestGarbledCallsAreAskedForAgain(t *testing.T) {
	srv := httptest.NewServer(&modeltest.Service{Answers: []http.HandlerFunc{stream(said("MALFORMED_FUNCTION_CALL")), stream(said("STOP", `{"text":"Hello"}`))}})
	defer srv.Close()
	m := newModel(t, modelhttp.Options{BaseURL: srv.URL, MaxRetries: 1})
	if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil || o.Text != "Hello" || len(o.Retries) != 1 {
		t.Errorf("%+v, want an answer after one retry", o)
	}
}

func TestOptions(t *testing.T) {
	for name, opts := range map[string]*geminimodel.Options{
		"a base URL that is none": {Server: modelhttp.Options{BaseURL: "google"}}, "thinking below nothing": {ThinkingTokens: -3},
		"two ways to think": {ThinkingTokens: 10, Effort: "low"},
	} {
		if _, err := geminimodel.New("m1", opts); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "a/b", "../x", "..", "m?alt=json", "m:countTokens", "models/", "m 1", "modèle"} {
		if _, err := geminimodel.New(name, nil); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("name %q: %v", name, err)
		}
	}
}
