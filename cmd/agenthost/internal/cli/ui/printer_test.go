package ui

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/runevent"
)

// story is a run with one event of each kind that is shown.
func story() []host.Event {
	cost := &host.Cost{Instructions: 1234567, DurationUS: 1500}
	var events []host.Event
	add := func(agent string, data host.EventData) {
		events = append(events, host.Event{Agent: agent, Data: data})
	}
	add("", &runevent.RunStarted{Thread: "t"})
	add("", &runevent.RouteChosen{Router: "desk", Next: []string{"clerk"}, Reason: "it is \x1b[31mfree", Cost: cost})
	add("clerk", &runevent.AgentStarted{Model: "m"})
	add("clerk", &runevent.ProviderRan{Provider: "memory"})
	add("clerk", &runevent.ProcessorRan{Processor: "limiter", Level: "network", MessagesBefore: 9, MessagesAfter: 4, TokensBefore: 900, TokensAfter: 400, Approximate: true, Changed: true})
	add("clerk", &runevent.ProcessorRan{Processor: "mask", Level: "agent", MessagesBefore: 4, MessagesAfter: 4, TokensBefore: -1, TokensAfter: -1})
	add("clerk", &runevent.ProcessorRan{Processor: "mask", Level: "agent", MessagesBefore: 4, MessagesAfter: 4, TokensBefore: 1, TokensAfter: 1, Skipped: host.Errorf(host.Internal, "it trapped")})
	add("clerk", &runevent.ModelRetried{Attempt: 1, Reason: "busy"})
	add("clerk", &runevent.TextDelta{Text: "Let me "})
	add("clerk", &runevent.TextDelta{Text: "look.\r"})
	add("clerk", &runevent.ToolStarted{Name: "lookup", Arguments: json.RawMessage(`{"id":1}`)})
	add("clerk", &runevent.ToolProgress{Name: "lookup", Kind: "progress", Data: json.RawMessage(`50`)})
	add("clerk", &runevent.ToolFinished{Name: "lookup", Content: json.RawMessage(`"` + strings.Repeat("ä", maxShown) + `"`)})
	add("clerk", &runevent.ToolFinished{Name: "lookup", Content: json.RawMessage(`"no"`), IsError: true, Cost: cost})
	add("clerk", &runevent.Interrupted{Question: &host.Question{Reason: "may I?"}})
	add("clerk", &runevent.ArtifactMade{Artifact: &host.Artifact{Name: "bill"}})
	add("clerk", &runevent.TextDelta{Text: "Done."})
	add("", &runevent.RouteChosen{Router: "desk"})
	add("", &runevent.RunFinished{FinishReason: chat.FinishStop, DurationUS: 1234567, Cost: *cost, Usage: host.Usage{InputTokens: 10, OutputTokens: 2, Estimated: true}})
	return events
}

func tell(t *Terminal) string {
	var out strings.Builder
	t.Out = &out
	p := NewPrinter(t)
	for _, ev := range story() {
		p.Event(ev)
	}
	return out.String()
}

func TestPrinterTellsARun(t *testing.T) {
	want := `router desk → clerk because it is  [31mfree  [1,234,567 instructions, 1.5ms]
  provider memory
  history limiter (network) changed, 9→4 messages, ~900→400 tokens
  history mask (agent) unchanged, 4→4 messages
  history mask (agent) skipped: it trapped, 4→4 messages, 1→1 tokens
  model did not answer (busy); asking again
clerk: Let me look. 
  tool lookup {"id":1}
       progress 50
    → "` + strings.Repeat("ä", maxShown-1) + `…
    ✗ "no"  [1,234,567 instructions, 1.5ms]
  A tool asks: may I?
  artifact bill
clerk: Done.
router desk → nobody: done
stop · 1.2346s · 1,234,567 instructions in the sandbox · ~10 tokens in, ~2 out
`
	if diff := cmp.Diff(want, tell(&Terminal{})); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestPrinterColoursATerminalOnly(t *testing.T) {
	plain := tell(&Terminal{})
	for name, row := range map[string]struct {
		stdoutTerminal bool
		vars           map[string]string
		coloured       bool
	}{
		"a terminal":               {true, map[string]string{"TERM": "xterm"}, true},
		"a terminal, but NO_COLOR": {true, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"a dumb terminal":          {true, map[string]string{"TERM": "dumb"}, false},
		"a pipe":                   {false, map[string]string{"TERM": "xterm"}, false},
	} {
		term := &Terminal{OutIsTerminal: row.stdoutTerminal}
		term.ReadVariables(func(name string) string { return row.vars[name] })
		got := tell(term)
		if coloured := got != plain; coloured != row.coloured {
			t.Errorf("%s: coloured is %v, want %v", name, coloured, row.coloured)
		}
		if strings.Count(got, "\x1b[0m")*2 != strings.Count(got, "\x1b[") {
			t.Errorf("%s: colours are left on: %q", name, got)
		}
	}
}
