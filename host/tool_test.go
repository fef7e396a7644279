package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// call has an agent call one tool and returns what the model is told.
func call(t testing.TB, tool *host.Tool, arguments string) *host.ToolResult {
	t.Helper()
	agent := newAgent(t, &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Call(tool.Name, arguments)), Tools: []*host.Tool{tool}, MaxRounds: 1})
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "call it"})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return result.Results[0].ToolResults()[0]
}

// echoTool returns its arguments as Go has them.
func echoTool[In any]() *host.Tool {
	return host.NewTool("echo", "Echoes.", func(_ context.Context, _ *host.Call, in In) (string, error) {
		return fmt.Sprintf("%+v", in), nil
	}, nil)
}

type inner struct {
	Depth *int `json:"depth,omitempty"`
}

type arguments struct {
	Name    string            `json:"name"`
	Pointer *string           `json:"pointer"`
	Omitted int               `json:"omitted,omitempty"`
	Slice   []string          `json:"slice"`
	Nested  []*inner          `json:"nested,omitempty"`
	Map     map[string]inner  `json:"map,omitempty"`
	When    time.Time         `json:"when,omitzero"`
	Link    *url.URL          `json:"link,omitempty"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	Bytes   []byte            `json:"bytes,omitempty"`
	Hidden  func()            `json:"-"`
	Small   int8              `json:"small,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

func TestOptionalParametersAreToldAsRequiredAndNullable(t *testing.T) {
	tool := echoTool[arguments]()
	var schema struct {
		Type       string
		Properties map[string]struct {
			Type            any
			Format          string
			ContentEncoding string
		}
		Required             []string
		AdditionalProperties *bool
	}
	// true, which is what a property of any type has, is no object.
	raw := strings.ReplaceAll(string(tool.Parameters), `"raw":true`, `"raw":{}`)
	if err := json.Unmarshal([]byte(raw), &schema); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if schema.Type != "object" || schema.AdditionalProperties == nil || *schema.AdditionalProperties {
		t.Errorf("the schema is not a closed object: %s", raw)
	}
	if len(schema.Required) != len(schema.Properties) {
		t.Errorf("required are %v of %d properties; want all", schema.Required, len(schema.Properties))
	}
	for name, want := range map[string]string{
		"name": "string", "pointer": "[null string]", "omitted": "[null integer]", "slice": "array",
		"nested": "[null array]", "map": "[null object]", "when": "[null string]", "bytes": "[null string]", "raw": "<nil>",
	} {
		if got := fmt.Sprint(schema.Properties[name].Type); got != want {
			t.Errorf("property %s has type %s, want %s", name, got, want)
		}
	}
	if got := schema.Properties["when"].Format; got != "date-time" {
		t.Errorf("a time has format %q", got)
	}
	if _, ok := schema.Properties["Hidden"]; ok {
		t.Error("a field that JSON leaves out is a property")
	}
}

func TestArgumentsReachGo(t *testing.T) {
	for name, c := range map[string]struct {
		tool      *host.Tool
		arguments string
		want      string // "" : what the model is told begins with tells
		tells     string
	}{
		"null is nil":               {echoTool[struct{ P *int }](), `{"P":null}`, "{P:<nil>}", ""},
		"a pointer left out is nil": {echoTool[struct{ P *int }](), `{}`, "{P:<nil>}", ""},
		"omitempty null is zero": {echoTool[struct {
			N int `json:"n,omitempty"`
		}](), `{"n":null}`, "{N:0}", ""},
		"omitempty left out is zero": {echoTool[struct {
			N int `json:"n,omitempty"`
		}](), `{}`, "{N:0}", ""},
		"a nested pointer left out":       {echoTool[struct{ L []inner }](), `{"L":[{}]}`, "{L:[{Depth:<nil>}]}", ""},
		"big integers arrive whole":       {echoTool[struct{ N int64 }](), `{"N":9007199254740993}`, "{N:9007199254740993}", ""},
		"bytes are base64":                {echoTool[struct{ B []byte }](), `{"B":"AAEC"}`, "{B:[0 1 2]}", ""},
		"raw JSON is any JSON":            {echoTool[struct{ R json.RawMessage }](), `{"R":[1]}`, "{R:[91 49 93]}", ""},
		"a type that reads text":          {echoTool[struct{ T time.Time }](), `{"T":"2025-01-02T03:04:05Z"}`, "{T:2025-01-02 03:04:05 +0000 UTC}", ""},
		"a pointer to a struct":           {echoTool[*struct{ N int }](), `{"N":1}`, "&{N:1}", ""},
		"a map":                           {echoTool[map[string]int](), `{"a":1}`, "map[a:1]", ""},
		"no arguments at all":             {echoTool[struct{}](), ``, "{}", ""},
		"a number, wrapped":               {echoTool[int](), `{"value":7}`, "7", ""},
		"a list, wrapped":                 {echoTool[[]int](), `{"value":[1,2]}`, "[1 2]", ""},
		"anything, wrapped":               {echoTool[any](), `{"value":{"a":1}}`, "map[a:1]", ""},
		"a string that holds the JSON":    {echoTool[struct{ N int }](), `"{\"N\":1}"`, "{N:1}", ""},
		"bytes that are no UTF-8":         {echoTool[struct{ S string }](), "{\"S\":\"a\xffb\"}", "{S:a\uFFFDb}", ""},
		"a missing parameter":             {echoTool[struct{ N int }](), `{}`, "", "the arguments do not fit the schema: /: missing property 'N'"},
		"an unknown parameter":            {echoTool[struct{}](), `{"x":1}`, "", "the arguments do not fit the schema: /: additional properties 'x' not allowed"},
		"another case":                    {echoTool[struct{ N int }](), `{"n":1}`, "", "the arguments do not fit the schema"},
		"a wrong type":                    {echoTool[struct{ N int }](), `{"N":"1"}`, "", "the arguments do not fit the schema: /N: got string, want integer"},
		"a fraction":                      {echoTool[struct{ N int }](), `{"N":1.5}`, "", "the arguments do not fit the schema: /N: got number, want integer"},
		"too large for the Go type":       {echoTool[struct{ N int8 }](), `{"N":300}`, "", "the arguments do not fit the schema: /N: maximum: got 300, want 127"},
		"beyond int64":                    {echoTool[struct{ N int64 }](), `{"N":9223372036854775808}`, "", `the argument "N" cannot be number 9223372036854775808`},
		"no time at all":                  {echoTool[struct{ T time.Time }](), `{"T":"soon"}`, "", "the arguments cannot be read"},
		"a member given twice":            {echoTool[struct{ N int }](), `{"N":1,"N":2}`, "", "the arguments do not fit the schema: a member is given twice"},
		"a nested member given twice":     {echoTool[struct{ O map[string]int }](), `{"O":{"a":1,"\u0061":2}}`, "", "the arguments do not fit the schema: a member is given twice"},
		"a number beyond all types":       {echoTool[struct{ N float64 }](), `{"N":1e1000000}`, "", "the arguments do not fit the schema: the number 1e1000000 is out of range"},
		"a zero beyond all types":         {echoTool[struct{ N float64 }](), `{"N":0e99999999999999999999}`, "", "the arguments do not fit the schema: the number 0e99999999999999999999 is out of range"},
		"no JSON":                         {echoTool[struct{ N int }](), `{"N":`, "", "the arguments are not valid JSON"},
		"words":                           {echoTool[struct{}](), `please do`, "", "the arguments are not valid JSON"},
		"no object":                       {echoTool[struct{}](), `[1]`, "", "the arguments do not fit the schema: /: got array, want object"},
		"no wrapper":                      {echoTool[int](), `7`, "", `the arguments must be an object with the one member "value"`},
		"more than a wrapper":             {echoTool[int](), `{"value":7,"x":1}`, "", `the arguments must be an object with the one member "value"`},
		"a wrapper twice":                 {echoTool[int](), `{"value":7,"value":8}`, "", `the arguments must be an object with the one member "value"`},
		"a wrong type in a wrapper":       {echoTool[int](), `{"value":"7"}`, "", "the arguments do not fit the schema: /: got string, want integer"},
		"more faults than can be listed":  {echoTool[struct{ A, B, C, D, E, F, G []int }](), `{"A":1,"B":1,"C":1,"D":1,"E":1,"F":1,"G":1}`, "", "the arguments do not fit the schema: "},
		"names that look like a location": {echoTool[map[string]int](), `{"at '/x': ":"s"}`, "", "the arguments do not fit the schema: /at '/x': "},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.tool, c.arguments)
			if got.IsError != (c.want == "") {
				t.Fatalf("the model is told %s (error %t)", got.Content, got.IsError)
			}
			if c.want != "" && got.ContentText() != c.want {
				t.Errorf("the tool receives %s, want %s", got.ContentText(), c.want)
			}
			if !strings.HasPrefix(got.ContentText(), c.tells) {
				t.Errorf("the model is told %q, want %q", got.ContentText(), c.tells)
			}
		})
	}
}

