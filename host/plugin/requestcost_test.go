package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
)

// A request that is cheap to write and dear to read is refused, or paid for.
func TestRequestsOfManyValues(t *testing.T) {
	rt := startRuntime(t, nil)
	ask := func(n int) *CallResult {
		request := `{"indices":[` + strings.Repeat("9,", n-3) + `9]}` // beside commas a brace, a colon and a bracket
		p, err := rt.Load(context.Background(), fmt.Sprint(n), asking(t, "messages.get", request), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		got, err := p.Call(context.Background(), "t", "process", []byte(`{"messages":[]}`), &CallOptions{View: llm.NewView(nil, "", nil)})
		if err != nil || !got.GuestError {
			t.Fatalf("Call = %+v, %v", got, err)
		}
		return got
	}
	for _, row := range []struct {
		n    int
		says string
	}{
		{1000, "there is no message 9"}, {maxRequestSigns, "there is no message 9"}, {maxRequestSigns + 1, "has 50001 commas, colons and brackets"},
	} {
		got := ask(row.n)
		price, most := int64(min(row.n, maxRequestSigns))*valuePrice, int64(row.n)*2*valuePrice
		if !strings.Contains(string(got.Output), row.says) || got.Cost.Instructions < price || got.Cost.Instructions > most {
			t.Errorf("%d signs: %s for %d instructions, want %q for %d to %d", row.n, got.Output, got.Cost.Instructions, row.says, price, most)
		}
	}
}

// BenchmarkHeaviestRequest is how long the host can be kept by one request, which
// nothing interrupts: the bar is 50 ms.
func BenchmarkHeaviestRequest(b *testing.B) {
	for name, item := range map[string]string{"objects": `{"op":"remove","path":""}`, "texts": `""`, "fields": `{"a":1}`} {
		b.Run(name, func(b *testing.B) {
			list := strings.Repeat(item+",", maxRequestSigns)
			list = list[:strings.LastIndex(list[:cut(list)], item+",")] + item
			raw := []byte(`{"patch":[` + list + `]}`)
			var longest time.Duration
			for b.Loop() {
				var in struct{ Patch []host.PatchOp }
				start := time.Now()
				_ = strictjson.Unmarshal(raw, &in) // texts are no objects, and are read before that is seen
				longest = max(longest, time.Since(start))
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
			b.ReportMetric(float64(strictjson.CountSigns(raw)), "signs")
		})
	}
}

// cut returns where the last sign that a request may have stands.
func cut(list string) int {
	n := 0
	for i := range len(list) {
		if strings.IndexByte(",:{[", list[i]) >= 0 {
			if n++; n == maxRequestSigns-4 {
				return i
			}
		}
	}
	return len(list)
}

// FuzzReadJSON holds the reader to encoding/json: what the one takes the other
// does, and both see the same, but for the case of names and a null.
func FuzzReadJSON(f *testing.F) {
	for _, s := range []string{
		`{"op":"a","n":[1,2],"list":[{"op":"b"},{"n":null}],"any":{"x":[{}]}}`, ` { "\u006fp" : "\u0041" , "op":"last" } `, `{"list":null,"any":null}`,
		`{"list":[null]}`, `{"op":1}`, `[]`, `null`, `{"list":{}}`, `{"":1}`, `{"any":"]}\"["}`, `{"in":{"op":"x"}}`, `{"in":null}`, `{"list":[ {} , {} ]}`,
	} {
		f.Add(s)
	}
	type inner struct {
		Op string `json:"op"`
	}
	type outer struct {
		Op     string          `json:"op"`
		N      []int           `json:"n"`
		List   []inner         `json:"list"`
		Any    json.RawMessage `json:"any"`
		In     *inner          `json:"in"`
		hidden int
	}
	f.Fuzz(func(t *testing.T, s string) {
		var mine, theirs outer
		err := strictjson.Unmarshal([]byte(s), &mine)
		if mine.hidden != 0 {
			t.Fatal("a field that is not exported was set")
		}
		if err != nil {
			return
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("%q was read, and is not JSON", s)
		}
		if foldsNames(s) {
			return
		}
		if err := json.Unmarshal([]byte(s), &theirs); err != nil {
			t.Fatalf("%q was read; encoding/json says %v", s, err)
		}
		if diff := cmp.Diff(theirs, mine, cmp.AllowUnexported(outer{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q (-encoding/json +ours):\n%s", s, diff)
		}
	})
}

// foldsNames reports whether a member's name differs from a field's by its case,
// or comes twice: there encoding/json does otherwise on purpose.
func foldsNames(s string) bool {
	d := json.NewDecoder(strings.NewReader(s))
	seen := 0
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		name, ok := token.(string)
		if !ok {
			continue
		}
		for _, field := range []string{"op", "n", "list", "any", "in"} {
			if strings.EqualFold(name, field) {
				if name != field || seen > 0 && strings.Count(s, name) > 1 || strings.Contains(s, `\u`) {
					return true
				}
			}
		}
		seen++
	}
}
