package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
)

// completion is a chat completion, or a chunk of one.
type completion struct {
	ID, Object, Model string
	Choices           []struct {
		Message, Delta struct {
			Role      string
			Content   *string
			ToolCalls []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage     *struct{ Prompt, Total int }
	AgentHost struct {
		Run, Thread string
		Questions   []*host.Question
		Replayed    bool
	}
	Error *struct{ Message, Type, Code, Param string }
}

func (c *completion) text() string {
	if len(c.Choices) == 0 || c.Choices[0].Message.Content == nil {
		return ""
	}
	return *c.Choices[0].Message.Content
}

// call returns the id of the first call.
func (c *completion) call(t *testing.T) string {
	t.Helper()
	if len(c.Choices) != 1 || len(c.Choices[0].Message.ToolCalls) == 0 || c.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("the answer calls nothing: %+v", c)
	}
	return c.Choices[0].Message.ToolCalls[0].ID
}

const (
	locateTool = `{"type":"function","function":{"name":"locate","description":"Locates the user.","parameters":{"type":"object","properties":{"exact":{"type":"boolean"}}}}}`
	noteTool   = `{"type":"function","function":{"name":"agenthost_approval","parameters":{"type":"object"}}}`
)

// guide answers with the place that the client's tool locate tells, after its own tool. It
// counts the requests.
func guide(t *testing.T, asked *atomic.Int32) host.Target {
	own := host.NewTool("weather", "Tells the weather.", func(context.Context, *host.Call, struct{}) (string, error) { return "sunny", nil }, nil)
	return agentOf(t, "guide", func(_ context.Context, req *llm.Request) hosttest.Reply {
		asked.Add(1)
		last := req.Messages[len(req.Messages)-1]
		results := last.ToolResults()
		switch {
		case len(results) == 0 && len(req.Tools) > 1:
			return hosttest.Say("Looking.").Call("weather", `{}`)
		case len(results) > 0 && results[0].Name == "weather" && len(req.Tools) > 1:
			return hosttest.Call("locate", `{"exact":true}`)
		case len(results) > 0:
			return hosttest.Say("You are " + strings.Trim(string(results[0].Content), `"`) + ".")
		}
		return hosttest.Say("I do not know.")
	}, own)
}

func newGuideServer(t *testing.T) (*server, *atomic.Int32) {
	var asked atomic.Int32
	return newServer(t, func(o *httpapi.Options) { o.Targets.(targets)["guide"] = guide(t, &asked) }), &asked
}

func TestChatCompletionOfAConversationThatTheClientKeeps(t *testing.T) {
	s := newServer(t, nil)
	var a completion
	resp := s.do("acme", "POST", "/v1/chat/completions", `{"model":"clerk","user":"ann","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":[{"type":"text","text":"three"}]}]}`, 200, &a)
	if a.Object != "chat.completion" || a.Model != "clerk" || a.text() != "you said three" || a.Choices[0].FinishReason != "stop" || a.Usage == nil || a.ID != "chatcmpl-"+resp.Header.Get("X-Run-Id") {
		t.Errorf("the answer is %+v", a)
	}
	if resp.Header.Get("X-Request-Id") == "" || resp.Header.Get("X-Thread-Id") != "" || a.AgentHost.Thread != "" {
		t.Errorf("the headers are %v", resp.Header)
	}
	var list threads.Page
	if s.do("acme", "GET", "/v1/threads", "", 200, &list); len(list.Threads) > 0 {
		t.Errorf("the client keeps the conversation, and so do %d threads", len(list.Threads))
	}
}

// chunks sends a request for a stream, and returns its chunks and whether [DONE] came last.
func (s *server) chunks(credential, body string) (list []completion, done bool) {
	s.t.Helper()
	resp, raw := s.request(credential, "POST", "/v1/chat/completions", body)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("the answer is %d %v %s", resp.StatusCode, resp.Header, raw)
	}
	for line := range strings.Lines(string(raw)) {
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		switch {
		case line == "\n":
		case !ok || done:
			s.t.Errorf("the stream has the line %q", line)
		case data == "[DONE]":
			done = true
		default:
			var c completion
			must(s.t, json.Unmarshal([]byte(data), &c))
			list = append(list, c)
		}
	}
	return list, done
}

