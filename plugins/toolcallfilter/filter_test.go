package toolcallfilter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
	"github.com/agenthost/agenthost/plugins/historytest"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// filter applies a configuration to a conversation and returns what is left.
func filter(t testing.TB, config, conversation string) (string, toolcallfilter.Report) {
	t.Helper()
	messages, report := apply(t, config, historytest.Parse(conversation))
	return historytest.Format(messages), report
}

func apply(t rapidTB, config string, messages []pdk.Message) ([]pdk.Message, toolcallfilter.Report) {
	t.Helper()
	f, err := toolcallfilter.New(pdk.Raw(config))
	if err != nil {
		t.Fatalf("New(%s): %v", config, err)
	}
	var e pdk.Edits
	report := f.Apply(historytest.Outline(messages), &e)
	out, err := pdktest.Apply(messages, e.List())
	if err != nil {
		t.Fatalf("the host would refuse the edits: %v", err)
	}
	return out, report
}

type rapidTB interface {
	Helper()
	Fatalf(format string, args ...any)
}

func TestFilter(t *testing.T) {
	const all = "u:hi | a:a#1 b#2 c#3 | t:=a#1 | t:=b#2 | t:=c#3 | a:done"
	for _, test := range []struct{ name, config, in, want string }{
		{"without configuration everything goes", ``, all, "u:hi | a:done"},
		{"null is no configuration", `null`, all, "u:hi | a:done"},
		{"an empty configuration removes everything", `{}`, all, "u:hi | a:done"},
		{"a summary stands in place of the message", `{"persistResults":true}`, all, "u:hi | a:Used tools: a, b, c | a:done"},
		{"exclude removes the listed", `{"exclude":["a"]}`, all, "u:hi | a:b#2 c#3 | t:=b#2 | t:=c#3 | a:done"},
		{"include keeps the listed", `{"include":["a"]}`, all, "u:hi | a:a#1 | t:=a#1 | a:done"},
		{"include leaves no summary of a message that keeps a call", `{"include":["a"],"persistResults":true}`, all, "u:hi | a:a#1 | t:=a#1 | a:done"},
		{"include leaves a summary of a message that keeps none", `{"include":["z"],"persistResults":true}`, all, "u:hi | a:Used tools: a, b, c | a:done"},
		{"an empty exclude removes nothing", `{"exclude":[]}`, all, all},
		{"an empty include counts as absent", `{"include":[]}`, all, "u:hi | a:done"},
		{"an empty include leaves exclude alone", `{"include":[],"exclude":["a"]}`, all, "u:hi | a:b#2 c#3 | t:=b#2 | t:=c#3 | a:done"},
		{"a summary comes after the results of what was kept", `{"exclude":["a"],"persistResults":true}`, all,
			"u:hi | a:b#2 c#3 | t:=b#2 | t:=c#3 | a:Used a tool | a:done"},
		{"one tool is used, however often", `{"persistResults":true}`, "a:a#1 a#2 | t:=a#1 | t:=a#2", "a:Used a tool"},
		{"tools are listed once, in the order of their calls", `{"persistResults":true}`, "a:b#1 a#2 b#3 | t:=b#1 | t:=a#2 | t:=b#3", "a:Used tools: b, a"},
		{"every message leaves its own summary", `{"persistResults":true}`, "a:a#1 | t:=a#1 | a:b#2 | t:=b#2", "a:Used a tool | a:Used b tool"},
		{"text in the message of a call stays", `{}`, "a:look a#1 here | t:=a#1", "a:look here"},
		{"a summary comes after the text that stays", `{"persistResults":true}`, "a:look a#1 | t:=a#1 | a:done", "a:look | a:Used a tool | a:done"},
		{"a summary does not part calls that were sent in messages of their own", `{"exclude":["b"],"persistResults":true}`,
			"a:a#1 | a:b#2 | t:=a#1 | t:=b#2 | a:done", "a:a#1 | t:=a#1 | a:Used b tool | a:done"},
		{"a summary does not follow a call that is open at the end", `{"exclude":["b"],"persistResults":true}`,
			"u:hi | a:a#1 b#2 | t:=b#2", "u:hi | a:Used b tool | a:a#1"},
		{"a summary may follow a call that was never answered", `{"exclude":["b"],"persistResults":true}`,
			"a:a#1 | a:b#2 | t:=b#2 | u:well", "a:a#1 | a:Used b tool | u:well"},
		{"results of one message go one by one", `{"exclude":["a"]}`, "a:a#1 b#2 | t:=a#1 =b#2", "a:b#2 | t:=b#2"},
		{"several results go with their call", `{"exclude":["a"]}`, "a:a#1 | t:=a#1 | t:=a#1 | t:=a#1 | a:done", "a:done"},
		{"a late result goes with its call", `{"exclude":["a"]}`, "a:a#1 | u:well | t:=a#1 | a:done", "u:well | a:done"},
		{"a result before its call goes with it", `{"exclude":["a"]}`, "t:=#1 | u:hi | a:a#1 | a:b#2 | t:=b#2", "u:hi | a:b#2 | t:=b#2"},
		{"a result that names no tool goes with its call", `{"exclude":["a"]}`, "a:a#1 b#2 | t:=#1 | t:=#2", "a:b#2 | t:=#2"},
		{"a result that names another tool goes with its call", `{"exclude":["a"]}`, "a:a#1 | t:=b#1 | a:done", "a:done"},
		{"a result in the message of its call goes with it", `{"exclude":["a"]}`, "a:a#1 =a#1 done", "a:done"},
		{"orphans go when everything does", `{}`, "t:=a#1 | a:done", "a:done"},
		{"orphans of a filtered tool go", `{"exclude":["a"]}`, "t:=a#1 | t:=b#2 | a:done", "t:=b#2 | a:done"},
		{"orphans of a tool that is not included go", `{"include":["a"]}`, "t:=a#1 | t:=b#2 | a:done", "t:=a#1 | a:done"},
		{"an id used again belongs to the later call", `{"exclude":["a"]}`,
			"a:a#1 | t:=a#1 | a:b#1 | t:=b#1 | a:done", "a:b#1 | t:=b#1 | a:done"},
		{"an id used again belongs to the later call, without names too", `{"exclude":["a"]}`,
			"a:a#1 | t:=#1 | a:b#1 | t:=#1 | a:done", "a:b#1 | t:=#1 | a:done"},
		{"an id used again after a lost result belongs to the later call", `{"exclude":["a"]}`,
			"a:a#1 | u:well | a:b#1 | t:=#1 | a:done", "u:well | a:b#1 | t:=#1 | a:done"},
		{"calls that share an id are told apart by name", `{"exclude":["b"]}`,
			"a:a#1 b#1 | t:=b#1 | t:=a#1 | a:done", "a:a#1 | t:=a#1 | a:done"},
		{"an unanswered call goes as well", `{}`, "u:hi | a:a#1", "u:hi"},
		{"an empty conversation stays empty", `{}`, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _ := filter(t, test.config, test.in)
			if got != test.want {
				t.Errorf("config %s\nfilter(%q)\n  = %q\nwant %q", test.config, test.in, got, test.want)
			}
		})
	}
}

