package main

import (
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// What returns has said, after orders.
const conversation = `[
	{"id":"1","role":"user","parts":[{"type":"text","text":"where is order 1042?"}]},
	{"id":"2","role":"assistant","agent":"orders","parts":[{"type":"text","text":"On its way."}]},
	{"id":"3","role":"user","parts":[{"type":"text","text":"can I get a refund?"}]},
	{"id":"4","role":"assistant","agent":"returns","parts":[{"type":"text","text":"Yes."}]},
	{"id":"5","role":"user","parts":[{"type":"text","text":"and then?"}]}]`

func TestRoute(t *testing.T) {
	for _, test := range []struct{ question, messages, last, want string }{
		{"Where is order 1042?", "[]", "null", `{"next":["orders"],"reason":"the question is about an order"}`},
		{"I want to return order 1042", "[]", "null", `{"next":["returns"],"reason":"the question is about a return"}`},
		{"REFUND me", "[]", "null", `{"next":["returns"],"reason":"the question is about a return"}`},
		{"and the other one?", conversation, "null", `{"next":["returns"],"reason":"the question names neither, so returns goes on"}`},
		{"and where is the other one?", conversation, "null", `{"next":["orders"],"reason":"the question is about an order"}`},
		{"hello", "[]", "null", `{"next":["orders"],"reason":"the question names neither, so orders goes on"}`},
		{"hello", `[{"id":"1","role":"assistant","parts":[{"type":"text","text":"from elsewhere"}]}]`, "null", `{"next":["orders"],"reason":"the question names neither, so orders goes on"}`},
		{"hello", "", "null", `{"next":["orders"],"reason":"the question names neither, so orders goes on"}`},
		{"Where is order 1042?", conversation, `{"agent":"orders","messages":[],"tool_results":[],"finish_reason":"stop"}`,
			`{"next":[],"reason":"orders has answered"}`},
	} {
		t.Run(test.question, func(t *testing.T) {
			host := pdktest.Host{Messages: pdk.Raw(test.messages)}
			if got := host.Run(t, "route", request(t, test.question, test.messages, test.last)); got != pdk.Raw(test.want) {
				t.Errorf("route: %s, want %s", got, test.want)
			}
		})
	}
}

// request is what the host sends; without messages, what it sends to a plugin
// that was not granted them.
func request(t *testing.T, question, messages, last string) pdk.Raw {
	t.Helper()
	outline := ""
	if messages != "" {
		list, err := pdk.ParseMessages(pdk.Raw(messages))
		if err != nil {
			t.Fatal(err)
		}
		outline = `,"outline":` + string(pdktest.EncodeOutline(pdktest.NewOutline(list, nil)))
	}
	return pdk.Raw(fmt.Sprintf(`{"router":"desk","scope":{},"input":{"id":"9","role":"user","parts":[{"type":"text","text":%q}]},
		"call_count":0,"stack":[],"agents":[{"name":"orders"},{"name":"returns"}],"last":%s%s}`, question, last, outline))
}

// A conversation that cannot be read is not guessed at.
func TestUnreadableConversation(t *testing.T) {
	host := pdktest.Host{Ops: map[string]func(pdk.Raw) (pdk.Raw, *pdk.Error){
		"messages.get": func(pdk.Raw) (pdk.Raw, *pdk.Error) { return "", pdk.Errorf(pdk.Unavailable, "gone") },
	}}
	if _, err := host.Call("route", request(t, "and then?", conversation, "null")); err == nil || err.Code != pdk.Unavailable {
		t.Errorf("route: %v, want code %s", err, pdk.Unavailable)
	}
}
