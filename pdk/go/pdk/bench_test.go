package pdk_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// history is about 1 kB of conversation with every kind of part that matters.
func history(kilobytes int) string {
	const round = `{"id":"0190-a%","role":"user","parts":[{"type":"text","text":"Where is order 1042, and why has nobody \"called\" me back?\nIt was due on Monday."}],"created_at":"2026-01-02T03:04:05Z"},` +
		`{"id":"0190-b%","role":"assistant","agent":"orders","parts":[{"type":"text","text":"Let me look that up for you, one moment please."},{"type":"tool_call","id":"call_%","name":"order_status","arguments":{"order":1042,"fields":["state","carrier","eta"]}}],"created_at":"2026-01-02T03:04:06Z"},` +
		`{"id":"0190-c%","role":"tool","agent":"orders","parts":[{"type":"tool_result","id":"call_%","name":"order_status","content":{"order":1042,"state":"shipped","carrier":"DHL","eta":"2026-01-05","lines":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}]}}],"created_at":"2026-01-02T03:04:07Z"},` +
		`{"id":"0190-d%","role":"assistant","agent":"orders","parts":[{"type":"text","text":"Order 1042 left our warehouse on Friday and is with DHL; they expect to deliver it on 5 January."}],"created_at":"2026-01-02T03:04:08Z","metadata":{"model":"m"}}`
	rounds := make([]string, kilobytes)
	for i := range rounds {
		rounds[i] = strings.ReplaceAll(round, "%", string(rune('a'+i%26))+string(rune('a'+i/26%26)))
	}
	return strings.Join(rounds, ",")
}

// replaceAll is a plugin that sends every message back, the worst case.
func replaceAll() *pdk.Plugin {
	var p pdk.Plugin
	p.Processor("all", func(c *pdk.Process) error {
		for i, m := range c.Messages() {
			c.Replace(i, m)
		}
		return nil
	})
	p.Processor("none", func(c *pdk.Process) error {
		return c.Map(func(*pdk.Message) error { return nil })
	})
	return &p
}

func benchmarkProcess(b *testing.B, processor string, kilobytes int) {
	p := replaceAll()
	input := []byte(`{"processor":"` + processor + `","messages":[` + history(kilobytes) + `]}`)
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		if out, status := p.Call("process", input); status != 0 {
			b.Fatalf("process: %s", out)
		}
	}
}

func BenchmarkProcess(b *testing.B) {
	b.Run("decode_and_encode/1kB", func(b *testing.B) { benchmarkProcess(b, "all", 1) })
	b.Run("decode_and_encode/100kB", func(b *testing.B) { benchmarkProcess(b, "all", 100) })
	b.Run("decode/1kB", func(b *testing.B) { benchmarkProcess(b, "none", 1) })
	b.Run("decode/100kB", func(b *testing.B) { benchmarkProcess(b, "none", 100) })
}

// BenchmarkEncodingJSON is what the kit is compared with: the same messages
// through encoding/json with structs for the parts.
func BenchmarkEncodingJSON(b *testing.B) {
	type part struct {
		Type      string          `json:"type"`
		Text      string          `json:"text,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Content   json.RawMessage `json:"content,omitempty"`
	}
	type message struct {
		ID        string          `json:"id"`
		Role      string          `json:"role"`
		Agent     string          `json:"agent,omitempty"`
		Parts     []part          `json:"parts"`
		CreatedAt string          `json:"created_at"`
		Metadata  json.RawMessage `json:"metadata,omitempty"`
	}
	input := []byte("[" + history(1) + "]")
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		var messages []message
		if err := json.Unmarshal(input, &messages); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(messages); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTool(b *testing.B) {
	var p pdk.Plugin
	p.Tool("hello", "", "", func(c *pdk.Call) error {
		c.Text(c.String("name"))
		return nil
	})
	input := []byte(`{"tool":"hello","call_id":"c1","attempt":1,"arguments":{"name":"Ann"},"scope":{"tenant":"t","run":"r"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if out, status := p.Call("tool", input); status != 0 {
			b.Fatalf("tool: %s", out)
		}
	}
}

func BenchmarkOutline(b *testing.B) {
	const n = 2000
	var roles, sizes, parts, tools []string
	for i := range n {
		roles = append(roles, "suat"[i%4:i%4+1])
		sizes = append(sizes, "1042")
		parts = append(parts, "1")
		switch i % 4 {
		case 2:
			tools = append(tools, `[`+itoa(i)+`,0,"call","call_`+itoa(i)+`","order_status"]`)
		case 3:
			tools = append(tools, `[`+itoa(i)+`,0,"result","call_`+itoa(i-1)+`","order_status"]`)
		}
	}
	column := strings.Join(sizes, ",")
	input := []byte(`{"processor":"o","outline":{"count":` + itoa(n) + `,"roles":"` + strings.Join(roles, "") +
		`","bytes":[` + column + `],"chars":[` + column + `],"tokens":[` + column + `],"parts":[` + strings.Join(parts, ",") +
		`],"tools":[` + strings.Join(tools, ",") + `]}}`)
	var p pdk.Plugin
	p.OutlineProcessor("o", func(c *pdk.Process) error {
		c.Drop(1, c.Outline().Len()/2)
		return nil
	})
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		if out, status := p.Call("process", input); status != 0 {
			b.Fatalf("process: %s", out)
		}
	}
}

func itoa(n int) string { return pdk.Errorf("", "%d", n).Message }
