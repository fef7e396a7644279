package support

import (
	"context"
	"encoding/json"
	"flag"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

var update = flag.Bool("update", false, "write the transcript instead of comparing it")

func TestTranscript(t *testing.T) {
	ctx := context.Background()
	sandbox, err := plugin.NewRuntime(ctx, &plugin.Options{CacheDir: testcode.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(ctx)
	filter := load(t, sandbox, "toolcallfilter", toolcallfilter.Wasm)
	limiter := load(t, sandbox, "tokenlimiter", tokenlimiter.Wasm)
	counter, err := tokens.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	hosttest.RunTranscripts(t, "testdata/*.txtar", &hosttest.TranscriptOptions{
		Processors: map[string]host.Processor{
			"no-debug-tool": processor(t, filter, `{"exclude":["debug_tool"]}`),
			"short-enough":  processor(t, limiter, `{"limit":16000,"encoding":"cl100k_base"}`),
			"no-tools":      processor(t, filter, ``),
		},
		Tokens: counter,
		Update: *update,
	})
}

func load(t *testing.T, sandbox *plugin.Runtime, id string, wasm []byte) *plugin.Plugin {
	t.Helper()
	p, err := sandbox.Load(context.Background(), id, wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func processor(t *testing.T, p *plugin.Plugin, config string) host.Processor {
	t.Helper()
	proc, err := p.Processor("", &plugin.PartOptions{Config: json.RawMessage(config)})
	if err != nil {
		t.Fatal(err)
	}
	return unpriced{proc}
}

// unpriced leaves out what a call cost: it changes with every build of the
// plugin, and the transcript is about what the plugin does.
type unpriced struct{ host.Processor }

func (p unpriced) Process(ctx context.Context, view *host.View) (*llm.Processed, error) {
	done, err := p.Processor.Process(ctx, view)
	if done != nil {
		done.Cost = nil
	}
	return done, err
}
