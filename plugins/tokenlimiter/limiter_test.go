package tokenlimiter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
	"github.com/agenthost/agenthost/plugins/historytest"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

// limit applies a configuration to a conversation in which a token is a byte,
// and returns what is left, or the error's code in brackets.
func limit(t rapidTB, config, conversation string) string {
	t.Helper()
	out, _, err := apply(t, config, historytest.Parse(conversation))
	if err != nil {
		return "(" + string(pdk.CodeOf(err)) + ")"
	}
	return historytest.Format(out)
}

func apply(t rapidTB, config string, messages []pdk.Message) ([]pdk.Message, tokenlimiter.Report, error) {
	t.Helper()
	l, err := tokenlimiter.New(pdk.Raw(config))
	if err != nil {
		t.Fatalf("New(%s): %v", config, err)
	}
	var e pdk.Edits
	report, err := l.Apply(historytest.Outline(messages), &e)
	if err != nil {
		return nil, report, err
	}
	out, err := pdktest.Apply(messages, e.List())
	if err != nil {
		t.Fatalf("the host would refuse the edits: %v", err)
	}
	return out, report, nil
}

type rapidTB interface {
	Helper()
	Fatalf(format string, args ...any)
}

func TestLimit(t *testing.T) {
	const (
		three  = "u:aaaaa | a:bbbbb | u:ccccc"
		empty  = `{"limit":%d,"oversize":"empty"}`
		padded = "u:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | "
	)
	for _, test := range []struct{ name, config, in, want string }{
		{"everything fits exactly", `15`, three, three},
		{"the oldest goes first", `14`, three, "a:bbbbb | u:ccccc"},
		{"two fit exactly", `10`, three, "a:bbbbb | u:ccccc"},
		{"the newest fits exactly", `5`, three, "u:ccccc"},
		{"the newest does not fit", `4`, three, "(resource_exhausted)"},
		{"the newest does not fit and may be empty", fmt.Sprintf(empty, 4), three, ""},
		{"an object with a limit is a limit", `{"limit":10}`, three, "a:bbbbb | u:ccccc"},
		{"an integer may be written with a point", `{"limit":10.0}`, three, "a:bbbbb | u:ccccc"},
		{"reserve is left free", `{"limit":14,"reserve":5}`, three, "u:ccccc"},
		{"reserve counts even when all would fit", `{"limit":15,"reserve":1}`, three, "a:bbbbb | u:ccccc"},
		{"older messages that would fit are not tried", `7`, "u:a | a:bbbbbbbbb | u:ccccc", "u:ccccc"},
		{"messages without text cost nothing", `5`, "u:aaaaa | a: | u:ccccc", "a: | u:ccccc"},
		{"calls and results stay together", `20`, padded + "a:a#1 b#2 | t:=a#1 | t:=b#2 | a:done", "a:a#1 b#2 | t:=a#1 | t:=b#2 | a:done"},
		{"calls and results go together", `17`, padded + "a:a#1 b#2 | t:=a#1 | t:=b#2 | a:done", "a:done"},
		{"calls in messages of their own stay together", `14`, "a:a#1 | a:b#2 | t:=b#2 | t:=a#1", "a:a#1 | a:b#2 | t:=b#2 | t:=a#1"},
		{"calls in messages of their own go together", `15`, "a:a#1 | a:b#2 | t:=b#2 | t:=a#1 | a:ok", "a:ok"},
		{"a late result goes with its call", `13`, "u:hi | a:a#1 | u:hurry | t:=a#1 | a:ok", "a:ok"},
		{"a late result keeps its call and what is between", `13`, "u:hi | a:a#1 | u:hurry | t:=a#1", "a:a#1 | u:hurry | t:=a#1"},
		{"two results go with their call", `10`, "a:a#1 | t:=a#1 | t:=a#1 | a:ok", "a:ok"},
		{"a result before its call goes with it", `9`, "u:hi | t:=a#1 | u:x | a:a#1 | a:ok", "a:ok"},
		{"an unanswered call does not glue what follows", `5`, "a:a#1 | u:two | u:three", "u:three"},
		{"an unanswered call goes alone", `8`, "a:a#1 | u:two | u:three", "u:two | u:three"},
		{"an unanswered call beside an answered one does not glue what follows", `7`, "a:a#1 b#2 | t:=a#1 | u:two | u:four", "u:two | u:four"},
		{"an unanswered call whose id is used again does not reach there", `9`, "a:a#1 | u:two | a:b#1 | t:=b#1 | a:ok", "a:b#1 | t:=b#1 | a:ok"},
		{"an orphan result is a segment of its own", `6`, "t:=a#1 | u:two | u:too", "u:two | u:too"},
		{"an orphan result does not reach a call that has its own", `14`, "t:=a#1 | u:xxxxx | a:a#1 | t:=a#1 | a:done!", "a:a#1 | t:=a#1 | a:done!"},
		{"an orphan result stays while it fits", `10`, "u:xx | t:=a#1 | a:bbbbb", "t:=a#1 | a:bbbbb"},
		{"system messages stay", `8`, "s:sss | u:aaaaa | a:bbbbb | u:ccccc", "s:sss | u:ccccc"},
		{"system messages stay wherever they stand", `11`, "u:aaaaa | s:sss | a:bbbbb | s:ttt | u:ccccc", "s:sss | s:ttt | u:ccccc"},
		{"a system message at the end is not the newest segment", `6`, "u:aaaaa | u:bbbbb | s:s", "u:bbbbb | s:s"},
		{"a system message within a pair stays alone", `4`, "a:a#1 | s:ss | t:=a#1 | u:ok", "s:ss | u:ok"},
		{"system messages may leave nothing", `3`, "s:sss | u:a", "(resource_exhausted)"},
		{"system messages alone may be too large", `2`, "s:sss", "(resource_exhausted)"},
		{"system messages stay even if nothing else does", fmt.Sprintf(empty, 2), "s:sss | u:a", "s:sss"},
		{"a system message with a result is like any other", `2`, "s:a#1 | t:=a#1 | u:ok", "u:ok"},
		{"an empty conversation fits", `1`, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := limit(t, test.config, test.in); got != test.want {
				t.Errorf("config %s\nlimit(%q)\n  = %q\nwant %q", test.config, test.in, got, test.want)
			}
		})
	}
}

