package openaiwire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi/internal/openaiwire"
	"github.com/agenthost/agenthost/host/stream"
)

func readResponse(raw []byte) (*openaiwire.ResponseRequest, *openaiwire.Terms, *openaiwire.Turn, error) {
	r := &openaiwire.ResponseRequest{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, nil, nil, err
	}
	terms, err := r.Terms()
	if err != nil {
		return nil, nil, nil, err
	}
	turn, err := r.Turn()
	return r, terms, turn, err
}

// inputs are those of responses with what they come to, and the items that are kept of them.
var inputs = map[string]struct{ input, want, items string }{
	"a text": {`"a"`, "|user:a|", `[{"type":"message","id":"item_r_0","role":"user","content":[{"type":"input_text","text":"a"}]}]`},
	"a message": {`[{"role":"user","content":"a"}]`, "|user:a|",
		`[{"content":[{"text":"a","type":"input_text"}],"id":"item_r_0","role":"user","type":"message"}]`},
	"an answer between": {`[{"role":"user","content":"a"},{"type":"message","id":"m1","role":"assistant","content":"b"},{"role":"user","content":"c"}]`, "user:a assistant:b |user:c|",
		`[{"content":[{"text":"a","type":"input_text"}],"id":"item_r_0","role":"user","type":"message"},{"content":[{"text":"b","type":"output_text"}],"id":"m1","role":"assistant","type":"message"},{"content":[{"text":"c","type":"input_text"}],"id":"item_r_2","role":"user","type":"message"}]`},
	"an empty answer between": {`[{"role":"user","content":"a"},{"role":"assistant","content":[]},{"role":"user","content":"c"}]`, "user:a |user:c|", ""},
	"an empty text between":   {`[{"role":"assistant","content":""},{"role":"user","content":"a"}]`, "|user:a|", `[{"content":[],"id":"item_r_0","role":"assistant","type":"message"},{"content":[{"text":"a","type":"input_text"}],"id":"item_r_1","role":"user","type":"message"}]`},
	"a call and its result":   {`[{"role":"user","content":"a"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"r"}]`, "user:a assistant:c1.f({}) ||c1=r", ""},
	"calls of one answer":     {`[{"role":"assistant","content":"x"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"r"},{"role":"user","content":"a"}]`, `assistant:x+c1.f({})+c2.g({}) tool:c1.f="r" |user:a|`, ""},
	"a result as parts":       {`[{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"r"}]}]`, "||c1=r", `[{"call_id":"c1","id":"item_r_0","output":[{"type":"input_text","text":"r"}],"type":"function_call_output"}]`},
	"reasoning":               {`[{"type":"reasoning","summary":[]},{"role":"user","content":"a"}]`, "|user:a|", ""},
	"an image":                {`[{"role":"user","content":[{"type":"input_image","image_url":"https://x/y.png"}]}]`, "|user:<image/* https://x/y.png>|", ""},
	"a file":                  {`[{"role":"user","content":[{"type":"input_file","file_data":"data:text/plain;base64,aGk="}]}]`, "|user:<text/plain hi>|", ""},
	"an empty text":           {`""`, "input invalid_argument", ""},
	"nothing":                 {`null`, "input invalid_argument", ""},
	"no items":                {`[]`, "input invalid_argument", ""},
	"a number":                {`7`, "input invalid_argument", ""},
	"a number as an item":     {`[7]`, "input[0] invalid_argument", ""},
	"an answer at the end":    {`[{"role":"assistant","content":"a"}]`, "input invalid_argument", ""},
	"a reference":             {`[{"type":"item_reference","id":"x"}]`, "input[0] invalid_argument", ""},
	"an unknown item":         {`[{"type":"smell"}]`, "input[0] invalid_argument", ""},
	"a type in other letters": {`[{"tyPe":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"r"}]}]`, "input[0].role invalid_argument", ""},
	"a role in other letters": {`[{"Role":"assistant","content":"x"},{"role":"user","content":"a"}]`, "input[0].role invalid_argument", ""},
	"a call without a name":   {`[{"type":"function_call","call_id":"c1"}]`, "input[0] invalid_argument", ""},
	"a result of nothing":     {`[{"type":"function_call_output","output":"r"}]`, "input[0].call_id invalid_argument", ""},
	"an image as a result":    {`[{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"https://x"}]}]`, "input[0].output invalid_argument", ""},
}

