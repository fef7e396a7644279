package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
)

// response is a response of OpenAI's API.
type response struct {
	ID, Object, Status, Model string
	Store, Background         bool
	Conversation              *struct{ ID string }
	Output                    []struct {
		Type, ID, Name, Arguments, Status string
		CallID                            string `json:"call_id"`
		Content, Summary                  []struct{ Type, Text string }
	}
	Usage    *struct{ Total int }
	Metadata map[string]string
	Error    *struct{ Code, Message string }
}

// text returns the text of the messages.
func (r *response) text() (text string) {
	for _, item := range r.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// call returns the id of the first call.
func (r *response) call(t *testing.T) string {
	t.Helper()
	for _, item := range r.Output {
		if item.Type == "function_call" {
			return item.CallID
		}
	}
	t.Fatalf("the response calls nothing: %+v", r)
	return ""
}

const locateFunction = `{"type":"function","name":"locate","parameters":{"type":"object","properties":{"exact":{"type":"boolean"}}}}`

func TestAResponseIsReadContinuedAndDeleted(t *testing.T) {
	s := newServer(t, nil)
	var first, again, second response
	s.do("acme", "POST", "/v1/responses", `{"model":"clerk","input":"one","metadata":{"order":"7"},"reasoning":{"effort":"low"}}`, 200, &first)
	if first.Object != "response" || first.Status != "completed" || first.text() != "you said one" || !first.Store || first.Conversation == nil || first.Metadata["order"] != "7" || first.Usage == nil {
		t.Errorf("the response is %+v", first)
	}
	if s.do("acme", "GET", "/v1/responses/"+first.ID, "", 200, &again); fmt.Sprint(again) == "" || again.text() != first.text() || again.ID != first.ID {
		t.Errorf("read again it is %+v", again)
	}
	s.do("acme", "POST", "/v1/responses", fmt.Sprintf(`{"model":"clerk","input":[{"role":"user","content":[{"type":"input_text","text":"two"}]}],"previous_response_id":%q}`, first.ID), 200, &second)
	if second.Conversation.ID != first.Conversation.ID {
		t.Errorf("the response after is in %s, not in %s", second.Conversation.ID, first.Conversation.ID)
	}
	var items httpapi.InputItems
	if s.do("acme", "GET", "/v1/responses/"+second.ID+"/input_items", "", 200, &items); len(items.Data) != 1 || !strings.Contains(string(items.Data[0]), `"two"`) || items.FirstID == "" || items.HasMore {
		t.Errorf("the items are %+v", items)
	}
	s.do("acme", "DELETE", "/v1/responses/"+second.ID, "", 200, nil)
	s.do("acme", "GET", "/v1/responses/"+second.ID, "", 404, nil)
	s.do("acme", "POST", "/v1/responses", fmt.Sprintf(`{"model":"clerk","input":"x","previous_response_id":%q}`, second.ID), 400, nil)
	s.do("acme", "DELETE", "/v1/threads/"+first.Conversation.ID, "", 204, nil)
}

// TestAConversationForksAtAResponse continues a response that is not the last.
func TestAConversationForksAtAResponse(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["listener"] = agentOf(t, "listener", func(_ context.Context, req *llm.Request) hosttest.Reply {
			var heard []string
			for _, m := range req.Messages {
				if m.Role == host.User {
					heard = append(heard, m.Text())
				}
			}
			return hosttest.Say(strings.Join(heard, ","))
		})
	})
	ask := func(input, previous string) (r response) {
		body := fmt.Sprintf(`{"model":"listener","input":%q}`, input)
		if previous != "" {
			body = fmt.Sprintf(`{"model":"listener","input":%q,"previous_response_id":%q}`, input, previous)
		}
		s.do("acme", "POST", "/v1/responses", body, 200, &r)
		return r
	}
	a := ask("a", "")
	b := ask("b", a.ID)
	c := ask("c", a.ID)
	d := ask("d", c.ID)
	if b.text() != "a,b" || c.text() != "a,c" || d.text() != "a,c,d" || c.Conversation.ID == a.Conversation.ID || d.Conversation.ID != c.Conversation.ID {
		t.Errorf("the responses are %q, %q, %q", b.text(), c.text(), d.text())
	}
	var e response
	if s.do("acme", "POST", "/v1/responses", fmt.Sprintf(`{"model":"listener","input":"e","conversation":%q}`, a.Conversation.ID), 200, &e); e.text() != "a,b,e" {
		t.Errorf("in the first conversation it is %q", e.text())
	}
}

