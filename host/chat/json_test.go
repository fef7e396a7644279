package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// decode reads a message that the test knows to be right.
func decode(t testing.TB, raw string) *chat.Message {
	t.Helper()
	m := &chat.Message{}
	if err := m.UnmarshalJSON([]byte(raw)); err != nil {
		t.Fatalf("UnmarshalJSON(%s): %v", raw, err)
	}
	return m
}

func encode(m *chat.Message) string { return string(m.AppendJSON(nil)) }

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	for name, raw := range map[string]string{
		"text":                 `{"id":"m","role":"user","parts":[{"type":"text","text":"a<b> & \"c\" \\ é 🙂"}],"created_at":"2025-03-04T05:06:07.123456789Z"}`,
		"no parts":             `{"id":"","role":"system","parts":[]}`,
		"reasoning":            `{"id":"m","role":"assistant","agent":"a","parts":[{"type":"reasoning","text":"hm","signature":"c2ln"}]}`,
		"big integers":         `{"id":"m","role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":{"a":9007199254740993,"b":[1.50,-0]}}]}`,
		"tool result's media":  `{"id":"m","role":"tool","parts":[{"type":"tool_result","id":"c","name":"n","content":1,"media":[{"type":"media","media_type":"image/png","data":"UE5H","alt":"a cat"},{"type":"media","media_type":"image/png","url":"https://a.example/b"}],"more":2}]}`,
		"tool result":          `{"id":"m","role":"tool","parts":[{"type":"tool_result","id":"c","name":"n","content":{"z":1,"a":"<"},"is_error":true}]}`,
		"media":                `{"id":"m","role":"user","parts":[{"type":"media","media_type":"image/png","url":"https://x.example/a.png"},{"type":"media","media_type":"audio/wav","data":"AAEC"}]}`,
		"data":                 `{"id":"m","role":"user","parts":[{"type":"data","value":[null,{"k":18446744073709551616}]}]}`,
		"unknown part":         `{"id":"m","role":"user","parts":[{"z":1,"type":"hologram","a":{"type":"text"}}]}`,
		"unknown part members": `{"id":"m","role":"user","parts":[{"type":"text","text":"t","x_b":1,"x_a":{"deep":[true]}}]}`,
		"unknown members":      `{"id":"m","role":"user","parts":[],"x_b":"\u0000","x_a":null}`,
		"metadata":             `{"id":"m","role":"user","parts":[],"metadata":{"a":9007199254740993,"b":"<&>"}}`,
		"empty metadata":       `{"id":"m","role":"user","parts":[],"metadata":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := encode(decode(t, raw)); got != raw {
				t.Errorf("message\n%s\ncomes back as\n%s", raw, got)
			}
		})
	}
}

func TestWhiteSpaceAndOrderDoNotMatter(t *testing.T) {
	m := decode(t, " {\n \"parts\" : [ { \"text\" : \"hi\" , \"type\" : \"text\" } ] ,\t\"role\":\"user\"\r\n, \"id\" : \"m\" } ")
	if got, want := encode(m), `{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMessagesRefused(t *testing.T) {
	for name, c := range map[string]struct{ raw, says string }{
		"not JSON":                      {`{"id":"m"`, "not valid JSON"},
		"not UTF-8":                     {"{\"id\":\"\xff\"}", "UTF-8"},
		"an array":                      {`[]`, "not an object"},
		"null":                          {`null`, "not an object"},
		"unknown role":                  {`{"role":"boss","parts":[]}`, `"boss"`},
		"no role":                       {`{"id":"m","parts":[]}`, "role"},
		"role of another type":          {`{"role":1}`, "role is not a string"},
		"parts of another type":         {`{"role":"user","parts":{}}`, "not an array"},
		"part of another type":          {`{"role":"user","parts":[1]}`, "part 0: not an object"},
		"part without a type":           {`{"role":"user","parts":[{"text":"a"}]}`, "no type"},
		"part with two types":           {`{"role":"user","parts":[{"type":"x","type":"tool_call"}]}`, "type is given twice"},
		"call without an id":            {`{"role":"assistant","parts":[{"type":"tool_call","name":"n"}]}`, "needs an id and a name"},
		"result without a name":         {`{"role":"tool","parts":[{"type":"tool_result","id":"c"}]}`, "needs an id and a name"},
		"two ids":                       {`{"id":"a","role":"user","id":"b"}`, "id is given twice"},
		"two roles by escape":           {`{"role":"user","\u0072ole":"system"}`, "role is given twice"},
		"two texts":                     {`{"role":"user","parts":[{"type":"text","text":"a","text":"b"}]}`, "text is given twice"},
		"a time that is none":           {`{"role":"user","created_at":"yesterday"}`, "RFC 3339"},
		"a time beyond year 9999":       {`{"role":"user","created_at":"9999-12-31T23:59:59-01:00"}`, "RFC 3339"},
		"a time before year 0":          {`{"role":"user","created_at":"0000-01-01T00:00:00+01:00"}`, "RFC 3339"},
		"metadata that is no object":    {`{"role":"user","metadata":[]}`, "metadata is not an object"},
		"a result's media that is text": {`{"role":"tool","parts":[{"type":"tool_result","id":"c","name":"n","media":[{"type":"text","text":"a"}]}]}`, `media: a part of type "text"`},
		"data that is no base64":        {`{"role":"user","parts":[{"type":"media","media_type":"a/b","data":"?"}]}`, "data"},
	} {
		t.Run(name, func(t *testing.T) {
			err := new(chat.Message).UnmarshalJSON([]byte(c.raw))
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Fatalf("UnmarshalJSON(%s): %v; want code %s", c.raw, err, fault.InvalidArgument)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("UnmarshalJSON(%s): %v; want it to say %q", c.raw, err, c.says)
			}
		})
	}
}

func TestDecodeMessagesDoesNotAliasItsInput(t *testing.T) {
	raw := []byte(`[{"id":"m","role":"user","parts":[{"type":"data","value":{"a":1}}]}]`)
	messages, err := chat.DecodeMessages(raw)
	if err != nil || len(messages) != 1 {
		t.Fatalf("DecodeMessages: %d messages, %v", len(messages), err)
	}
	before := encode(messages[0])
	for i := range raw {
		raw[i] = 'x'
	}
	if after := encode(messages[0]); after != before {
		t.Errorf("after the input was overwritten the message is %s, was %s", after, before)
	}
	if _, err := chat.DecodeMessages([]byte(`[{"role":"user"},{"role":"x"}]`)); err == nil || !strings.Contains(err.Error(), "message 1") {
		t.Errorf("DecodeMessages with a bad second message: %v; want it to name message 1", err)
	}
}

func TestProgramsMessagesAreAlwaysJSON(t *testing.T) {
	m := &chat.Message{Role: chat.Assistant, Parts: []chat.Part{
		&chat.Text{Text: "bad \xff utf-8 \u0000"}, &chat.ToolCall{ID: "c", Name: "n"}, &chat.ToolResult{ID: "c", Name: "n"},
		&chat.Data{}, &chat.Unknown{Kind: "x"}, &chat.Media{MediaType: "a/b", Data: []byte{}},
	}, Metadata: map[string]json.RawMessage{"a": nil}}
	if raw := m.AppendJSON(nil); !json.Valid(raw) {
		t.Errorf("AppendJSON writes %s, which is not JSON", raw)
	}
}

func TestCloneLeavesTheOriginalAlone(t *testing.T) {
	m := decode(t, `{"id":"m","role":"user","parts":[{"type":"text","text":"a"}],"metadata":{"k":1},"x":1}`)
	before := encode(m)
	c := m.Clone()
	if got := encode(c); got != before {
		t.Errorf("the clone is %s, want %s", got, before)
	}
	c.Parts[0] = &chat.Text{Text: "b"}
	c.Metadata["k"] = json.RawMessage("2")
	if after := encode(m); after != before {
		t.Errorf("changing the clone changes the original: %s", after)
	}
}

func TestWhatIsCounted(t *testing.T) {
	m := decode(t, `{"role":"assistant","agent":"a","metadata":{"no":1},"parts":[
		{"type":"reasoning","text":"no"},{"type":"text","text":"é🙂"},
		{"type":"tool_call","id":"c","name":"n","arguments":{"a":1}},
		{"type":"tool_result","id":"c","name":"n","content":"plain \"text\""},
		{"type":"tool_result","id":"c","name":"n","content":{"a":1}},
		{"type":"media","media_type":"a/b","url":"no"},{"type":"data","value":[1]},{"type":"no"}]}`)
	want := `é🙂{"type":"tool_call","id":"c","name":"n","arguments":{"a":1}}plain "text"{"a":1}[1]`
	if got := string(m.AppendCountedText(nil)); got != want {
		t.Errorf("counted text\n%s, want\n%s", got, want)
	}
	if bytes, chars := m.Size(); bytes != len(want) || chars != len(want)-3 { // é is 2 bytes and 1 unit, 🙂 4 and 2
		t.Errorf("Size() = %d, %d; want %d, %d", bytes, chars, len(want), len(want)-3)
	}
}

func TestNewIDsSortByTime(t *testing.T) {
	last := ""
	for range 1000 {
		id := chat.NewID()
		if id <= last {
			t.Fatalf("id %s does not sort after %s", id, last)
		}
		last = id
	}
}

// anyMessage draws messages with every kind of part.
func anyMessage() *rapid.Generator[*chat.Message] {
	return rapid.Custom(func(t *rapid.T) *chat.Message {
		m := &chat.Message{
			ID: rapid.String().Draw(t, "id"), Role: rapid.SampledFrom([]chat.Role{chat.System, chat.User, chat.Assistant, chat.ToolRole}).Draw(t, "role"),
			Agent: rapid.String().Draw(t, "agent"), Parts: rapid.SliceOfN(anyPart(), 0, 5).Draw(t, "parts"),
		}
		if rapid.Bool().Draw(t, "has time") {
			m.CreatedAt = time.Unix(rapid.Int64Range(0, 1<<35).Draw(t, "seconds"), rapid.Int64Range(0, 999999999).Draw(t, "nanos")).UTC()
		}
		return m
	})
}

func anyPart() *rapid.Generator[chat.Part] {
	return rapid.Custom(func(t *rapid.T) chat.Part {
		raw, err := json.Marshal(rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return s }).Draw(t, "json"))
		if err != nil {
			t.Fatal(err)
		}
		name := rapid.StringN(1, 8, 16).Draw(t, "name")
		text := rapid.String().Draw(t, "text")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return &chat.Text{Text: text}
		case 1:
			return &chat.Reasoning{Text: text, Signature: name}
		case 2:
			return &chat.ToolCall{ID: name, Name: name, Arguments: raw}
		case 3:
			r := &chat.ToolResult{ID: name, Name: name, Content: raw, IsError: rapid.Bool().Draw(t, "error")}
			for range rapid.IntRange(0, 2).Draw(t, "media") {
				r.Media = append(r.Media, &chat.Media{MediaType: name, Data: []byte(text)})
			}
			return r
		case 4:
			return &chat.Media{MediaType: name, Data: []byte(text)}
		}
		return &chat.Data{Value: raw}
	})
}

func TestEveryMessageSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMessage().Draw(t, "message")
		raw := m.AppendJSON(nil)
		back := &chat.Message{}
		if err := back.UnmarshalJSON(raw); err != nil {
			t.Fatalf("UnmarshalJSON(%s): %v", raw, err)
		}
		if diff := cmp.Diff(string(raw), encode(back)); diff != "" {
			t.Errorf("round trip (-first +second):\n%s", diff)
		}
	})
}

// FuzzMessageJSON: what is read can be written and read again, and the two are
// the same; what is refused is refused with a code.
func FuzzMessageJSON(f *testing.F) {
	for _, seed := range []string{
		`{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}],"created_at":"2025-03-04T05:06:07Z"}`,
		`{"role":"tool","parts":[{"type":"tool_result","id":"c","name":"n","content":[1,{"a":"\\\""}],"is_error":true}],"metadata":{"k":{}}}`,
		`{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":"x"},{"type":"new","a":"\u0022"}],"x":[[]]}`,
		`{"role":"user","parts":[{"type":"media","media_type":"a/b","data":"AAEC","url":""},{"type":"data","value":1e5}]}`,
		`{"role":"user","\u0069d":"a\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &chat.Message{}
		if err := m.UnmarshalJSON(raw); err != nil {
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("UnmarshalJSON(%q): %v; want code %s", raw, err, fault.InvalidArgument)
			}
			return
		}
		first := m.AppendJSON(nil)
		if !json.Valid(first) {
			t.Fatalf("%q is written as %q, which is not JSON", raw, first)
		}
		again := &chat.Message{}
		if err := again.UnmarshalJSON(first); err != nil {
			t.Fatalf("%q is written as %q, which is not read: %v", raw, first, err)
		}
		if second := encode(again); second != string(first) {
			t.Errorf("%q is written as %q and then as %q", raw, first, second)
		}
		m.Size()
	})
}

func TestPartsKeepTheirTypeInJSON(t *testing.T) {
	parts := []chat.Part{
		&chat.Text{Text: "<hi>"}, &chat.Reasoning{Text: "hm", Signature: "s"},
		&chat.ToolCall{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"n":1}`)},
		&chat.ToolResult{ID: "c1", Name: "look", Content: json.RawMessage(`"x"`), IsError: true},
		&chat.Media{MediaType: "image/png", Data: []byte{1, 2}}, &chat.Data{Value: json.RawMessage(`[1]`)},
		&chat.Unknown{Kind: "later", JSON: json.RawMessage(`{"type":"later","x":1}`)},
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	back, err := chat.DecodeParts(raw)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(0, 0)
	want := (&chat.Message{Role: chat.User, CreatedAt: at, Parts: parts}).Checksum()
	if got := (&chat.Message{Role: chat.User, CreatedAt: at, Parts: back}).Checksum(); got != want {
		t.Errorf("%s is read as %v", raw, back)
	}
	if _, err := chat.DecodeParts([]byte(`[{"text":"no type"}]`)); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("DecodeParts of a part without a type = %v", err)
	}
}