// The rounds that the agent has made since it was picked stay; a result goes with
// its call, wherever the line between the two is.
func TestOwnRounds(t *testing.T) {
	const in = "u:hi | a:a#1 | t:=a#1 | a:a#2 b#3 | t:=a#2 =b#3"
	for _, test := range []struct {
		name, config string
		own          int
		want         string
	}{
		{"none are own", `{}`, 0, "u:hi"},
		{"own rounds stay", `{}`, 2, "u:hi | a:a#2 b#3 | t:=a#2 =b#3"},
		{"all are own", `{"exclude":["a"]}`, 5, in},
		{"own rounds stay whatever is listed", `{"include":["z"]}`, 2, "u:hi | a:a#2 b#3 | t:=a#2 =b#3"},
		{"keep is the default", `{"own_rounds":"keep"}`, 2, "u:hi | a:a#2 b#3 | t:=a#2 =b#3"},
		{"filter removes them too", `{"own_rounds":"filter"}`, 2, "u:hi"},
		{"filter goes by what is listed", `{"own_rounds":"filter","exclude":["a"]}`, 2, "u:hi | a:b#3 | t:=b#3"},
		{"own results of another's calls go with them", `{}`, 1, "u:hi"},
		{"summaries are of the others", `{"persistResults":true}`, 2, "u:hi | a:Used a tool | a:a#2 b#3 | t:=a#2 =b#3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := toolcallfilter.New(pdk.Raw(test.config))
			if err != nil {
				t.Fatal(err)
			}
			messages := historytest.Parse(in)
			o := historytest.Outline(messages)
			o.Own = test.own
			var e pdk.Edits
			f.Apply(o, &e)
			out, err := pdktest.Apply(messages, e.List())
			if err != nil {
				t.Fatalf("the host would refuse the edits: %v", err)
			}
			if got := historytest.Format(out); got != test.want {
				t.Errorf("config %s with %d own messages leaves\n  %q, want\n  %q", test.config, test.own, got, test.want)
			}
		})
	}
}

