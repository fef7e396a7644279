package httpapi_test

// Scenario: clients of OpenAI's API send a request again, at once or after they have left, and
// delete what is still being made.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testhost"
)

// listener answers with all that the user has said, and counts the requests. before is called
// with the number of the request first; nil is not.
func listener(t *testing.T, asked *atomic.Int32, before func(ctx context.Context, n int32) error) host.Target {
	return agentOf(t, "listener", func(ctx context.Context, req *llm.Request) hosttest.Reply {
		if n := asked.Add(1); before != nil {
			if err := before(ctx, n); err != nil {
				return hosttest.Fail(err)
			}
		}
		var heard []string
		for _, m := range req.Messages {
			if m.Role == host.User {
				heard = append(heard, m.Text())
			}
		}
		return hosttest.Say(strings.Join(heard, ","))
	})
}

func newListenerServer(t *testing.T, before func(ctx context.Context, n int32) error) (*server, *atomic.Int32) {
	var asked atomic.Int32
	return newServer(t, func(o *httpapi.Options) { o.Targets.(targets)["listener"] = listener(t, &asked, before) }), &asked
}

func TestAResponseWithAnIdempotencyKeyIsMadeOnce(t *testing.T) {
	s, asked := newListenerServer(t, nil)
	var first response
	s.do("acme", "POST", "/v1/responses", `{"model":"listener","input":"a"}`, 200, &first)
	for name, body := range map[string]string{
		"a new conversation":   `{"model":"listener","input":"b"%s}`,
		"a response before":    `{"model":"listener","input":"b","previous_response_id":"` + first.ID + `"%s}`,
		"a fork of that":       `{"model":"listener","input":"c","previous_response_id":"` + first.ID + `"%s}`,
		"a named conversation": `{"model":"listener","input":"b","conversation":"t1"%s}`,
		"one of the client":    `{"model":"listener","input":"b","store":false%s}`,
	} {
		for _, more := range []string{"", `,"stream":true`} {
			asked.Store(0)
			var made response
			for i := range 3 {
				resp, raw := s.request("acme", "POST", "/v1/responses", fmt.Sprintf(body, more), "Idempotency-Key", name+more)
				if resp.StatusCode != 200 {
					t.Fatalf("%s%s: %d %s", name, more, resp.StatusCode, raw)
				}
				var got response
				if more == "" {
					must(t, json.Unmarshal(raw, &got))
				} else {
					list := eventsOf(t, raw)
					got = *list[len(list)-1].Response
				}
				if i > 0 && (got.ID != made.ID || got.text() != made.text()) {
					t.Errorf("%s%s: the response is %s %q, and was %s %q", name, more, got.ID, got.text(), made.ID, made.text())
				}
				made = got
			}
			if asked.Load() != 1 || made.Status != "completed" {
				t.Errorf("%s%s: the model was asked %d times for %+v", name, more, asked.Load(), made)
			}
			s.do("acme", "POST", "/v1/responses", fmt.Sprintf(body, more+`,"metadata":{"other":"1"}`), 409, nil, "Idempotency-Key", name+more)
		}
	}
	var begun, again response
	const background = `{"model":"listener","input":"d","background":true}`
	s.do("acme", "POST", "/v1/responses", background, 200, &begun, "Idempotency-Key", "k")
	if s.do("acme", "POST", "/v1/responses", background, 200, &again, "Idempotency-Key", "k"); again.ID != begun.ID {
		t.Errorf("in the background the responses are %s and %s", begun.ID, again.ID)
	}
}

// abandon sends a request, and leaves when started is closed.
func (s *server) abandon(path, body string, started <-chan struct{}, headers ...string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(body))
	must(s.t, err)
	req.Header.Set("Authorization", "Bearer acme")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := s.Client().Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // it ends where the client leaves
			_ = resp.Body.Close()
		}
	}()
	<-started
	cancel()
	<-ended
}

