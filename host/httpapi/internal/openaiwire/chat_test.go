package openaiwire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/httpapi/internal/openaiwire"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// said writes a turn as its tests name it: ROLE:text in the past, the input behind a bar, and
// the results behind another.
func said(t *openaiwire.Turn) string {
	var b strings.Builder
	for _, m := range t.Past {
		b.WriteString(text(m) + " ")
	}
	b.WriteString("|")
	if t.Input != nil {
		b.WriteString(text(t.Input))
	}
	b.WriteString("|")
	for _, r := range t.Results {
		b.WriteString(r.Call + "=" + r.Text + " ")
	}
	return strings.TrimSpace(b.String())
}

func text(m *chat.Message) string {
	var parts []string
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *chat.Text:
			parts = append(parts, p.Text)
		case *chat.Media:
			parts = append(parts, fmt.Sprintf("<%s %s%s>", p.MediaType, p.URL, p.Data))
		case *chat.ToolCall:
			parts = append(parts, fmt.Sprintf("%s.%s(%s)", p.ID, p.Name, p.Arguments))
		case *chat.ToolResult:
			parts = append(parts, fmt.Sprintf("%s.%s=%s", p.ID, p.Name, p.Content))
		default:
			parts = append(parts, fmt.Sprintf("%T", p))
		}
	}
	return string(m.Role) + ":" + strings.Join(parts, "+")
}

// outcome is what a body comes to: the turn, or the member that an error is about.
func outcome(turn *openaiwire.Turn, err error) string {
	var param *openaiwire.ParamError
	switch {
	case errors.As(err, &param):
		return param.Param + " " + string(host.CodeOf(err))
	case err != nil:
		return err.Error()
	}
	return said(turn)
}

