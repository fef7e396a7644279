package agentkit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// compiled is a directory that outlives the process: a plugin is compiled once.
var compiled = testcode.Dir()

// toolHistory is a conversation in which two tools were called.
func toolHistory() []*host.Message {
	result := func(id, name, content string) *host.Message {
		return host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: name, Content: toJSON(content)})
	}
	return []*host.Message{
		host.UserText("find it"),
		host.NewMessage(host.Assistant, &host.ToolCall{ID: "1", Name: "search", Arguments: json.RawMessage(`{}`)}, &host.ToolCall{ID: "2", Name: "debug_log", Arguments: json.RawMessage(`{}`)}),
		result("1", "search", "page 7"),
		result("2", "debug_log", "dump"),
		host.AssistantText("It is on page 7."),
	}
}

// The start hook can drop messages from what the model is sent; what is stored
// stays. A view that it breaks (a result without its call) is an error of the run
// instead of one of the provider.
func Example_filterInHook() {
	model := says("Page 7.")
	agent := must(host.NewAgent("clerk", &host.AgentOptions{Model: model, Hooks: host.Hooks{
		Start: func(_ context.Context, at *host.StartHook) error {
			var kept []*host.Message
			for _, m := range at.Messages {
				if len(m.ToolCalls()) == 0 && len(m.ToolResults()) == 0 {
					kept = append(kept, m)
				}
			}
			at.Messages = kept
			return nil
		}}}))
	run(agent, host.Request{Messages: toolHistory(), Text: "Where?"})
	show(model.Requests()[0].Messages)
	// Output:
	// user: find it
	// assistant: It is on page 7.
	// user: Where?
}

// A processor of one's own is a name and a function from messages to messages. It
// runs before every model call, tool rounds included, and never changes what is
// stored. It must not be worse than what it was given: the host checks.
func Example_ownProcessor() {
	redact := host.ProcessorFunc("redact", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		out := make([]*host.Message, len(messages))
		for i, m := range messages {
			out[i] = m.Clone()
			for j, p := range out[i].Parts {
				if text, ok := p.(*host.Text); ok { // parts are shared: replace them
					out[i].Parts[j] = &host.Text{Text: strings.ReplaceAll(text.Text, "4111 1111 1111 1111", "[card]")}
				}
			}
		}
		return out, nil
	})
	model := says("I shall.")
	agent := must(host.NewAgent("clerk", &host.AgentOptions{Model: model, Processors: []host.Processor{redact}}))
	run(agent, host.Request{Text: "Charge 4111 1111 1111 1111."})
	show(model.Requests()[0].Messages)
	// Output: user: Charge [card].
}

// letters is a tokenizer that counts letters.
type letters struct{}

func (letters) CountTokens(_ context.Context, text string) (int, error) { return len(text), nil }

// withProcessor shows what each configuration of a plugin's processor makes of a
// conversation.
func withProcessor(wasm []byte, configs []string, show func(config string, view []*host.Message, err error)) {
	ctx := context.Background()
	sandbox := must(plugin.NewRuntime(ctx, &plugin.Options{CacheDir: compiled}))
	defer sandbox.Close(ctx)
	p := must(sandbox.Load(ctx, "p", wasm, nil))
	counter := must(tokens.New(&tokens.Options{Tokenizers: map[string]tokens.Tokenizer{"letters": letters{}}}))
	for _, config := range configs {
		processor, err := p.Processor("", &plugin.PartOptions{Config: json.RawMessage(config)})
		if err != nil {
			show(config, nil, err)
			continue
		}
		view, _, err := llm.Process(ctx, processor, llm.NewView(toolHistory(), "gpt-4o", counter))
		show(config, view, err)
	}
}

// The filter of tool calls is a plugin that ships with agenthost. Its modes are
// AgentKit's; a summary stands after the results, where every provider takes it.
func Example_toolCallFilter() {
	configs := []string{`{}`, `{"exclude":["debug_log"]}`, `{"include":["search"]}`, `{"exclude":["debug_log"],"persistResults":true}`, `{"include":["a"],"exclude":["b"]}`}
	withProcessor(toolcallfilter.Wasm, configs, func(config string, view []*host.Message, err error) {
		fmt.Println(config)
		if err != nil {
			fmt.Println("an error")
			return
		}
		show(view[1:])
	})
	// Output:
	// {}
	// assistant: It is on page 7.
	// {"exclude":["debug_log"]}
	// assistant calls search {}
	// tool: search: "page 7"
	// assistant: It is on page 7.
	// {"include":["search"]}
	// assistant calls search {}
	// tool: search: "page 7"
	// assistant: It is on page 7.
	// {"exclude":["debug_log"],"persistResults":true}
	// assistant calls search {}
	// tool: search: "page 7"
	// assistant: Used debug_log tool
	// assistant: It is on page 7.
	// {"include":["a"],"exclude":["b"]}
	// an error
}

// The limiter of tokens is the other. A number is a limit; encoding, useTiktoken
// and tokenizer, the name of one that the program has, choose how tokens are
// counted. What goes is the oldest, in whole segments: a call never loses its
// results.
func Example_tokenLimiter() {
	configs := []string{`8000`, `{"limit":12,"encoding":"cl100k_base"}`, `{"limit":12,"useTiktoken":false}`, `{"limit":16,"tokenizer":"letters"}`, `0`}
	withProcessor(tokenlimiter.Wasm, configs, func(config string, view []*host.Message, err error) {
		if err != nil {
			fmt.Printf("%s: an error\n", config)
			return
		}
		fmt.Printf("%s: %d messages\n", config, len(view))
	})
	// Output:
	// 8000: 5 messages
	// {"limit":12,"encoding":"cl100k_base"}: 1 messages
	// {"limit":12,"useTiktoken":false}: 1 messages
	// {"limit":16,"tokenizer":"letters"}: 1 messages
	// 0: an error
}

// Processors run level by level: the history's, then the network's, then the
// agent's, each on what the one before left.
func Example_processorOrder() {
	note := func(word string) host.Processor {
		return host.ProcessorFunc(word, func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
			fmt.Println(word)
			return messages, nil
		})
	}
	agent := must(host.NewAgent("clerk", &host.AgentOptions{Model: says("hi"), Processors: []host.Processor{note("agent")}}))
	network := must(host.NewNetwork("desk", []*host.Agent{agent}, &host.NetworkOptions{
		Router:     host.InOrder("line", "clerk"),
		Processors: []host.Processor{note("network")},
		History:    must(host.NewHistory(hosttest.NewHistory(), &host.HistoryOptions{Processors: []host.Processor{note("history")}})),
	}))
	run(network, host.Request{Thread: "T", Text: "hello"})
	// Output:
	// history
	// network
	// agent
}
