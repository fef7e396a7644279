// Command server is an MCP server on its standard streams, without a library: lines of
// JSON-RPC come in and go out. It answers the handshake, its list of tools, and their calls.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// tools is the list of tools. The host shows these words to models, once a person has
// accepted them.
const tools = `{"tools":[
	{"name":"look_up","description":"Says how much of an item is in stock.","inputSchema":{"type":"object","properties":{"item":{"type":"string"}},"required":["item"]}},
	{"name":"order","description":"Orders more of an item.","inputSchema":{"type":"object","properties":{"item":{"type":"string"}},"required":["item"]}},
	{"name":"burn","description":"Burns the stock.","inputSchema":{"type":"object"}}]}`

// request is a request or a notification.
type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name      string
		Arguments struct{ Item string }
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var req request
		if json.Unmarshal(lines.Bytes(), &req) != nil || len(req.ID) == 0 {
			continue // a notification
		}
		result, ok := answer(&req)
		if ok {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, line(result))
		} else {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", req.ID)
		}
	}
}

// answer returns the result of a request, as JSON.
func answer(req *request) (result string, ok bool) {
	switch req.Method {
	case "initialize":
		return `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stock","version":"1"}}`, true
	case "tools/list":
		return tools, true
	case "tools/call":
		text := "40 boxes of " + req.Params.Arguments.Item + " in the warehouse " + os.Getenv("WAREHOUSE")
		if req.Params.Name == "order" {
			text = "Ordered: " + req.Params.Arguments.Item
		}
		quoted, _ := json.Marshal(text) // of a string
		return `{"content":[{"type":"text","text":` + string(quoted) + `}]}`, true
	}
	return "", false
}

// line returns JSON in one line, as the transport wants it.
func line(text string) string {
	var v json.RawMessage = []byte(text)
	one, err := json.Marshal(v)
	if err != nil {
		panic(err) // of texts above
	}
	return string(one)
}
