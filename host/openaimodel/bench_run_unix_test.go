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
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/runevent"
)

// BenchmarkRunHTTP is the CPU that one run over HTTP costs, beside the same work
// done by a loop written by hand on go-openai, and by one on net/http and
// encoding/json alone. The server is another process, so its time does not
// count; the three take turns in batches. Where the answer comes at once, the
// loops ask for it in one piece, which costs them less, and the host has it
// streamed, as it always has.
//
// ×goopenai and ×plain are the host's CPU in parts of theirs: 1.2 is the most
// that the first may be in any case, and 1 what the second should be.
func BenchmarkRunHTTP(b *testing.B) {
	for _, c := range []struct {
		name string
		work work
	}{
		{"rounds=1", work{rounds: 1, agents: 1, chunks: 1}},
		{"rounds=5", work{rounds: 5, agents: 1, chunks: 1}},
		{"history=200", work{rounds: 2, agents: 1, chunks: 1, history: 200}},
		{"history=200,loaded", work{rounds: 2, agents: 1, chunks: 1, history: 200, loaded: true}},
		{"agents=2", work{rounds: 1, agents: 2, chunks: 1}},
		{"chunks=200", work{rounds: 1, agents: 1, chunks: 200}},
	} {
		b.Run(c.name, func(b *testing.B) { benchRunHTTP(b, c.work) })
	}
}

// work is what one run does.
type work struct {
	rounds  int // model calls of each agent; all but the last call a tool
	agents  int
	chunks  int // pieces of each answer; the loops stream if there are several
	history int // messages before
	loaded  bool
}

// batchRuns is how many runs are measured at once.
const batchRuns = 40