func TestAClientThatSendsAgainWhatItHasLeftGetsAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"a chat":                    {"/v1/chat/completions", `{"model":"listener","messages":[{"role":"user","content":"a"}]}`},
		"a chat as a stream":        {"/v1/chat/completions", `{"model":"listener","stream":true,"messages":[{"role":"user","content":"a"}]}`},
		"a chat in a thread":        {"/v1/chat/completions", `{"model":"listener","metadata":{"thread_id":"t1"},"messages":[{"role":"user","content":"a"}]}`},
		"a response":                {"/v1/responses", `{"model":"listener","input":"a"}`},
		"a response as a stream":    {"/v1/responses", `{"model":"listener","input":"a","stream":true}`},
		"a response without a host": {"/v1/responses", `{"model":"listener","input":"a","store":false}`},
	} {
		started, left, hold := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s, asked := newListenerServer(t, func(ctx context.Context, n int32) error {
			if n > 1 {
				return nil
			}
			close(started)
			<-ctx.Done()
			close(left)
			<-hold // the run takes its time to end
			return ctx.Err()
		})
		s.abandon(c.path, c.body, started, "Idempotency-Key", "k")
		<-left
		answer := make(chan string)
		go func() {
			resp, raw := s.request("acme", "POST", c.path, c.body, "Idempotency-Key", "k")
			answer <- fmt.Sprint(resp.StatusCode, string(raw))
		}()
		close(hold)
		if got := <-answer; !strings.HasPrefix(got, "200") || !strings.Contains(got, `"a"`) || strings.Contains(got, "cancel") || asked.Load() != 2 {
			t.Errorf("%s: the answer is %s after %d requests", name, got, asked.Load())
		}
	}
}

func TestResponsesThatContinueOneAtOnceAreApart(t *testing.T) {
	const number = 6
	together := make(chan struct{})
	s, _ := newListenerServer(t, func(_ context.Context, n int32) error {
		if n == number+1 {
			close(together)
		}
		if n > 1 {
			<-together // they all run
		}
		return nil
	})
	var first response
	s.do("acme", "POST", "/v1/responses", `{"model":"listener","input":"a"}`, 200, &first)
	var wg sync.WaitGroup
	places := make([]string, number)
	for i := range number {
		wg.Go(func() {
			var r response
			s.do("acme", "POST", "/v1/responses", fmt.Sprintf(`{"model":"listener","input":"%d","previous_response_id":%q}`, i, first.ID), 200, &r)
			if want := fmt.Sprint("a,", i); r.text() != want {
				t.Errorf("response %d has heard %q, want %q", i, r.text(), want)
			}
			places[i] = r.Conversation.ID
		})
	}
	wg.Wait()
	slices.Sort(places)
	if len(slices.Compact(places)) != number || !slices.Contains(places, first.Conversation.ID) {
		t.Errorf("the conversations are %v, the first one is %s", places, first.Conversation.ID)
	}
}

func TestWhatIsDeletedWhileItIsMadeIsNotStored(t *testing.T) {
	for name, c := range map[string]struct {
		more string
		path func(r *response) string
		code int
	}{
		"a response in the background":                    {`,"background":true`, func(r *response) string { return "/v1/responses/" + r.ID }, 200},
		"the conversation of a response in background":    {`,"background":true`, func(r *response) string { return "/v1/threads/" + r.Conversation.ID }, 204},
		"the conversation of a response that is streamed": {`,"stream":true`, func(r *response) string { return "/v1/threads/" + r.Conversation.ID }, 204},
	} {
		started, hold := make(chan struct{}), make(chan struct{})
		s, _ := newListenerServer(t, func(_ context.Context, n int32) error {
			if n == 2 {
				close(started)
				<-hold
			}
			return nil
		})
		s.do("acme", "POST", "/v1/responses", `{"model":"listener","input":"a","conversation":"t1"}`, 200, nil)
		body := `{"model":"listener","input":"b","conversation":"t1"` + c.more + `}`
		var begun response
		followed := make(chan []byte, 1)
		if strings.Contains(c.more, "stream") {
			go func() {
				_, raw := s.request("acme", "POST", "/v1/responses", body)
				followed <- raw
			}()
			<-started
			begun.Conversation = &struct{ ID string }{"t1"}
		} else {
			s.do("acme", "POST", "/v1/responses", body, 200, &begun)
			<-started
			followed <- nil
		}
		s.do("acme", "DELETE", c.path(&begun), "", c.code, nil)
		close(hold)
		if raw := <-followed; raw != nil {
			list := eventsOf(t, raw)
			begun = *list[len(list)-1].Response
		}
		must(t, s.options.Runs.Drain(t.Context()))
		if resp, raw := s.request("acme", "GET", "/v1/responses/"+begun.ID, ""); resp.StatusCode != 404 {
			t.Errorf("%s: the response is %d %s", name, resp.StatusCode, raw)
		}
	}
}