func TestTheInputOfAResponseIsReadAsATurnAndKept(t *testing.T) {
	for name, c := range inputs {
		r, _, turn, err := readResponse([]byte(`{"input":` + c.input + `}`))
		if got := outcome(turn, err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if err != nil || c.items == "" {
			continue
		}
		if items, err := r.Items("r"); err != nil || string(items) != c.items {
			t.Errorf("%s is kept as %s, %v, want %s", name, items, err, c.items)
		}
	}
}

func TestTermsOfAResponse(t *testing.T) {
	for name, c := range map[string]struct{ members, want string }{
		"none":                            {``, `{}`},
		"a function":                      {`,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`, `{"tools":[{"name":"f","parameters":{"type":"object"}}]}`},
		"a choice of a function":          {`,"tool_choice":{"type":"function","name":"f"}`, `{"tool_choice":"f"}`},
		"a schema":                        {`,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`, `{"output":{"Name":"n","Schema":{"type":"object"},"Strict":false}}`},
		"bounds":                          {`,"temperature":1,"top_p":0.5,"max_output_tokens":5,"parallel_tool_calls":false`, `{"serial_tools":true,"temperature":1,"max_output_tokens":5} {"top_p":0.5}`},
		"a tool of another type":          {`,"tools":[{"type":"file_search"}]`, "tools invalid_argument"},
		"a prompt":                        {`,"prompt":{"id":"x"}`, "prompt invalid_argument"},
		"an odd truncation":               {`,"truncation":"some"`, "truncation invalid_argument"},
		"a background that is not stored": {`,"background":true,"store":false`, "background invalid_argument"},
		"two conversations":               {`,"previous_response_id":"r","conversation":"t"`, "previous_response_id invalid_argument"},
		"a response before, not stored":   {`,"previous_response_id":"r","store":false`, "previous_response_id invalid_argument"},
		"no token":                        {`,"max_output_tokens":0`, "max_output_tokens invalid_argument"},
		"a choice of nothing":             {`,"tool_choice":{"type":"function"}`, "tool_choice invalid_argument"},
	} {
		_, terms, _, err := readResponse([]byte(`{"input":"a"` + c.members + `}`))
		if got := termsText(t, terms, err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTheConversationOfAResponse(t *testing.T) {
	for raw, want := range map[string]string{
		`null`: "", `"t1"`: "t1", `{"id":"t1","object":"conversation"}`: "t1",
		`""`: "conversation invalid_argument", `{}`: "conversation invalid_argument", `7`: "conversation invalid_argument",
	} {
		r := &openaiwire.ResponseRequest{Conversation: json.RawMessage(raw)}
		got, err := r.ConversationID()
		if err != nil {
			got = outcome(nil, err)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", raw, got, want)
		}
	}
}

func TestAResponseRepeatsItsRequest(t *testing.T) {
	r, _, _, err := readResponse([]byte(`{"model":"m","input":"a","instructions":"be kind","metadata":{"a":"b"},"previous_response_id":"r","background":true,"truncation":"auto",
		"tools":[{"type":"function","name":"f","strict":true,"odd":[1, 2]}],"tool_choice":"required","text":{"format":{"type":"json_object"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.Response()
	if err != nil || o.Model != "m" || *o.Instructions != "be kind" || o.Metadata["a"] != "b" || *o.PreviousResponse != "r" || !o.Background || o.Truncation != "auto" ||
		string(o.Tools) != `[{"type":"function","name":"f","strict":true,"odd":[1,2]}]` || string(o.ToolChoice) != `"required"` || !strings.Contains(string(o.Text), `"json_object"`) {
		t.Errorf("the response is %+v, %v", o, err)
	}
}

func TestResultsAreTheAnswersToQuestions(t *testing.T) {
	question := func(kind host.QuestionKind, id string) *host.Question {
		return &host.Question{ID: id + "-0000-0000", Kind: kind, Tool: "t"}
	}
	approval, result := question(host.AskApproval, "00000001"), question(host.AskResult, "00000002")
	for text, want := range map[string]string{
		`{"approve":true}`:                      `approve `,
		`{"approve":true,"arguments":{"n":1}}`:  `approve {"n":1}`,
		`{"approve":true,"arguments":null}`:     `approve `,
		` Approve `:                             `approve `,
		`true`:                                  `approve `,
		`{"approve":false,"reason":"too much"}`: `deny too much`,
		`no`:                                    `deny `,
		``:                                      `deny `,
		`{"approve":"yes"}`:                     `deny `,
		`[]`:                                    `deny `,
	} {
		answers := openaiwire.Answers("run", []*host.Question{approval, result}, []openaiwire.Result{
			{Call: stream.OpenAICallID("run", approval), Text: text}, {Call: stream.OpenAICallID("run", result), Text: text}, {Call: "call_of_another", Text: "x"},
		})
		if len(answers) != 2 {
			t.Fatalf("%s: the answers are %+v", text, answers)
		}
		a, said := answers[0], ""
		if json.Unmarshal(answers[1].Value, &said) != nil || said != text || answers[1].Decision != host.Reply || answers[1].Question != result.ID {
			t.Errorf("the result %s is %+v", text, answers[1])
		}
		if got := string(a.Decision) + " " + string(a.Arguments) + a.Reason; got != want || a.Question != approval.ID {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestALongInputIsReadInOnePass(t *testing.T) {
	for name, c := range map[string]struct{ head, piece, tail string }{
		"messages": {`{"input":[`, `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`, `,{"role":"user","content":"c"}]}`},
		"calls":    {`{"input":[`, `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `,{"role":"user","content":"c"}]}`},
		"results":  {`{"input":[`, `{"type":"function_call_output","call_id":"c","output":"r"}`, `,{"role":"user","content":"c"}]}`},
		"tools":    {`{"input":"a","tools":[`, `{"type":"function","name":"f"}`, `]}`},
	} {
		checkLinear(t, name, func(pieces int) {
			r, _, _, err := readResponse([]byte(c.head + strings.TrimSuffix(strings.Repeat(c.piece+",", pieces), ",") + c.tail))
			if err == nil {
				_, err = r.Items("run")
			}
			if err == nil {
				_, err = r.Response()
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
	}
}

func FuzzResponse(f *testing.F) {
	for _, c := range inputs {
		f.Add([]byte(`{"model":"m","input":` + c.input + `}`))
	}
	f.Add([]byte(`{"input":"a","conversation":{"id":"t"},"tools":[{"type":"function","name":"f"}],"tool_choice":{"name":"f"},"text":{"format":{"type":"json_object"}},"background":true}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !known(raw) {
			return
		}
		r, _, turn, err := readResponse(raw)
		if err != nil {
			return
		}
		checkTurn(t, turn)
		_, _ = r.ConversationID() // no panic
		if o, err := r.Response(); err != nil || !json.Valid(o.Tools) || !json.Valid(o.Text) || !json.Valid(o.ToolChoice) {
			t.Errorf("the response begins with %+v, %v", o, err)
		}
		checkItems(t, r, turn)
	})
}

// checkItems fails if the items that are kept of an input say something else than the input.
func checkItems(t *testing.T, r *openaiwire.ResponseRequest, turn *openaiwire.Turn) {
	t.Helper()
	items, err := r.Items("run")
	if err != nil {
		t.Fatalf("the input is read and not kept: %v", err)
	}
	kept := *r
	kept.Input = items
	again, err := kept.Turn()
	if err != nil {
		t.Fatalf("kept as %s it cannot be read: %v", items, err)
	}
	if got, want := said(again), said(turn); got != want {
		t.Errorf("kept as %s it reads as %s, and was %s", items, got, want)
	}
	if twice, err := kept.Items("run"); err != nil || string(twice) != string(items) && r.Input[0] != '"' {
		t.Errorf("kept twice it is %s, %v, and was %s", twice, err, items)
	}
}
