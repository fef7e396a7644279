package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// Scenario: every kit asks the host for the same operations, and reads the same responses.

// operations are what the tool "host" of a guest does, in order, by the functions of its kit.
var operations = []struct {
	op, request string
	response    string
	fails       *host.Error
}{
	{op: "kv.get", request: `{"key":"k"}`, fails: host.Errorf(host.NotFound, "there is no key k")},
	{op: "kv.put", request: `{"key":"k","value":"YQDDqQ=="}`, response: `{"revision":1}`},
	{op: "kv.get", request: `{"key":"k"}`, response: `{"value":"YQDDqQ==","revision":1}`},
	{op: "state.get", request: `{"path":"/n"}`, response: `{"value":9007199254740993,"revision":3}`},
	{op: "http.fetch", request: `{"method":"POST","url":"https://example.com/x","headers":[{"name":"Authorization","prefix":"Bearer ","secret":"KEY"}],"body":"eyJhIjoxfQ=="}`,
		response: `{"status":201,"headers":[{"name":"x","value":"y"}],"body":"eyJvayI6dHJ1ZX0="}`},
	{op: "step.begin", request: `{"name":"s"}`, response: `{"done":false}`},
	{op: "step.end", request: `{"name":"s","result":{"x":1.0}}`, response: `{}`},
	{op: "step.begin", request: `{"name":"s"}`, response: `{"done":true,"result":{"x":1.0}}`},
	{op: "emit", request: `{"kind":"progress","data":{"message":"half"}}`, response: `{}`},
	{op: "queue.send", request: `{"handler":"later","payload":{"a":[1]}}`, response: `{"id":"j1"}`},
	{op: "tool.call", request: `{"calls":[{"name":"look","arguments":{"order":7}},{"name":"pay","arguments":{"order":7}},{"name":"wait","arguments":{"order":7}}]}`,
		response: `{"results":[{"kind":"result","content":{"n":9007199254740993},"media":[{"type":"media","media_type":"image/png","data":"aGk="}]},` +
			`{"kind":"error","content":"The shop is closed.","is_error":true,"code":"unavailable"},{"kind":"later","content":{"x":1}}]}`},
	{op: "tool.call", request: `{"calls":[{"name":"look","arguments":{"order":8}}]}`, response: `{"results":[{"kind":"result","content":"order 8"}]}`},
	{op: "tool.call", request: `{"calls":[{"name":"pay","arguments":{"order":8}}]}`,
		response: `{"results":[{"kind":"error","content":"A person denied it.","is_error":true,"code":"permission_denied"}]}`},
	{op: "tool.call", request: `{"calls":[{"name":"drop","arguments":{"order":8}}]}`, fails: host.Errorf(host.PermissionDenied, "drop is not granted")},
	{op: "artifact.read", request: `{"name":"plan"}`, fails: host.Errorf(host.Conflict, "the plan is being written").WithHint("wait")},
}

func TestEveryKitAsksTheHostAlike(t *testing.T) {
	for language, build := range guests {
		t.Run(language, func(t *testing.T) {
			p := load(t, build(t))
			for _, fails := range []bool{false, true} {
				asked := 0
				opts := &plugin.CallOptions{Operate: func(_ context.Context, op string, request []byte, _ plugin.Operation) ([]byte, error) {
					if asked == len(operations) {
						t.Errorf("it asks for %s as well", op)
						return nil, host.Errorf(host.Internal, "no more")
					}
					want := operations[asked]
					asked++
					if op != want.op || !reflect.DeepEqual(meant(t, string(request)), meant(t, want.request)) {
						t.Errorf("it asks for %s %s, want %s %s", op, request, want.op, want.request)
					}
					if want.fails != nil {
						return nil, want.fails
					}
					return []byte(want.response), nil
				}}
				result, err := p.Call(t.Context(), "acme", "tool", fmt.Appendf(nil, `{"tool":"host","arguments":{"fails":%v}}`, fails), opts)
				if err != nil {
					t.Fatal(err)
				}
				output, _ := normal(decoded(t, string(result.Output)), true).(object)
				if asked != len(operations) {
					t.Errorf("it has asked for %d operations of %d", asked, len(operations))
				}
				checkHostAnswer(t, output, result.GuestError, fails)
			}
		})
	}
}

func checkHostAnswer(t *testing.T, output object, failed, fails bool) {
	t.Helper()
	if fails {
		if !failed || output["code"] != "conflict" || output["message"] != "the plan is being written" || output["hint"] != "wait" {
			t.Errorf("an error of the host that the tool returns is %v", output)
		}
		return
	}
	want := normal(decoded(t, `{"absent":true,"text":"a\u0000é","n":9007199254740993,"status":201,"ok":true,"step":{"x":1},"code":"conflict",
		"tools":{"found":{"n":9007199254740993},"media":"image/png","failed":["unavailable","The shop is closed.","internal"],"one":"order 8","denied":[true,true]}}`), true)
	if got, _ := output["content"].(object); failed || !reflect.DeepEqual(any(got), want) {
		t.Errorf("the tool answers %v, want %v", output, want)
	}
}

// meant returns a request without the members that say what an absent one says.
func meant(t *testing.T, text string) any {
	t.Helper()
	request, _ := normal(decoded(t, text), true).(object)
	for name, v := range request {
		if v == false || v == nil || reflect.DeepEqual(v, json.Number("0")) {
			delete(request, name)
		}
	}
	return request
}
