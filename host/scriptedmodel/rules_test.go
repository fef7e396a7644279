package scriptedmodel_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/scriptedmodel"
)

func readRules(t *testing.T, raw string) []scriptedmodel.Rule {
	t.Helper()
	rules, err := scriptedmodel.ReadRules([]byte(raw))
	if err != nil {
		t.Fatalf("ReadRules: %v", err)
	}
	return rules
}

func TestRules(t *testing.T) {
	rules := readRules(t, `{"rules": [
		{"name": "only for pirates", "match": {"system": "(?i)pirate"}, "reply": {"text": "Arr!"}},
		{"match": {"user": "^turn", "turn": 2}, "reply": {"text": "the second"}},
		{"match": {"user": "order (?P<what>\\d+) costs \\$(\\d+)", "tool": "note"},
		 "reply": {"calls": [{"name": "note", "arguments": {"order": "${what}", "about": ["order ${1}", {"price": "${2}"}], "keep": 9007199254740993}}]}},
		{"match": {"user": "order (\\d+)", "after": "note"}, "reply": {"text": "Noted ${1} for $5: ${result}"}},
		{"match": {"after": "*"}, "reply": {"text": "some result: ${result}"}},
		{"match": {"user": "two"}, "reply": {"text": "Both.", "calls": [{"name": "a"}, {"name": "b", "arguments": {"x": [1, null, true]}}], "finish_reason": "length", "usage": {"input_tokens": 7, "output_tokens": 3}}}
	]}`)
	h := otherwise(t, rules...)
	note := toolOf("note", "Notes.", `{"type":"object","properties":{"order":{"type":"integer"},"about":{"type":"array","items":{"type":"string"}}}}`)
	for _, tt := range []struct {
		name string
		req  chat
		want said
	}{
		{"by the system message", chat{"messages": []any{system("You are a Pirate."), user("hi")}}, said{Text: "Arr!", Finish: "stop"}},
		{"by the turn", chat{"messages": []any{user("turn"), assistant("ok"), user("turn")}}, said{Text: "the second", Finish: "stop"}},
		{"fills templates, and numbers where the schema wants them", chat{"messages": []any{user("order 1042 costs $99")}, "tools": []any{note}},
			said{Calls: []string{`note {"about":["order 1042",{"price":"99"}],"keep":9007199254740993,"order":1042}`}, Finish: "tool_calls"}},
		{"after a tool of that name", chat{"messages": []any{user("order 1042 costs $99"), calledWith("note", `{}`), resultOf(0, "saved")}, "tools": []any{note}}, said{Text: "Noted 1042 for $5: saved", Finish: "stop"}},
		{"after any tool", chat{"messages": []any{user("x"), calledWith("other", `{}`, "third", `{}`), resultOf(0, "one"), resultOf(1, "two")}}, said{Text: "some result: one\ntwo", Finish: "stop"}},
		{"text and calls, and what was used", chat{"messages": []any{user("two")}}, said{Text: "Both.", Calls: []string{`a {}`, `b {"x":[1,null,true]}`}, Finish: "length"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := complete(t, h, tt.req)
			if got.Text != tt.want.Text || got.Finish != tt.want.Finish || !cmp.Equal(got.Calls, tt.want.Calls) {
				t.Errorf("said %+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("usage is the rule's", func(t *testing.T) {
		if got := complete(t, h, chat{"messages": []any{user("two")}}); got.Usage.In != 7 || got.Usage.Out != 3 {
			t.Errorf("usage is %+v", got.Usage)
		}
	})
	t.Run("a rule whose tool is not offered does not apply", func(t *testing.T) {
		if got := complete(t, h, chat{"messages": []any{user("order 1042 costs $99")}}); got.Text != "none" || len(got.Calls) > 0 {
			t.Errorf("said %+v, want what answers otherwise", got)
		}
	})
	t.Run("a rule without after does not apply after a result", func(t *testing.T) {
		h := otherwise(t, readRules(t, `{"rules":[{"match":{},"reply":{"calls":[{"name":"a"}]}}]}`)...)
		if got := complete(t, h, chat{"messages": []any{user("x"), calledWith("a", `{}`), resultOf(0, "one")}}); len(got.Calls) > 0 || got.Text != "none" {
			t.Errorf("said %+v, want what answers otherwise", got)
		}
	})
}

func TestReadRulesRefuses(t *testing.T) {
	one := func(rule string) string {
		return `{"rules":[{"match":{},"reply":{"text":"ok"}},` + rule + `]}`
	}
	for _, tt := range []struct{ name, raw, says string }{
		{"not JSON", `rules:`, "read rules"},
		{"nothing", ``, "read rules"},
		{"no rules", `{}`, `there is no "rules"`},
		{"a list", `[]`, `{"rules": [`},
		{"an unknown member", `{"rules":[],"rule":[]}`, `unknown field "rule"`},
		{"more after the end", `{"rules":[]} {}`, "more after the end"},
		{"an unknown member of a rule", one(`{"name":"refund","match":{"usr":"x"},"reply":{"text":"ok"}}`), `rule 2 ("refund"): unknown field "usr"`},
		{"a wrong type", one(`{"match":{"turn":"two"},"reply":{"text":"ok"}}`), "rule 2"},
		{"a pattern that is none", one(`{"match":{"user":"("},"reply":{"text":"ok"}}`), "rule 2: match.user"},
		{"another", one(`{"match":{"system":"["},"reply":{"text":"ok"}}`), "rule 2: match.system"},
		{"a group that is not there", one(`{"match":{"user":"x"},"reply":{"text":"${1}"}}`), "reply.text uses ${1}"},
		{"a name that is not there", one(`{"match":{"user":"(x)"},"reply":{"calls":[{"name":"a","arguments":{"b":["${who}"]}}]}}`), "reply.calls[0].arguments.b uses ${who}"},
		{"a group without a pattern", one(`{"match":{},"reply":{"text":"${0}"}}`), "uses ${0}"},
		{"no reply", one(`{"match":{}}`), "says nothing"},
		{"a call without a name", one(`{"reply":{"calls":[{}]}}`), "reply.calls[0] has no name"},
		{"an error that is none", one(`{"reply":{"error":{"status":200}}}`), "status is 200"},
		{"an error and text", one(`{"reply":{"text":"x","error":{"status":500}}}`), "one of them"},
		{"an unknown malformation", one(`{"reply":{"malformed":"upside_down"}}`), "half_json"},
		{"a delay without a unit", one(`{"reply":{"text":"x","delay":5}}`), `"50ms"`},
		{"a delay of a day", one(`{"reply":{"text":"x","delay":"24h"}}`), "up to 10m"},
		{"a negative delay", one(`{"reply":{"text":"x","chunk_delay":"-1s"}}`), "waits -1s"},
		{"a negative usage", one(`{"reply":{"text":"x","usage":{"input_tokens":-1}}}`), "negative"},
		{"a negative turn", one(`{"match":{"turn":-1},"reply":{"text":"x"}}`), "match.turn"},
		{"too many", `{"rules":[` + strings.Repeat(`{"reply":{"text":"x"}},`, 1000) + `{"reply":{"text":"x"}}]}`, "more than 1000"},
		{"too large", `{"rules":[` + strings.Repeat(" ", 1<<20) + `]}`, "bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scriptedmodel.ReadRules([]byte(tt.raw))
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("ReadRules: %v, want invalid_argument and %q", err, tt.says)
			}
		})
	}
}

func TestNewChecksRulesToo(t *testing.T) {
	_, err := scriptedmodel.New(&scriptedmodel.Options{Rules: []scriptedmodel.Rule{{Name: "r", Reply: scriptedmodel.Reply{Calls: []scriptedmodel.ReplyCall{{Name: "a", Arguments: []byte(`{`)}}}}}})
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), `rule 1 ("r"): reply.calls[0].arguments`) {
		t.Errorf("New: %v", err)
	}
}

