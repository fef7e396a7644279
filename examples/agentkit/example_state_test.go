package agentkit

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

type networkState struct {
	Username *string           `json:"username,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
}

// State is JSON with the type of a Go struct, or of a JSON Schema: a default, and
// every change, has to fit. Go reads and changes it as that type.
func Example_typedState() {
	name := "default-username"
	rename := host.NewTool("rename", "Notes who the user is.", func(_ context.Context, call *host.Call, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "noted", host.UpdateState(call.State, func(s *networkState) error {
			s.Username = &in.Name
			return nil
		})
	}, nil)
	spoil := host.NewTool("spoil", "Writes what does not fit.", func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
		return "", call.State.Set("/username", 7)
	}, nil)
	agent := must(host.NewAgent("clerk", &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Call("rename", `{"name":"Alice"}`), hosttest.Call("spoil", `{}`), hosttest.Say("Hello, Alice.")),
		Tools: []*host.Tool{rename, spoil}}))
	network := must(host.NewNetwork("desk", []*host.Agent{agent}, &host.NetworkOptions{
		Router:      host.InOrder("line", "clerk"),
		State:       networkState{Username: &name},
		StateSchema: must(host.SchemaOf[networkState]()),
	}))
	result := run(network, host.Request{Text: "I am Alice."})
	show(result.Results[0].Messages)
	fmt.Println(string(result.State))
	// Output:
	// assistant calls rename {"name":"Alice"}
	// tool: rename: "noted"
	// assistant calls spoil {}
	// tool: spoil: "state would not fit its schema: /username: got number, want null or string"
	// assistant: Hello, Alice.
	// {"username":"Alice"}
}

// A tool builds up state. Tools of one answer run at one time; an update reads,
// changes and writes with nothing in between, so both files are there.
func Example_writeFiles() {
	type file struct {
		Filename string `json:"filename"`
		Content  string `json:"content"`
	}
	write := host.NewTool("write_files", "Writes files.", func(_ context.Context, call *host.Call, in struct {
		Files []file `json:"files"`
	}) (string, error) {
		return "", host.UpdateState(call.State, func(s *networkState) error {
			if s.Files == nil {
				s.Files = map[string]string{}
			}
			for _, f := range in.Files {
				s.Files[f.Filename] = f.Content
			}
			return nil
		})
	}, nil)
	agent := must(host.NewAgent("coder", &host.AgentOptions{
		Model: hosttest.NewModel(
			hosttest.Call("write_files", `{"files":[{"filename":"a.ts","content":"let a"}]}`).Call("write_files", `{"files":[{"filename":"b.ts","content":"let b"}]}`),
			hosttest.Say("Written.")),
		Tools: []*host.Tool{write}}))
	fmt.Println(string(run(agent, host.Request{Text: "Write a and b."}).State))
	// Output: {"files":{"a.ts":"let a","b.ts":"let b"}}
}
