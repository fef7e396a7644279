package scriptedmodel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// chat is a request as a client writes it.
type chat map[string]any

type turn = map[string]any

func user(text string) turn      { return turn{"role": "user", "content": text} }
func assistant(text string) turn { return turn{"role": "assistant", "content": text} }
func system(text string) turn    { return turn{"role": "system", "content": text} }

// calledWith is an assistant's message with one call for each of name, arguments.
func calledWith(pairs ...string) turn {
	var calls []any
	for i := 0; i < len(pairs); i += 2 {
		calls = append(calls, turn{"id": fmt.Sprint("id", i/2), "type": "function", "function": turn{"name": pairs[i], "arguments": pairs[i+1]}})
	}
	return turn{"role": "assistant", "tool_calls": calls}
}

func resultOf(call int, text string) turn {
	return turn{"role": "tool", "tool_call_id": fmt.Sprint("id", call), "content": text}
}

func toolOf(name, description, parameters string) turn {
	return turn{"type": "function", "function": turn{"name": name, "description": description, "parameters": json.RawMessage(parameters)}}
}

// said is an answer: its text, or its calls as "name {arguments}".
type said struct {
	text   string
	calls  []string
	finish string
	ids    []string
	usage  struct {
		In  int `json:"prompt_tokens"`
		Out int `json:"completion_tokens"`
	}
	print string
}

// post sends a request to a handler and returns status and body.
func post(t *testing.T, h http.Handler, req any) (int, []byte) {
	t.Helper()
	raw, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(raw)))
	return w.Code, w.Body.Bytes()
}

func complete(t *testing.T, h http.Handler, req chat) said {
	t.Helper()
	req["model"] = "any"
	status, raw := post(t, h, req)
	if status != 200 {
		t.Fatalf("status %d: %s", status, raw)
	}
	return readSaid(t, raw)
}

func readSaid(t *testing.T, raw []byte) said {
	t.Helper()
	var doc struct {
		Print   string `json:"system_fingerprint"`
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct {
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			In  int `json:"prompt_tokens"`
			Out int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil || len(doc.Choices) != 1 {
		t.Fatalf("answer %s: %v", raw, err)
	}
	out := said{text: doc.Choices[0].Message.Content, finish: doc.Choices[0].FinishReason, usage: doc.Usage, print: doc.Print}
	for _, c := range doc.Choices[0].Message.ToolCalls {
		out.calls = append(out.calls, c.Function.Name+" "+c.Function.Arguments)
		out.ids = append(out.ids, c.ID)
	}
	return out
}

func newHandler(t *testing.T, rules ...scriptedmodel.Rule) *scriptedmodel.Handler {
	t.Helper()
	h, err := scriptedmodel.New(&scriptedmodel.Options{Rules: rules})
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
			if diff := cmp.Diff(tt.want, got.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.text)
			}
			if got.finish != "tool_calls" {
				t.Errorf("finish reason %q", got.finish)
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
			if diff := cmp.Diff([]string{"ping " + tt.want}, got.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.text)
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
			if diff := cmp.Diff(tt.want, got.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.text)
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
			if got.text != tt.want || got.finish != "stop" {
				t.Errorf("said (%s)\n%s\nwant\n%s", got.finish, got.text, tt.want)
			}
		})
	}
}

func TestSummaryIsBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	got := complete(t, newHandler(t), chat{"messages": []any{user("echo"), calledWith("echo", `{"text":"`+long+`"}`), resultOf(0, `{"a":"`+long+`","b":"`+long+`"}`)}, "tools": []any{echo}})
	if len(got.text) > 5_000 {
		t.Errorf("summary is %d bytes", len(got.text))
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
			if len(got.calls) > 0 {
				t.Errorf("calls %v", got.calls)
			}
			for _, s := range tt.says {
				if !strings.Contains(got.text, s) {
					t.Errorf("%q does not say %q", got.text, s)
				}
			}
			if got.print != scriptedmodel.Fingerprint {
				t.Errorf("system fingerprint is %q", got.print)
			}
		})
	}
	for _, s := range []string{"not an LLM", "OPENAI_API_KEY", "OPENAI_BASE_URL", "--model"} {
		if !strings.Contains(scriptedmodel.Notice, s) {
			t.Errorf("Notice does not say %q", s)
		}
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
			if diff := cmp.Diff([]string{tt.want}, got.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s\ntext: %s", diff, got.text)
			}
		})
	}
}
