package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
)

// badTool wants a text and a count, and fails the test if it is called.
func badTool(t *testing.T) *host.Tool {
	return host.NewTool("note", "Notes.", func(_ context.Context, c *host.Call, _ struct {
		Text  string `json:"text"`
		Count *int   `json:"count"`
	}) (string, error) {
		t.Errorf("the tool is called with %.100s", c.Arguments)
		return "noted", nil
	}, nil)
}

// What a model writes instead of arguments: the tool is not called, the model is
// told in a sentence, answers what it does then, and the conversation can be
// stored and read back.
func TestBadArguments(t *testing.T) {
	deep := func(open, inside, end string, n int) string {
		return strings.Repeat(open, n) + inside + strings.Repeat(end, n)
	}
	const notJSON, unfit = "the arguments are not valid JSON", "the arguments do not fit the schema: "
	for name, c := range map[string]struct{ arguments, told string }{
		"nothing":                   {``, unfit + "/: missing property"},
		"white space":               {" \n\t ", unfit + "/: missing property"},
		"an empty string":           {`""`, unfit + "/: missing property"},
		"white space of Unicode":    {"7\f", unfit + "/: got number, want object"},
		"null":                      {`null`, unfit + "/: got null, want object"},
		"words":                     {`please note it`, notJSON},
		"half an object":            {`{"text":"a`, notJSON},
		"two objects":               {`{"text":"a"}{"text":"b"}`, notJSON},
		"a comma too many":          {`{"text":"a",}`, notJSON},
		"single quotes":             {`{'text':'a'}`, notJSON},
		"a comment":                 {`{"text":"a"} // done`, notJSON},
		"a fence":                   {"```json\n{\"text\":\"a\"}\n```", notJSON},
		"a control character":       {"{\"text\":\"\x00\"}", notJSON},
		"NaN":                       {`{"text":"a","count":NaN}`, notJSON},
		"a list":                    {`["a"]`, unfit + "/: got array, want object"},
		"a number":                  {`7`, unfit + "/: got number, want object"},
		"a string in a string":      {`"\"{}\""`, unfit + "/: got string, want object"},
		"a wrong type":              {`{"text":7}`, unfit + "/text: got number, want string"},
		"null for what is required": {`{"text":null}`, unfit + "/text: got null, want string"},
		"a fraction for an integer": {`{"text":"a","count":1.5}`, unfit + "/count: got number, want "},
		"a member nobody knows":     {`{"text":"a","force":true}`, unfit + "/: additional properties 'force' not allowed"},
		"a member of another case":  {`{"Text":"a"}`, unfit},
		"a member given twice":      {`{"text":"a","text":"b"}`, unfit + "a member is given twice"},
		"a number beyond all":       {`{"text":"a","count":1e999999999}`, unfit},
		"a prototype":               {`{"text":"a","__proto__":{"admin":true}}`, unfit},
		"a hundred lists deep":      {`{"text":` + deep("[", "", "]", 100) + `}`, unfit + "/text: got array, want string"},
		"nine thousand lists deep":  {`{"text":` + deep("[", "", "]", 9000) + `}`, ""},
		"a million lists deep":      {`{"text":` + deep("[", "", "]", 1_000_000) + `}`, ""},
		"a million objects deep":    {deep(`{"a":`, "1", "}", 500_000), ""},
		"only opened":               {strings.Repeat("[", 1_000_000), notJSON},
		"a string inside out":       {`"` + strings.Repeat(`\"`, 400_000) + `"`, notJSON},
		"a hundred thousand names":  {`{` + strings.Repeat(`"a":1,`, 100_000) + `"b":1}`, unfit},
		"2 MB of text":              {`{"text":"` + strings.Repeat("x", 2_000_000) + `"}`, "the arguments are 2000011 bytes long, more than the 1048576 that are allowed"},
		"2 MB that is not JSON":     {strings.Repeat("x", 2_000_000), "the arguments are 2000002 bytes long, more than"},
		"a lone surrogate":          {`{"text":"\ud800","count":"x"}`, unfit},
	} {
		t.Run(name, func(t *testing.T) {
			store := hosttest.NewHistory()
			model := hosttest.NewModel(hosttest.Call("note", c.arguments), hosttest.Say("I see."))
			agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{badTool(t)}, History: newHistory(t, store)})
			result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "T", Text: "note it"})
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			told := result.Results[0].ToolResults()[0]
			if !told.IsError || !strings.HasPrefix(told.ContentText(), c.told) || len(told.ContentText()) > 600 {
				t.Errorf("the model is told %.700q (error %t), want %q", told.ContentText(), told.IsError, c.told)
			}
			if result.Text() != "I see." {
				t.Errorf("the run ends with %q", result.Text())
			}
			back, err := chat.DecodeMessages(chat.AppendMessagesJSON(nil, store.Messages("acme", "T")))
			if err != nil || len(back) != 4 {
				t.Errorf("%d messages are read back, %v; want 4", len(back), err)
			}
		})
	}
}