// Another process has ended the run, and its events are gone.
func TestAResponseThatAnotherProcessEndedIsReadFromItsThread(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["broken"] = agentOf(t, "broken", func(context.Context, *llm.Request) hosttest.Reply {
			return hosttest.Fail(host.Errorf(host.Internal, "driver at /var/lib said no"))
		})
	})
	for target, want := range map[string]struct{ status, text string }{
		"clerk": {"completed", "you said hi"}, "asker": {"completed", ""}, "broken": {"failed", ""},
	} {
		var run httpapi.EndedRun
		s.do("acme", "POST", "/v1/runs", fmt.Sprintf(`{"target":%q,"thread":"t-%s","text":"hi","durable":true}`, target, target), 200, &run)
		id := "resp_" + run.ID
		must(t, s.options.Responses.Put(t.Context(), "acme", &responses.Record{ID: id, Run: run.ID, Thread: "t-" + target, Target: target,
			Response: json.RawMessage(fmt.Sprintf(`{"id":%q,"object":"response","status":"in_progress","background":true,"model":%q,"tools":[{"name":"agenthost_approval"}]}`, id, target))}))
		must(t, s.options.Runs.DropTenant(t.Context(), "acme"))
		for _, path := range []string{"", "/cancel", ""} {
			method := map[bool]string{true: "GET", false: "POST"}[path == ""]
			resp, raw := s.request("acme", method, "/v1/responses/"+id+path, "")
			var r response
			if json.Unmarshal(raw, &r) != nil || resp.StatusCode != 200 || r.Status != want.status || !strings.Contains(r.text(), want.text) || strings.Contains(string(raw), "/var/lib") {
				t.Errorf("%s: the response is %d %s", target, resp.StatusCode, raw)
			}
			if target == "asker" && r.call(t) == "" {
				t.Errorf("the response that asks is %s", raw)
			}
		}
	}
}

func TestAMessageBeforeAnEmptyAnswerIsStoredOnce(t *testing.T) {
	s, _ := newListenerServer(t, nil)
	var a completion
	s.do("acme", "POST", "/v1/chat/completions", `{"model":"listener","metadata":{"thread_id":"t1"},"messages":[{"role":"user","content":"a"}]}`, 200, nil)
	s.do("acme", "POST", "/v1/chat/completions", `{"model":"listener","metadata":{"thread_id":"t1"},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":"b"}]}`, 200, &a)
	if a.text() != "a,b" {
		t.Errorf("the model has heard %q", a.text())
	}
	var shown threads.Transcript
	if s.do("acme", "GET", "/v1/threads/t1/messages", "", 200, &shown); len(shown.Messages) != 4 {
		t.Errorf("the thread has %d messages, want 4", len(shown.Messages))
	}
	s.do("acme", "POST", "/v1/chat/completions", `{"model":"listener","messages":[{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":"b"}]}`, 200, &a)
	if a.text() != "a,b" {
		t.Errorf("of the client's conversation the model has heard %q", a.text())
	}
}