func TestChatCompletionStreams(t *testing.T) {
	s, _ := newGuideServer(t)
	for _, usage := range []bool{false, true} {
		body := fmt.Sprintf(`{"model":"guide","stream":true,"stream_options":{"include_usage":%t},"tools":[%s],"messages":[{"role":"user","content":"where am I?"}]}`, usage, locateTool)
		list, done := s.chunks("acme", body)
		text, calls, finish, used := "", 0, "", 0
		for i, c := range list {
			if c.Object != "chat.completion.chunk" || c.ID != list[0].ID || c.Model != "guide" {
				t.Errorf("chunk %d is %+v", i, c)
			}
			if c.Usage != nil {
				if used++; len(c.Choices) != 0 || i != len(list)-1 {
					t.Errorf("the chunk with the usage is %+v", c)
				}
				continue
			}
			d := c.Choices[0].Delta
			if i == 0 && d.Role != "assistant" {
				t.Errorf("the first chunk is %+v", c)
			}
			if d.Content != nil {
				text += *d.Content
			}
			for _, call := range d.ToolCalls {
				if calls++; call.Function.Name != "locate" || call.Function.Arguments != `{"exact":true}` || call.Type != "function" {
					t.Errorf("the call is %+v", call)
				}
			}
			finish += c.Choices[0].FinishReason
		}
		if !done || text != "Looking." || calls != 1 || finish != "tool_calls" || (used == 1) != usage {
			t.Errorf("usage %t: done %t, text %q, %d calls, finish %q, %d usages", usage, done, text, calls, finish, used)
		}
	}
}

func TestAFailedStreamEndsWithAnErrorAndNotAsDone(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["broken"] = agentOf(t, "broken", func(context.Context, *llm.Request) hosttest.Reply {
			return hosttest.Reply{Text: "half", Err: host.Errorf(host.Internal, "driver at /var/lib said no")}
		})
	})
	list, done := s.chunks("acme", `{"model":"broken","stream":true,"messages":[{"role":"user","content":"go"}]}`)
	last := list[len(list)-1]
	if done || last.Error == nil || last.Error.Type != "server_error" || strings.Contains(last.Error.Message, "/var/lib") {
		t.Errorf("the stream ends with %+v, done %t", last.Error, done)
	}
	var a completion
	if s.do("acme", "POST", "/v1/chat/completions", `{"model":"broken","messages":[{"role":"user","content":"go"}]}`, 500, &a); a.Error == nil || strings.Contains(a.Error.Message, "/var/lib") {
		t.Errorf("the answer is %+v", a.Error)
	}
}

// resultsOf is a request with the result of a call, as clients send it: after all that was
// said before.
func resultsOf(call, result, more string) string {
	return fmt.Sprintf(`{"model":"guide","tools":[%s],"messages":[{"role":"user","content":"where am I?"},{"role":"assistant","content":"Looking.","tool_calls":[{"id":%q,"type":"function","function":{"name":"locate","arguments":"{}"}}]},{"role":"tool","tool_call_id":%q,"content":%q}]%s}`, locateTool, call, call, result, more)
}

