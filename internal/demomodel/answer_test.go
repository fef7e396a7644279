package demomodel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/completiontest"
	"github.com/agenthost/agenthost/internal/demomodel"
)

type (
	chat = completiontest.Request
	turn = completiontest.Message
)

var (
	user       = completiontest.User
	assistant  = completiontest.Assistant
	system     = completiontest.System
	calledWith = completiontest.CalledWith
	resultOf   = completiontest.ResultOf
	toolOf     = completiontest.ToolOf
	post       = completiontest.Post
	complete   = completiontest.Complete
)

// newHandler serves what the package answers.
func newHandler(t *testing.T) *scriptedmodel.Handler {
	t.Helper()
	h, err := scriptedmodel.New(&scriptedmodel.Options{Otherwise: demomodel.Answer})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var (
	lookup = toolOf("lookup_order", "Finds an order by its number: status, carrier, items.",
		`{"type":"object","properties":{"order_id":{"type":"integer","description":"the order's number"}},"required":["order_id"],"additionalProperties":false}`)
	lookupText = toolOf("lookup_order", "Finds an order.", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	cancel     = toolOf("cancel_order", "Cancels an order that has not been shipped.",
		`{"type":"object","properties":{"order_id":{"type":"integer"},"reason":{"type":["string","null"]},"notify":{"type":["null","boolean"]}},"required":["order_id","reason","notify"]}`)
	weather = toolOf("get_weather", "Current weather of a city.",
		`{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"],"default":"celsius"}},"required":["city","unit"]}`)
	calc = toolOf("calc", "Evaluates an arithmetic expression.", `{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}`)
	echo = toolOf("echo", "Repeats a text.", `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)
	mail = toolOf("send_mail", "Sends an email.",
		`{"type":"object","properties":{"to":{"type":"string","format":"email"},"body":{"type":"string"},"date":{"type":"string","format":"date"}},"required":["to","body"]}`)
	stock = toolOf("reserve_stock", "Reserves items in the warehouse.",
		`{"type":"object","properties":{"sku":{"type":"string","pattern":"^[A-Z]{2}-\\d+$"},"quantity":{"type":"integer","minimum":1},"gift":{"type":"boolean"}},"required":["sku","quantity","gift"]}`)
	compare = toolOf("compare_orders", "Compares orders.", `{"type":"object","properties":{"order_ids":{"type":"array","items":{"type":"integer"}}},"required":["order_ids"]}`)
	list    = toolOf("list_orders", "Lists all orders of a customer.", `{"type":"object","properties":{"status":{"type":"string","enum":["open","shipped","cancelled"]}}}`)
)

func TestPicksToolsAndFillsThem(t *testing.T) {
	demo := "Where is order 1042? My card is 4111 1111 1111 1111, in case you need it. I also ordered 1043."
	masked := strings.ReplaceAll(demo, "4111 1111 1111 1111", "**** **** **** 1111")
	bracketed := strings.ReplaceAll(demo, "4111 1111 1111 1111", "[card ending in 1111]")
	asked := func(first, second string) []any {
		return []any{user(first), calledWith("lookup_order", `{"order_id":1042}`), resultOf(0, `{"status":"shipped"}`), assistant("It is shipped."), user(second)}
	}
	for _, tt := range []struct {
		name     string
		messages []any
		tools    []any
		want     []string
	}{
		{"an integer id", []any{user("where is order 1042?")}, []any{weather, lookup}, []string{`lookup_order {"order_id":1042}`}},
		{"a string id", []any{user("where is order ORD-1042?")}, []any{lookupText}, []string{`lookup_order {"id":"ORD-1042"}`}},
		{"a string id after a hash", []any{user("where is #1042?")}, []any{lookupText}, []string{`lookup_order {"id":"1042"}`}},
		{"the number of a lettered id, where a number is wanted", []any{user("track order ORD-1042")}, []any{lookup}, []string{`lookup_order {"order_id":1042}`}},
		{"nothing but an id", []any{user("1042")}, []any{weather, lookup}, []string{`lookup_order {"order_id":1042}`}},
		{"a short id after its word", []any{user("Where is order 7?")}, []any{lookup}, []string{`lookup_order {"order_id":7}`}},
		{"several ids, one call each", []any{user("where are orders 1042 and 1043?")}, []any{lookup}, []string{`lookup_order {"order_id":1042}`, `lookup_order {"order_id":1043}`}},
		{"an id named twice, one call", []any{user("where is 1042? I mean order 1042, where is it?")}, []any{lookup}, []string{`lookup_order {"order_id":1042}`}},
		{"several ids, one call that takes a list", []any{user("compare orders 1042, 1043 and 1044")}, []any{lookup, compare}, []string{`compare_orders {"order_ids":[1042,1043,1044]}`}},
		{"what is asked, not what is told", []any{user(demo)}, []any{lookup, cancel}, []string{`lookup_order {"order_id":1042}`}},
		{"two questions, two tools", []any{user("Where is order 1042? What is the weather in Paris?")}, []any{lookup, weather},
			[]string{`lookup_order {"order_id":1042}`, `get_weather {"city":"Paris","unit":"celsius"}`}},
		{"a second question that only names an id", []any{user("Where is order 1042? And 1043?")}, []any{weather, lookup}, []string{`lookup_order {"order_id":1042}`, `lookup_order {"order_id":1043}`}},
		{"the verb tells tools apart", []any{user("Please cancel order 1042.")}, []any{lookup, cancel}, []string{`cancel_order {"order_id":1042,"reason":null,"notify":null}`}},
		{"an optional boolean that is named", []any{user("cancel order 1042 and notify me")}, []any{lookup, cancel}, []string{`cancel_order {"order_id":1042,"reason":null,"notify":true}`}},
		{"one that is refused", []any{user("cancel order 1042, do not notify me")}, []any{lookup, cancel}, []string{`cancel_order {"order_id":1042,"reason":null,"notify":false}`}},
		{"a quoted text", []any{user(`cancel order 1042, "too late"`)}, []any{cancel}, []string{`cancel_order {"order_id":1042,"reason":"too late","notify":null}`}},
		{"a place", []any{user("What's the weather in New York today?")}, []any{lookup, weather}, []string{`get_weather {"city":"New York","unit":"celsius"}`}},
		{"an enum", []any{user("weather in Oslo in fahrenheit")}, []any{weather}, []string{`get_weather {"city":"Oslo in fahrenheit","unit":"fahrenheit"}`}},
		{"arithmetic finds a calculator", []any{user("what is 17*23?")}, []any{lookup, weather, calc}, []string{`calc {"expression":"17*23"}`}},
		{"arithmetic with blanks", []any{user("What is (2 + 3) * 4 - 1, please?")}, []any{calc}, []string{`calc {"expression":"(2 + 3) * 4 - 1"}`}},
		{"the rest of the text", []any{user("please echo hello wide world")}, []any{echo, calc}, []string{`echo {"text":"hello wide world"}`}},
		{"text after a colon", []any{user("echo: hello")}, []any{echo}, []string{`echo {"text":"hello"}`}},
		{"an address and a quote", []any{user(`send a mail to ann@example.com saying "see you" on 2026-12-24`)}, []any{mail}, []string{`send_mail {"to":"ann@example.com","body":"see you","date":"2026-12-24"}`}},
		{"a pattern and an amount", []any{user("reserve 3 of AB-77 from stock")}, []any{stock}, []string{`reserve_stock {"sku":"AB-77","quantity":3,"gift":false}`}},
		{"a tool that needs nothing", []any{user("list my orders")}, []any{lookup, list}, []string{`list_orders {}`}},
		{"a tool with an optional enum", []any{user("list the shipped orders")}, []any{lookup, list}, []string{`list_orders {"status":"shipped"}`}},

		{"the other one", asked(demo, "and the other one?"), []any{lookup, cancel}, []string{`lookup_order {"order_id":1043}`}},
		{"the other one, beside a masked card", asked(masked, "and the other one?"), []any{lookup}, []string{`lookup_order {"order_id":1043}`}},
		{"the other one, beside a bracketed card", asked(bracketed, "and the other one?"), []any{lookup}, []string{`lookup_order {"order_id":1043}`}},
		{"the other one, when the calls are gone from history", []any{user(demo), assistant("It is shipped."), user("and the other one?")}, []any{lookup}, []string{`lookup_order {"order_id":1043}`}},
		{"back to the first", append(asked(demo, "and the other one?"), calledWith("lookup_order", `{"order_id":1043}`), resultOf(0, `{}`), assistant("Lost."), user("and the other one again?")), []any{lookup},
			[]string{`lookup_order {"order_id":1042}`}},
		{"it", asked(demo, "when will it arrive?"), []any{lookup}, []string{`lookup_order {"order_id":1042}`}},
		{"both", asked(demo, "what about both of them?"), []any{lookup}, []string{`lookup_order {"order_id":1042}`, `lookup_order {"order_id":1043}`}},
		{"another tool for what was asked about", asked(demo, "please cancel it"), []any{lookup, cancel}, []string{`cancel_order {"order_id":1042,"reason":null,"notify":null}`}},
		{"a new id with the last tool", asked(demo, "and 1050?"), []any{lookup, cancel}, []string{`lookup_order {"order_id":1050}`}},
		{"a follow-up without ids", []any{user("weather in Paris?"), calledWith("get_weather", `{"city":"Paris"}`), resultOf(0, `{}`), assistant("Sunny."), user("and in London?")}, []any{lookup, weather},
			[]string{`get_weather {"city":"London","unit":"celsius"}`}},
		{"an optional id is not made up", asked(demo, "list my orders"), []any{lookup, toolOf("list_orders", "Lists orders.", `{"type":"object","properties":{"customer_id":{"type":"integer"}}}`)}, []string{`list_orders {}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := complete(t, newHandler(t), chat{"messages": tt.messages, "tools": tt.tools})
			if diff := cmp.Diff(tt.want, got.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.Text)
			}
			if got.Finish != "tool_calls" {
				t.Errorf("finish reason %q", got.Finish)
			}
		})
	}
}