func readChat(raw []byte) (*openaiwire.ChatRequest, *openaiwire.Terms, *openaiwire.Turn, error) {
	r := &openaiwire.ChatRequest{}
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

// chats are conversations with what they come to.
var chats = map[string]struct{ messages, want string }{
	"one message":                {`{"role":"user","content":"a"}`, "|user:a|"},
	"two messages are one":       {`{"role":"user","content":"a"},{"role":"user","content":"b"}`, "|user:a+b|"},
	"an answer between":          {`{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}`, "user:a assistant:b |user:c|"},
	"an empty answer between":    {`{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":"c"}`, "user:a |user:c|"},
	"an empty answer first":      {`{"role":"assistant","content":null},{"role":"user","content":"c"}`, "|user:c|"},
	"a refusal":                  {`{"role":"user","content":"a"},{"role":"assistant","refusal":"no"},{"role":"user","content":"c"}`, "user:a assistant:no |user:c|"},
	"instructions anywhere":      {`{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"}`, "|user:a+b|"},
	"a result":                   {`{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}`, "user:a assistant:c1.f({}) ||c1=r"},
	"a result and more":          {`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"},{"role":"user","content":"b"}`, `assistant:c1.f({}) tool:c1.f="r" |user:b|`},
	"a result of no call":        {`{"role":"tool","tool_call_id":"c9","content":"r"},{"role":"user","content":"b"}`, `tool:c9.="r" |user:b|`},
	"arguments that were cut":    {`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}]},{"role":"user","content":"b"}`, `assistant:c1.f("{\"a\":") |user:b|`},
	"parts":                      {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}`, "|user:a+<image/* https://x/y.png>|"},
	"an image as its address":    {`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}`, "|user:<image/png hi>|"},
	"a file":                     {`{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk="}}]}`, "|user:<application/pdf hi>|"},
	"bytes of a file":            {`{"role":"user","content":[{"type":"file","file":{"file_data":"aGk="}}]}`, "|user:<application/octet-stream hi>|"},
	"a sound":                    {`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}]}`, "|user:<audio/wav hi>|"},
	"nothing":                    {``, "messages invalid_argument"},
	"an answer at the end":       {`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`, "messages invalid_argument"},
	"an empty answer at the end": {`{"role":"user","content":"a"},{"role":"assistant","content":""}`, "messages invalid_argument"},
	"an empty message":           {`{"role":"user","content":""}`, "messages[0] invalid_argument"},
	"null":                       {`null`, "messages[0].role invalid_argument"},
	"a number":                   {`7`, "messages[0] invalid_argument"},
	"an unknown role":            {`{"role":"robot","content":"a"}`, "messages[0].role invalid_argument"},
	"an object as content":       {`{"role":"user","content":{}}`, "messages[0].content invalid_argument"},
	"an unknown part":            {`{"role":"user","content":[{"type":"smell"}]}`, "messages[0].content invalid_argument"},
	"an image of no address":     {`{"role":"user","content":[{"type":"image_url","image_url":7}]}`, "messages[0].content invalid_argument"},
	"an image of a path":         {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}`, "messages[0].content invalid_argument"},
	"data that is not base64":    {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%%"}}]}`, "messages[0].content invalid_argument"},
	"a media type of no sense":   {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:a b;base64,aGk="}}]}`, "messages[0].content invalid_argument"},
	"a file by its id":           {`{"role":"user","content":[{"type":"file","file":{"file_id":"f1"}}]}`, "messages[0].content unimplemented"},
	"a file of nothing":          {`{"role":"user","content":[{"type":"file"}]}`, "messages[0].content invalid_argument"},
	"a sound of no format":       {`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk="}}]}`, "messages[0].content invalid_argument"},
	"an image as instruction":    {`{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`, "messages[0] invalid_argument"},
	"an image as a result":       {`{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`, "messages[0] invalid_argument"},
	"a result of nothing":        {`{"role":"tool","content":"r"}`, "messages[0].tool_call_id invalid_argument"},
	"a call without an id":       {`{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}`, "messages[0].tool_calls invalid_argument"},
}

func TestAConversationOfAChatIsReadAsATurn(t *testing.T) {
	for name, c := range chats {
		_, _, turn, err := readChat([]byte(`{"messages":[` + c.messages + `]}`))
		if got := outcome(turn, err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTermsOfAChat(t *testing.T) {
	for name, c := range map[string]struct{ members, want string }{
		"none":                      {``, `{}`},
		"a function":                {`,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]`, `{"tools":[{"name":"f","description":"d","parameters":{"type":"object"}}]}`},
		"no parameters":             {`,"tools":[{"type":"function","function":{"name":"f","parameters":null}}]`, `{"tools":[{"name":"f","parameters":null}]}`},
		"approvals":                 {`,"tools":[{"type":"function","function":{"name":"agenthost_approval"}}]`, `{} approvals`},
		"a choice":                  {`,"tool_choice":"required"`, `{"tool_choice":"any"}`},
		"a choice of a function":    {`,"tool_choice":{"type":"function","function":{"name":"f"}}`, `{"tool_choice":"f"}`},
		"one call at a time":        {`,"parallel_tool_calls":false`, `{"serial_tools":true}`},
		"an object":                 {`,"response_format":{"type":"json_object"}`, `{"output":{"Name":"answer","Schema":{"type":"object"},"Strict":false}}`},
		"a schema":                  {`,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`, `{"output":{"Name":"n","Schema":{"type":"object"},"Strict":true}}`},
		"bounds":                    {`,"temperature":0.5,"max_tokens":7,"max_completion_tokens":5`, `{"temperature":0.5,"max_output_tokens":5}`},
		"parameters":                {`,"top_p":0.5,"stop":["x"],"seed":null`, `{} {"stop":["x"],"top_p":0.5}`},
		"two answers":               {`,"n":2`, "n invalid_argument"},
		"probabilities":             {`,"logprobs":true`, "logprobs invalid_argument"},
		"a sound":                   {`,"modalities":["text","audio"]`, "modalities invalid_argument"},
		"functions of the old form": {`,"functions":[]`, "functions invalid_argument"},
		"a tool of another type":    {`,"tools":[{"type":"web_search"}]`, "tools invalid_argument"},
		"a function without a name": {`,"tools":[{"type":"function","function":{}}]`, "tools invalid_argument"},
		"a choice of nothing":       {`,"tool_choice":{}`, "tool_choice invalid_argument"},
		"an unknown choice":         {`,"tool_choice":"some"`, "tool_choice invalid_argument"},
		"an unknown format":         {`,"response_format":{"type":"xml"}`, "response_format invalid_argument"},
		"a schema that is missing":  {`,"response_format":{"type":"json_schema"}`, "response_format invalid_argument"},
		"a temperature of 3":        {`,"temperature":3`, "temperature invalid_argument"},
		"no token":                  {`,"max_tokens":0`, "max_tokens invalid_argument"},
	} {
		_, terms, _, err := readChat([]byte(`{"messages":[{"role":"user","content":"a"}]` + c.members + `}`))
		if got := termsText(t, terms, err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func termsText(t *testing.T, terms *openaiwire.Terms, err error) string {
	t.Helper()
	if err != nil {
		return outcome(nil, err)
	}
	raw, err := json.Marshal(terms.Client)
	if err != nil {
		t.Fatal(err)
	}
	got := string(raw)
	if len(terms.Parameters) > 0 {
		raw, err = json.Marshal(terms.Parameters)
		if err != nil {
			t.Fatal(err)
		}
		got += " " + string(raw)
	}
	if terms.Approvals {
		got += " approvals"
	}
	return got
}

// allocated returns the bytes that fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// checkLinear fails if reading four times as many pieces takes much more than four times the
// memory: what is copied once for each piece would show.
func checkLinear(t *testing.T, name string, read func(pieces int)) {
	t.Helper()
	read(10) // fills the caches, which are not measured
	const pieces = 500
	less, more := allocated(func() { read(pieces) }), allocated(func() { read(4 * pieces) })
	if more > 8*less {
		t.Errorf("%s: %d pieces take %d bytes, and %d take %d", name, pieces, less, 4*pieces, more)
	}
}

func TestALongChatIsReadInOnePass(t *testing.T) {
	for name, c := range map[string]struct{ head, piece, tail string }{
		"messages":     {`{"messages":[`, `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`, `,{"role":"user","content":"c"}]}`},
		"user's alone": {`{"messages":[`, `{"role":"user","content":"a"}`, `]}`},
		"system's":     {`{"messages":[`, `{"role":"system","content":"a"}`, `,{"role":"user","content":"c"}]}`},
		"parts":        {`{"messages":[{"role":"user","content":[`, `{"type":"text","text":"a"}`, `]}]}`},
		"results":      {`{"messages":[`, `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`, `]}`},
		"calls":        {`{"messages":[{"role":"assistant","tool_calls":[`, `{"id":"c","function":{"name":"f"}}`, `]},{"role":"user","content":"c"}]}`},
		"tools":        {`{"messages":[{"role":"user","content":"c"}],"tools":[`, `{"type":"function","function":{"name":"f"}}`, `]}`},
	} {
		checkLinear(t, name, func(pieces int) {
			body := c.head + strings.TrimSuffix(strings.Repeat(c.piece+",", pieces), ",") + c.tail
			if _, _, _, err := readChat([]byte(body)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
	}
}

// checkTurn fails for a turn that its run could not take: one that says nothing, or whose
// messages are others after they were stored.
func checkTurn(t *testing.T, turn *openaiwire.Turn) {
	t.Helper()
	if (turn.Input != nil) == (len(turn.Results) > 0) || turn.Digest == "" {
		t.Errorf("the turn has the input %v and %d results", turn.Input, len(turn.Results))
	}
	all := turn.Conversation()
	if turn.Input != nil {
		all = append(all, turn.Input)
	}
	for _, m := range all {
		if results := m.ToolResults(); len(results) > 0 && results[0].Name == "" {
			continue // of a call that the client does not send: the host leaves it out
		}
		if len(m.Parts) == 0 {
			t.Errorf("a message of role %s says nothing", m.Role)
		}
		raw := m.AppendJSON(nil) // as threads are stored; encoding/json writes & in arguments as \u0026
		again := &chat.Message{}
		if err := json.Unmarshal(raw, again); err != nil {
			t.Fatalf("stored as %s it cannot be read: %v", raw, err)
		}
		if !again.SameContent(m) {
			t.Errorf("stored as %s it reads as %s, and was %s", raw, text(again), text(m))
		}
	}
}

// known reports whether the API takes a body as JSON: others do not come to this package.
func known(raw []byte) bool {
	_, _, err := jsondoc.DecodeStrict(raw)
	return err == nil && len(raw) < 1<<16
}

func FuzzChat(f *testing.F) {
	for _, c := range chats {
		f.Add([]byte(`{"model":"m","messages":[` + c.messages + `]}`))
	}
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","response_format":{"type":"json_object"},"n":1,"stop":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !known(raw) {
			return
		}
		_, terms, turn, err := readChat(raw)
		if err != nil {
			return
		}
		checkTurn(t, turn)
		_, again, turnAgain, err := readChat(raw)
		if err != nil || turnAgain.Digest != turn.Digest || !reflect.DeepEqual(terms, again) {
			t.Errorf("the same body is another request: %v", err)
		}
	})
}
