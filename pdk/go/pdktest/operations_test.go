package pdktest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// inTool runs a function as a tool of a plugin of its own.
func inTool(t *testing.T, host *pdktest.Host, fn func() error) {
	t.Helper()
	host.Plugin = new(pdk.Plugin)
	host.Plugin.Tool("t", "", "", func(*pdk.Call) error { return fn() })
	host.Tool(t, "t", "{}")
}

func TestKeysAndValues(t *testing.T) {
	var host pdktest.Host
	inTool(t, &host, func() error {
		for _, key := range []string{"b2", "a", "b1"} {
			if _, err := pdk.KVPut(key, []byte("value of "+key), pdk.KVPutOptions{If: true}); err != nil {
				return err
			}
		}
		item, err := pdk.KVGet("a")
		if err != nil || string(item.Value) != "value of a" || item.Key != "a" || item.Revision != 2 {
			t.Errorf("KVGet = %+v, %v", item, err)
		}
		if _, err := pdk.KVPut("a", nil, pdk.KVPutOptions{If: true, At: 1}); pdk.CodeOf(err) != pdk.Conflict {
			t.Errorf("KVPut at another revision: %v, want conflict", err)
		}
		items, next, err := pdk.KVList(pdk.KVQuery{Prefix: "b", Limit: 1, Values: true})
		if err != nil || len(items) != 1 || items[0].Key != "b1" || string(items[0].Value) != "value of b1" || next != "b1" {
			t.Errorf("KVList = %+v, %q, %v", items, next, err)
		}
		items, next, err = pdk.KVList(pdk.KVQuery{Prefix: "b", After: next})
		if err != nil || len(items) != 1 || items[0].Key != "b2" || items[0].Value != nil || next != "" {
			t.Errorf("the next page of KVList = %+v, %q, %v", items, next, err)
		}
		if err := pdk.KVDelete("a"); err != nil {
			return err
		}
		if _, err := pdk.KVGet("a"); pdk.CodeOf(err) != pdk.NotFound {
			t.Errorf("KVGet of what was deleted: %v", err)
		}
		return nil
	})
	if len(host.KV) != 2 || host.KV["b1"].Value != "value of b1" {
		t.Errorf("the host keeps %v", host.KV)
	}
}

// A test's host gives the functions for bytes what it gives those for base64.
func TestBytesBesideRequests(t *testing.T) {
	var host pdktest.Host
	inTool(t, &host, func() error {
		if _, err := pdk.KVPutBytes("a", []byte{0, 1, 255}, pdk.KVPutOptions{If: true}); err != nil {
			return err
		}
		if _, err := pdk.KVPutBytes("b", nil, pdk.KVPutOptions{}); err != nil {
			return err
		}
		item, err := pdk.KVGetBytes("a")
		if err != nil || string(item.Value) != "\x00\x01\xff" || item.Key != "a" || item.Revision != 1 {
			t.Errorf("KVGetBytes = %+v, %v", item, err)
		}
		list, beside, err := pdk.HostCallBytes("kv.list", `{"values":true}`, nil)
		if err != nil || string(beside) != "\x00\x01\xff" || !strings.Contains(string(list), `"value":3`) {
			t.Errorf("kv.list = %s, %x, %v", list, beside, err)
		}
		if _, _, err := pdk.HostCallBytes("kv.put", `{"key":"a","value":2}`, []byte{1}); pdk.CodeOf(err) != pdk.InvalidArgument {
			t.Errorf("a value that is not there is put: %v", err)
		}
		if _, _, err := pdk.HostCallBytes("emit", `{"kind":"x","data":1}`, nil); err != nil {
			t.Errorf("an operation without bytes: %v", err)
		}
		return nil
	})
	if host.KV["a"].Value != "\x00\x01\xff" {
		t.Errorf("the host keeps %v", host.KV)
	}
}

func TestFetch(t *testing.T) {
	host := pdktest.Host{Fetch: func(req pdktest.HTTPRequest) (pdk.HTTPResponse, *pdk.Error) {
		if req.URL == "https://down.example/" {
			return pdk.HTTPResponse{}, pdk.Errorf(pdk.Unavailable, "it is down")
		}
		if req.Headers[0] != (pdk.Header{Name: "Authorization", Prefix: "Bearer ", Secret: "KEY"}) || req.Body != "hello" {
			t.Errorf("the host gets %+v", req)
		}
		return pdk.HTTPResponse{Status: 201, Headers: []pdk.Header{{Name: "X-A", Value: "1"}}, Body: []byte("\x00\xff")}, nil
	}}
	inTool(t, &host, func() error {
		res, err := pdk.Fetch(pdk.HTTPRequest{Method: "POST", URL: "https://a.example/", Body: []byte("hello"),
			Headers: []pdk.Header{{Name: "Authorization", Prefix: "Bearer ", Secret: "KEY"}, {Name: "A", Value: "b"}}})
		if err != nil {
			return err
		}
		if res.Status != 201 || res.Header("x-a") != "1" || res.Header("x-b") != "" || string(res.Body) != "\x00\xff" {
			t.Errorf("Fetch = %+v", res)
		}
		if _, err := pdk.Fetch(pdk.HTTPRequest{URL: "https://down.example/"}); pdk.CodeOf(err) != pdk.Unavailable {
			t.Errorf("Fetch of what is down: %v", err)
		}
		return nil
	})
	inTool(t, &pdktest.Host{}, func() error {
		if _, err := pdk.Fetch(pdk.HTTPRequest{URL: "https://a.example/"}); pdk.CodeOf(err) != pdk.Unimplemented {
			t.Errorf("Fetch in a host without: %v", err)
		}
		return nil
	})
}

