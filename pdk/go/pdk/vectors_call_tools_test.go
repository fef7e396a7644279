package pdk_test

// Scenario: the golden vectors of calls of other tools.

import (
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// callsTools has a plugin's tool call others, and returns what the host was asked and what
// the tool was answered. The host answers with told.
func callsTools(t *testing.T, calls []pdk.ToolRequest, told pdk.Raw) (asked pdk.Raw, answers []pdk.ToolAnswer) {
	t.Helper()
	var p pdk.Plugin
	p.Tool("f", "", "", func(*pdk.Call) error {
		got, err := pdk.CallTools(calls...)
		for _, a := range got {
			answers = append(answers, pdk.ToolAnswer{Content: pdk.Raw([]byte(a.Content)), Failed: a.Failed, Code: a.Code, Media: pdk.Raw([]byte(a.Media))})
		}
		return err
	})
	host := pdktest.Host{Plugin: &p, Ops: map[string]func(pdk.Raw) (pdk.Raw, *pdk.Error){
		"tool.call": func(request pdk.Raw) (pdk.Raw, *pdk.Error) {
			asked = pdk.Raw([]byte(request))
			return told, nil
		},
	}}
	if _, failure := host.Call("tool", `{"tool":"f","arguments":{}}`); failure != nil {
		t.Fatal(failure)
	}
	return asked, answers
}

func TestCallToolsVectors(t *testing.T) {
	validVectors(t, "call_tools", "call_tools_in", func(t *testing.T, document pdk.Raw) {
		var calls []pdk.ToolRequest
		told := `{"results":[`
		var want pdk.Writer
		want.BeginObject().Key("calls").BeginArray()
		for c := range document.Get("calls").Elements() {
			name, _ := c.Get("name").Str()
			calls = append(calls, pdk.ToolRequest{Name: name, Arguments: c.Get("arguments")})
			if len(calls) > 1 {
				told += ","
			}
			told += `{"kind":"result","content":1}`
			want.BeginObject().Key("name").Str(name)
			if arguments := c.Get("arguments"); arguments != "" {
				want.Key("arguments").Raw(arguments)
			}
			want.EndObject()
		}
		asked, _ := callsTools(t, calls, pdk.Raw(told+"]}"))
		requireSame(t, asked, want.EndArray().EndObject().Value())
	})
	validVectors(t, "call_tools", "call_tools_out", func(t *testing.T, document pdk.Raw) {
		var calls []pdk.ToolRequest
		var results []pdk.Raw
		for r := range document.Get("results").Elements() {
			calls, results = append(calls, pdk.ToolRequest{Name: "look"}), append(results, r)
		}
		_, answers := callsTools(t, calls, document)
		for i, r := range results {
			kind, _ := r.Get("kind").Str()
			code, _ := r.Get("code").Str()
			if a := answers[i]; a.Failed != (kind == "error") || string(a.Code) != code || a.Media != r.Get("media") {
				t.Errorf("result %d is read as %+v, from %s", i, a, r)
			}
			requireSame(t, answers[i].Content, r.Get("content"))
		}
	})
}

func TestCallToolFailsAsTheToolHas(t *testing.T) {
	for claim, row := range map[string]struct {
		response pdk.Raw
		content  pdk.Raw
		want     *pdk.Error // nil: none
	}{
		"a result":                     {`{"results":[{"kind":"result","content":[1]}]}`, `[1]`, nil},
		"a tool that failed":           {`{"results":[{"kind":"error","content":"Closed.","is_error":true,"code":"unavailable"}]}`, `"Closed."`, &pdk.Error{Code: pdk.Unavailable, Message: "Closed."}},
		"a kind that it does not know": {`{"results":[{"kind":"later","content":{"x":1}}]}`, `{"x":1}`, &pdk.Error{Code: pdk.Internal, Message: `{"x":1}`}},
		"no answer":                    {`{"results":[]}`, "", &pdk.Error{Code: pdk.Internal, Message: "the host answers 1 calls of tools with 0 results"}},
	} {
		t.Run(claim, func(t *testing.T) {
			var p pdk.Plugin
			var content pdk.Raw
			var failure error
			p.Tool("f", "", "", func(*pdk.Call) error {
				content, failure = pdk.CallTool("look", "")
				return nil
			})
			host := pdktest.Host{Plugin: &p, Ops: map[string]func(pdk.Raw) (pdk.Raw, *pdk.Error){
				"tool.call": func(pdk.Raw) (pdk.Raw, *pdk.Error) { return row.response, nil },
			}}
			if _, err := host.Call("tool", `{"tool":"f","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
			got, _ := failure.(*pdk.Error)
			if content != row.content || (got == nil) != (row.want == nil) || got != nil && *got != *row.want {
				t.Errorf("CallTool = %s, %v, want %s, %v", content, failure, row.content, row.want)
			}
		})
	}
}

func TestCallToolsReadsAnUnknownKindAsAFailure(t *testing.T) {
	_, answers := callsTools(t, []pdk.ToolRequest{{Name: "look"}}, `{"results":[{"kind":"later","content":1}]}`)
	if len(answers) != 1 || !answers[0].Failed {
		t.Errorf("answers %+v", answers)
	}
}
