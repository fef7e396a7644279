package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdkgen/testdata/orders"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

func TestTheGeneratedFileIsOfItsSource(t *testing.T) {
	const dir = "testdata/orders"
	want, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, generatedFile))
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not what pdkgen writes now (%v): run go run . %s", generatedFile, err, dir)
	}
}

func TestTypesThatAreNotReadAreRefused(t *testing.T) {
	for name, row := range map[string]struct{ source, want string }{
		"no struct is marked":      {"type A struct{ B int }", "no struct with the comment"},
		"another type":             {"// pdk:typed\ntype A int", "A is no struct"},
		"a field of an interface":  {"// pdk:typed\ntype A struct{ B any }", "field of type any"},
		"a field of no plain type": {"// pdk:typed\ntype A struct{ B chan int }", "type that is not read"},
		"an array":                 {"// pdk:typed\ntype A struct{ B [2]int }", "type that is not read"},
		"a map by integers":        {"// pdk:typed\ntype A struct{ B map[int]int }", "type that is not read"},
		"an integer of 64 bits that pdk.Raw does not read": {"// pdk:typed\ntype A struct{ B uint64 }", "field of type uint64"},
		"a field that is not exported":                     {"// pdk:typed\ntype A struct{ b int }", "b is not exported"},
		"an embedded type":                                 {"// pdk:typed\ntype A struct{ B }\ntype B struct{ C int }", "embeds a type"},
		"a struct inside of itself":                        {"// pdk:typed\ntype A struct{ B []B }\ntype B struct{ As []A }", "holds itself"},
		"two members of one name":                          {"// pdk:typed\ntype A struct { B int `json:\"x\"`; C int `json:\"x\"` }", "two members"},
		"a bound that is no number":                        {"// pdk:typed\ntype A struct { B int `min:\"few\"` }", "is no number"},
		"an enum of integers":                              {"// pdk:typed\ntype A struct { B int `enum:\"1,2\"` }", "is for strings"},
		"text that is not Go":                              {"type", "expected"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\n"+row.source+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := generate(dir); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, row.want)
		}
	}
}

func shipPlugin(handle func(c *pdk.Call, in *orders.ShipArgs) error) *pdk.Plugin {
	var p pdk.Plugin
	pdk.TypedToolOf(&p, "ship", "Ships an order.", handle)
	return &p
}

func TestArgumentsAreReadIntoAStruct(t *testing.T) {
	var got orders.ShipArgs
	host := pdktest.Host{Plugin: shipPlugin(func(_ *pdk.Call, in *orders.ShipArgs) error { got = *in; return nil })}
	note := "for \"you\""
	for arguments, want := range map[pdk.Raw]orders.ShipArgs{
		`{"order":1042,"carrier":"DHL"}`: {Order: 1042, Carrier: "DHL"},
		`{"order":1e3,"carrier":"Żółw\n","express":true,"weight":2.5,"state":"paid","lines":[{"sku":"A-1","count":2},{"count":-1,"sku":""}],"labels":{"a":"b"},"gift":{"note":"for \"you\""},"matrix":[[1,2],[],[255]],"extra":{"x":[1]}}`: {
			Order: 1000, Carrier: "Żółw\n", Express: true, Weight: 2.5, State: "paid",
			Lines: []orders.Line{{SKU: "A-1", Count: 2}, {Count: -1}}, Labels: map[string]string{"a": "b"}, Gift: &orders.Gift{Note: &note},
			Matrix: [][]uint8{{1, 2}, {}, {255}}, Extra: `{"x":[1]}`,
		},
	} {
		if host.Tool(t, "ship", arguments); !cmp.Equal(got, want) {
			t.Errorf("%s: %s", arguments, cmp.Diff(want, got))
		}
	}
	if _, err := host.Call("tool", `{"tool":"ship","arguments":{"order":2,"carrier":null,"gift":null,"lines":null,"unknown":{}}}`); err != nil || !cmp.Equal(got, orders.ShipArgs{Order: 2}) {
		t.Errorf("null and unknown members are read as %+v, %v", got, err)
	}
}

