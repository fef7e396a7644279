package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
)

// One agent, one tool, one question. The model is scripted; a real one is any
// other host.Model.
func Example() {
	lookup := host.NewTool("lookup", "Looks up an order.",
		func(_ context.Context, _ *host.Call, in struct {
			Order int `json:"order" jsonschema:"number of the order"`
		}) (string, error) {
			return fmt.Sprintf("order %d was shipped on Monday", in.Order), nil
		}, nil)
	model := hosttest.NewModel(
		hosttest.Call("lookup", `{"order":1042}`),
		hosttest.Say("It was shipped on Monday."))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{
		Instructions: "You answer questions about orders.",
		Tools:        []*host.Tool{lookup},
		Model:        model,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := h.Run(context.Background(), agent, &host.Request{Text: "Where is order 1042?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
	// Output: It was shipped on Monday.
}

func ExampleNewTool() {
	type search struct {
		Words string `json:"words"`
		Limit *int   `json:"limit,omitempty" jsonschema:"how many results; null for all"`
	}
	tool := host.NewTool("search", "Searches the handbook.",
		func(_ context.Context, _ *host.Call, in search) ([]string, error) {
			if in.Words == "" {
				return nil, host.Errorf(host.InvalidArgument, "Give at least one word.")
			}
			return []string{"page 7"}, nil
		}, &host.ToolOptions{ReadOnly: true})
	fmt.Println(string(tool.Parameters))
	// Output: {"type":"object","properties":{"words":{"type":"string"},"limit":{"type":["null","integer"],"description":"how many results; null for all"}},"required":["words","limit"],"additionalProperties":false}
}

// A tool that cannot be made is reported by the agent that has it.
func ExampleNewTool_mistake() {
	watch := host.NewTool("watch", "Waits for news.",
		func(_ context.Context, _ *host.Call, news chan string) (string, error) { return <-news, nil }, nil)
	_, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{watch}})
	fmt.Println(host.CodeOf(err))
	fmt.Println(err)
	// Output:
	// invalid_argument
	// agent "clerk": parameters of tool "watch": ForType(chan string): type chan string is unsupported by jsonschema; give its arguments a type that JSON can hold
}

// Tags say more of a parameter: what it is, which values it has, which format.
func ExampleNewTool_tags() {
	type booking struct {
		Room  string   `json:"room" enum:"red,blue" description:"the colour of its door"`
		Day   string   `json:"day" format:"date"`
		Extra []string `json:"extra,omitempty" enum:"coffee,projector"`
	}
	tool := host.NewTool("book", "Books a room.",
		func(_ context.Context, _ *host.Call, in booking) (string, error) { return "booked " + in.Room, nil }, nil)
	var parameters struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(tool.Parameters, &parameters); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"room", "day", "extra"} {
		fmt.Println(name, string(parameters.Properties[name]))
	}
	// Output:
	// room {"type":"string","description":"the colour of its door","enum":["red","blue"]}
	// day {"type":"string","format":"date"}
	// extra {"type":["null","array"],"items":{"type":"string","enum":["coffee","projector"]}}
}

// A tool that returns a ToolOutput has all that a tool can do: here it makes a
// picture, which is no text for the model, and notes it in the state.
func ExampleNewTool_output() {
	draw := host.NewTool("draw", "Draws a shape.",
		func(_ context.Context, _ *host.Call, in struct {
			Shape string `json:"shape" enum:"circle,square"`
		}) (*host.ToolOutput, error) {
			picture := &host.Media{MediaType: "image/svg+xml", Data: []byte("<svg/>")}
			return &host.ToolOutput{
				Content:   json.RawMessage(`"drawn"`),
				Artifacts: []host.Artifact{{Name: in.Shape + ".svg", Parts: []host.Part{picture}}},
				State:     []host.PatchOp{{Op: "add", Path: "/shape", Value: json.RawMessage(`"` + in.Shape + `"`)}},
			}, nil
		}, nil)
	agent, _ := host.NewAgent("painter", &host.AgentOptions{Tools: []*host.Tool{draw},
		Model: hosttest.NewModel(hosttest.Call("draw", `{"shape":"circle"}`), hosttest.Say("Here it is."))})
	h, _ := host.New(&host.Options{SingleTenant: true})
	result, err := h.Run(context.Background(), agent, &host.Request{Text: "Draw a circle."})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text(), result.Artifacts[0].Name, string(result.State))
	// Output: Here it is. circle.svg {"shape":"circle"}
}

// A Start hook may make its change before each model call; it is one change, and
// holds.
func ExampleHooks_start() {
	model := hosttest.NewModel(hosttest.Call("look", `{}`), hosttest.Say("It rains."))
	look := host.NewTool("look", "Looks out.", func(context.Context, *host.Call, struct{}) (string, error) { return "rain", nil }, nil)
	agent, _ := host.NewAgent("guide", &host.AgentOptions{Instructions: "Say what you see.", Model: model, Tools: []*host.Tool{look},
		Hooks: host.Hooks{Start: func(_ context.Context, at *host.StartHook) error {
			at.Instructions += " Be brief."
			return nil
		}}})
	h, _ := host.New(&host.Options{SingleTenant: true})
	if _, err := h.Run(context.Background(), agent, &host.Request{Text: "How is it?"}); err != nil {
		fmt.Println(err)
		return
	}
	for _, req := range model.Requests() {
		fmt.Println(req.Messages[0].Text())
	}
	// Output:
	// Say what you see. Be brief.
	// Say what you see. Be brief.
}

