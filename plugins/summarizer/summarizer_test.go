package summarizer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
	"github.com/agenthost/agenthost/plugins/summarizer"
)

// desk is a host whose model answers with how many messages it was shown.
func desk(messages ...string) *pdktest.Host {
	p := &pdk.Plugin{}
	summarizer.Register(p)
	h := &pdktest.Host{Plugin: p, Scope: pdk.Scope{Tenant: "acme", Thread: "t1"}}
	said(h, messages...)
	return h
}

// said is a conversation: u:, a: and s: say something, c:ID and t:ID are a call and
// its result.
func said(h *pdktest.Host, messages ...string) {
	var w pdk.Writer
	w.BeginArray()
	for i, m := range messages {
		kind, text, _ := strings.Cut(m, ":")
		role := map[string]string{"u": "user", "a": "assistant", "s": "system", "c": "assistant", "t": "tool"}[kind]
		w.BeginObject().Key("id").Str(fmt.Sprintf("m%d", i)).Key("role").Str(role).Key("parts").BeginArray().BeginObject()
		switch kind {
		case "c":
			w.Key("type").Str("tool_call").Key("id").Str(text).Key("name").Str("look").Key("arguments").Raw(`{"at":1}`)
		case "t":
			w.Key("type").Str("tool_result").Key("id").Str(text).Key("name").Str("look").Key("content").Raw(`"seen"`)
		default:
			w.Key("type").Str("text").Key("text").Str(text)
		}
		w.EndObject().EndArray().EndObject()
	}
	h.Messages = w.EndArray().Value()
}

// asking answers model.generate and keeps what was asked.
func asking(h *pdktest.Host, asked *[]string) {
	h.Generate = func(request pdk.Raw) (pdk.Raw, *pdk.Error) {
		var lines []string
		for m := range request.Get("messages").Elements() {
			role, _ := m.Get("role").Str()
			text := ""
			for p := range m.Get("parts").Elements() {
				text, _ = p.Get("text").Str()
			}
			lines = append(lines, role[:1]+":"+text)
		}
		*asked = append(*asked, strings.Join(lines, "|"))
		return pdk.Raw(fmt.Sprintf(`{"message":{"role":"assistant","parts":[{"type":"text","text":"summary %d"}]},"usage":{"input_tokens":1,"output_tokens":1},"finish_reason":"stop"}`, len(*asked))), nil
	}
}