func rawTool(t testing.TB, schema string) *host.Tool {
	t.Helper()
	tool, err := host.NewRawTool(llm.ToolSpec{Name: "raw", Parameters: json.RawMessage(schema)},
		func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
			return &host.ToolOutput{Content: call.Arguments}, nil
		}, nil)
	if err != nil {
		t.Fatalf("NewRawTool(%s): %v", schema, err)
	}
	return tool
}

func TestSchemasAreToldAsProvidersWantThem(t *testing.T) {
	for name, c := range map[string]struct{ schema, told string }{
		"absent":            {``, `{"type":"object","properties":{},"additionalProperties":false}`},
		"empty":             {`{}`, `{"type":"object","properties":{}}`},
		"complete":          {`{"type":"object","properties":{"b":{},"a":{}}}`, `{"type":"object","properties":{"b":{},"a":{}}}`},
		"without a type":    {`{ "properties":{"a":{}}}`, `{"type":"object", "properties":{"a":{}}}`},
		"a number":          {`{"type":"integer"}`, `{"type":"object","properties":{"value":{"type":"integer"}},"required":["value"],"additionalProperties":false}`},
		"true":              {`true`, `{"type":"object","properties":{"value":true},"required":["value"],"additionalProperties":false}`},
		"a nullable object": {`{"type":["object","null"]}`, `{"type":"object","properties":{"value":{"type":["object","null"]}},"required":["value"],"additionalProperties":false}`},
		"a reference": {`{"$defs":{"n":{"type":"integer"}},"$ref":"#/$defs/n"}`,
			`{"type":"object","properties":{"value":{"$ref":"#/$defs/n"}},"required":["value"],"additionalProperties":false,"$defs":{"n":{"type":"integer"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(rawTool(t, c.schema).Parameters)
			var a, b any
			if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(c.told), &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s is told as\n%s, want\n%s", c.schema, got, c.told)
			}
			if _, err := host.CompileSchema(json.RawMessage(got)); err != nil {
				t.Errorf("what is told is no schema: %v", err)
			}
		})
	}
}

func TestRawToolsGetWhatTheirSchemaTakes(t *testing.T) {
	const strict = `{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"},` +
		`"c":{"type":["integer","null"]},"d":{"type":"object","properties":{"e":{"type":"integer"}}},"f":{"type":"array","items":{"type":"object","properties":{"g":{"type":"string"}}}}}}`
	for name, c := range map[string]struct{ schema, arguments, want string }{
		"as they are":                  {strict, `{"a":"x","b": 9007199254740993}`, `{"a":"x","b": 9007199254740993}`},
		"without nulls nobody takes":   {strict, `{"a":"x","b":null,"c":null,"d":{"e":null},"f":[{"g":null}]}`, `{"a":"x","c":null,"d":{},"f":[{}]}`},
		"with a null somebody takes":   {strict, `{"a":"x","c":null}`, `{"a":"x","c":null}`},
		"unwrapped":                    {`{"type":"array","items":{"type":"integer"}}`, `{"value":[1,2]}`, `[1,2]`},
		"unwrapped, by a reference":    {`{"$defs":{"n":{"type":"integer"}},"$ref":"#/$defs/n"}`, `{"value":3}`, `3`},
		"checked against older drafts": {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"integer","exclusiveMinimum":1}}}`, `{"a":2}`, `{"a":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, rawTool(t, c.schema), c.arguments)
			if got.IsError || string(got.Content) != c.want {
				t.Errorf("the tool receives %s (error %t), want %s", got.Content, got.IsError, c.want)
			}
		})
	}
}