func TestResultsThatAreSentAgainAfterTheirClientHasLeftAreAnswered(t *testing.T) {
	for name, more := range map[string]string{"kept by the client": "", "in a thread": `,"metadata":{"thread_id":"t1"}`} {
		var asked atomic.Int32
		started, left, hold := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s := newServer(t, func(o *httpapi.Options) {
			o.Targets.(targets)["guide"] = agentOf(t, "guide", func(ctx context.Context, req *llm.Request) hosttest.Reply {
				last := req.Messages[len(req.Messages)-1].ToolResults()
				switch asked.Add(1) {
				case 1:
					return hosttest.Call("locate", `{}`)
				case 2:
					close(started)
					<-ctx.Done()
					close(left)
					<-hold
					return hosttest.Fail(ctx.Err())
				}
				return hosttest.Say("You are " + strings.Trim(string(last[0].Content), `"`) + ".")
			})
		})
		var a completion
		s.do("acme", "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"guide","tools":[%s],"messages":[{"role":"user","content":"where am I?"}]%s}`, locateTool, more), 200, &a)
		body := resultsOf(a.call(t), "at home", more)
		s.abandon("/v1/chat/completions", body, started)
		<-left
		answer := make(chan string)
		go func() {
			resp, raw := s.request("acme", "POST", "/v1/chat/completions", body)
			answer <- fmt.Sprint(resp.StatusCode, string(raw))
		}()
		close(hold)
		if got := <-answer; !strings.HasPrefix(got, "200") || !strings.Contains(got, "You are at home.") {
			t.Errorf("%s: the answer is %s after %d requests", name, got, asked.Load())
		}
	}
}

// The registry forgets a run as soon as another one has ended.
func TestARunIsReadThoughManyOthersHaveEnded(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["listener"] = listener(t, new(atomic.Int32), nil)
		h := testhost.New(t, nil)
		var err error
		o.Runs, err = runs.New(h, &runs.Options{MaxEnded: 1})
		must(t, err)
		t.Cleanup(func() { must(t, o.Runs.Close()) })
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 40 {
				path, body := "/v1/chat/completions", `{"model":"listener","messages":[{"role":"user","content":"a"}]}`
				switch (i + n) % 4 {
				case 0:
					body = `{"stream":true,` + body[1:]
				case 1:
					path, body = "/v1/responses", `{"model":"listener","input":"a","store":false}`
				case 2:
					path, body = "/v1/runs", `{"target":"listener","text":"a"}`
				}
				resp, raw := s.request("acme", "POST", path, body)
				if resp.StatusCode/100 != 2 || bytes.Contains(raw, []byte(`"error":{`)) {
					t.Errorf("%s: %d %s", path, resp.StatusCode, raw)
				}
			}
		})
	}
	wg.Wait()
}

// Decisions 3, 9 and 37, for clients that send no key: the input of a turn that failed stays in
// the conversation, and the same input is its retry.
func TestAMessageThatIsSentAgainAfterAFailureIsHeardOnce(t *testing.T) {
	var failing atomic.Bool
	s, _ := newListenerServer(t, func(context.Context, int32) error {
		if failing.Load() {
			return host.Errorf(host.Unavailable, "the model is down")
		}
		return nil
	})
	chatOf := func(thread, text string, status int) string {
		t.Helper()
		var got struct {
			Choices []struct{ Message struct{ Content string } }
		}
		body := fmt.Sprintf(`{"model":"listener","metadata":{"thread_id":%q},"messages":[{"role":"user","content":%q}]}`, thread, text)
		s.do("acme", "POST", "/v1/chat/completions", body, status, &got)
		if len(got.Choices) == 0 {
			return ""
		}
		return got.Choices[0].Message.Content
	}
	var first response
	s.do("acme", "POST", "/v1/responses", `{"model":"listener","input":"one"}`, 200, &first)
	next := `{"model":"listener","input":"two","previous_response_id":"` + first.ID + `"}`
	for _, thread := range []string{"t1", "t2"} {
		chatOf(thread, "one", 200)
	}
	failing.Store(true)
	chatOf("t1", "two", 503)
	chatOf("t1", "two", 503)
	chatOf("t2", "two", 503)
	chatOf("new", "one", 503)
	s.do("acme", "POST", "/v1/responses", next, 503, nil)
	failing.Store(false)
	for _, row := range []struct{ name, got, want string }{
		{"the same", chatOf("t1", "two", 200), "one,two"},
		{"the same as one that was answered", chatOf("t1", "two", 200), "one,two,two"},
		{"another", chatOf("t2", "three", 200), "one,two,three"},
		{"the first of a thread", chatOf("new", "one", 200), "one"},
	} {
		if row.got != row.want {
			t.Errorf("%s message: the model heard %q, want %q", row.name, row.got, row.want)
		}
	}
	var again response
	s.do("acme", "POST", "/v1/responses", next, 200, &again)
	if got := again.text(); got != "one,two" {
		t.Errorf("a response that is tried again heard %q, want one,two", got)
	}
}
