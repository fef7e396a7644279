//go:build unix

package openaimodel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
	ledgers "github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testhost"
)

// BenchmarkRunHTTP is the CPU that one run over HTTP costs, beside the same work
// done by a loop written by hand on go-openai, and by one on net/http and
// encoding/json alone. All three ask the server for the same: the answers streamed,
// with each delta handed to a reader, or the answers whole, with no reader of deltas.
// The server is another process, so its time does not count; the three take turns in
// batches. A round calls a tool: a Go function, or on the host's side the same in a
// sandboxed Go guest. Streamed answers come in one piece, or in 13 of 16 bytes.
//
// With kept the host has a budget of tokens in a ledger, which writes a record of each
// run, and a registry of runs: a streamed run is started and read through it. A run of
// whole answers has no live run beside it, since the registry reads deltas.
//
// ×goopenai and ×plain are the host's CPU in parts of theirs, the median over the
// batches. ×goopenai may be at most 1 where both ask for whole answers, and 1.15 where
// both stream or the host's tool is sandboxed.
func BenchmarkRunHTTP(b *testing.B) {
	for _, form := range []struct {
		name string
		of   work
	}{
		{"streamed/pieces=1", work{chunks: 1}},
		{"streamed/pieces=13", work{chunks: 13}},
		{"whole", work{chunks: 1, whole: true}},
	} {
		for _, tool := range []string{"go", "sandboxed"} {
			for _, rounds := range []int{1, 5} {
				w := form.of
				w.agents, w.rounds, w.sandboxed = 1, rounds, tool == "sandboxed"
				name := fmt.Sprintf("%s/tool=%s/rounds=%d", form.name, tool, rounds)
				b.Run(name, func(b *testing.B) { benchRunHTTP(b, w) })
				w.kept = true
				b.Run(name+"/kept", func(b *testing.B) { benchRunHTTP(b, w) })
			}
		}
	}
	for _, c := range []struct {
		name string
		work work
	}{
		{"history=200", work{rounds: 1, agents: 1, chunks: 1, history: 200}},
		{"history=200,loaded", work{rounds: 1, agents: 1, chunks: 1, history: 200, loaded: true}},
		{"agents=2", work{agents: 2, chunks: 1}},
		{"pieces=200", work{agents: 1, chunks: 200}},
	} {
		b.Run("streamed/"+c.name, func(b *testing.B) { benchRunHTTP(b, c.work) })
	}
}

// work is the content of one run.
type work struct {
	rounds    int // in which each agent calls the tool, before it answers
	agents    int
	chunks    int // pieces of each streamed answer
	whole     bool
	sandboxed bool // the host's tool
	kept      bool // the host has a ledger and a registry of runs
	history   int  // messages before
	loaded    bool
}

// batchRuns is how many runs are measured at once.
const batchRuns = 40