func left(h *pdktest.Host, t *testing.T, config pdk.Raw) string {
	t.Helper()
	got := h.Process(t, "summarizer", config)
	var lines []string
	for _, m := range got.Messages {
		line := m.Role[:1] + ":" + m.Text()
		for _, p := range m.Parts {
			if p.Type != pdk.PartText {
				line += p.ID
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "|")
}

func TestSummarizer(t *testing.T) {
	const config = `{"target":2,"threshold":0,"prompt":"sum up"}`
	for _, c := range []struct {
		name, config, in, asked, want string
	}{
		{"what is short stays", config, "u:1 a:2", "", "u:1|a:2"},
		{"what is old is summarized", config, "u:1 a:2 u:3 a:4", "u:1|a:2|u:sum up", "a:summary 1|u:3|a:4"},
		{"a bare number is a target", `2`, "u:1 a:2 u:3 a:4", "", "u:1|a:2|u:3|a:4"},
		{"the threshold is left alone", `{"target":2,"threshold":2,"prompt":"sum up"}`, "u:1 a:2 u:3 a:4", "", "u:1|a:2|u:3|a:4"},
		{"system messages stay and are not shown", config, "s:s u:1 a:2 s:t u:3 a:4", "u:1|a:2|u:sum up", "s:s|a:summary 1|s:t|u:3|a:4"},
		{"a call stays with its result", config, "u:1 a:2 u:3 c:x t:x a:4", "u:1|a:2|u:3|u:sum up", "a:summary 1|a:x|t:x|a:4"},
		{"a call reads as text", config, "u:1 c:x t:x a:2 u:3 a:4", `u:1|a:[called look with {"at":1}]|a:[look answered: "seen"]|a:2|u:sum up`, "a:summary 1|u:3|a:4"},
		{"an open call is not cut off", `{"target":1,"threshold":0,"prompt":"sum up"}`, "u:1 c:x t:x", "u:1|u:sum up", "a:summary 1|a:x|t:x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := desk(strings.Fields(c.in)...)
			var asked []string
			asking(h, &asked)
			if got := left(h, t, pdk.Raw(c.config)); got != c.want {
				t.Errorf("left %s, want %s", got, c.want)
			}
			if got := strings.Join(asked, "; "); got != c.asked {
				t.Errorf("asked %s, want %s", got, c.asked)
			}
		})
	}
}

func TestNothingIsSummarizedTwice(t *testing.T) {
	h := desk()
	var asked, talk []string
	asking(h, &asked)
	shown := map[string]int{}
	for i := range 400 {
		talk = append(talk, fmt.Sprintf("u:q%d", i), fmt.Sprintf("a:r%d", i))
		said(h, talk...)
		view := left(h, t, `{"target":4,"threshold":20}`)
		if n := strings.Count(view, "|") + 1; n > 26 {
			t.Fatalf("turn %d: %d messages are left", i, n)
		}
	}
	for _, a := range asked {
		for _, line := range strings.Split(a, "|") {
			shown[line]++
		}
	}
	for line, n := range shown {
		if n > 1 && strings.HasPrefix(line, "u:q") {
			t.Errorf("%s was shown %d times", line, n)
		}
	}
	if len(asked) < 20 || len(asked) > 45 {
		t.Errorf("the model was asked %d times for 800 messages", len(asked))
	}
	if !strings.HasPrefix(asked[1], "a:summary 1|") {
		t.Errorf("the second summary does not go on from the first: %s", asked[1])
	}

	said(h, talk[300:]...) // another conversation by this name, and other ids
	h.KV["summary/t1"] = pdktest.Item{Value: `{"text":"old","through":"gone","count":9000}`, Revision: 1}
	if view := left(h, t, `{"target":4,"threshold":20}`); strings.Contains(view, "old") {
		t.Errorf("a summary of something else is used: %s", view)
	}
}

func TestWithoutThreadOrKeys(t *testing.T) {
	denied := func(pdk.Raw) (pdk.Raw, *pdk.Error) { return "", pdk.Errorf(pdk.PermissionDenied, "no") }
	for name, change := range map[string]func(*pdktest.Host){
		"without a thread": func(h *pdktest.Host) { h.Scope.Thread = "" },
		"without keys": func(h *pdktest.Host) {
			h.Ops = map[string]func(pdk.Raw) (pdk.Raw, *pdk.Error){"kv.get": denied, "kv.put": denied}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := desk("u:1", "a:2", "u:3")
			var asked []string
			asking(h, &asked)
			change(h)
			for range 2 {
				if got := left(h, t, `{"target":1,"threshold":0}`); !strings.HasSuffix(got, "|u:3") {
					t.Errorf("left %s", got)
				}
			}
			if len(asked) != 2 || len(h.KV) != 0 {
				t.Errorf("asked %d times, kept %v", len(asked), h.KV)
			}
		})
	}
}

func TestAModelThatFailsFailsTheProcessor(t *testing.T) {
	h := desk("u:1", "a:2", "u:3")
	h.Generate = func(pdk.Raw) (pdk.Raw, *pdk.Error) { return "", pdk.Errorf(pdk.Unavailable, "down") }
	_, failure := h.Call("process", `{"processor":"summarizer","config":{"target":1,"threshold":0},"scope":{},"outline":{"count":3,"roles":"uau","bytes":[1,1,1],"chars":[1,1,1],"parts":[1,1,1],"keep":[],"tools":[]}}`)
	if failure == nil || failure.Code != pdk.Unavailable {
		t.Errorf("process: %v", failure)
	}
}

func TestConfigurations(t *testing.T) {
	for config, says := range map[pdk.Raw]string{
		``: "neither", `null`: "neither", `"x"`: "neither", `0`: "target is 0", `-1`: "target is -1", `{}`: "target is 0",
		`{"target":1.5}`: "target is 1.5", `{"target":1,"threshold":-1}`: "threshold is -1", `{"target":1,"maxTokens":0}`: "maxTokens is 0",
		`{"target":1,"maxTokens":65537}`: "maxTokens is 65537", `{"target":1,"prompt":""}`: "prompt", `{"target":1,"model":3}`: "model is 3",
		`{"target":1,"taget":2}`: `"taget"`, `{"target":1`: "neither", `{"target":99999999999}`: "99999999999",
	} {
		h := desk("u:1")
		input := pdk.Raw(`{"processor":"summarizer","scope":{},"outline":{"count":1,"roles":"u","bytes":[1],"chars":[1],"parts":[1],"keep":[],"tools":[]}`)
		if config != "" {
			if !config.Valid() {
				continue
			}
			input += `,"config":` + config
		}
		_, failure := h.Call("process", input+"}")
		if failure == nil || failure.Code != pdk.InvalidArgument || !strings.Contains(failure.Message, says) {
			t.Errorf("%s: %v, want %q", config, failure, says)
		}
	}
}
