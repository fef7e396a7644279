package agentkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// mcpClient speaks to a server of the Model Context Protocol over its standard
// input and output: a JSON-RPC message a line. A program has an SDK for it, and a
// process or an address where this has pipes.
type mcpClient struct {
	mu    sync.Mutex // one request at a time
	write io.WriteCloser
	read  *bufio.Scanner
	id    int
}

func (c *mcpClient) call(method string, params, result any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id++
	if _, err := fmt.Fprintf(c.write, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, toJSON(params)); err != nil {
		return err
	}
	if !c.read.Scan() {
		return io.ErrUnexpectedEOF
	}
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(c.read.Bytes(), &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return errors.New(answer.Error.Message)
	}
	return json.Unmarshal(answer.Result, result)
}

type mcpTool struct {
	Name, Description string
	InputSchema       json.RawMessage
}

// tool makes a tool of the host of one that the server lists: name, description
// and schema are the same things, and a result that is an error stays one.
func (c *mcpClient) tool(server string, t mcpTool) (*host.Tool, error) {
	spec := llm.ToolSpec{Name: server + "-" + t.Name, Description: t.Description, Parameters: t.InputSchema}
	return host.NewRawTool(spec, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		var result struct {
			Content []struct{ Text string }
			IsError bool
		}
		if err := c.call("tools/call", map[string]any{"name": t.Name, "arguments": call.Arguments}, &result); err != nil {
			return nil, host.Errorf(host.Unavailable, "The server %s does not answer.", server)
		}
		text := ""
		for _, part := range result.Content {
			text += part.Text
		}
		if result.IsError {
			return nil, host.Errorf(host.InvalidArgument, "%s", text)
		}
		return &host.ToolOutput{Content: toJSON(text)}, nil
	}, nil)
}

// startMCP starts a server of one tool, in the place of a process.
func startMCP() *mcpClient {
	requests, write := io.Pipe()
	read, answers := io.Pipe()
	go func() {
		defer answers.Close()
		for lines := bufio.NewScanner(requests); lines.Scan(); {
			var req struct {
				ID     int
				Method string
				Params struct{ Arguments struct{ City string } }
			}
			if json.Unmarshal(lines.Bytes(), &req) != nil {
				return
			}
			result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"weather","version":"1"}}`
			switch city := req.Params.Arguments.City; {
			case req.Method == "tools/list":
				result = `{"tools":[{"name":"forecast","description":"Tells tomorrow's weather.","inputSchema":` +
					`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]}`
			case req.Method == "tools/call" && city == "Atlantis":
				result = `{"content":[{"type":"text","text":"There is no Atlantis."}],"isError":true}`
			case req.Method == "tools/call":
				result = `{"content":[{"type":"text","text":` + string(toJSON("Rain in "+city+".")) + `}]}`
			}
			fmt.Fprintf(answers, `{"jsonrpc":"2.0","id":%d,"result":%s}`+"\n", req.ID, result)
		}
	}()
	return &mcpClient{write: write, read: bufio.NewScanner(read)}
}

// The tools that an MCP server lists are tools like others: their arguments are
// checked, calls have a time and a number, and errors are told to the model.
func Example_mcpTools() {
	client := startMCP()
	defer client.write.Close()
	var hello struct{ ServerInfo struct{ Name string } }
	if err := client.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": struct{}{},
		"clientInfo": map[string]string{"name": "agenthost", "version": "1"}}, &hello); err != nil {
		panic(err)
	}
	var listed struct{ Tools []mcpTool }
	if err := client.call("tools/list", struct{}{}, &listed); err != nil {
		panic(err)
	}
	var tools []*host.Tool
	for _, t := range listed.Tools {
		tools = append(tools, must(client.tool(hello.ServerInfo.Name, t)))
	}
	agent := must(host.NewAgent("traveller", &host.AgentOptions{
		Model: hosttest.NewModel(
			hosttest.Call("weather-forecast", `{}`),
			hosttest.Call("weather-forecast", `{"city":"Atlantis"}`),
			hosttest.Call("weather-forecast", `{"city":"Oslo"}`),
			hosttest.Say("Take an umbrella.")),
		Tools: tools,
	}))
	show(run(agent, host.Request{Text: "What will the weather be?"}).Results[0].Messages)
	// Output:
	// assistant calls weather-forecast {}
	// tool: weather-forecast: "the arguments do not fit the schema: /: missing property 'city'"
	// assistant calls weather-forecast {"city":"Atlantis"}
	// tool: weather-forecast: "There is no Atlantis."
	// assistant calls weather-forecast {"city":"Oslo"}
	// tool: weather-forecast: "Rain in Oslo."
	// assistant: Take an umbrella.
}