func TestFiltersInARow(t *testing.T) {
	once, _ := filter(t, `{"exclude":["a"]}`, "u:hi | a:a#1 b#2 c#3 | t:=a#1 | t:=b#2 | t:=c#3 | a:done")
	if got, want := must(filter(t, `{"include":["c"]}`, once)), "u:hi | a:c#3 | t:=c#3 | a:done"; got != want {
		t.Errorf("both filters leave %q, want %q", got, want)
	}
}

func must(text string, _ toolcallfilter.Report) string { return text }

// An answer with more calls than any provider allows, answered backwards, costs
// no more than its length, and loses no result.
func TestHostileAnswer(t *testing.T) {
	const calls = 20_000
	o := &pdk.Outline{Roles: "at", Parts: []int{calls, calls}}
	for i := range 2 * calls {
		row := pdk.OutlineTool{Message: i / calls, Part: i % calls, ID: fmt.Sprint(i), Name: "ab"[i%2 : i%2+1]}
		if row.Message == 1 {
			row.ID, row.Name, row.Result = fmt.Sprint(2*calls-1-i), "", true
		}
		o.Tools = append(o.Tools, row)
	}
	f, err := toolcallfilter.New(`{"exclude":["a"]}`)
	if err != nil {
		t.Fatal(err)
	}
	var e pdk.Edits
	if got, want := f.Apply(o, &e), (toolcallfilter.Report{Calls: calls / 2, Results: calls / 2}); got != want {
		t.Errorf("report %+v, want %+v", got, want)
	}
}

func TestReport(t *testing.T) {
	_, got := filter(t, `{"exclude":["a"],"persistResults":true}`, "u:hi | a:a#1 b#2 | t:=a#1 | t:=b#2 | a:more a#3 | t:=a#3 | a:done")
	if want := (toolcallfilter.Report{Calls: 2, Results: 2, Messages: 2, Summaries: 2}); got != want {
		t.Errorf("report %+v, want %+v", got, want)
	}
	if got, want := got.JSON(), pdk.Raw(`{"removed_calls":2,"removed_results":2,"removed_messages":2,"summaries":2}`); got != want {
		t.Errorf("report %s, want %s", got, want)
	}
}