func TestSchemasOfManyKinds(t *testing.T) {
	for _, tt := range []struct{ name, parameters, text, want string }{
		{"no schema", ``, "please ping", `{}`},
		{"true", `true`, "please ping", `{}`},
		{"references", `{"type":"object","properties":{"to":{"$ref":"#/$defs/who"}},"required":["to"],"$defs":{"who":{"type":"string","format":"email"}}}`, "ping a@b.example", `{"to":"a@b.example"}`},
		{"a reference to itself", `{"type":"object","properties":{"x":{"$ref":"#/$defs/x"}},"required":["x"],"$defs":{"x":{"$ref":"#/$defs/x"}}}`, "ping home", `{"x":"home"}`},
		{"alternatives", `{"type":"object","properties":{"n":{"anyOf":[{"type":"null"},{"type":"integer"}]}},"required":["n"]}`, "ping 3", `{"n":3}`},
		{"a constant", `{"type":"object","properties":{"v":{"const":1},"n":{"type":"number"}},"required":["v","n"]}`, "ping 2.5 times", `{"v":1,"n":2.5}`},
		{"a nested object", `{"type":"object","properties":{"order":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}},"required":["order"]}`, "ping 1042", `{"order":{"id":1042}}`},
		{"numbers by name", `{"type":"object","properties":{"width":{"type":"integer"},"height":{"type":"integer"}},"required":["width","height"]}`, "ping with height 20 and width 10", `{"width":10,"height":20}`},
		{"a range", `{"type":"object","properties":{"n":{"type":"integer","minimum":10}},"required":["n"]}`, "ping 3 or 12", `{"n":12}`},
		{"a default", `{"type":"object","properties":{"level":{"type":"integer","default":5}},"required":["level"]}`, "ping", `{"level":5}`},
		{"thousands", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, "ping 1,042 times", `{"n":1042}`},
		{"a list of addresses", `{"type":"object","properties":{"emails":{"type":"array","items":{"type":"string"}}},"required":["emails"]}`, "ping a@b.example and c@d.example", `{"emails":["a@b.example","c@d.example"]}`},
		{"a name that needs escapes", `{"type":"object","properties":{"a\"b":{"type":"string"}},"required":["a\"b"]}`, `ping "x<y"`, `{"a\"b":"x<y"}`},
		{"a broken schema", `{"type":17,"properties":[1]}`, "ping", `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parameters := tt.parameters
			if parameters == "" {
				parameters = "null"
			}
			got := complete(t, newHandler(t), chat{"messages": []any{user(tt.text)}, "tools": []any{toolOf("ping", "Pings.", parameters)}})
			if diff := cmp.Diff([]string{"ping " + tt.want}, got.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.Text)
			}
		})
	}
}

func TestToolChoice(t *testing.T) {
	hello := []any{user("good morning")}
	for _, tt := range []struct {
		name string
		req  chat
		want []string
	}{
		{"none calls nothing", chat{"messages": []any{user("where is order 1042?")}, "tools": []any{lookup}, "tool_choice": "none"}, nil},
		{"required calls something", chat{"messages": hello, "tools": []any{echo, weather}, "tool_choice": "required"}, []string{`echo {"text":"good morning"}`}},
		{"required calls what fits", chat{"messages": []any{user("where is order 1042?")}, "tools": []any{echo, lookup}, "tool_choice": "required"}, []string{`lookup_order {"order_id":1042}`}},
		{"a name is called", chat{"messages": hello, "tools": []any{echo, lookup}, "tool_choice": turn{"type": "function", "function": turn{"name": "lookup_order"}}}, []string{`lookup_order {"order_id":0}`}},
		{"serial calls one", chat{"messages": []any{user("where are orders 1042 and 1043?")}, "tools": []any{lookup}, "parallel_tool_calls": false}, []string{`lookup_order {"order_id":1042}`}},
		{"and then the next", chat{"messages": []any{user("where are orders 1042 and 1043?"), calledWith("lookup_order", `{ "order_id": 1042 }`), resultOf(0, "Error: no")}, "tools": []any{lookup}, "parallel_tool_calls": false},
			[]string{`lookup_order {"order_id":1043}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := complete(t, newHandler(t), tt.req)
			if diff := cmp.Diff(tt.want, got.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.Text)
			}
		})
	}
}