func benchRunHTTP(b *testing.B, w work) {
	url := startFakeModel(b) + fmt.Sprintf("/%d/%d/v1", w.rounds+1, w.chunks)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16 // the loops lose nothing that one line would get them
	client := &http.Client{Transport: transport}
	b.Cleanup(client.CloseIdleConnections)
	runs := []func(context.Context) error{w.onHost(b, url), w.onGoOpenAI(url, client), w.onPlain(url, client)}
	for _, run := range runs { // connections are open, caches are filled
		if err := run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	spent, ratios := make([][]float64, len(runs)), make([][]float64, len(runs))
	for b.Loop() {
		for i, run := range runs {
			spent[i] = append(spent[i], batch(b, run))
		}
		last := len(spent[0]) - 1
		for i := range runs {
			ratios[i] = append(ratios[i], spent[0][last]/spent[i][last])
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, side := range []string{"host", "goopenai", "plain"} {
		b.ReportMetric(median(spent[i]), side+"-cpu-µs/run")
		if i > 0 {
			b.ReportMetric(median(ratios[i]), "×"+side)
		}
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// batch returns the CPU of a run in microseconds, with that of the garbage that it
// leaves.
func batch(b *testing.B, run func(context.Context) error) float64 {
	runtime.GC()
	before := cpuTime()
	for range batchRuns {
		if err := run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	return float64(cpuTime()-before) / batchRuns / 1e3
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The texts that all three send.
const (
	benchSystem = "You answer questions about orders. Be brief, polite and exact."
	benchInput  = "Where is order 1042, and when was it sent?"
	benchTool   = `{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}`
	benchResult = "shipped"
)

// said is the message i of the history.
func said(i int) string {
	return fmt.Sprintf("Message %d: %s", i, strings.Repeat("the order was sent on \"Monday\"\nand should arrive soon. ", 8))
}

func (w work) onHost(b *testing.B, url string) func(context.Context) error {
	m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{BaseURL: url, APIKey: modeltest.Key, Whole: w.whole}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.CloseIdleConnections)
	tools := []*host.Tool{w.tool(b)}
	var agents []*host.Agent
	for i := range w.agents {
		agent := testhost.NewAgent(b, fmt.Sprintf("clerk%d", i), &host.AgentOptions{
			Description: "Answers.", Instructions: benchSystem, Tools: tools, Model: m})
		agents = append(agents, agent)
	}
	var target host.Target = agents[0]
	if w.agents > 1 {
		if target, err = host.NewNetwork("desk", agents, &host.NetworkOptions{Router: eachOnce{}}); err != nil {
			b.Fatal(err)
		}
	}
	options := &host.Options{SingleTenant: true}
	if w.kept {
		options.Ledger = newBenchLedger(b)
	}
	h := testhost.New(b, options)
	stream := h.Stream
	if w.kept {
		stream = throughRegistry(b, h)
	}
	var before []*host.Message
	for i := range w.history {
		before = append(before, []func(string) *host.Message{host.UserText, host.AssistantText}[i%2](said(i)))
	}
	return func(ctx context.Context) error {
		req := &host.Request{Text: benchInput, Messages: before}
		if w.loaded { // messages that have never been sent
			req.Messages = make([]*host.Message, len(before))
			for i, msg := range before {
				req.Messages[i] = msg.Clone()
			}
		}
		if w.whole {
			result, err := h.Run(ctx, target, req)
			if err != nil {
				return err
			}
			return checkAnswer(result.Text())
		}
		return w.streamOnHost(stream(ctx, target, req))
	}
}

// newBenchLedger returns a ledger in memory with a budget of tokens that is not used up.
func newBenchLedger(b *testing.B) *ledgers.Ledger {
	ledger, err := ledgers.New(kv.NewMemory(), &ledgers.Options{Default: ledgers.Plan{
		Rate: 1e6, Burst: 1e6, Window: ledgers.CalendarDay,
		Limits: []ledgers.Limit{
			{Resource: ledgers.Tokens, Amount: 1e12},
			{Resource: ledgers.ModelTokens, Amount: 1e12},
			{Resource: ledgers.ToolCalls, Amount: 1e12},
			{Resource: ledgers.Instructions, Amount: 1e15},
			{Resource: ledgers.Time, Amount: int64(1e6 * time.Hour)},
		},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ledger.Close(context.Background()) })
	return ledger
}

// throughRegistry starts runs in a registry and reads their events from it.
func throughRegistry(b *testing.B, h *host.Host) func(context.Context, host.Target, *host.Request) iter.Seq2[host.Event, error] {
	registry, err := runs.New(h, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = registry.Close() })
	return func(ctx context.Context, target host.Target, req *host.Request) iter.Seq2[host.Event, error] {
		run, err := registry.Start(ctx, target, req, nil)
		if err != nil {
			return func(yield func(host.Event, error) bool) { yield(host.Event{}, err) }
		}
		return registry.Events(ctx, run.Tenant, run.ID, 0)
	}
}

// tool returns the tool of the host's side.
func (w work) tool(b *testing.B) *host.Tool {
	if !w.sandboxed {
		type in struct {
			Order int `json:"order"`
		}
		return host.NewTool("look", "Looks up an order.", func(_ context.Context, _ *host.Call, in in) (string, error) {
			if in.Order != 1042 {
				return "", host.Errorf(host.NotFound, "no such order")
			}
			return benchResult, nil
		}, nil)
	}
	sandbox, err := plugin.NewRuntime(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sandbox.Close(context.Background()) })
	wasm, err := sandbox.Build(b.Context(), filepath.Join("..", "testdata", "look"), nil)
	if err != nil {
		b.Fatal(err)
	}
	p, err := sandbox.Load(b.Context(), "look", wasm, nil)
	if err != nil {
		b.Fatal(err)
	}
	tool, err := p.Tool("look", nil)
	if err != nil {
		b.Fatal(err)
	}
	return tool
}

func (w work) streamOnHost(events iter.Seq2[host.Event, error]) error {
	deltas := 0
	var result *host.RunResult
	for ev, err := range events {
		if err != nil {
			return err
		}
		switch data := ev.Data.(type) {
		case *runevent.TextDelta:
			deltas++
		case *runevent.RunFinished:
			result = data.Result
		}
	}
	return w.checkStreamed(result.Text(), deltas)
}

// eachOnce lets each agent answer once.
type eachOnce struct{}

func (eachOnce) Name() string { return "each once" }

func (eachOnce) Route(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
	if req.CallCount == len(req.Agents) {
		return nil, nil
	}
	return &host.Route{Next: []string{req.Agents[req.CallCount].Name}}, nil
}

func (w work) onGoOpenAI(url string, client *http.Client) func(context.Context) error {
	config := openai.DefaultConfig(modeltest.Key)
	config.BaseURL, config.HTTPClient = url, client
	c := openai.NewClientWithConfig(config)
	tools := []openai.Tool{{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
		Name: "look", Description: "Looks up an order.", Parameters: json.RawMessage(benchTool)}}}
	before := []openai.ChatCompletionMessage{{Role: "system", Content: benchSystem}}
	for i := range w.history {
		before = append(before, openai.ChatCompletionMessage{Role: []string{"user", "assistant"}[i%2], Content: said(i)})
	}
	ask := func(ctx context.Context, req openai.ChatCompletionRequest, read func(string)) (openai.ChatCompletionMessage, error) {
		if w.whole {
			resp, err := c.CreateChatCompletion(ctx, req)
			if err != nil {
				return openai.ChatCompletionMessage{}, err
			}
			return resp.Choices[0].Message, nil
		}
		req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
		stream, err := c.CreateChatCompletionStream(ctx, req)
		if err != nil {
			return openai.ChatCompletionMessage{}, err
		}
		defer stream.Close()
		return readGoOpenAIStream(stream, read)
	}
	return func(ctx context.Context) error {
		deltas := 0
		read := func(string) { deltas++ }
		messages := append(slices.Clip(before), openai.ChatCompletionMessage{Role: "user", Content: benchInput})
		for range w.agents {
			for {
				m, err := ask(ctx, openai.ChatCompletionRequest{Model: "m1", Messages: messages, Tools: tools}, read)
				if err != nil {
					return err
				}
				messages = append(messages, m)
				if len(m.ToolCalls) == 0 {
					break
				}
				for _, call := range m.ToolCalls {
					if err := checkOrder(call.Function.Arguments); err != nil {
						return err
					}
					messages = append(messages, openai.ChatCompletionMessage{Role: "tool", ToolCallID: call.ID, Content: benchResult})
				}
			}
		}
		return w.checkStreamed(messages[len(messages)-1].Content, deltas)
	}
}

func readGoOpenAIStream(stream *openai.ChatCompletionStream, read func(string)) (openai.ChatCompletionMessage, error) {
	var text strings.Builder
	m := openai.ChatCompletionMessage{Role: "assistant"}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			m.Content = text.String()
			return m, nil
		}
		if err != nil {
			return m, err
		}
		if len(chunk.Choices) == 0 {
			continue
		}
		delta := &chunk.Choices[0].Delta
		if delta.Content != "" {
			read(delta.Content)
			text.WriteString(delta.Content)
		}
		for _, call := range delta.ToolCalls {
			if i := *call.Index; i == len(m.ToolCalls) {
				m.ToolCalls = append(m.ToolCalls, call)
			} else {
				m.ToolCalls[i].Function.Arguments += call.Function.Arguments
			}
		}
	}
}

func checkOrder(arguments string) error {
	var in struct {
		Order int `json:"order"`
	}
	if err := json.Unmarshal([]byte(arguments), &in); err != nil || in.Order != 1042 {
		return fmt.Errorf("arguments %s: %v", arguments, err)
	}
	return nil
}

func checkAnswer(text string) error {
	if !strings.HasPrefix(text, "It was sent") {
		return fmt.Errorf("answer %q", text)
	}
	return nil
}

// checkStreamed checks the last answer of a run and how many deltas its reader got.
func (w work) checkStreamed(text string, deltas int) error {
	if want := w.chunks * w.agents; !w.whole && deltas != want {
		return fmt.Errorf("%d deltas, want %d", deltas, want)
	}
	return checkAnswer(text)
}

// The part of the protocol that the loop on encoding/json needs.
type (
	plainMessage struct {
		Role       string      `json:"role"`
		Content    string      `json:"content,omitempty"`
		ToolCalls  []plainCall `json:"tool_calls,omitempty"`
		ToolCallID string      `json:"tool_call_id,omitempty"`
	}
	plainCall struct {
		Index    int           `json:"index"`
		ID       string        `json:"id"`
		Type     string        `json:"type"`
		Function plainFunction `json:"function"`
	}
	plainFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	plainTool struct {
		Type     string        `json:"type"`
		Function plainToolSpec `json:"function"`
	}
	plainToolSpec struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	plainRequest struct {
		Model    string         `json:"model"`
		Messages []plainMessage `json:"messages"`
		Tools    []plainTool    `json:"tools"`
		Stream   bool           `json:"stream,omitempty"`

		StreamOptions *plainStreamOptions `json:"stream_options,omitempty"`
	}
	plainStreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	plainUsage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	}
	plainResponse struct {
		Choices []struct {
			Message plainMessage `json:"message"`
			Delta   plainMessage `json:"delta"`
		} `json:"choices"`
		Usage *plainUsage `json:"usage"`
	}
)

func (w work) onPlain(url string, client *http.Client) func(context.Context) error {
	tools := []plainTool{{"function", plainToolSpec{"look", "Looks up an order.", json.RawMessage(benchTool)}}}
	before := []plainMessage{{Role: "system", Content: benchSystem}}
	for i := range w.history {
		before = append(before, plainMessage{Role: []string{"user", "assistant"}[i%2], Content: said(i)})
	}
	ask := func(ctx context.Context, messages []plainMessage, read func(string)) (plainMessage, error) {
		asked := plainRequest{Model: "m1", Messages: messages, Tools: tools}
		if !w.whole {
			asked.Stream, asked.StreamOptions = true, &plainStreamOptions{IncludeUsage: true}
		}
		body, err := json.Marshal(asked)
		if err != nil {
			return plainMessage{}, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", bytes.NewReader(body))
		if err != nil {
			return plainMessage{}, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+modeltest.Key)
		resp, err := client.Do(req)
		if err != nil {
			return plainMessage{}, err
		}
		defer resp.Body.Close()
		if !w.whole {
			return readPlainStream(resp.Body, read)
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return plainMessage{}, err
		}
		var out plainResponse
		if err := json.Unmarshal(raw, &out); err != nil {
			return plainMessage{}, err
		}
		return out.Choices[0].Message, nil
	}
	return func(ctx context.Context) error {
		deltas := 0
		read := func(string) { deltas++ }
		messages := append(slices.Clip(before), plainMessage{Role: "user", Content: benchInput})
		for range w.agents {
			for {
				m, err := ask(ctx, messages, read)
				if err != nil {
					return err
				}
				messages = append(messages, m)
				if len(m.ToolCalls) == 0 {
					break
				}
				for _, call := range m.ToolCalls {
					if err := checkOrder(call.Function.Arguments); err != nil {
						return err
					}
					messages = append(messages, plainMessage{Role: "tool", ToolCallID: call.ID, Content: benchResult})
				}
			}
		}
		return w.checkStreamed(messages[len(messages)-1].Content, deltas)
	}
}

func readPlainStream(body io.Reader, read func(string)) (plainMessage, error) {
	var text strings.Builder
	m := plainMessage{Role: "assistant"}
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var chunk plainResponse
		if err := json.Unmarshal(data, &chunk); err != nil {
			return m, err
		}
		if len(chunk.Choices) == 0 {
			continue
		}
		delta := &chunk.Choices[0].Delta
		if delta.Content != "" {
			read(delta.Content)
			text.WriteString(delta.Content)
		}
		for _, call := range delta.ToolCalls {
			if call.Index == len(m.ToolCalls) {
				m.ToolCalls = append(m.ToolCalls, call)
			} else {
				m.ToolCalls[call.Index].Function.Arguments += call.Function.Arguments
			}
		}
	}
	m.Content = text.String()
	return m, lines.Err()
}

// startFakeModel starts this test again as a server of its own and returns its
// address.
func startFakeModel(b *testing.B) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fakeModelVariable+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // it ends when this is closed
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
		cancel()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatalf("fake model: %v", err)
	}
	return "http://" + strings.TrimSpace(address)
}