func TestToolsRefused(t *testing.T) {
	handler := func(context.Context, *host.Call) (*host.ToolOutput, error) { return nil, nil }
	for name, c := range map[string]struct {
		spec    llm.ToolSpec
		handler host.ToolHandler
		says    string
	}{
		"no name":                {llm.ToolSpec{}, handler, `""`},
		"a name with a space":    {llm.ToolSpec{Name: "a b"}, handler, "letters"},
		"a name of 65 letters":   {llm.ToolSpec{Name: strings.Repeat("a", 65)}, handler, "64"},
		"no handler":             {llm.ToolSpec{Name: "a"}, nil, "handler"},
		"no JSON":                {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{`)}, handler, "not valid JSON"},
		"no schema":              {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"type":"thing"}`)}, handler, "schema"},
		"a number for a schema":  {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`7`)}, handler, "schema"},
		"a file":                 {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"$ref":"file:///etc/passwd"}`)}, handler, "only refer to itself"},
		"a server":               {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"$ref":"http://localhost/x"}`)}, handler, "only refer to itself"},
		"another dialect":        {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"$schema":"http://localhost/x"}`)}, handler, "only refer to itself"},
		"a reference to nothing": {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"$ref":"#/$defs/x"}`)}, handler, "schema"},
		"a bad pattern":          {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"pattern":"("}`)}, handler, "schema"},
		"dynamic references":     {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"$dynamicAnchor":"a","items":{"$dynamicRef":"#a"}}`)}, handler, "$dynamicRef"},
		"512 kB of schema":       {llm.ToolSpec{Name: "a", Parameters: json.RawMessage(`{"description":"` + strings.Repeat("x", 512<<10) + `"}`)}, handler, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.NewRawTool(c.spec, c.handler, nil)
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("NewRawTool: %v; want code %s and %q", err, host.InvalidArgument, c.says)
			}
		})
	}
}

