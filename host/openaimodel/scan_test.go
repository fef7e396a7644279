package openaimodel

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// This file looks at chunks from inside: two readers must agree.

var chunkLines = []string{
	`{"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"m1","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
	`{"id":"c1","model":"m1","choices":[{"index":0,"delta":{"content":" it\u2019s \"quoted\" \ud83d\ude00\n"},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":"größer 😀"}}]}`,
	`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":""}},{"index":1,"function":{"arguments":"{\"id\":1}"}}]}}]}`,
	`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2}}}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null} `,
	`{"error":{"message":"x","code":429}}`,
	`{"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}],"x":[1,-2.5e3,true,false,null,{"a":[]}]}`,
	`{"choices":[{"index":0,"message":{"content":"all"},"finish_reason":"length"}]}`,
	`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0}],"tool_calls":[{"type":"function","extra_content":{"google":{"x":"y"}}}]}}]}`,
	`{"choices":[{"delta":{"reasoning_details":null,"tool_calls":[{"type":7,"x":null}]}}]}`,
	`{}`, ` {"choices":null,"error":null,"usage":null}`,
	// What is left to encoding/json.
	`{"choices":[{"index":0,"delta":{"content":[{"text":"x"}]}}]}`,
	`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{"id":1}}}]}}]}`,
	`{"Choices":[{"Delta":{"Content":"x"}}]}`, `{"choices":[{"\u0064elta":{"content":"x"}}]}`,
	`{"choices":[{"index":0.0}]}`, `{"choices":[{"index":"0"}]}`, `{"choices":[{"index":01}]}`, `{"choices":[{"index":99999999999}]}`,
	`{"choices":[{"delta":{"content":"a"},"delta":{"refusal":"b"}}]}`, `{"choices":[{"index":1}],"choices":[{}]}`,
	"{\"id\":\"\xff\"}", "{\"id\":\"a\tb\"}", `{"id":"\x"}`, `{"id":"\u12"}`, `{"id":"a"`, `{"id":"a"} x`, `{"id":"a",}`, `[]`, `null`, ``, `{"a":-}`, `{"a":1e}`,
	`{"usage":{"prompt_tokens":7,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":1,"x":[]},"prompt_cache_hit_tokens":2,"queue_time":0.5}}`,
	`{"usage":{"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":null}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":"x"}}}`,
	`{"usage":{"prompt_tokens":"many"}}`, `{"usage":{"prompt_tokens":1},"usage":{"completion_tokens":1}}`,
	`{"id":"a","id":null}`, `{"id":"a","id":"b"}`,
}

func TestChunksAreReadAlike(t *testing.T) {
	fast := 0
	for _, line := range chunkLines {
		if readAlike(t, &chunk{}, line) {
			fast++
		}
	}
	if fast < 13 {
		t.Errorf("%d lines were scanned, want the 13 that every server sends", fast)
	}
}

// TestChunksLeaveNothingBehind reads every pair of chunks into one value, as the
// chunks of an answer are.
func TestChunksLeaveNothingBehind(t *testing.T) {
	for _, first := range chunkLines {
		for _, second := range chunkLines {
			var c chunk
			if !c.scan([]byte(first)) {
				c = chunk{}
			}
			readAlike(t, &c, second)
		}
	}
}

func FuzzChunk(f *testing.F) {
	for _, line := range chunkLines {
		f.Add(line)
	}
	f.Add(`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`)
	f.Fuzz(func(t *testing.T, line string) { readAlike(t, &chunk{}, line) })
}

// readAlike reports whether c.scan reads a line. It must then do so as
// encoding/json does.
func readAlike(t *testing.T, c *chunk, line string) bool {
	t.Helper()
	if !c.scan([]byte(line)) {
		return false
	}
	var want chunk
	if err := json.Unmarshal([]byte(line), &want); err != nil {
		t.Fatalf("scan takes %q, of which encoding/json says %v", line, err)
	}
	got := *c
	if len(got.Choices) == 0 && len(want.Choices) == 0 {
		got.Choices, want.Choices = nil, nil
	}
	if string(got.Error) == string(want.Error) {
		got.Error, want.Error = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Fatalf("scan makes %s of %q, encoding/json %s", g, line, w)
	}
	return true
}

func BenchmarkChunk(b *testing.B) {
	line := []byte(chunkLines[1])
	b.Run("scan", func(b *testing.B) {
		b.ReportAllocs()
		var c chunk
		for b.Loop() {
			if !c.scan(line) {
				b.Fatal("left to encoding/json")
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c chunk
			if err := json.Unmarshal(line, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