func TestWhatFitsIsLeftAsItIs(t *testing.T) {
	l, err := tokenlimiter.New("15")
	if err != nil {
		t.Fatal(err)
	}
	var e pdk.Edits
	if _, err := l.Apply(historytest.Outline(historytest.Parse("u:aaaaa | a:bbbbb | u:ccccc")), &e); err != nil || len(e.List()) != 0 {
		t.Errorf("Apply: %v, %d edits, want none", err, len(e.List()))
	}
}

// An answer with more calls than any provider allows, answered backwards, costs
// no more than its length, and stays together.
func TestHostileAnswer(t *testing.T) {
	const calls = 20_000
	o := &pdk.Outline{Roles: "a" + strings.Repeat("t", calls), Parts: []int{calls}, Tokens: []int{9}}
	for i := range calls {
		o.Tools = append(o.Tools, pdk.OutlineTool{Part: i, ID: fmt.Sprint(i), Name: "a"})
	}
	for i := range calls {
		o.Parts, o.Tokens = append(o.Parts, 1), append(o.Tokens, 1)
		o.Tools = append(o.Tools, pdk.OutlineTool{Message: 1 + i, ID: fmt.Sprint(calls - 1 - i), Name: "a", Result: true})
	}
	l, err := tokenlimiter.New(`{"limit":100,"oversize":"empty"}`)
	if err != nil {
		t.Fatal(err)
	}
	var e pdk.Edits
	if report, err := l.Apply(o, &e); err != nil || report.Dropped != calls+1 {
		t.Errorf("dropped %d of %d messages that belong together, %v", report.Dropped, calls+1, err)
	}
}

func TestOversizeErrors(t *testing.T) {
	for _, test := range []struct{ config, in, message, hint string }{
		{`{"limit":9,"reserve":2}`, "s:sss | u:aaaaa",
			"the newest message, with the tool calls and results that belong to it, has 5 tokens; the limit of 9, less system messages and reserve, leaves 4 for it",
			"oversize"},
		{`{"limit":5,"reserve":2}`, "s:sss | u:aaaaa",
			"the system messages have 3 tokens; the limit of 5, less the reserve of 2, leaves nothing for others",
			"shorten the system messages"},
	} {
		_, _, err := apply(t, test.config, historytest.Parse(test.in))
		e, ok := err.(*pdk.Error)
		if !ok || e.Message != test.message || !strings.Contains(e.Hint, test.hint) || e.Code != pdk.ResourceExhausted {
			t.Errorf("limit %s of %q:\n got %#v\nwant %s", test.config, test.in, err, test.message)
		}
	}
}

