package host_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
)

func TestTagsOfParameters(t *testing.T) {
	type in struct {
		Unit   string             `json:"unit" enum:"celsius, fahrenheit" description:"of the scale"`
		Day    *string            `json:"day" format:"date" jsonschema:"the first day"`
		Level  int                `json:"level,omitempty" enum:"1,2,3"`
		Factor float64            `json:"factor" enum:"0.5,1e3"`
		Fine   bool               `json:"fine" enum:"true"`
		Tags   []string           `json:"tags" enum:"red,green"`
		Pages  map[string][]*int8 `json:"pages" enum:"7"`
	}
	tool := echoTool[in]()
	const want = `{"type":"object","properties":{` +
		`"unit":{"type":"string","description":"of the scale","enum":["celsius","fahrenheit"]},` +
		`"day":{"type":["null","string"],"description":"the first day","format":"date"},` +
		`"level":{"type":["null","integer"],"enum":[1,2,3,null]},` +
		`"factor":{"type":"number","enum":[0.5,1e3]},` +
		`"fine":{"type":"boolean","enum":[true]},` +
		`"tags":{"type":"array","items":{"type":"string","enum":["red","green"]}},` +
		`"pages":{"type":"object","additionalProperties":{"type":"array","items":{"type":["null","integer"],"enum":[7,null],"minimum":-128,"maximum":127}}}},` +
		`"required":["unit","factor","fine","tags","pages","day","level"],"additionalProperties":false}`
	var got, wanted any
	if json.Unmarshal(tool.Parameters, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
		t.Fatal("a schema is not JSON")
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("the schema (-want +got):\n%s", diff)
	}
	const fits = `{"unit":"celsius","day":null,"level":null,"factor":0.5,"fine":true,"tags":["red"],"pages":{"a":[7,null]}}`
	if got := call(t, tool, fits); got.IsError {
		t.Errorf("the model is told %s", got.Content)
	}
	for _, change := range [][2]string{{"celsius", "kelvin"}, {`"level":null`, `"level":4`}, {"0.5", "0.6"}, {"true", "false"}, {`["red"]`, `["blue"]`}, {"7,null", "8"}} {
		if got := call(t, tool, strings.Replace(fits, change[0], change[1], 1)); !got.IsError {
			t.Errorf("%s is taken", change[1])
		}
	}
}

func TestTagsThatDoNotSuitTheirFields(t *testing.T) {
	for name, make := range map[string]func() *host.Tool{
		`tag enum:"a,b": "a" is no integer`: func() *host.Tool {
			return echoTool[struct {
				N int `enum:"a,b"`
			}]()
		},
		`tag enum:".5": ".5" is no number`: func() *host.Tool {
			return echoTool[struct {
				N float64 `enum:".5"`
			}]()
		},
		`tag enum:"x": it is for texts`: func() *host.Tool {
			return echoTool[struct {
				N struct{ A int } `enum:"x"`
			}]()
		},
		`tag format:"date" is for texts`: func() *host.Tool {
			return echoTool[struct {
				N int `format:"date"`
			}]()
		},
		`the tag description is empty, or stands beside`: func() *host.Tool {
			return echoTool[struct {
				N int `description:"a" jsonschema:"b"`
			}]()
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{make()}})
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "field N") {
				t.Errorf("NewAgent: %v; want code %s, %q and the field", err, host.InvalidArgument, name)
			}
		})
	}
}

type shadowed struct {
	Old []string `json:"name" description:"the old one"`
}

// Of two fields with one name in JSON one is described, and not both.
func TestFieldsOfOneName(t *testing.T) {
	tool := echoTool[struct {
		shadowed
		Name *string `json:"name" enum:"a" description:"the new one"`
	}]()
	if got := string(tool.Parameters); !strings.Contains(got, `{"name":{"type":["null","string"],"description":"the new one","enum":["a",null]}}`) {
		t.Errorf("the schema is %s", got)
	}
}

// Decision 13: pointers and omitempty are nullable, and nothing else is.
func TestOnlyPointersAndOmitemptyAreNullable(t *testing.T) {
	tool := echoTool[struct {
		List    []string
		Map     map[string]string
		Deep    [][]map[string][]int
		Array   [2]string
		Any     any
		Pointer *[]string
		Raw     *json.RawMessage
		Items   []*string
		Option  []string `json:",omitempty"`
	}]()
	var schema struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for name, raw := range schema.Properties {
		got[name] = strings.Count(string(raw), `"null"`)
	}
	want := map[string]int{"List": 0, "Map": 0, "Deep": 0, "Array": 0, "Any": 0, "Pointer": 1, "Raw": 0, "Items": 1, "Option": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nullable places (-want +got):\n%s", diff)
	}
	const fits = `{"List":[],"Map":{},"Deep":[],"Array":["a","b"],"Any":null,"Pointer":null,"Raw":{"any":1},"Items":[null],"Option":null}`
	if got := call(t, tool, fits); got.IsError {
		t.Errorf("the model is told %s", got.Content)
	}
	if got := call(t, tool, strings.Replace(fits, `"List":[]`, `"List":null`, 1)); !got.IsError {
		t.Error("null is taken for a list that is required")
	}
}

// Go writes slices and maps that are nil as null, so a state of a Go type may hold
// that.
func TestNilSlicesAndMapsFitTheSchemaOfTheirType(t *testing.T) {
	type cart struct {
		Lines  []string
		Prices map[string]int
	}
	schema, err := host.SchemaOf[cart]()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(cart{})
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(raw); err != nil {
		t.Errorf("%s: %v", raw, err)
	}
	if schema.Validate(json.RawMessage(`{"Lines":[null],"Prices":{}}`)) == nil {
		t.Error("null is taken for a text")
	}
}