func TestResponsesOfAConversationThatTheClientKeeps(t *testing.T) {
	s := newServer(t, nil)
	for _, body := range []string{
		`{"model":"clerk","store":false,"input":"hi"}`,
		`{"model":"clerk","input":[{"role":"user","content":"one"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]},{"role":"user","content":"three"}]}`,
	} {
		var r response
		if s.do("acme", "POST", "/v1/responses", body, 200, &r); r.Store || r.Conversation != nil || r.Status != "completed" {
			t.Errorf("the response is %+v", r)
		}
		s.do("acme", "GET", "/v1/responses/"+r.ID, "", 404, nil)
	}
	var list threads.Page
	if s.do("acme", "GET", "/v1/threads", "", 200, &list); len(list.Threads) > 0 {
		t.Errorf("%d threads are stored", len(list.Threads))
	}
}

// event is a frame of a stream of a response.
type event struct {
	Type     string
	Seq      int64 `json:"sequence_number"`
	Delta    string
	Response *response
}

func eventsOf(t *testing.T, raw []byte) (list []event) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		name, data, ok := strings.Cut(frame, "\ndata: ")
		var ev event
		if err := json.Unmarshal([]byte(data), &ev); err != nil || !ok || name != "event: "+ev.Type {
			t.Fatalf("the frame is %q: %v", frame, err)
		}
		list = append(list, ev)
	}
	return list
}

func TestResponsesStream(t *testing.T) {
	s, _ := newGuideServer(t)
	_, raw := s.request("acme", "POST", "/v1/responses", `{"model":"clerk","stream":true,"input":"a b"}`)
	var types []string
	for i, ev := range eventsOf(t, raw) {
		if ev.Seq != int64(i) {
			t.Errorf("frame %d has the number %d", i, ev.Seq)
		}
		types = append(types, strings.TrimPrefix(ev.Type, "response."))
	}
	want := []string{"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.delta", "output_text.delta",
		"output_text.done", "content_part.done", "output_item.done", "completed"}
	if !slices.Equal(types, want) {
		t.Errorf("the frames are %v, want %v", types, want)
	}
	_, raw = s.request("acme", "POST", "/v1/responses", `{"model":"guide","stream":true,"input":"where?","tools":[`+locateFunction+`]}`)
	list := eventsOf(t, raw)
	last := list[len(list)-1]
	if last.Type != "response.completed" || len(last.Response.Output) != 2 || last.Response.text() != "Looking." || last.Response.Output[1].Arguments != `{"exact":true}` {
		t.Errorf("the last frame is %+v", last.Response)
	}
	if !slices.ContainsFunc(list, func(ev event) bool {
		return ev.Type == "response.function_call_arguments.delta" && ev.Delta == `{"exact":true}`
	}) {
		t.Errorf("the frames are %s", raw)
	}
}