func TestConfigurationErrors(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{`{"include":["a"],"exclude":["b"]}`, "include and exclude are both given"},
		{`{"include":["a"],"exclude":[]}`, "include and exclude are both given"},
		{`{"exclude":"a"}`, `exclude is "a", not a list of tool names`},
		{`{"include":[1]}`, "include holds 1, which is not the name of a tool"},
		{`{"include":[""]}`, `include holds "", which is not the name of a tool`},
		{`{"persistResults":"yes"}`, `persistResults is "yes", not true or false`},
		{`{"exclud":["a"]}`, `the unknown key "exclud"; known are include, exclude, persistResults and own_rounds`},
		{`{"own_rounds":true}`, `own_rounds is true, not keep or filter`},
		{`{"own_rounds":"drop"}`, `own_rounds is "drop", not keep or filter`},
		{`{"exclude":["a"]`, "it is not JSON"},
		{`["a"]`, `it is ["a"], not an object`},
		{`8000`, "it is 8000, not an object"},
	} {
		_, err := toolcallfilter.New(pdk.Raw(test.config))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "config of toolcallfilter") {
			t.Errorf("New(%s): %v, want an error with %q", test.config, err, test.want)
		}
		if code := pdk.CodeOf(err); code != pdk.InvalidArgument {
			t.Errorf("New(%s): code %q, want %q", test.config, code, pdk.InvalidArgument)
		}
	}
}

// Whatever a configuration is, it is either refused or one that works.
func FuzzNew(f *testing.F) {
	for _, config := range []string{``, `{"exclude":["a"]}`, `{"include":["a"],"persistResults":true}`, `{"include":["a"],"exclude":["b"]}`, `{"include":`} {
		f.Add(config)
	}
	outline := historytest.Outline(historytest.Parse("u:hi | a:a#1 | t:=a#1 | a:done"))
	f.Fuzz(func(t *testing.T, config string) {
		filter, err := toolcallfilter.New(pdk.Raw(config))
		if err != nil {
			if pdk.CodeOf(err) != pdk.InvalidArgument {
				t.Errorf("New(%q): %v, want code %q", config, err, pdk.InvalidArgument)
			}
			return
		}
		var e pdk.Edits
		if r := filter.Apply(outline, &e); r.Calls > 1 || r.Calls != r.Results {
			t.Errorf("New(%q) removes %+v of one call and its result", config, r)
		}
	})
}

// configs are configurations of every kind, for properties.
var configs = rapid.SampledFrom([]string{
	`{}`, `{"persistResults":true}`,
	`{"exclude":["a"]}`, `{"exclude":["a","c"],"persistResults":true}`, `{"exclude":[]}`,
	`{"include":["b"]}`, `{"include":["b","c"],"persistResults":true}`, `{"include":["z"],"persistResults":true}`,
})

func TestNeverWorseFormed(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) []pdk.Message{"whole": historytest.Draw, "any": historytest.DrawAny} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			in := draw(t)
			out, _ := apply(t, configs.Draw(t, "config"), in)
			if before, after := historytest.Faults(in), historytest.Faults(out); after > before {
				t.Fatalf("%d faults became %d:\n%s\n%s", before, after, historytest.Format(in), historytest.Format(out))
			}
		}))
	}
}

func TestFilteringTwiceIsFilteringOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := configs.Draw(t, "config")
		once, _ := apply(t, config, historytest.DrawAny(t))
		twice, report := apply(t, config, once)
		if got, want := historytest.Format(twice), historytest.Format(once); got != want || report != (toolcallfilter.Report{}) {
			t.Fatalf("config %s, again %+v:\n%s\n%s", config, report, want, got)
		}
	})
}

// What is not filtered stays, in its order: every part of the result that was
// not added comes from the conversation, and only filtered rows are missing.
func TestKeepsEverythingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := historytest.Draw(t)
		config := configs.Draw(t, "config")
		out, _ := apply(t, config, in)
		f := wanted(config)
		if got, want := parts(out, nil), parts(in, f); got != want {
			t.Fatalf("config %s of %s:\n got %s\nwant %s", config, historytest.Format(in), got, want)
		}
	})
}

// parts lists the parts that were not added and that keep accepts.
func parts(messages []pdk.Message, keep func(pdk.Part) bool) string {
	var out []string
	for _, m := range messages {
		for _, p := range m.Parts {
			if m.ID != "" && (keep == nil || keep(p)) {
				out = append(out, historytest.FormatPart(p))
			}
		}
	}
	return strings.Join(out, " ")
}

