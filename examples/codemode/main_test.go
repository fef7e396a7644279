package main

import (
	"context"
	"flag"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/pdk/js"
)

var update = flag.Bool("update", false, "write the transcript instead of comparing it")

func sandbox() *plugin.Options {
	return &plugin.Options{CacheDir: testcode.Dir(), Interpreters: [][]byte{js.Engine()}}
}

// The pages have the table that the program prints.
func TestThePagesHaveTheFiguresOfTheProgram(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, sandbox()); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"README.md", "../../docs/code.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), out.String()) {
			t.Errorf("%s does not have\n%s", page, out.String())
		}
	}
}

// What the model says in the end is what the code returns.
func TestTheCodeAnswersTheQuestion(t *testing.T) {
	mode := newMode(t)
	tools, err := mode.Tools(receipts(new(atomic.Int64)))
	if err != nil {
		t.Fatal(err)
	}
	m := hosttest.NewModel(hosttest.Say("").Call(codemode.ToolName, string(callTo(1, codemode.ToolName, map[string]any{"code": code}).Arguments)), hosttest.Say(answer))
	agent, err := host.NewAgent("analyst", &host.AgentOptions{Tools: tools, Model: m})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(t.Context(), agent, &host.Request{Text: question})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"result":[{"shop":9,"returns":28},{"shop":17,"returns":28},{"shop":13,"returns":22}]}`
	if got := r.Results[0].ToolResults()[0].ContentText(); got != want {
		t.Errorf("the code returns %s, want %s", got, want)
	}
}

func newMode(t *testing.T) *codemode.Mode {
	t.Helper()
	ctx := context.Background() // outlives the test, for Close
	rt, err := plugin.NewRuntime(ctx, sandbox())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	mode, err := codemode.New(ctx, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

func TestTranscript(t *testing.T) {
	text := func(name, description, reason string) *host.Tool {
		opts := &host.ToolOptions{}
		if reason != "" {
			opts.Approve = host.ApproveAlways(reason)
		}
		return host.NewTool(name, description, func(_ context.Context, _ *host.Call, in struct {
			Order int `json:"order"`
		}) (map[string]any, error) {
			return map[string]any{"order": in.Order, name: true}, nil
		}, opts)
	}
	list, err := newMode(t).Tools(text("look", "Looks up an order.", ""), text("refund", "Refunds an order.", "money goes out"))
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]*host.Tool{}
	for _, tool := range list {
		tools[tool.Name] = tool
	}
	hosttest.RunTranscripts(t, "testdata/*.txtar", &hosttest.TranscriptOptions{Tools: tools, Update: *update})
}
