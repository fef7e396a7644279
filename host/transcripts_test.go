package host_test

// Scenario: scripted models play the transcripts in testdata, whose events must be those
// in the files.

import (
	"context"
	"flag"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

var update = flag.Bool("update", false, "write the transcripts anew; read the diff")

// Agent behaviour is in the files: each says what must hold and why.
func TestTranscripts(t *testing.T) {
	hosttest.RunTranscripts(t, "testdata/transcripts/*.txtar", &hosttest.TranscriptOptions{
		Update: *update,
		Tokens: wordCounter{},
		Processors: map[string]host.Processor{
			"drop-debug-tool": dropTools("drop-debug-tool", "debug_tool"),
			"drop-all-tools":  dropTools("drop-all-tools"),
			"last-45-tokens":  lastTokens(45),
			"mark-history":    mark("mark-history"),
			"mark-network":    mark("mark-network"),
			"mark-agent":      mark("mark-agent"),
			"break-history":   failing("break-history"),
			"break-optional":  host.Optional(failing("break-optional")),
			"drop-input":      dropInput(),
		},
	})
}

// wordCounter counts bytes in fours, which is enough for reports.
type wordCounter struct{}

func (wordCounter) EncodingFor(string) (string, bool) { return "fours", true }
func (wordCounter) CountTokens(_ context.Context, _ string, text []byte) (int, error) {
	return (len(text) + 3) / 4, nil
}

// dropTools drops the calls of the named tools, or of all, with their results.
func dropTools(name string, tools ...string) host.Processor {
	drops := func(tool string) bool { return len(tools) == 0 || slices.Contains(tools, tool) }
	return processorFunc{name, func(view *host.View) *llm.Processed {
		var edits []chat.Edit
		for i, m := range view.Messages {
			for j, p := range m.Parts {
				switch p := p.(type) {
				case *host.ToolCall:
					if drops(p.Name) {
						edits = append(edits, chat.DropPart{Message: i, Part: j})
					}
				case *host.ToolResult:
					if drops(p.Name) {
						edits = append(edits, chat.DropPart{Message: i, Part: j})
					}
				}
			}
		}
		return &llm.Processed{Edits: edits}
	}}
}

// lastTokens keeps the newest messages that have no more than limit tokens, and
// never separates a call from its results.
func lastTokens(limit int) host.Processor {
	return processorFunc{"last-tokens", func(view *host.View) *llm.Processed {
		counts, err := view.Tokens(context.Background(), "")
		if err != nil {
			panic(err)
		}
		from, total := len(counts), 0
		for from > 0 && total+counts[from-1] <= limit {
			from--
			total += counts[from]
		}
		for from < len(counts) && view.Messages[from].Role == host.ToolRole {
			from++
		}
		if from == 0 {
			return nil
		}
		return &llm.Processed{Edits: []chat.Edit{chat.Drop{From: 0, To: from}}}
	}}
}

// mark adds a word to the first text of the view, so that the order of
// processors can be read off.
func mark(name string) host.Processor {
	return processorFunc{name, func(view *host.View) *llm.Processed {
		m := view.Messages[0].Clone()
		m.Parts = append(m.Parts, &host.Text{Text: name})
		return &llm.Processed{Edits: []chat.Edit{chat.Replace{At: 0, Message: m}}}
	}}
}

func failing(name string) host.Processor {
	return host.ProcessorFunc(name, func(context.Context, []*host.Message) ([]*host.Message, error) {
		return nil, host.Errorf(host.FailedPrecondition, "cannot do its work")
	})
}

func dropInput() host.Processor {
	return host.ProcessorFunc("drop-input", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		return messages[:len(messages)-1], nil
	})
}

type processorFunc struct {
	name string
	fn   func(*host.View) *llm.Processed
}

func (p processorFunc) Name() string { return p.name }
func (p processorFunc) Process(_ context.Context, view *host.View) (*llm.Processed, error) {
	return p.fn(view), nil
}
