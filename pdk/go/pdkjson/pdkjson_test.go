package pdkjson_test

import (
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdkjson"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

func ExampleTool() {
	type order struct {
		ID    int64    `json:"id"`
		Lines []string `json:"lines"`
		Note  *string  `json:"note"`
	}
	type receipt struct {
		ID    int64 `json:"id"`
		Lines int   `json:"lines"`
	}
	pdkjson.Tool("order", "Places an order.", `{"type":"object"}`, func(_ *pdk.Call, o order) (receipt, error) {
		if len(o.Lines) == 0 {
			return receipt{}, pdk.Errorf(pdk.InvalidArgument, "order %d has no lines", o.ID)
		}
		return receipt{o.ID, len(o.Lines)}, nil
	})

	var host pdktest.Host
	for _, arguments := range []string{`{"id":9007199254740993,"lines":["a","b"],"note":null}`, `{"id":2}`} {
		output, err := host.Call("tool", pdk.Raw(`{"tool":"order","arguments":`+arguments+`}`))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(output)
	}
	// Output:
	// {"content":{"id":9007199254740993,"lines":2}}
	// invalid_argument: order 2 has no lines
}

func TestToolOf(t *testing.T) {
	var p pdk.Plugin
	pdkjson.ToolOf(&p, "f", "", "{}", func(_ *pdk.Call, in struct{ N int }) (chan int, error) {
		return make(chan int), nil
	})
	host := pdktest.Host{Plugin: &p}
	if got := host.ToolError(t, "f", `{"N":"x"}`); got.Code != pdk.InvalidArgument {
		t.Errorf("arguments of another type: %v, want invalid_argument", got)
	}
	if got := host.ToolError(t, "f", `{"N":1}`); got.Code != pdk.Internal {
		t.Errorf("a result that is not JSON: %v, want internal", got)
	}
}

func TestDecodeAbsent(t *testing.T) {
	n := 5
	if err := pdkjson.Decode("", &n); err != nil || n != 5 {
		t.Errorf("Decode of nothing: %v, %d", err, n)
	}
}