func TestChatCompletionContinuesWithResultsOfTheClientsTools(t *testing.T) {
	for name, more := range map[string]string{"kept by the client": "", "in a thread": `,"metadata":{"thread_id":"t1"}`} {
		s, asked := newGuideServer(t)
		var a, b completion
		s.do("acme", "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"guide","tools":[%s],"messages":[{"role":"user","content":"where am I?"}]%s}`, locateTool, more), 200, &a)
		call := a.call(t)
		if a.text() != "Looking." {
			t.Errorf("%s: the answer is %q", name, a.text())
		}
		s.do("acme", "POST", "/v1/chat/completions", resultsOf(call, "at home", more), 200, &b)
		if b.text() != "You are at home." || b.Choices[0].FinishReason != "stop" || asked.Load() != 3 {
			t.Errorf("%s: the answer is %+v after %d requests", name, b, asked.Load())
		}
		s.do("acme", "POST", "/v1/chat/completions", resultsOf(call, "at home", more), 200, &b)
		if b.text() != "You are at home." || asked.Load() != 3 {
			t.Errorf("%s: sent again, the answer is %+v after %d requests", name, b, asked.Load())
		}
		if more != "" {
			s.do("acme", "POST", "/v1/chat/completions", resultsOf(call, "at work", more), 409, nil)
			s.do("acme", "POST", "/v1/chat/completions", resultsOf(call, "at work", `,"metadata":{"thread_id":"t2"}`), 404, nil)
		}
	}
}

// A run that no host has any more, or that is another tenant's, is answered from what the
// client has kept.
func TestResultsOfARunThatIsGoneContinueTheClientsConversation(t *testing.T) {
	s, _ := newGuideServer(t)
	var a, b completion
	s.do("acme", "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"guide","tools":[%s],"messages":[{"role":"user","content":"where am I?"}]}`, locateTool), 200, &a)
	for credential, call := range map[string]string{"acme": "call_of_another_server", "umbrella": a.call(t)} {
		s.do(credential, "POST", "/v1/chat/completions", resultsOf(call, "at home", ""), 200, &b)
		if b.text() != "You are at home." {
			t.Errorf("%s: the answer is %+v", credential, b)
		}
	}
	s.do("acme", "POST", "/v1/chat/completions", resultsOf(a.call(t), "at work", ""), 200, &b) // it waits still
	if b.text() != "You are at work." {
		t.Errorf("the answer is %+v", b)
	}
}

func TestAResentPrefixIsNeitherStoredTwiceNorAskedAgain(t *testing.T) {
	s, asked := newGuideServer(t)
	const second = `{"model":"guide","metadata":{"thread_id":"t1"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"I do not know."},{"role":"user","content":"hi"}]}`
	var a completion
	s.do("acme", "POST", "/v1/chat/completions", `{"model":"guide","metadata":{"thread_id":"t1"},"messages":[{"role":"user","content":"hi"}]}`, 200, &a)
	for range 3 {
		if s.do("acme", "POST", "/v1/chat/completions", second, 200, &a, "X-Thread-Id", "t1"); a.AgentHost.Thread != "t1" || a.text() != "I do not know." {
			t.Errorf("the answer is %+v", a)
		}
	}
	if !a.AgentHost.Replayed || asked.Load() != 2 {
		t.Errorf("the model was asked %d times, want 2; replayed %t", asked.Load(), a.AgentHost.Replayed)
	}
	var shown threads.Transcript
	if s.do("acme", "GET", "/v1/threads/t1/messages", "", 200, &shown); len(shown.Messages) != 4 {
		t.Errorf("the thread has %d messages, want 4", len(shown.Messages))
	}
	first := `{"model":"guide","metadata":{"thread_id":"t2"},"messages":[{"role":"user","content":"hi"}]}`
	for range 2 {
		s.do("acme", "POST", "/v1/chat/completions", first, 200, &a, "Idempotency-Key", "k1")
	}
	if asked.Load() != 3 {
		t.Errorf("a message with an idempotency key was asked %d times, want 1", asked.Load()-2)
	}
}

func TestApprovalsOfAChat(t *testing.T) {
	s := newServer(t, nil)
	var a completion
	s.do("acme", "POST", "/v1/chat/completions", `{"model":"asker","messages":[{"role":"user","content":"pay"}]}`, 200, &a)
	if q := a.AgentHost.Questions; a.Choices[0].FinishReason != "stop" || !strings.Contains(a.text(), "refund waits") || len(q) != 1 {
		t.Fatalf("without the tool for approvals the answer is %+v", a)
	}
	var run httpapi.EndedRun
	s.do("acme", "POST", "/v1/runs/"+a.AgentHost.Run+"/answers", fmt.Sprintf(`{"answers":[{"question":%q,"decision":"approve"}]}`, a.AgentHost.Questions[0].ID), 200, &run)
	if run.Text != "refunded" {
		t.Errorf("the approved run is %+v", run)
	}
	for _, result := range []string{`{\"approve\":true}`, "approve", `{\"approve\":false,\"reason\":\"too much\"}`} {
		ask := fmt.Sprintf(`{"model":"asker","tools":[%s],"messages":[{"role":"user","content":"pay"}`, noteTool)
		s.do("acme", "POST", "/v1/chat/completions", ask+`]}`, 200, &a)
		if f := a.Choices[0].Message.ToolCalls[0].Function; f.Name != "agenthost_approval" || !strings.Contains(f.Arguments, `"tool":"refund"`) || !strings.Contains(f.Arguments, `"reason":"money"`) {
			t.Errorf("the call is %+v", f)
		}
		s.do("acme", "POST", "/v1/chat/completions", fmt.Sprintf(`%s,{"role":"assistant","tool_calls":[{"id":%q,"function":{"name":"agenthost_approval","arguments":"{}"}}]},{"role":"tool","tool_call_id":%q,"content":"%s"}]}`, ask, a.call(t), a.call(t), result), 200, &a)
		if a.text() != "refunded" {
			t.Errorf("%s: the answer is %+v", result, a)
		}
	}
	var log httpapi.AuditPage
	s.do("@root", "GET", "/v1/admin/audit?action=run.answer&tenant=acme", "", 200, &log)
	if len(log.Entries) != 4 {
		t.Fatalf("the audit log has %d answers, want one of the route and three of the chat", len(log.Entries))
	}
	for _, e := range log.Entries {
		if e.Actor != "key/k-acme" || !strings.HasPrefix(e.Object, "run/") || e.Outcome != "allowed" || e.Request == "" {
			t.Errorf("an answer is written as %+v", e)
		}
	}
	var records httpapi.UsageRecords
	s.do("acme", "GET", "/v1/usage/records", "", 200, &records)
	if n := len(records.Records); n != 8 || slices.ContainsFunc(records.Records, func(r usage.Record) bool { return r.Key != "k-acme" }) {
		t.Errorf("the %d records are %+v, want 8 that name the key", n, records.Records)
	}
}

func TestResponseFormatOfAChat(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["counter"] = agentOf(t, "counter", func(_ context.Context, req *llm.Request) hosttest.Reply {
			if req.Output == nil {
				return hosttest.Say("text")
			}
			return hosttest.Say(`{"n":7}`)
		})
	})
	format := `"response_format":{"type":"json_schema","json_schema":{"name":"count","strict":true,"schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}}}`
	var a completion
	if s.do("acme", "POST", "/v1/chat/completions", `{"model":"counter","messages":[{"role":"user","content":"count"}],`+format+`}`, 200, &a); a.text() != `{"n":7}` {
		t.Errorf("the answer is %+v", a)
	}
	if list, done := s.chunks("acme", `{"model":"counter","stream":true,"messages":[{"role":"user","content":"count"}],`+format+`}`); !done || *list[1].Choices[0].Delta.Content != `{"n":7}` {
		t.Errorf("the chunks are %+v", list)
	}
}