func TestAMistakeOfNewToolIsReportedWhereTheToolIsUsed(t *testing.T) {
	type cycle struct{ Next *cycle }
	do := func(context.Context, *host.Call, struct{}) (int, error) { return 0, nil }
	var none func(context.Context, *host.Call, struct{}) (int, error)
	for name, c := range map[string]struct {
		tool *host.Tool
		says string
	}{
		"a channel":  {echoTool[chan int](), `tool "echo"`},
		"a function": {echoTool[struct{ F func() }](), `tool "echo"`},
		"a cycle":    {echoTool[cycle](), `tool "echo"`},
		"a bad tag": {echoTool[struct {
			Open bool `enum:"red,green"`
		}](), `tool "echo"`},
		"a bad name":       {host.NewTool("a b", "", do, nil), `"a b"`},
		"too many retries": {host.NewTool("many", "", do, &host.ToolOptions{Retries: 99}), `tool "many"`},
		"a live version":   {host.NewLiveTool(echoTool[chan int](), func(context.Context) *host.Tool { return nil }), `tool "echo"`},
		"no function":      {host.NewTool("none", "", none, nil), `tool "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{c.tool}})
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `agent "clerk"`) {
				t.Errorf("NewAgent: %v; want code %s and %q", err, host.InvalidArgument, c.says)
			}
			if _, err := c.tool.With(nil); host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("With: %v; want code %s", err, host.InvalidArgument)
			}
		})
	}
}

// Small schemas that take for ever, or nearly: each must end in a sentence.
func TestHostileSchemasEndSoon(t *testing.T) {
	doubling := func(keyword, leaf string) string {
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, `"a%d":{%q:[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, keyword, i+1, i+1)
		}
		return `{"type":"object","$ref":"#/$defs/a0","$defs":{` + b.String() + `"a60":` + leaf + `}}`
	}
	for name, c := range map[string]struct{ schema, arguments string }{
		"all of":           {doubling("allOf", `{"type":"object"}`), `{}`},
		"any of":           {doubling("anyOf", `{"type":"string"}`), `{}`},
		"one of":           {doubling("oneOf", `{"type":"string"}`), `{}`},
		"not any of":       {`{"type":"object","not":` + strings.Replace(doubling("anyOf", `{"type":"string"}`), `"type":"object",`, "", 1) + `}`, `{}`},
		"an older draft":   {`{"$schema":"http://json-schema.org/draft-07/schema#",` + doubling("allOf", `{"type":"object"}`)[1:], `{}`},
		"a tree of itself": {`{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}`, strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)},
		"a long pattern":   {`{"type":"object","additionalProperties":{"pattern":"` + strings.Repeat("(a?b?c?){9}", 500) + `$"}}`, `{"a":"` + strings.Repeat("abc", 200_000) + `"}`},
		"an enum of lists": {`{"type":"object","additionalProperties":{"items":{"enum":[` + strings.Repeat(`[0],`, 20_000) + `[1]]}}}`, `{"a":[` + strings.Repeat(`[1],`, 50_000) + `[1]]}`},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			schema := c.schema
			if name == "not any of" {
				schema = strings.ReplaceAll(schema, `"#/$defs`, `"#/not/$defs`)
			}
			if name == "an older draft" {
				schema = strings.Replace(schema, `"$ref":"#/$defs/a0"`, `"allOf":[{"$ref":"#/$defs/a0"}]`, 1)
			}
			got := call(t, rawTool(t, schema), c.arguments)
			if !got.IsError || !strings.Contains(got.ContentText(), "too many checks") {
				t.Errorf("the model is told %.200s", got.ContentText())
			}
			if took := time.Since(started); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestLargeArgumentsStayWithinTheBudget(t *testing.T) {
	tool := rawTool(t, `{"type":"object","properties":{"list":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":0}}}]}}}}`)
	if got := call(t, tool, `{"list":[`+strings.Repeat(`{"n":1},`, 20_000)+`"end"]}`); got.IsError {
		t.Errorf("the model is told %.200s", got.ContentText())
	}
}

func TestResultsOfTools(t *testing.T) {
	output := func(out *host.ToolOutput) *host.Tool {
		tool, err := host.NewRawTool(llm.ToolSpec{Name: "out"}, func(context.Context, *host.Call) (*host.ToolOutput, error) { return out, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	for name, c := range map[string]struct {
		tool  *host.Tool
		want  string
		error bool
	}{
		"nil":             {output(nil), `"out successfully executed"`, false},
		"no content":      {output(&host.ToolOutput{}), `"out successfully executed"`, false},
		"null":            {output(&host.ToolOutput{Content: json.RawMessage("null")}), `null`, false},
		"no JSON":         {output(&host.ToolOutput{Content: json.RawMessage("{")}), `"The result of out is not JSON."`, true},
		"no UTF-8":        {output(&host.ToolOutput{Content: json.RawMessage("\"\xff\"")}), `"The result of out is not JSON."`, true},
		"too large":       {output(&host.ToolOutput{Content: json.RawMessage(`"` + strings.Repeat("x", host.DefaultLimits().ResultBytes) + `"`)}), `"The result of out is 1048578 bytes, more than the 1048576 that are allowed."`, true},
		"an empty struct": {host.NewTool("out", "", func(context.Context, *host.Call, struct{}) (struct{}, error) { return struct{}{}, nil }, nil), `"out successfully executed"`, false},
		"HTML, as it is":  {host.NewTool("out", "", func(context.Context, *host.Call, struct{}) (string, error) { return "<b>&", nil }, nil), `"<b>&"`, false},
		"a function":      {host.NewTool("out", "", func(context.Context, *host.Call, struct{}) (any, error) { return func() {}, nil }, nil), `"The result of out is not JSON: json: unsupported type: func()."`, true},
		"a bad artifact":  {output(&host.ToolOutput{Artifacts: []host.Artifact{{Parts: []host.Part{&host.Data{Value: json.RawMessage("{")}}}}}), `"artifact \"\": not valid JSON: invalid character ']' after object key:value pair"`, true},
		"no artifact":     {output(&host.ToolOutput{Artifacts: []host.Artifact{{Parts: []host.Part{nil}}}}), `"The tool out failed."`, true},
		"a bad question":  {output(&host.ToolOutput{Interrupt: &host.Interrupt{Data: json.RawMessage("{")}}), `"What out asks a person is not JSON."`, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.tool, `{}`)
			if string(got.Content) != c.want || got.IsError != c.error {
				t.Errorf("the model is told %s (error %t), want %s (error %t)", got.Content, got.IsError, c.want, c.error)
			}
		})
	}
}

func TestLiveToolIsLookedUpForEachRun(t *testing.T) {
	second := host.NewTool("echo", "The second.", func(context.Context, *host.Call, struct{ N int }) (string, error) { return "second", nil }, nil)
	for _, row := range []struct {
		name  string
		now   *host.Tool
		want  string
		known string
	}{
		{"it is what it is now", second, `"second"`, "The second."},
		{"there is none now", nil, `"{N:7}"`, "Echoes."},
		{"a tool of another name is none", host.NewTool("other", "Other.", func(context.Context, *host.Call, struct{ N int }) (string, error) { return "", nil }, nil), `"{N:7}"`, "Echoes."},
		{"a live one is none", host.NewLiveTool(second, func(context.Context) *host.Tool { return second }), `"{N:7}"`, "Echoes."},
	} {
		t.Run(row.name, func(t *testing.T) {
			model := hosttest.NewModel(hosttest.Call("echo", `{"N":7}`))
			live := host.NewLiveTool(echoTool[struct{ N int }](), func(context.Context) *host.Tool { return row.now })
			agent := newAgent(t, &host.AgentOptions{Model: model, Tools: []*host.Tool{live}, MaxRounds: 1})
			result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "call it"})
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Results[0].ToolResults()[0]; string(got.Content) != row.want {
				t.Errorf("the tool answers %s, want %s", got.Content, row.want)
			}
			if got := model.Requests()[0].Tools[0].Description; got != row.known {
				t.Errorf("the model is told %q, want %q", got, row.known)
			}
		})
	}
}
