package pdk_test

import (
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

// show calls an export of the registered plugin and prints what it answers.
func show(host *pdktest.Host, export string, input pdk.Raw) {
	output, err := host.Call(export, input)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(output)
}

func ExampleTool() {
	pdk.Tool("add", "Adds two numbers.",
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`,
		func(c *pdk.Call) error {
			c.JSON().BeginObject().Key("sum").Int(int64(c.Int("a") + c.Int("b"))).EndObject()
			return nil
		}).ReadOnly = true

	var host pdktest.Host
	show(&host, "tool", `{"tool":"add","arguments":{"a":2,"b":40}}`)
	// Output: {"content":{"sum":42}}
}

func ExampleCall_Patch() {
	pdk.Tool("pack", "Packs an order.", `{"type":"object"}`, func(c *pdk.Call) error {
		if c.State.Get("packed") == "true" {
			return pdk.Errorf(pdk.FailedPrecondition, "order %q is packed already", c.String("order"))
		}
		c.Patch(pdk.Set("/packed", "true"))
		c.Schedule("shipping")
		c.Text("packed")
		return nil
	})

	var host pdktest.Host
	show(&host, "tool", `{"tool":"pack","arguments":{"order":"1042"},"state":{}}`)
	show(&host, "tool", `{"tool":"pack","arguments":{"order":"1042"},"state":{"packed":true}}`)
	// Output:
	// {"content":"packed","state":[{"op":"add","path":"/packed","value":true}],"schedule":["shipping"]}
	// failed_precondition: order "1042" is packed already
}

func ExampleProcessor() {
	pdk.Processor("shout", func(p *pdk.Process) error {
		p.MapStrings(strings.ToUpper)
		return nil
	})

	var host pdktest.Host
	show(&host, "process", `{"processor":"shout","messages":[
		{"id":"1","role":"user","parts":[{"type":"text","text":"hello"}]},
		{"id":"2","role":"assistant","parts":[{"type":"text","text":"HI"}]}]}`)
	// Output: {"edits":[{"replace":{"at":0,"message":{"id":"1","role":"user","parts":[{"type":"text","text":"HELLO"}]}}}]}
}

func ExampleOutlineProcessor() {
	pdk.OutlineProcessor("no_tools", func(p *pdk.Process) error {
		o := p.Outline()
		for _, tool := range o.Tools {
			p.DropPart(tool.Message, tool.Part)
		}
		var w pdk.Writer
		p.Report(w.BeginObject().Key("dropped").Int(int64(len(o.Tools))).EndObject().Value())
		return nil
	})

	var host pdktest.Host
	show(&host, "process", `{"processor":"no_tools","outline":{"count":3,"roles":"uat","bytes":[5,9,4],"chars":[5,9,4],"parts":[1,1,1],
		"tools":[[1,0,"call","c1","search"],[2,0,"result","c1","search"]]}}`)
	// Output: {"edits":[{"drop_part":[1,0]},{"drop_part":[2,0]}],"report":{"dropped":2}}
}

func ExampleRouter() {
	pdk.Router("once", func(r *pdk.Route) error {
		if r.CallCount > 0 {
			r.Stop()
			r.Reason("answered")
			return nil
		}
		r.Next(r.Agents[0].Name)
		return nil
	})

	var host pdktest.Host
	show(&host, "route", `{"router":"once","call_count":0,"stack":[],"agents":[{"name":"orders","description":"Knows orders."}]}`)
	show(&host, "route", `{"router":"once","call_count":1,"stack":[],"agents":[{"name":"orders","description":"Knows orders."}]}`)
	// Output:
	// {"next":["orders"]}
	// {"next":[],"reason":"answered"}
}

func ExampleProvider() {
	pdk.Provider("region", func(p *pdk.Provide) error {
		region, _ := p.Config.Get("region").Str()
		p.Instruct("The customer lives in " + region + ".")
		p.Tools("forecast")
		return nil
	})
	pdk.Observer("region", func(o *pdk.Observe) error {
		if o.Err != nil {
			pdk.Log(pdk.LevelWarn, "the run failed: "+o.Err.Message)
		}
		return nil
	})

	var host pdktest.Host
	show(&host, "provide", `{"provider":"region","config":{"region":"Oslo"},"messages":[]}`)
	show(&host, "observe", `{"provider":"region","messages":[],"error":{"code":"unavailable","message":"no model"}}`)
	fmt.Println(host.Logs)
	// Output:
	// {"instructions":"The customer lives in Oslo.","tools":["forecast"]}
	// {}
	// [{2 the run failed: no model}]
}

func ExampleEmit() {
	pdk.Tool("import", "Imports rows.", "", func(c *pdk.Call) error {
		for done := range 2 {
			var w pdk.Writer
			w.BeginObject().Key("done").Int(int64(done + 1)).Key("total").Int(2).EndObject()
			if err := pdk.Emit("progress", w.Value()); err != nil {
				return err
			}
		}
		return nil
	})

	var host pdktest.Host
	show(&host, "tool", `{"tool":"import"}`)
	fmt.Println(host.Events)
	// Output:
	// {"content":null}
	// [{progress {"done":1,"total":2}} {progress {"done":2,"total":2}}]
}

func ExampleCallTools() {
	pdk.Tool("compare", "Compares prices.", "", func(c *pdk.Call) error {
		answers, err := pdk.CallTools(
			pdk.ToolRequest{Name: "price", Arguments: `{"item":"tea"}`},
			pdk.ToolRequest{Name: "price", Arguments: `{"item":"gold"}`})
		if err != nil {
			return err
		}
		list := c.JSON().BeginArray()
		for _, a := range answers {
			if err := a.Err(); err != nil {
				list.Str(err.Error())
				continue
			}
			list.Raw(a.Content)
		}
		list.EndArray()
		return nil
	})

	host := pdktest.Host{Ops: map[string]func(pdk.Raw) (pdk.Raw, *pdk.Error){
		"tool.call": func(pdk.Raw) (pdk.Raw, *pdk.Error) {
			return `{"results":[{"kind":"result","content":4.5},{"kind":"error","content":"Gold has no price.","is_error":true,"code":"not_found"}]}`, nil
		},
	}}
	show(&host, "tool", `{"tool":"compare"}`)
	// Output: {"content":[4.5,"not_found: Gold has no price."]}
}

func ExampleRaw() {
	order := pdk.Raw(`{"id": 9007199254740993, "lines": [{"sku": "A-1", "n": 2}, {"sku": "B-7", "n": 1}]}`)
	fmt.Println(order.Get("id"))
	for line := range order.Get("lines").Elements() {
		sku, _ := line.Get("sku").Str()
		n, _ := line.Get("n").Int()
		fmt.Println(n, sku)
	}
	// Output:
	// 9007199254740993
	// 2 A-1
	// 1 B-7
}

func ExampleWriter() {
	var w pdk.Writer
	w.BeginObject().Key("city").Str("Oslo").Key("days").BeginArray().Int(12).Int(9).EndArray().EndObject()
	fmt.Println(w.Value())
	// Output: {"city":"Oslo","days":[12,9]}
}