// FuzzRules reads any bytes as rules. What is accepted can be served, and answers
// any text without a panic.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		``, `{"rules":[]}`, `{"rules":[{"match":{"user":"(a)(?P<b>c)?"},"reply":{"text":"${1}${b}${0}${result}$"}}]}`,
		`{"rules":[{"match":{"after":"*"},"reply":{"calls":[{"name":"${x}"}]}}]}`,
		`{"rules":[{"match":{"user":"(.*)"},"reply":{"calls":[{"name":"ping","arguments":{"n":"${1}","m":[{"o":"${1}"}]}}]}}]}`,
		`{"rules":[{"reply":{"error":{"status":429,"retry_after":"1"}}}]}`, `{"rules":[{"reply":{"malformed":"html"}}]}`,
		`{"rules":[{"reply":{"text":"x","delay":"1ns"}}]}`,
	} {
		f.Add([]byte(seed), "ac 12")
	}
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		rules, err := scriptedmodel.ReadRules(raw)
		if err != nil {
			if host.CodeOf(err) != host.InvalidArgument {
				t.Fatalf("code %s: %v", host.CodeOf(err), err)
			}
			return
		}
		for i := range rules { // waiting and cutting off are tested elsewhere
			rules[i].Reply.Delay, rules[i].Reply.ChunkDelay = 0, 0
			if m := rules[i].Reply.Malformed; m == scriptedmodel.MalformedCut || m == scriptedmodel.MalformedHang {
				return
			}
		}
		h, err := scriptedmodel.New(&scriptedmodel.Options{Rules: rules})
		if err != nil {
			t.Fatalf("ReadRules accepts what New refuses: %v", err)
		}
		ping := toolOf("ping", "Pings.", `{"type":"object","properties":{"n":{"type":"integer"}}}`)
		for _, stream := range []bool{false, true} {
			post(t, h, chat{"model": "m", "stream": stream, "messages": []any{user(text)}, "tools": []any{ping}})
		}
	})
}