// Parameters of a model that have no option are written by the names of its service;
// a request's stand over the agent's.
func ExampleAgentOptions_modelParameters() {
	model := hosttest.NewModel(hosttest.Say("a line"), hosttest.Say("a line"))
	agent, _ := host.NewAgent("poet", &host.AgentOptions{Model: model,
		ModelParameters: map[string]any{"top_p": 0.9, "seed": 7, "stop": []string{"END"}}})
	h, _ := host.New(&host.Options{SingleTenant: true})
	for _, over := range []map[string]any{nil, {"top_p": 0.5, "seed": nil}} {
		if _, err := h.Run(context.Background(), agent, &host.Request{Text: "Write a line.", ModelParameters: over}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, req := range model.Requests() {
		sent, _ := json.Marshal(req.Parameters)
		fmt.Println(string(sent))
	}
	// Output:
	// {"seed":7,"stop":["END"],"top_p":0.9}
	// {"stop":["END"],"top_p":0.5}
}

func ExampleHost_Stream() {
	count := host.NewTool("count", "Counts to two.",
		func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
			for i := range 2 {
				if err := call.Progress(host.Progress{Done: float64(i + 1), Total: 2}); err != nil {
					return "", err
				}
			}
			return "counted", nil
		}, nil)
	agent, _ := host.NewAgent("counter", &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Call("count", `{}`), hosttest.Say("One, two.")), Tools: []*host.Tool{count}})
	h, _ := host.New(&host.Options{SingleTenant: true})
	for ev, err := range h.Stream(context.Background(), agent, &host.Request{Text: "Count to two."}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch d := ev.Data.(type) {
		case *runevent.ToolStarted:
			fmt.Println("calls", d.Name)
		case *runevent.ToolProgress:
			fmt.Println(d.Kind, string(d.Data))
		case *runevent.TextDelta:
			fmt.Print(d.Text)
		case *runevent.RunFinished:
			fmt.Println("\nended:", d.FinishReason)
		}
	}
	// Output:
	// calls count
	// progress {"done":1,"total":2}
	// progress {"done":2,"total":2}
	// One, two.
	// ended: stop
}

func ExampleNewNetwork() {
	agent := func(name, says string) *host.Agent {
		a, err := host.NewAgent(name, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say(says))})
		if err != nil {
			panic(err)
		}
		return a
	}
	// The router is code: first the writer, then the editor, then nobody.
	router := host.RouterFunc("in turn", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		turn := []string{"writer", "editor"}
		if req.CallCount < len(turn) {
			return host.Next(turn[req.CallCount]), nil
		}
		return host.Stop("both have had their turn"), nil
	})
	network, err := host.NewNetwork("desk",
		[]*host.Agent{agent("writer", "It was a dark night."), agent("editor", "Cut \"dark\".")},
		&host.NetworkOptions{Router: router, MaxIterations: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, _ := host.New(&host.Options{SingleTenant: true})
	result, err := h.Run(context.Background(), network, &host.Request{Text: "Write a first sentence."})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range result.Results {
		fmt.Printf("%s: %s\n", r.Agent, r.Text())
	}
	// Output:
	// writer: It was a dark night.
	// editor: Cut "dark".
}

func ExampleProcessorFunc() {
	mask := host.ProcessorFunc("mask", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		for i, m := range messages {
			if text := m.Text(); strings.Contains(text, "4111") {
				m = m.Clone()
				m.Parts = []host.Part{&host.Text{Text: strings.ReplaceAll(text, "4111", "****")}}
				messages[i] = m
			}
		}
		return messages, nil
	})
	model := hosttest.NewModel(hosttest.Say("Noted."))
	agent, _ := host.NewAgent("clerk", &host.AgentOptions{Model: model, Processors: []host.Processor{mask}})
	h, _ := host.New(&host.Options{SingleTenant: true})
	if _, err := h.Run(context.Background(), agent, &host.Request{Text: "My card is 4111."}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(model.Requests()[0].Messages[0].Text())
	// Output: My card is ****.
}

func ExampleUpdateState() {
	type cart struct {
		Items []string `json:"items"`
	}
	state, _ := host.NewState(map[string]any{"items": []string{"tea"}, "customer": 7}, 0)
	err := host.UpdateState(state, func(c *cart) error {
		c.Items = append(c.Items, "milk")
		return nil
	})
	fmt.Println(string(state.JSON()), err)
	// Output: {"customer":7,"items":["tea","milk"]} <nil>
}

func ExampleTemplateInstructions() {
	greet, err := host.TemplateInstructions("You talk to {{.state.customer.name}}.")
	if err != nil {
		fmt.Println(err)
		return
	}
	state, _ := host.NewState(map[string]any{"customer": map[string]string{"name": "Ada"}}, 0)
	text, _ := greet(context.Background(), &host.InstructionsRequest{State: state})
	fmt.Println(text)
	// Output: You talk to Ada.
}