// Forty-two characters are as many tokens as each encoding's average says.
func TestEstimates(t *testing.T) {
	conversation := []pdk.Message{
		pdk.NewMessage(pdk.RoleUser, pdk.TextPart(strings.Repeat("x", 42))),
		pdk.NewMessage(pdk.RoleAssistant, pdk.TextPart("")),
		pdk.NewMessage(pdk.RoleUser, pdk.TextPart("\U0001F600x")), // 5 bytes, 3 units
	}
	for _, test := range []struct {
		encoding string
		want     int
	}{
		{"o200k_base", 10 + 0 + 1}, {"cl100k_base", 11 + 0 + 1}, {"p50k_base", 12 + 0 + 1},
		{"r50k_base", 12 + 0 + 1}, {"gpt2", 14 + 0 + 1},
	} {
		_, got, err := apply(t, fmt.Sprintf(`{"limit":99,"encoding":%q,"useTiktoken":false}`, test.encoding), conversation)
		if err != nil || got.Before != test.want || got.After != test.want {
			t.Errorf("%s: %d tokens, %v, want %d", test.encoding, got.Before, err, test.want)
		}
	}
}

func TestReport(t *testing.T) {
	outline := func(encoding string) *pdk.Outline {
		o := historytest.Outline(historytest.Parse("u:aaaaa | a:bbbbb | u:ccccc"))
		if o.Encoding = encoding; encoding == "" {
			o.Tokens = nil
		}
		return o
	}
	for _, test := range []struct{ name, config, encoding, want string }{
		{"counted", `10`, "o200k_base",
			`"tokens_before":15,"tokens_after":10,"dropped_messages":1,"encoding":"o200k_base","approximate":false,"info":{"encoding":"o200k_base","type":"TiktokenTokenizer","hasTiktoken":true}}`},
		{"counted in the model's encoding", `{"limit":10,"encoding":"model"}`, "cl100k_base",
			`"tokens_before":15,"tokens_after":10,"dropped_messages":1,"encoding":"cl100k_base","approximate":false,"info":{"encoding":"cl100k_base","type":"TiktokenTokenizer","hasTiktoken":true}}`},
		{"estimated because the host has no tables", `{"limit":10,"encoding":"model"}`, "",
			`"tokens_before":6,"tokens_after":6,"dropped_messages":0,"encoding":"o200k_base","approximate":true,"info":{"encoding":"o200k_base","type":"ApproximateTokenizer","hasTiktoken":false}}`},
		{"estimated by choice", `{"limit":10,"encoding":"gpt2","useTiktoken":false}`, "gpt2",
			`"tokens_before":6,"tokens_after":6,"dropped_messages":0,"encoding":"gpt2","approximate":true,"info":{"encoding":"gpt2","type":"ApproximateTokenizer","hasTiktoken":true}}`},
		{"a custom tokenizer wins", `{"limit":10,"encoding":"gpt2","useTiktoken":false,"tokenizer":"mine"}`, "mine",
			`"tokens_before":15,"tokens_after":10,"dropped_messages":1,"encoding":"mine","approximate":false,"info":{"encoding":"mine","type":"CustomTokenizer","hasTiktoken":true}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := tokenlimiter.New(pdk.Raw(test.config))
			if err != nil {
				t.Fatal(err)
			}
			var e pdk.Edits
			report, err := l.Apply(outline(test.encoding), &e)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(`{"limit":10,`+test.want, string(report.JSON())); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigurationErrors(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{``, "limit is missing"},
		{`null`, "limit is missing"},
		{`{}`, "limit is missing"},
		{`{"encoding":"gpt2"}`, "limit is missing"},
		{`0`, "limit is 0, not an integer from 1"},
		{`-1`, "limit is -1, not an integer from 1"},
		{`1.5`, "limit is 1.5, not an integer"},
		{`1e300`, "limit is 1e300, not an integer"},
		{`9007199254740993`, "limit is 9007199254740993, not an integer"},
		{`"8000"`, `it is "8000", neither a number of tokens nor an object`},
		{`{"limit":8000`, "it is not JSON"},
		{`[8000]`, "it is [8000], neither"},
		{`{"limit":0}`, "limit is 0, not an integer from 1"},
		{`{"limit":null}`, "limit is null, not an integer"},
		{`{"limit":"8000"}`, `limit is "8000", not an integer`},
		{`{"limit":10,"reserve":10}`, "reserve is 10, which leaves nothing of the limit of 10"},
		{`{"limit":10,"reserve":-1}`, "reserve is -1, not an integer from 0"},
		{`{"limit":10,"encoding":"cl200k"}`, `encoding is "cl200k", not one of o200k_base, cl100k_base, p50k_base, r50k_base, gpt2, model`},
		{`{"limit":10,"encoding":7}`, "encoding is 7, not one of"},
		{`{"limit":10,"tokenizer":""}`, `tokenizer is "", not the name`},
		{`{"limit":10,"useTiktoken":0}`, "useTiktoken is 0, not true or false"},
		{`{"limit":10,"oversize":"drop"}`, `oversize is "drop", not one of error, empty`},
		{`{"limits":10}`, `the unknown key "limits"; known are limit, encoding`},
	} {
		_, err := tokenlimiter.New(pdk.Raw(test.config))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "config of tokenlimiter") {
			t.Errorf("New(%s): %v, want an error with %q", test.config, err, test.want)
		}
		if code := pdk.CodeOf(err); code != pdk.InvalidArgument {
			t.Errorf("New(%s): code %q, want %q", test.config, code, pdk.InvalidArgument)
		}
	}
}

// Whatever a configuration is, it is either refused or one that works.
func FuzzNew(f *testing.F) {
	for _, config := range []string{`8000`, `{"limit":9,"reserve":3}`, `{"limit":9,"encoding":"gpt2","useTiktoken":false}`, `{"limit":1e3,"oversize":"empty"}`, `{"limit":`} {
		f.Add(config)
	}
	outline := historytest.Outline(historytest.Parse("u:hi | a:a#1 | t:=a#1 | a:done"))
	f.Fuzz(func(t *testing.T, config string) {
		limiter, err := tokenlimiter.New(pdk.Raw(config))
		if err != nil {
			if pdk.CodeOf(err) != pdk.InvalidArgument {
				t.Errorf("New(%q): %v, want code %q", config, err, pdk.InvalidArgument)
			}
			return
		}
		var e pdk.Edits
		if r, err := limiter.Apply(outline, &e); err == nil && (r.Limit < 1 || r.After > r.Before) {
			t.Errorf("New(%q) reports %+v", config, r)
		}
	})
}

// drawLimit draws a configuration that conversations exceed about every other
// time.
func drawLimit(t *rapid.T) string {
	return fmt.Sprintf(`{"limit":%d,"oversize":"empty"}`, rapid.IntRange(1, 60).Draw(t, "limit"))
}

func TestNeverWorseFormed(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) []pdk.Message{"whole": historytest.Draw, "any": historytest.DrawAny} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			in := draw(t)
			out, _, err := apply(t, drawLimit(t), in)
			if err != nil {
				t.Fatalf("Apply: %v", err)
			}
			if before, after := historytest.Faults(in), historytest.Faults(out); after > before {
				t.Fatalf("%d faults became %d:\n%s\n%s", before, after, historytest.Format(in), historytest.Format(out))
			}
		}))
	}
}

func TestLimitingTwiceIsLimitingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := drawLimit(t)
		once, _, _ := apply(t, config, historytest.DrawAny(t))
		twice, _, err := apply(t, config, once)
		if got, want := historytest.Format(twice), historytest.Format(once); err != nil || got != want {
			t.Fatalf("limit %s, again %v:\n%s\n%s", config, err, want, got)
		}
	})
}

// What is left is every system message and an end of the rest, it fits, and the
// report says by how much.
func TestKeepsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, config := historytest.Draw(t), drawLimit(t)
		out, report, err := apply(t, config, in)
		if err != nil {
			t.Fatalf("Apply: %v", err)
		}
		system, rest := split(in)
		keptSystem, keptRest := split(out)
		if diff := cmp.Diff(system, keptSystem, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("system messages (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(rest[len(rest)-len(keptRest):], keptRest, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("other messages (-newest +kept):\n%s", diff)
		}
		if got := tokens(out); got != report.After || tokens(in) != report.Before || len(in)-len(out) != report.Dropped {
			t.Fatalf("report %+v of %d tokens in %d messages that became %d in %d", report, tokens(in), len(in), got, len(out))
		}
		if over := report.After > report.Limit; over && len(keptRest) > 0 {
			t.Fatalf("%d tokens are left of a limit of %d", report.After, report.Limit)
		}
	})
}

func split(messages []pdk.Message) (system, rest []string) {
	for _, m := range messages {
		line := historytest.Format([]pdk.Message{m})
		if m.Role == pdk.RoleSystem {
			system = append(system, line)
		} else {
			rest = append(rest, line)
		}
	}
	return system, rest
}

func tokens(messages []pdk.Message) int {
	n := 0
	for _, count := range historytest.Outline(messages).Tokens {
		n += count
	}
	return n
}

// The processor is asked as a host asks it, twice with one configuration and
// once with another.
func TestRegister(t *testing.T) {
	var p pdk.Plugin
	tokenlimiter.Register(&p)
	const request = `{"processor":"tokenlimiter","config":%s,"outline":{"count":2,"roles":"uu","bytes":[9,9],"chars":[9,9],` +
		`"tokens":[5,5],"encoding":"o200k_base","parts":[1,1],"tools":[]}}`
	for _, test := range []struct {
		config, want string
		status       int32
	}{
		{`5`, `{"edits":[{"drop":[0,1]}],"report":{"limit":5,"tokens_before":10,"tokens_after":5,"dropped_messages":1,`, 0},
		{`5`, `{"edits":[{"drop":[0,1]}],"report":{"limit":5,"tokens_before":10,"tokens_after":5,"dropped_messages":1,`, 0},
		{`{"limit":20}`, `{"report":{"limit":20,"tokens_before":10,"tokens_after":10,"dropped_messages":0,`, 0},
		{`4`, `{"code":"resource_exhausted","message":"the newest message, with`, 1},
		{`0`, `{"code":"invalid_argument","message":"config of tokenlimiter: limit is 0, not an integer from 1`, 1},
	} {
		got, status := p.Call("process", fmt.Appendf(nil, request, test.config))
		if !strings.HasPrefix(string(got), test.want) || status != test.status {
			t.Errorf("config %s: %d %s, want %d %s...", test.config, status, got, test.status, test.want)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	var messages []pdk.Message
	for i := range 500 {
		messages = append(messages, historytest.Parse(fmt.Sprintf("u:hello | a:search#%d fetch#x%d | t:=search#%d | t:=fetch#x%d", i, i, i, i))...)
	}
	o := historytest.Outline(messages)
	l, err := tokenlimiter.New("8000")
	if err != nil {
		b.Fatal(err)
	}
	var e pdk.Edits
	b.ReportAllocs()
	for b.Loop() {
		e.Reset()
		if _, err := l.Apply(o, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func Example() {
	l, err := tokenlimiter.New(`{"limit":100,"reserve":20}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A question, a call, its result and the answer, counted by the host.
	outline := &pdk.Outline{
		Roles:    "uata",
		Tokens:   []int{30, 20, 40, 25},
		Encoding: "o200k_base",
		Chars:    []int{120, 70, 150, 90},
		Parts:    []int{1, 1, 1, 1},
		Tools: []pdk.OutlineTool{
			{Message: 1, ID: "call-1", Name: "search"},
			{Message: 2, ID: "call-1", Name: "search", Result: true},
		},
	}
	var edits pdk.Edits
	report, err := l.Apply(outline, &edits)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Before, "tokens became", report.After)
	for _, e := range edits.List() {
		fmt.Println(e.Kind, e.At, e.To)
	}
	// Output:
	// 115 tokens became 25
	// drop 0 3
}

// Tool rounds may fill the limit on their own; the question they are about must
// still be in the view.
func TestTheCurrentInputStays(t *testing.T) {
	messages := historytest.Parse("u:old | a:old | u:now | a:f#1 | t:=f#1 | a:done")
	l, err := tokenlimiter.New(`{"limit":60}`)
	if err != nil {
		t.Fatal(err)
	}
	o := historytest.Outline(messages)
	for i := range o.Tokens {
		o.Tokens[i] = 20
	}
	o.Keep = []int{2}
	var e pdk.Edits
	if _, err := l.Apply(o, &e); err != nil {
		t.Fatal(err)
	}
	out, err := pdktest.Apply(messages, e.List())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := historytest.Format(out), "u:now | a:done"; got != want {
		t.Errorf("left are %q, want %q", got, want)
	}
}
