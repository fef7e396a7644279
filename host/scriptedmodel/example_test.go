package scriptedmodel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// Any client of the protocol can ask.
func Example() {
	rules, err := scriptedmodel.ReadRules([]byte(`{"rules": [{
		"match": {"user": "orders (\\d+) and (\\d+)", "tool": "lookup_order"},
		"reply": {"calls": [{"name": "lookup_order", "arguments": {"id": "${1}"}}, {"name": "lookup_order", "arguments": {"id": "${2}"}}]}
	}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	srv, err := scriptedmodel.Start(context.Background(), &scriptedmodel.Options{Rules: rules})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	resp, err := http.Post(srv.BaseURL()+"/chat/completions", "application/json", strings.NewReader(`{
		"model": "scripted",
		"messages": [{"role": "user", "content": "Where are orders 1042 and 1043?"}],
		"tools": [{"type": "function", "function": {"name": "lookup_order", "description": "Finds an order.",
			"parameters": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	fmt.Println(strings.Count(string(answer), `"name":"lookup_order"`), "calls")
	// Output:
	// 2 calls
}

func ExampleReadRules() {
	rules, err := scriptedmodel.ReadRules([]byte(`{"rules": [
		{"name": "greeting", "match": {"user": "(?i)^hello, i am (\\w+)"}, "reply": {"text": "Hello ${1}."}},
		{"name": "busy", "match": {"user": "hurry"}, "reply": {"error": {"status": 429, "retry_after": "2"}}}
	]}`))
	fmt.Println(len(rules), err)

	_, err = scriptedmodel.ReadRules([]byte(`{"rules": [{"name": "greeting", "match": {"usr": "hello"}, "reply": {"text": "Hello."}}]}`))
	fmt.Println(err)
	// Output:
	// 2 <nil>
	// rule 1 ("greeting"): unknown field "usr"
}