func TestRefusedChats(t *testing.T) {
	s := newServer(t, nil)
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	for name, c := range map[string]struct {
		body   string
		status int
		param  string
		code   string
	}{
		"several choices":               {`{"model":"clerk","n":2,` + hi + `}`, 400, "n", "invalid_argument"},
		"an unknown model":              {`{"model":"nobody",` + hi + `}`, 404, "model", "model_not_found"},
		"no model":                      {`{` + hi + `}`, 400, "model", "invalid_argument"},
		"no message":                    {`{"model":"clerk","messages":[]}`, 400, "messages", "invalid_argument"},
		"an answer at the end":          {`{"model":"clerk","messages":[{"role":"assistant","content":"hi"}]}`, 400, "messages", "invalid_argument"},
		"an unknown role":               {`{"model":"clerk","messages":[{"role":"robot","content":"hi"}]}`, 400, "messages[0].role", "invalid_argument"},
		"a sound as the answer":         {`{"model":"clerk","modalities":["audio"],` + hi + `}`, 400, "modalities", "invalid_argument"},
		"probabilities":                 {`{"model":"clerk","logprobs":true,` + hi + `}`, 400, "logprobs", "invalid_argument"},
		"old functions":                 {`{"model":"clerk","functions":[{"name":"a"}],` + hi + `}`, 400, "functions", "invalid_argument"},
		"a tool of another type":        {`{"model":"clerk","tools":[{"type":"web_search"}],` + hi + `}`, 400, "tools", "invalid_argument"},
		"a choice of no tool":           {`{"model":"clerk","tool_choice":{"type":"function","function":{"name":"x"}},` + hi + `}`, 400, "", "invalid_argument"},
		"a format without a schema":     {`{"model":"clerk","response_format":{"type":"json_schema"},` + hi + `}`, 400, "response_format", "invalid_argument"},
		"a hot temperature":             {`{"model":"clerk","temperature":3,` + hi + `}`, 400, "temperature", "invalid_argument"},
		"an image of a local file":      {`{"model":"clerk","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`, 400, "messages[0].content", "invalid_argument"},
		"an image that is not base64":   {`{"model":"clerk","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,!!"}}]}]}`, 400, "messages[0].content", "invalid_argument"},
		"a file of a store":             {`{"model":"clerk","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}`, 501, "messages[0].content", "unimplemented"},
		"two threads":                   {`{"model":"clerk","metadata":{"thread_id":"t1"},` + hi + `}`, 400, "", "invalid_argument"},
		"results that no run waits for": {`{"model":"clerk","messages":[{"role":"tool","tool_call_id":"x","content":"1"}]}`, 412, "", "failed_precondition"},
	} {
		headers := []string{}
		if strings.HasPrefix(name, "two") || strings.HasPrefix(name, "results") {
			headers = []string{"X-Thread-Id", "t2"}
		}
		var a completion
		resp, raw := s.request("acme", "POST", "/v1/chat/completions", c.body, headers...)
		if json.Unmarshal(raw, &a) != nil || a.Error == nil || a.Error.Param != c.param || a.Error.Code != c.code || resp.StatusCode != c.status {
			t.Errorf("%s: the answer is %d %s", name, resp.StatusCode, raw)
		}
	}
}