func TestResponsesContinueWithResultsOfTheClientsTools(t *testing.T) {
	for name, more := range map[string]string{"stored": "", "kept by the client": `,"store":false`} {
		s, asked := newGuideServer(t)
		var a, b response
		s.do("acme", "POST", "/v1/responses", `{"model":"guide","input":"where?","tools":[`+locateFunction+`]`+more+`}`, 200, &a)
		call := a.call(t)
		output := fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"at home"}`, call)
		body := fmt.Sprintf(`{"model":"guide","previous_response_id":%q,"input":[%s]}`, a.ID, output)
		if more != "" {
			body = fmt.Sprintf(`{"model":"guide","input":[{"role":"user","content":"where?"},{"type":"function_call","call_id":%q,"name":"locate","arguments":"{}"},%s]%s}`, call, output, more)
		}
		for range 2 { // the answer may be lost
			if s.do("acme", "POST", "/v1/responses", body, 200, &b); b.text() != "You are at home." || asked.Load() != 3 {
				t.Errorf("%s: the response is %+v after %d requests", name, b, asked.Load())
			}
		}
	}
}

func TestAResponseInTheBackground(t *testing.T) {
	s := newServer(t, nil)
	var begun, ended response
	s.do("acme", "POST", "/v1/responses", `{"model":"clerk","background":true,"input":"hi"}`, 200, &begun)
	if !begun.Background || begun.Conversation == nil {
		t.Errorf("the response begins as %+v", begun)
	}
	_, raw := s.request("acme", "GET", "/v1/responses/"+begun.ID+"?stream=true", "")
	all := eventsOf(t, raw)
	_, rest := s.request("acme", "GET", "/v1/responses/"+begun.ID+"?stream=true&starting_after=3", "")
	if list := eventsOf(t, rest); list[0].Seq != 4 || len(list) != len(all)-4 || all[len(all)-1].Type != "response.completed" {
		t.Errorf("the events are %s\nand behind the third %s", raw, rest)
	}
	if s.do("acme", "GET", "/v1/responses/"+begun.ID, "", 200, &ended); ended.Status != "completed" || ended.text() != "you said hi" {
		t.Errorf("the response ends as %+v", ended)
	}
	s.do("acme", "POST", "/v1/responses", `{"model":"stuck","background":true,"input":"hi"}`, 200, &begun)
	s.do("umbrella", "POST", "/v1/responses/"+begun.ID+"/cancel", "", 404, nil)
	if s.do("acme", "POST", "/v1/responses/"+begun.ID+"/cancel", "", 200, &ended); ended.Status != "cancelled" {
		t.Errorf("the canceled response is %+v", ended)
	}
	if s.do("acme", "GET", "/v1/responses/"+begun.ID, "", 200, &ended); ended.Status != "cancelled" {
		t.Errorf("the canceled response is kept as %+v", ended)
	}
}

func TestStructuredOutputOfAResponse(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) {
		o.Targets.(targets)["counter"] = agentOf(t, "counter", func(_ context.Context, req *llm.Request) hosttest.Reply {
			if req.Output == nil || req.Output.Name != "count" {
				return hosttest.Say("text")
			}
			return hosttest.Reply{Reasoning: "seven it is", Text: `{"n":7}`}
		})
	})
	var r response
	s.do("acme", "POST", "/v1/responses", `{"model":"counter","input":"count","text":{"format":{"type":"json_schema","name":"count","strict":true,"schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}}}}`, 200, &r)
	if r.text() != `{"n":7}` || r.Output[0].Type != "reasoning" || r.Output[0].Summary[0].Text != "seven it is" {
		t.Errorf("the response is %+v", r)
	}
}

func TestRefusedResponses(t *testing.T) {
	s := newServer(t, nil)
	for name, c := range map[string]struct {
		body        string
		status      int
		param, code string
	}{
		"no input":                        {`{"model":"clerk"}`, 400, "input", "invalid_argument"},
		"an empty input":                  {`{"model":"clerk","input":[]}`, 400, "input", "invalid_argument"},
		"a reference":                     {`{"model":"clerk","input":[{"type":"item_reference","id":"x"}]}`, 400, "", "invalid_argument"},
		"a tool of another type":          {`{"model":"clerk","input":"x","tools":[{"type":"web_search"}]}`, 400, "tools", "invalid_argument"},
		"a prompt":                        {`{"model":"clerk","input":"x","prompt":{"id":"p"}}`, 400, "prompt", "invalid_argument"},
		"an odd truncation":               {`{"model":"clerk","input":"x","truncation":"some"}`, 400, "truncation", "invalid_argument"},
		"a background that is not stored": {`{"model":"clerk","input":"x","background":true,"store":false}`, 400, "background", "invalid_argument"},
		"an unknown response":             {`{"model":"clerk","input":"x","previous_response_id":"resp_x"}`, 400, "previous_response_id", "previous_response_not_found"},
		"a response and a conversation":   {`{"model":"clerk","input":"x","previous_response_id":"resp_x","conversation":"t1"}`, 400, "previous_response_id", "invalid_argument"},
		"an unknown model":                {`{"model":"nobody","input":"x"}`, 404, "model", "model_not_found"},
	} {
		var body struct {
			Error *struct{ Param, Code string }
		}
		resp, raw := s.request("acme", "POST", "/v1/responses", c.body)
		if json.Unmarshal(raw, &body) != nil || body.Error == nil || c.param != "" && body.Error.Param != c.param || body.Error.Code != c.code || resp.StatusCode != c.status {
			t.Errorf("%s: the answer is %d %s", name, resp.StatusCode, raw)
		}
	}
}

func TestACredentialOfOneThreadReachesTheResponsesInIt(t *testing.T) {
	s := newServer(t, nil)
	var own, other response
	s.do("acme//own", "POST", "/v1/responses", `{"model":"clerk","input":"hi"}`, 200, &own)
	s.do("acme", "POST", "/v1/responses", `{"model":"clerk","input":"hi"}`, 200, &other)
	if own.Conversation == nil || own.Conversation.ID != "own" {
		t.Errorf("the response is %+v", own)
	}
	s.do("acme//own", "GET", "/v1/responses/"+own.ID, "", 200, nil)
	s.do("acme//own", "GET", "/v1/responses/"+other.ID, "", 404, nil)
	s.do("acme//own", "POST", "/v1/responses", fmt.Sprintf(`{"model":"clerk","input":"hi","previous_response_id":%q}`, other.ID), 400, nil)
}