// wanted says by the name alone what a configuration keeps, which is right for
// conversations that are whole.
func wanted(config string) func(pdk.Part) bool {
	include, exclude := names(config, "include"), names(config, "exclude")
	return func(p pdk.Part) bool {
		switch {
		case p.Type == pdk.PartText:
			return true
		case len(include) > 0:
			return slices.Contains(include, p.Name)
		}
		return exclude != nil && !slices.Contains(exclude, p.Name)
	}
}

func names(config, key string) []string {
	list := pdk.Raw(config).Get(key)
	if list == "" {
		return nil
	}
	out := []string{}
	for e := range list.Elements() {
		name, _ := e.Str()
		out = append(out, name)
	}
	return out
}

// The processor is asked as a host asks it, twice with one configuration and
// once with another.
func TestRegister(t *testing.T) {
	var p pdk.Plugin
	toolcallfilter.Register(&p)
	const request = `{"processor":"toolcallfilter","config":%s,"outline":{"count":3,"roles":"uat","bytes":[2,9,9],"chars":[2,9,9],"parts":[1,1,1],` +
		`"tools":[[1,0,"call","1","a"],[2,0,"result","1","a"]]}}`
	const removed = `{"edits":[{"drop":[1,3]}],"report":{"removed_calls":1,"removed_results":1,"removed_messages":2,"summaries":0}}`
	for _, test := range []struct {
		config, want string
		status       int32
	}{
		{`{}`, removed, 0},
		{`{}`, removed, 0},
		{`{"include":["a"]}`, `{"report":{"removed_calls":0,"removed_results":0,"removed_messages":0,"summaries":0}}`, 0},
		{`{"include":"a"}`, `{"code":"invalid_argument","message":"config of toolcallfilter: include is \"a\", not a list of tool names",` +
			`"hint":"for example {\"exclude\":[\"debug_log\"],\"persistResults\":true}"}`, 1},
	} {
		got, status := p.Call("process", fmt.Appendf(nil, request, test.config))
		if string(got) != test.want || status != test.status {
			t.Errorf("config %s: %d %s, want %d %s", test.config, status, got, test.status, test.want)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	var messages []pdk.Message
	for i := range 500 {
		messages = append(messages, historytest.Parse(fmt.Sprintf("u:hello | a:search#%d fetch#x%d | t:=search#%d | t:=fetch#x%d", i, i, i, i))...)
	}
	o := historytest.Outline(messages)
	for _, config := range []string{`{}`, `{"exclude":["fetch"]}`, `{"exclude":["fetch"],"persistResults":true}`} {
		b.Run(config, func(b *testing.B) {
			f, err := toolcallfilter.New(pdk.Raw(config))
			if err != nil {
				b.Fatal(err)
			}
			var e pdk.Edits
			b.ReportAllocs()
			for b.Loop() {
				e.Reset()
				f.Apply(o, &e)
			}
		})
	}
}

func Example() {
	f, err := toolcallfilter.New(`{"exclude":["debug_log"],"persistResults":true}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A question, a call of debug_log, its result and the answer.
	outline := &pdk.Outline{
		Roles: "uata",
		Parts: []int{1, 1, 1, 1},
		Tools: []pdk.OutlineTool{
			{Message: 1, ID: "call-1", Name: "debug_log"},
			{Message: 2, ID: "call-1", Name: "debug_log", Result: true},
		},
	}
	var edits pdk.Edits
	fmt.Println(f.Apply(outline, &edits).JSON())
	for _, e := range edits.List() {
		if e.Kind == pdk.EditInsert {
			fmt.Println("insert", e.At, e.Message.Text())
		} else {
			fmt.Println(e.Kind, e.At, e.To)
		}
	}
	// Output:
	// {"removed_calls":1,"removed_results":1,"removed_messages":2,"summaries":1}
	// insert 2 Used debug_log tool
	// drop 1 3
}