func TestArtifacts(t *testing.T) {
	var host pdktest.Host
	large := strings.Repeat("0123456789", 60_000)
	inTool(t, &host, func() error {
		digest, err := pdk.WriteArtifact("large", "text/plain", []byte(large))
		if err != nil || !strings.HasPrefix(digest, "sha256:") {
			t.Errorf("WriteArtifact = %q, %v", digest, err)
		}
		data, mediaType, err := pdk.ReadArtifact("large")
		if err != nil || string(data) != large || mediaType != "text/plain" {
			t.Errorf("ReadArtifact = %d bytes of %s, %v", len(data), mediaType, err)
		}
		if _, err := pdk.WriteArtifact("empty", "", nil); err != nil {
			t.Errorf("WriteArtifact of nothing: %v", err)
		}
		if data, _, err := pdk.ReadArtifact("empty"); err != nil || len(data) != 0 {
			t.Errorf("ReadArtifact of nothing = %q, %v", data, err)
		}
		if _, _, err := pdk.ReadArtifact("gone"); pdk.CodeOf(err) != pdk.NotFound {
			t.Errorf("ReadArtifact of what there is not: %v", err)
		}
		return nil
	})
	if host.Artifacts["large"].Data != large {
		t.Error("the host has another artifact")
	}
}

func TestGenerateAndSend(t *testing.T) {
	host := pdktest.Host{Generate: func(request pdk.Raw) (pdk.Raw, *pdk.Error) {
		if n, _ := request.Get("max_tokens").Int(); n != 50 {
			t.Errorf("the host is asked %s", request)
		}
		return `{"message":{"role":"assistant","parts":[{"type":"text","text":"short"}]},"usage":{"input_tokens":7,"output_tokens":1},"finish_reason":"stop"}`, nil
	}}
	inTool(t, &host, func() error {
		got, err := pdk.Generate(pdk.Question{Instructions: "Sum up.", Messages: []pdk.Message{pdk.NewMessage("user", pdk.TextPart("long"))}, MaxTokens: 50})
		if err != nil {
			return err
		}
		if got.Message.Text() != "short" || got.InputTokens != 7 || got.OutputTokens != 1 || got.FinishReason != "stop" {
			t.Errorf("Generate = %+v", got)
		}
		id, err := pdk.Send("t", `{"n":1}`, pdk.SendOptions{IdempotencyKey: "k", DelayMS: 10})
		if err != nil || id == "" {
			t.Errorf("Send = %q, %v", id, err)
		}
		if _, err := pdk.Send("t", "", pdk.SendOptions{IdempotencyKey: "k"}); pdk.CodeOf(err) != pdk.AlreadyExists {
			t.Errorf("Send of a key that was sent: %v", err)
		}
		return nil
	})
	if len(host.Jobs) != 1 || host.Jobs[0] != (pdktest.Job{Tool: "t", Payload: `{"n":1}`, IdempotencyKey: "k", DelayMS: 10}) {
		t.Errorf("the jobs are %+v", host.Jobs)
	}
}

func ExampleHost_kV() {
	var p pdk.Plugin
	p.Tool("visit", "Counts visits.", "", func(c *pdk.Call) error {
		item, err := pdk.KVGet("visits")
		if err != nil && pdk.CodeOf(err) != pdk.NotFound {
			return err
		}
		visits := append(item.Value, '|')
		if _, err := pdk.KVPut("visits", visits, pdk.KVPutOptions{If: true, At: item.Revision}); err != nil {
			return err
		}
		c.Text(string(visits))
		return nil
	})

	host := pdktest.Host{Plugin: &p}
	for range 3 {
		output, _ := host.Call("tool", `{"tool":"visit"}`)
		fmt.Println(output)
	}
	fmt.Println(host.KV["visits"].Value)
	// Output:
	// {"content":"|"}
	// {"content":"||"}
	// {"content":"|||"}
	// |||
}

func ExampleHost_fetch() {
	var p pdk.Plugin
	p.Tool("rate", "The exchange rate.", "", func(c *pdk.Call) error {
		res, err := pdk.Fetch(pdk.HTTPRequest{URL: "https://api.example.com/rate",
			Headers: []pdk.Header{{Name: "Authorization", Prefix: "Bearer ", Secret: "RATES"}}})
		if err != nil {
			return err
		}
		c.Text(string(res.Body))
		return nil
	})

	host := pdktest.Host{Plugin: &p, Fetch: func(req pdktest.HTTPRequest) (pdk.HTTPResponse, *pdk.Error) {
		fmt.Println(req.Method, req.URL, "with the secret", req.Headers[0].Secret)
		return pdk.HTTPResponse{Status: 200, Body: []byte("1.0842")}, nil
	}}
	output, _ := host.Call("tool", `{"tool":"rate"}`)
	fmt.Println(output)
	// Output:
	// GET https://api.example.com/rate with the secret RATES
	// {"content":"1.0842"}
}