func TestArgumentsThatDoNotFitAreNamed(t *testing.T) {
	host := pdktest.Host{Plugin: shipPlugin(func(*pdk.Call, *orders.ShipArgs) error { t.Error("the handler is called"); return nil })}
	for arguments, want := range map[string]string{
		`{"order":"x"}`:                    "arguments.order is a string, not an integer that fits",
		`{"order":2.5}`:                    "arguments.order is 2.5, not an integer that fits",
		`{"carrier":1}`:                    "arguments.carrier is 1, not a string",
		`{"express":"yes"}`:                "arguments.express is a string, not true or false",
		`{"weight":"1"}`:                   "arguments.weight is a string, not a number that a float holds",
		`{"lines":{}}`:                     "arguments.lines is an object, not an array",
		`{"lines":[{"sku":1}]}`:            "arguments.lines[].sku is 1, not a string",
		`{"lines":[{"count":2147483648}]}`: "arguments.lines[].count is 2147483648, not an integer that fits",
		`{"labels":{"a":"b","c":1}}`:       "arguments.labels.c is 1, not a string",
		`{"labels":[]}`:                    "arguments.labels is an array, not an object",
		`{"gift":{"note":[]}}`:             "arguments.gift.note is an array, not a string",
		`{"matrix":[[1],[256]]}`:           "arguments.matrix[][] is 256, not an integer that fits",
		`{"matrix":[[1],[-1]]}`:            "arguments.matrix[][] is -1, not an integer that fits",
		`[]`:                               "arguments is an array, not an object",
	} {
		_, err := host.Call("tool", pdk.Raw(`{"tool":"ship","arguments":`+arguments+`}`))
		if pdk.CodeOf(err) != pdk.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

func TestAConfigurationIsReadIntoAStruct(t *testing.T) {
	got, err := pdk.ReadConfig[orders.Config](`{"limit":3,"carriers":["DHL"]}`)
	if want := (orders.Config{Limit: 3, Carriers: []string{"DHL"}}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("ReadConfig = %+v, %v", got, err)
	}
	if got, err := pdk.ReadConfig[orders.Config](""); err != nil || got.Limit != 0 {
		t.Errorf("an absent one: %+v, %v", got, err)
	}
	if _, err := pdk.ReadConfig[orders.Config](`{"limit":"x"}`); err == nil || !strings.Contains(err.Error(), "config.limit is a string") {
		t.Errorf("one that does not fit: %v", err)
	}
}

// FuzzTypedArguments checks that generated decoders never panic and read what the untyped
// accessors read.
func FuzzTypedArguments(f *testing.F) {
	f.Add(`{"order":1,"carrier":"a\u00e9","lines":[{"sku":"x","count":1}]}`)
	f.Add(`{"order":1e0,"carrier":"\ud800"}`)
	f.Add(`{"carrier":"` + "\xff" + `"}`)
	f.Fuzz(func(t *testing.T, text string) {
		raw := pdk.Raw(text)
		var in orders.ShipArgs
		if in.PDKRead(raw) != nil || !raw.Valid() {
			return
		}
		if order, ok := raw.Get("order").Int(); ok && int(order) != in.Order {
			t.Errorf("order is %d, and %d by name", in.Order, order)
		}
		if carrier, ok := raw.Get("carrier").Str(); ok && carrier != in.Carrier {
			t.Errorf("carrier is %q, and %q by name", in.Carrier, carrier)
		}
	})
}

// BenchmarkArguments compares arguments that are read into a struct with those read one by one.
func BenchmarkArguments(b *testing.B) {
	sum := 0
	var p pdk.Plugin
	p.Tool("untyped", "", "", func(c *pdk.Call) error {
		sum += c.Int("order") + len(c.String("carrier")) + len(c.String("state"))
		if c.Bool("express") {
			sum++
		}
		sum += int(c.Float("weight"))
		c.Text("ok")
		return nil
	})
	pdk.TypedToolOf(&p, "typed", "", func(c *pdk.Call, in *orders.ShipArgs) error {
		sum += in.Order + len(in.Carrier) + len(in.State)
		if in.Express {
			sum++
		}
		sum += int(in.Weight)
		c.Text("ok")
		return nil
	})
	for _, tool := range []string{"untyped", "typed"} {
		input := []byte(`{"tool":"` + tool + `","call_id":"c1","attempt":1,"arguments":{"order":1042,"carrier":"DHL","express":true,"weight":2.5,"state":"paid"},"scope":{"tenant":"t","run":"r"}}`)
		b.Run(tool, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if out, status := p.Call("tool", input); status != 0 {
					b.Fatalf("tool: %s", out)
				}
			}
		})
	}
}
