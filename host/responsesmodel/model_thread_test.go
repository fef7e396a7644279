package responsesmodel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
	"github.com/agenthost/agenthost/internal/testhost"
)

// storingService is a service of the Responses API that keeps what it is told to
// keep. It answers with what it has of the conversation, so that a test sees it,
// and calls the tool that the input names. Like OpenAI's it refuses a response
// that it does not have, and a call without its output.
type storingService struct {
	mu       sync.Mutex
	kept     map[string][]string // by id of response or conversation: what was said
	calls    map[string][]string // and the calls that wait
	requests []string
	n        int
}

type responsesRequest struct {
	Previous     string `json:"previous_response_id"`
	Conversation string `json:"conversation"`
	Store        bool   `json:"store"`
	Input        []struct {
		Type, Role string
		CallID     string `json:"call_id"`
		Content    []struct{ Text string }
	} `json:"input"`
}

func (s *storingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req responsesRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := req.Previous + req.Conversation
	said, ok := s.kept[id]
	if id != "" && !ok {
		refuse(w, fmt.Sprintf("Previous response with id '%s' not found.", id))
		return
	}
	said = said[:len(said):len(said)]
	waiting := map[string]bool{}
	for _, c := range s.calls[id] {
		waiting[c] = true
	}
	brought := []string{}
	call := ""
	for _, item := range req.Input {
		switch item.Type {
		case "function_call_output":
			delete(waiting, item.CallID)
			call = ""
			brought = append(brought, "output "+item.CallID)
		case "message":
			if item.Role != "user" {
				continue
			}
			text := item.Content[0].Text
			brought = append(brought, text)
			_, call, _ = strings.Cut(text, "use ")
		}
	}
	s.requests = append(s.requests, id+": "+strings.Join(brought, ", "))
	if len(waiting) > 0 {
		refuse(w, "No tool output found for function call.")
		return
	}
	s.n++
	answer := fmt.Sprintf("resp_%d", s.n)
	said = append(said, brought...)
	output := fmt.Sprintf(`{"id":"msg_%d","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":%q}]}`,
		s.n, strings.Join(said, " / "))
	keep := answer
	if req.Conversation != "" {
		keep = req.Conversation
	}
	s.calls[keep] = nil
	if call != "" {
		output = fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":"completed","call_id":"call_%d","name":%q,"arguments":"{}"}`, s.n, s.n, call)
		s.calls[keep] = []string{fmt.Sprintf("call_%d", s.n)}
	}
	if req.Store {
		s.kept[keep] = said
	}
	conversation := "null"
	if req.Conversation != "" {
		conversation = fmt.Sprintf(`{"id":%q}`, req.Conversation)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":0,\"response\":{\"id\":%q,\"object\":\"response\",\"status\":\"completed\","+
		"\"model\":\"gpt-5-mini\",\"store\":%t,\"conversation\":%s,\"output\":[%s],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n", answer, req.Store, conversation, output)
}

func refuse(w http.ResponseWriter, message string) {
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": message, "type": "invalid_request_error"}})
}

func startStoring(t testing.TB, store bool) (*storingService, *responsesmodel.Model) {
	t.Helper()
	s := &storingService{kept: map[string][]string{}, calls: map[string][]string{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, modelWith(t, responsesmodel.Options{Server: modelhttp.Options{BaseURL: srv.URL + "/v1", MaxRetries: -1}, Store: store})
}

func looker(t testing.TB, m host.Model) *host.Agent {
	t.Helper()
	look := host.NewTool("look", "looks", func(context.Context, *host.Call, struct{}) (string, error) { return "seen", nil }, nil)
	return testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: m, Instructions: "Be brief.", Tools: []*host.Tool{look}})
}

// An agent's thread on the service: what is new is sent, and what the service
// has comes back after a restart of ours.
func TestAgentThreadOnTheService(t *testing.T) {
	for _, c := range []struct {
		name         string
		store        bool
		conversation string
		kind         host.ThreadKind
		last         string
		requests     []string
	}{
		{"responses", true, "", host.ThreadService, "use look / output call_1 / and? / why?",
			[]string{": use look", "resp_1: output call_1", "resp_2: and?", "resp_3: why?"}},
		{"a conversation", true, "conv_1", host.ThreadService, "use look / output call_1 / and? / why?",
			[]string{"conv_1: use look", "conv_1: output call_1", "conv_1: and?", "conv_1: why?"}},
		{"nothing stored", false, "", host.ThreadStore, "use look / output call_1 / and? / why?",
			[]string{": use look", ": use look, output call_1", ": use look, output call_1, and?", ": use look, output call_1, and?, why?"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, m := startStoring(t, c.store)
			if c.conversation != "" {
				s.kept[c.conversation] = nil
			}
			h := testhost.NewSingle(t, nil)
			a := looker(t, m)
			thread, err := a.NewThread(t.Context(), &host.ThreadOptions{Conversation: c.conversation})
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, say := range []string{"use look", "and?", "why?"} {
				raw, err := thread.Serialize(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if thread, err = a.RestoreThread(t.Context(), raw, nil); err != nil {
					t.Fatal(err)
				}
				r, err := h.Run(t.Context(), a, &host.Request{Text: say, AgentThread: thread})
				if err != nil {
					t.Fatalf("%s: %v", say, err)
				}
				text = r.Text()
			}
			if thread.Kind() != c.kind || !strings.HasSuffix(text, c.last) {
				t.Errorf("the thread is %s, and the service has %q; want %s and %q", thread.Kind(), text, c.kind, c.last)
			}
			if diff := cmp.Diff(c.requests, s.requests); diff != "" {
				t.Errorf("the service was sent other things (-want +got):\n%s", diff)
			}
		})
	}
}

// The service wins over a store that was chosen; told to be strict, it is an
// error.
func TestAgentThreadWithAStoreToo(t *testing.T) {
	_, m := startStoring(t, true)
	stores, err := host.NewMemoryMessages(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: m, Messages: stores})
	h := testhost.NewSingle(t, nil)
	for _, strict := range []bool{false, true} {
		thread, err := a.NewThread(t.Context(), &host.ThreadOptions{StrictStore: strict})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Run(t.Context(), a, &host.Request{Text: "hi", AgentThread: thread})
		want, kind := host.Code(""), host.ThreadService
		if strict {
			want, kind = host.FailedPrecondition, host.ThreadUndecided
		}
		if host.CodeOf(err) != want || thread.Kind() != kind {
			t.Errorf("strict %t: %v, the thread is %s; want code %q and %s", strict, err, thread.Kind(), want, kind)
		}
	}
}

// A service that has forgotten the conversation says so, and the thread stays as
// it was.
func TestAgentThreadThatTheServiceForgot(t *testing.T) {
	s, m := startStoring(t, true)
	a := looker(t, m)
	h := testhost.NewSingle(t, nil)
	thread, err := a.NewThread(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), a, &host.Request{Text: "hi", AgentThread: thread}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	clear(s.kept)
	s.mu.Unlock()
	_, err = h.Run(t.Context(), a, &host.Request{Text: "and?", AgentThread: thread})
	if host.CodeOf(err) != host.NotFound || thread.Conversation() != "resp_1" {
		t.Errorf("%v, the thread has %q; want code %s and resp_1", err, thread.Conversation(), host.NotFound)
	}
}