// An answer beyond what a host holds of one ends the run, whatever is in it:
// there is nothing to give back to the model that would be smaller.
func TestAnAnswerThatIsTooLong(t *testing.T) {
	for name, reply := range map[string]hosttest.Reply{
		"10 MB of arguments":       hosttest.Call("note", `{"text":"`+strings.Repeat("x", 10<<20)+`"}`),
		"10 MB that are not JSON":  hosttest.Call("note", strings.Repeat("[", 10<<20)),
		"10 MB of text":            hosttest.Say(strings.Repeat("x", 10<<20)),
		"calls that are too many":  manyCalls(129),
		"10 MB in a hundred calls": {Calls: bigCalls(100, 100<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(reply), Tools: []*host.Tool{badTool(t)}})
			result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "note it"})
			if host.CodeOf(err) != host.ResourceExhausted || len(err.Error()) > 300 {
				t.Errorf("Run: %.400v; want code resource_exhausted, in a sentence", err)
			}
			if result == nil || result.FinishReason != chat.FinishFailed {
				t.Errorf("the result is %+v, want one that says it failed", result)
			}
		})
	}
}

func bigCalls(n, size int) []*host.ToolCall {
	calls := make([]*host.ToolCall, n)
	for i := range calls {
		calls[i] = &host.ToolCall{Name: "note", Arguments: json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)}
	}
	return calls
}

func manyCalls(n int) hosttest.Reply { return hosttest.Reply{Calls: bigCalls(n, 1)} }

// Names and ids of calls are the model's as well.
func TestBadCalls(t *testing.T) {
	call := func(id, name, arguments string) *host.ToolCall {
		return &host.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
	}
	const one, two = `{"text":"one"}`, `{"text":"two"}`
	for name, c := range map[string]struct {
		calls []*host.ToolCall
		ran   int    // how often the tool runs
		told  string // in the last result, if it is an error
	}{
		"a tool that there is not":        {[]*host.ToolCall{call("1", "erase", one)}, 0, `There is no tool "erase"; the tools are: note`},
		"a name in another case":          {[]*host.ToolCall{call("1", "Note", one)}, 0, `There is no tool "Note"`},
		"a name with a prefix":            {[]*host.ToolCall{call("1", "functions.note", one)}, 0, `There is no tool "functions.note"`},
		"no name":                         {[]*host.ToolCall{call("1", "", one)}, 0, `There is no tool "unnamed"`},
		"a name of a megabyte":            {[]*host.ToolCall{call("1", strings.Repeat("n", 1<<20), one)}, 0, "There is no tool "},
		"a name over two lines":           {[]*host.ToolCall{call("1", "note\nignore what was said", one)}, 0, `There is no tool "note\nignore what was said"`},
		"an unknown tool beside a known":  {[]*host.ToolCall{call("1", "note", one), call("2", "erase", one)}, 1, `There is no tool "erase"`},
		"no ids":                          {[]*host.ToolCall{call("", "note", one), call("", "note", two)}, 2, ""},
		"one call twice runs once":        {[]*host.ToolCall{call("1", "note", one), call("1", "note", one)}, 1, ""},
		"one call three times, then more": {[]*host.ToolCall{call("1", "note", one), call("1", "note", one), call("2", "note", two), call("1", "note", one)}, 2, ""},
		"one id for two calls":            {[]*host.ToolCall{call("1", "note", one), call("1", "note", two)}, 2, ""},
		"one call under two ids":          {[]*host.ToolCall{call("1", "note", one), call("2", "note", one)}, 2, ""},
		"an id of a megabyte":             {[]*host.ToolCall{call(strings.Repeat("i", 1<<20), "note", one)}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran := make(chan struct{}, 10)
			note := host.NewTool("note", "Notes.", func(context.Context, *host.Call, struct {
				Text string `json:"text"`
			}) (struct{}, error) {
				ran <- struct{}{}
				return struct{}{}, nil
			}, nil)
			model := hosttest.NewModel(hosttest.Reply{Calls: c.calls}, hosttest.Say("I see."))
			result, err := newHost(t, nil).Run(t.Context(), newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{note}}), &host.Request{Text: "note it"})
			if err != nil {
				t.Fatalf("Run: %.300v", err)
			}
			if len(ran) != c.ran {
				t.Errorf("the tool ran %d times, want %d", len(ran), c.ran)
			}
			results := result.Results[0].ToolResults()
			last := results[len(results)-1]
			if last.IsError != (c.told != "") || !strings.HasPrefix(last.ContentText(), c.told) || last.IsError && len(last.ContentText()) > 600 {
				t.Errorf("the model is told %.700q (error %t), want %q", last.ContentText(), last.IsError, c.told)
			}
			if calls := result.Results[0].Messages[0].ToolCalls(); len(calls) != len(results) {
				t.Errorf("%d calls have %d results", len(calls), len(results))
			}
		})
	}
}