func TestImagesAndFilesReachTheModel(t *testing.T) {
	var got []host.Part
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["viewer"] = agentOf(t, "viewer", func(_ context.Context, req *llm.Request) hosttest.Reply {
			got = req.Messages[len(req.Messages)-1].Parts
			return hosttest.Say("seen")
		})
	})
	s.do("acme", "POST", "/v1/chat/completions", `{"model":"viewer","messages":[{"role":"user","content":[{"type":"text","text":"look"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,AQI="}},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},
		{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AwQ="}},{"type":"input_audio","input_audio":{"format":"wav","data":"BQ=="}}]}]}`, 200, nil)
	var kinds []string
	for _, p := range got {
		if m, ok := p.(*host.Media); ok {
			kinds = append(kinds, fmt.Sprintf("%s %d %s", m.MediaType, len(m.Data), m.URL))
		}
	}
	if want := "[image/png 2  image/* 0 https://example.com/a.png application/pdf 2  audio/wav 1 ]"; fmt.Sprint(kinds) != want {
		t.Errorf("the model sees %v, want %s", kinds, want)
	}
}

func TestACredentialOfOneThreadChatsInIt(t *testing.T) {
	s := newServer(t, nil)
	var a completion
	if s.do("acme//own", "POST", "/v1/chat/completions", `{"model":"clerk","messages":[{"role":"user","content":"hi"}]}`, 200, &a); a.AgentHost.Thread != "own" {
		t.Errorf("the answer is %+v", a)
	}
	s.do("acme//own", "POST", "/v1/chat/completions", `{"model":"clerk","metadata":{"thread_id":"else"},"messages":[{"role":"user","content":"hi"}]}`, 404, nil)
	s.do("acme//own", "POST", "/v1/chat/completions", `{"model":"clerk","messages":[{"role":"system","content":"obey"},{"role":"user","content":"hi"}]}`, 403, nil)
}

func TestAChatEndsWithItsClient(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["waiter"] = agentOf(t, "waiter", func(ctx context.Context, _ *llm.Request) hosttest.Reply {
			close(asked)
			<-ctx.Done()
			close(left)
			return hosttest.Fail(ctx.Err())
		})
	})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/chat/completions", strings.NewReader(`{"model":"waiter","stream":true,"messages":[{"role":"user","content":"go"}]}`))
	must(t, err)
	r.Header.Set("Authorization", "Bearer acme")
	resp, err := s.Client().Do(r)
	must(t, err)
	_, err = bufio.NewReader(resp.Body).ReadString('\n')
	must(t, err)
	<-asked
	leave()
	_ = resp.Body.Close()
	<-left // or the run has another reader, and is not canceled
	run := resp.Header.Get("X-Run-Id")
	s.request("acme", "GET", "/v1/runs/"+run+"/events", "") // until its end
	var ended httpapi.EndedRun
	if s.do("acme", "GET", "/v1/runs/"+run, "", 200, &ended); ended.Status != runs.Canceled {
		t.Errorf("the run is %s", ended.Status)
	}
}

func TestTargetsAreListedAsModels(t *testing.T) {
	s := newServer(t, nil)
	var list httpapi.ModelList
	if s.do("acme", "GET", "/v1/models", "", 200, &list); list.Object != "list" || len(list.Data) != 4 || list.Data[0].ID != "asker" || list.Data[0].Object != "model" {
		t.Errorf("the models are %+v", list)
	}
	var one httpapi.Model
	if s.do("acme", "GET", "/v1/models/clerk", "", 200, &one); one.ID != "clerk" {
		t.Errorf("the model is %+v", one)
	}
	s.do("acme", "GET", "/v1/models/nobody", "", 404, nil)
}
