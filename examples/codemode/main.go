// Command codemode asks the same question of two agents. One calls a tool forty times and
// reads what it returns; the other writes code that does. It prints what each of them cost.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tokens"
)

const (
	shops           = 40
	receiptsPerShop = 56

	question = "Which three shops had the most returns in October?"
	answer   = "Shops 9 and 17 had 28 returns each, and shop 13 had 22."

	// code is what a model writes for the question.
	code = `const shops = Array.from({ length: 40 }, (_, i) => i + 1);
const lists = await Promise.all(shops.map((shop) => tools.receipts({ shop })));
return lists
  .map((list, i) => ({ shop: shops[i], returns: list.filter((r) => r.returned).length }))
  .sort((a, b) => b.returns - a.returns)
  .slice(0, 3);`
)

func main() {
	if err := run(context.Background(), os.Stdout, nil); err != nil {
		log.Fatal(err)
	}
}

// run asks both agents, and prints a table of what they did.
func run(ctx context.Context, out io.Writer, sandbox *plugin.Options) error {
	rt, err := plugin.NewRuntime(ctx, sandbox)
	if err != nil {
		return err
	}
	defer rt.Close(context.WithoutCancel(ctx))
	mode, err := codemode.New(ctx, rt, nil)
	if err != nil {
		return err
	}
	var calls atomic.Int64
	withCode, err := mode.Tools(receipts(&calls))
	if err != nil {
		return err
	}
	counter, err := tokens.New(nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "agent         rounds  calls  tool bytes read  tokens read  tokens written")
	for _, agent := range []struct {
		name  string
		tools []*host.Tool
		plays []host.Part
	}{
		{"without code", []*host.Tool{receipts(&calls)}, callEachShop()},
		{"with code", withCode, []host.Part{callTo(1, codemode.ToolName, map[string]any{"code": code})}},
	} {
		calls.Store(0)
		m := &model{counter: counter, answers: [][]host.Part{agent.plays, {&host.Text{Text: answer}}}}
		if err := ask(ctx, m, agent.tools); err != nil {
			return err
		}
		fmt.Fprintf(out, "%-13s %6d %6d %16d %12d %15d\n", agent.name, m.rounds, calls.Load(), m.toolBytes, m.read, m.wrote)
	}
	return nil
}

// ask asks an agent with the tools the question.
func ask(ctx context.Context, m *model, tools []*host.Tool) error {
	agent, err := host.NewAgent("analyst", &host.AgentOptions{Instructions: "You answer questions about the shops 1 to 40.", Tools: tools, Model: m})
	if err != nil {
		return err
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		return err
	}
	_, err = h.Run(ctx, agent, &host.Request{Text: question})
	return err
}

// receipt is one of a shop's receipts.
type receipt struct {
	Number   int    `json:"receipt"`
	Customer string `json:"customer"`
	Day      string `json:"day"`
	Total    int    `json:"total"`
	Returned bool   `json:"returned"`
}

// receipts is the tool: 5 kB of JSON for each shop. It counts its calls.
func receipts(calls *atomic.Int64) *host.Tool {
	type arguments struct {
		Shop int `json:"shop" description:"1 to 40"`
	}
	customers := []string{"Ada Lovelace", "Grace Hopper", "Alan Turing", "Edsger Dijkstra", "Barbara Liskov"}
	return host.NewTool("receipts", "The receipts of a shop in October.", func(_ context.Context, _ *host.Call, in arguments) ([]receipt, error) {
		calls.Add(1)
		list := make([]receipt, receiptsPerShop)
		for i := range list {
			list[i] = receipt{Number: in.Shop*1000 + i, Customer: customers[(in.Shop+i*i)%len(customers)], Day: fmt.Sprintf("2026-10-%02d", 1+i%28),
				Total: 1 + (in.Shop*37+i*91)%240, Returned: (i*i+in.Shop*7)%(5+in.Shop*in.Shop%13) == 0}
		}
		return list, nil
	}, &host.ToolOptions{ReadOnly: true})
}

// callEachShop is the answer of a model without code: all calls at once, which is the least
// that it can do.
func callEachShop() []host.Part {
	var calls []host.Part
	for shop := range shops {
		calls = append(calls, callTo(shop+1, "receipts", map[string]any{"shop": shop + 1}))
	}
	return calls
}

func callTo(number int, tool string, arguments map[string]any) *host.ToolCall {
	raw, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // of texts and numbers
	}
	return &host.ToolCall{ID: fmt.Sprint("call_", number), Name: tool, Arguments: raw}
}

// model stands for a language model: its answers are constants, and it counts the tokens that a
// real one would read and write.
type model struct {
	counter *tokens.Counter
	answers [][]host.Part // one for each round

	rounds, read, wrote int // of tokens
	toolBytes           int // of the tools' results in the last request
}

func (m *model) Name() string { return "gpt-4o" }

// Generate implements [host.Model].
func (m *model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		answer := m.answers[m.rounds]
		m.rounds++
		if err := m.count(ctx, req, answer); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		reason := chat.FinishToolCalls
		if m.rounds == len(m.answers) {
			reason = chat.FinishStop
		}
		yield(llm.Chunk{Response: &llm.Response{Model: m.Name(), Parts: answer, FinishReason: reason}}, nil)
	}
}

// count counts the tokens of a request, which are its tools and messages, and of the answer.
func (m *model) count(ctx context.Context, req *llm.Request, answer []host.Part) error {
	var text []byte
	m.toolBytes = 0
	for _, tool := range req.Tools {
		text = append(append(append(text, tool.Name...), tool.Description...), tool.Parameters...)
	}
	for _, message := range req.Messages {
		text = message.AppendCountedText(text)
		for _, result := range message.ToolResults() {
			m.toolBytes += len(result.Content)
		}
	}
	read, err := m.counter.CountTokens(ctx, tokens.O200kBase, text)
	if err != nil {
		return err
	}
	wrote, err := m.counter.CountTokens(ctx, tokens.O200kBase, (&host.Message{Role: host.Assistant, Parts: answer}).AppendCountedText(nil))
	m.read, m.wrote = m.read+read, m.wrote+wrote
	return err
}