func TestSummarizes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		results []string
		want    string
	}{
		{"an object", []string{`{"order_id":1042,"status":"shipped","items":[{"sku":"AB-1","n":2}],"gift":false,"eta":null}`},
			"lookup_order (order id 1042) says: status: shipped, items: 1 entry ((sku: AB-1, n: 2)), gift: no, eta: nothing."},
		{"an object with nothing but what was asked", []string{`{"order_id":1042}`}, "lookup_order (order id 1042) says: order id: 1042."},
		{"a text", []string{`It is on its way.`}, "lookup_order (order id 1042) says: It is on its way."},
		{"a number", []string{`391`}, "lookup_order (order id 1042) says: 391."},
		{"a large number", []string{`9007199254740993`}, "lookup_order (order id 1042) says: 9007199254740993."},
		{"a list", []string{`["a","b","c","d","e","f","g"]`}, "lookup_order (order id 1042) says: 7 entries (a; b; c; d; e; and 2 more)."},
		{"an empty list", []string{`[]`}, "lookup_order (order id 1042) says: none."},
		{"nothing", []string{``}, "lookup_order (order id 1042) says nothing."},
		{"an error", []string{`Error: There is no order 1042`}, "lookup_order (order id 1042) could not do that: There is no order 1042."},
		{"an error object", []string{`{"error":"gone"}`}, "lookup_order (order id 1042) could not do that: gone."},
		{"several", []string{`{"status":"shipped"}`, `Error: There is no order 1043.`},
			"- lookup_order (order id 1042) says: status: shipped.\n- lookup_order (order id 1043) could not do that: There is no order 1043."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pairs []string
			for i := range tt.results {
				pairs = append(pairs, "lookup_order", fmt.Sprintf(`{"order_id":%d}`, 1042+i))
			}
			messages := []any{user("where is order 1042?"), calledWith(pairs...)}
			if len(tt.results) > 1 {
				messages[0] = user("where are orders 1042 and 1043?")
			}
			for i, r := range tt.results {
				messages = append(messages, resultOf(i, r))
			}
			got := complete(t, newHandler(t), chat{"messages": messages, "tools": []any{lookup}})
			if got.Text != tt.want || got.Finish != "stop" {
				t.Errorf("said (%s)\n%s\nwant\n%s", got.Finish, got.Text, tt.want)
			}
		})
	}
}

func TestSummaryIsBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	got := complete(t, newHandler(t), chat{"messages": []any{user("echo"), calledWith("echo", `{"text":"`+long+`"}`), resultOf(0, `{"a":"`+long+`","b":"`+long+`"}`)}, "tools": []any{echo}})
	if len(got.Text) > 5_000 {
		t.Errorf("summary is %d bytes", len(got.Text))
	}
}

func TestSaysWhatItIs(t *testing.T) {
	for _, tt := range []struct {
		name string
		req  chat
		says []string
	}{
		{"nothing fits", chat{"messages": []any{user("sing a song")}, "tools": []any{lookup, weather}}, []string{"not a language model", "- lookup_order: Finds an order by its number", "- get_weather: Current weather"}},
		{"something is missing", chat{"messages": []any{user("where is my order?")}, "tools": []any{lookup}}, []string{"not a language model", "lookup_order", "order_id"}},
		{"no tools", chat{"messages": []any{user("hi")}}, []string{"not a language model", "no"}},
		{"only a system message", chat{"messages": []any{system("be good")}, "tools": []any{lookup}}, []string{"not a language model"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := complete(t, newHandler(t), tt.req)
			if len(got.Calls) > 0 {
				t.Errorf("calls %v", got.Calls)
			}
			for _, s := range tt.says {
				if !strings.Contains(got.Text, s) {
					t.Errorf("%q does not say %q", got.Text, s)
				}
			}
			if got.Print != scriptedmodel.Fingerprint {
				t.Errorf("system fingerprint is %q", got.Print)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	tools := []any{
		toolOf("select_agent", "Let this agent act next.", `{"type":"object","properties":{"name":{"type":"string","enum":["orders","billing"]},"reason":{"type":["string","null"]}},"required":["name","reason"]}`),
		toolOf("done", "The request is met.", `{"type":"object","properties":{"summary":{"type":["string","null"]}},"required":["summary"]}`),
	}
	instructions := system("Direct a group of agents.\n\nThe agents:\n- orders: Finds orders and tracks shipments (tools: lookup_order)\n- billing: Refunds and invoices\n")
	for _, tt := range []struct {
		name     string
		messages []any
		want     string
	}{
		{"by description", []any{instructions, user("I want a refund")}, `select_agent {"name":"billing","reason":"its description shares \"refund\" with the request"}`},
		{"by stem", []any{instructions, user("track my shipment")}, `select_agent {"name":"orders","reason":"its description shares \"track\", \"shipment\" with the request"}`},
		{"by the question, not by the rest", []any{instructions, user("Where is order 1042? I have the invoices.")}, `select_agent {"name":"orders","reason":"its description shares \"order\" with the request"}`},
		{"by what was said before", []any{instructions, user("where is order 1042?"), assistant("Shipped."), user("and the other one?")}, `select_agent {"name":"orders","reason":"its description shares \"order\" with the request"}`},
		{"the first if nothing fits", []any{instructions, user("hello")}, `select_agent {"name":"orders","reason":"no description shares a word with the request; this agent is the first"}`},
		{"done after an answer", []any{instructions, user("where is order 1042?"), assistant("Shipped.")}, `done {"summary":"an agent has answered"}`},
		{"again after results that nobody has put into words", []any{instructions, user("where is order 1042?"), calledWith("lookup_order", `{}`), resultOf(0, `{}`)}, `select_agent {"name":"orders","reason":"its description shares \"order\" with the request"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := complete(t, newHandler(t), chat{"messages": tt.messages, "tools": tools, "tool_choice": "required"})
			if diff := cmp.Diff([]string{tt.want}, got.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.Text)
			}
		})
	}
}

func TestSameRequestSameAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SampledFrom([]string{"where", "is", "order", "1042", "and", "the", "other", "one", "?", "weather", "in", "Paris", "cancel", "ORD-7", "please", "it", "\"x\"", "2+2", "€", "."})
		texts := rapid.SliceOfN(rapid.SliceOfN(words, 0, 8), 1, 4).Draw(rt, "texts")
		var messages []any
		for _, ws := range texts {
			messages = append(messages, user(strings.Join(ws, " ")))
		}
		h := newHandler(t)
		req := chat{"model": "m", "stream": rapid.Bool().Draw(rt, "stream"), "messages": messages, "tools": []any{lookup, weather, cancel, calc, mail, stock, compare}}
		_, first := post(t, h, req)
		_, again := post(t, h, req)
		if !bytes.Equal(first, again) {
			rt.Fatalf("first\n%s\nthen\n%s", first, again)
		}
	})
}

// Whatever is asked, a turn ends: each round makes calls that it has not
// made, or answers.
func TestEveryTurnEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[a-z0-9 ,.?#"$*-]{0,60}`).Draw(rt, "text")
		messages := []any{user(text)}
		tools := []any{lookup, weather, cancel, calc, mail, stock, compare, list, echo}
		for range 40 {
			got := complete(t, newHandler(t), chat{"messages": messages, "tools": tools, "parallel_tool_calls": false})
			if len(got.Calls) == 0 {
				return
			}
			name, arguments, _ := strings.Cut(got.Calls[0], " ")
			messages = append(messages, calledWith(name, arguments), resultOf(0, "Error: no"))
		}
		rt.Fatalf("%q is never answered", text)
	})
}

func TestLargeTextIsQuick(t *testing.T) {
	for _, piece := range []string{"where is order 1042? ", "4", "*", "a-", "\"x ", "(", "1+"} {
		started := time.Now()
		complete(t, newHandler(t), chat{"messages": []any{user(strings.Repeat(piece, 1<<20/len(piece)))}, "tools": []any{lookup, calc, echo}})
		if took := time.Since(started); took > time.Minute {
			t.Errorf("1 MiB of %q took %s", piece, took)
		} else {
			t.Logf("1 MiB of %q took %s", piece, took)
		}
	}
}

func TestReferencesDoNotMultiply(t *testing.T) {
	var members []string
	for i := range 300 {
		members = append(members, fmt.Sprintf(`"m%d":{"$ref":"#/$defs/n"}`, i))
	}
	all := `{"type":"object","properties":{` + strings.Join(members, ",") + `}}`
	schema := all[:len(all)-1] + `,"$defs":{"n":` + all + `}}`
	started := time.Now()
	complete(t, newHandler(t), chat{"messages": []any{user("ping")}, "tools": []any{toolOf("ping", "Pings.", schema)}})
	if took := time.Since(started); took > time.Minute {
		t.Errorf("took %s", took)
	}
}

func BenchmarkAnswer(b *testing.B) {
	h, err := scriptedmodel.New(&scriptedmodel.Options{Otherwise: demomodel.Answer})
	if err != nil {
		b.Fatal(err)
	}
	raw, _ := json.Marshal(chat{"model": "m", "stream": true, "messages": []any{system("You are a clerk."), user("Where is order 1042? I also ordered 1043.")}, "tools": []any{lookup, cancel, weather}})
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(raw)))
	}
}