func benchRunHTTP(b *testing.B, w work) {
	url := startFakeModel(b) + fmt.Sprintf("/%d/%d/v1", w.rounds, w.chunks)
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
	spent := make([][]time.Duration, len(runs))
	for b.Loop() {
		for i, run := range runs {
			spent[i] = append(spent[i], batch(b, run))
		}
	}
	medians := make([]float64, len(runs))
	for i, s := range spent {
		slices.Sort(s)
		medians[i] = float64(s[len(s)/2]) / batchRuns / 1e3
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(medians[0], "host-cpu-µs/run")
	b.ReportMetric(medians[1], "goopenai-cpu-µs/run")
	b.ReportMetric(medians[2], "plain-cpu-µs/run")
	b.ReportMetric(medians[0]/medians[1], "×goopenai")
	b.ReportMetric(medians[0]/medians[2], "×plain")
}

// batch returns the CPU of some runs, and of the garbage that they leave.
func batch(b *testing.B, run func(context.Context) error) time.Duration {
	runtime.GC()
	before := cpuTime()
	for range batchRuns {
		if err := run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	return cpuTime() - before
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What all three say and do.
const (
	benchSystem = "You answer questions about orders. Be brief, polite and exact."
	benchInput  = "Where is order 1042, and when was it sent?"
	benchTool   = `{"type":"object","properties":{"order":{"type":"integer","description":"number of the order"}},"required":["order"],"additionalProperties":false}`
	benchResult = `{"status":"shipped","carrier":"post","sent":"2025-01-01T10:00:00Z"}`
)

// said is the message i of the history.
func said(i int) string {
	return fmt.Sprintf("Message %d: %s", i, strings.Repeat("the order was sent on \"Monday\"\nand should arrive soon. ", 8))
}

func (w work) onHost(b *testing.B, url string) func(context.Context) error {
	type in struct {
		Order int `json:"order"`
	}
	look := host.NewTool("look", "Looks up an order.", func(context.Context, *host.Call, in) (json.RawMessage, error) {
		return json.RawMessage(benchResult), nil
	}, nil)
	m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{BaseURL: url, APIKey: testKey}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.CloseIdleConnections)
	var agents []*host.Agent
	for i := range w.agents {
		agent, err := host.NewAgent(fmt.Sprintf("clerk%d", i), &host.AgentOptions{
			Description: "Answers.", Instructions: benchSystem, Tools: []*host.Tool{look}, Model: m})
		if err != nil {
			b.Fatal(err)
		}
		agents = append(agents, agent)
	}
	var target host.Target = agents[0]
	if w.agents > 1 {
		if target, err = host.NewNetwork("desk", agents, &host.NetworkOptions{Router: eachOnce{}}); err != nil {
			b.Fatal(err)
		}
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		b.Fatal(err)
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
		deltas := 0
		var result *host.RunResult
		for ev, err := range h.Stream(ctx, target, req) {
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
		if deltas != w.chunks*w.agents || !strings.HasPrefix(result.Text(), "It was sent") {
			return fmt.Errorf("%d deltas, %q", deltas, result.Text())
		}
		return nil
	}
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
	config := openai.DefaultConfig(testKey)
	config.BaseURL, config.HTTPClient = url, client
	c := openai.NewClientWithConfig(config)
	tools := []openai.Tool{{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
		Name: "look", Description: "Looks up an order.", Parameters: json.RawMessage(benchTool)}}}
	before := []openai.ChatCompletionMessage{{Role: "system", Content: benchSystem}}
	for i := range w.history {
		before = append(before, openai.ChatCompletionMessage{Role: []string{"user", "assistant"}[i%2], Content: said(i)})
	}
	ask := func(ctx context.Context, req openai.ChatCompletionRequest) (openai.ChatCompletionMessage, error) {
		if w.chunks == 1 {
			resp, err := c.CreateChatCompletion(ctx, req)
			if err != nil {
				return openai.ChatCompletionMessage{}, err
			}
			return resp.Choices[0].Message, nil
		}
		stream, err := c.CreateChatCompletionStream(ctx, req)
		if err != nil {
			return openai.ChatCompletionMessage{}, err
		}
		defer stream.Close()
		var text strings.Builder
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return openai.ChatCompletionMessage{Role: "assistant", Content: text.String()}, nil
			}
			if err != nil {
				return openai.ChatCompletionMessage{}, err
			}
			if len(chunk.Choices) > 0 {
				text.WriteString(chunk.Choices[0].Delta.Content)
			}
		}
	}
	return func(ctx context.Context) error {
		messages := append(slices.Clip(before), openai.ChatCompletionMessage{Role: "user", Content: benchInput})
		for range w.agents {
			for {
				m, err := ask(ctx, openai.ChatCompletionRequest{Model: "m1", Messages: messages, Tools: tools})
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
		return checkAnswer(messages[len(messages)-1].Content)
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

// The protocol as somebody would write it down who needs no more of it.
type (
	plainMessage struct {
		Role       string      `json:"role"`
		Content    string      `json:"content,omitempty"`
		ToolCalls  []plainCall `json:"tool_calls,omitempty"`
		ToolCallID string      `json:"tool_call_id,omitempty"`
	}
	plainCall struct {
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
	}
	plainResponse struct {
		Choices []struct {
			Message plainMessage `json:"message"`
			Delta   plainMessage `json:"delta"`
		} `json:"choices"`
	}
)

func (w work) onPlain(url string, client *http.Client) func(context.Context) error {
	tools := []plainTool{{"function", plainToolSpec{"look", "Looks up an order.", json.RawMessage(benchTool)}}}
	before := []plainMessage{{Role: "system", Content: benchSystem}}
	for i := range w.history {
		before = append(before, plainMessage{Role: []string{"user", "assistant"}[i%2], Content: said(i)})
	}
	ask := func(ctx context.Context, messages []plainMessage) (plainMessage, error) {
		body, err := json.Marshal(plainRequest{"m1", messages, tools, w.chunks > 1})
		if err != nil {
			return plainMessage{}, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", bytes.NewReader(body))
		if err != nil {
			return plainMessage{}, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+testKey)
		resp, err := client.Do(req)
		if err != nil {
			return plainMessage{}, err
		}
		defer resp.Body.Close()
		if w.chunks > 1 {
			return readPlainStream(resp.Body)
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
		messages := append(slices.Clip(before), plainMessage{Role: "user", Content: benchInput})
		for range w.agents {
			for {
				m, err := ask(ctx, messages)
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
		return checkAnswer(messages[len(messages)-1].Content)
	}
}

func readPlainStream(body io.Reader) (plainMessage, error) {
	var text strings.Builder
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var chunk plainResponse
		if err := json.Unmarshal(data, &chunk); err != nil {
			return plainMessage{}, err
		}
		if len(chunk.Choices) > 0 {
			text.WriteString(chunk.Choices[0].Delta.Content)
		}
	}
	return plainMessage{Role: "assistant", Content: text.String()}, lines.Err()
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
