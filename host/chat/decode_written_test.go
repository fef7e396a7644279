package chat_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
)

// writtenMessages are arrays as AppendMessagesJSON writes them, and arrays that differ
// from them by little.
var writtenMessages = []string{
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}],"created_at":"2025-03-04T05:06:07.123456789Z"}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"id":"n","role":"assistant","agent":"a","parts":[]}]`,
	`[{"id":"\u006d","role":"user","parts":[{"type":"text","text":"a\n\"b\" \\ é 🙂 \ud83d\ude42 \ud83d"}]}]`,
	`[{"id":"\"","role":"user","parts":[{"type":"text","text":"\n\r\t\b\f\/\\\"é\nend"},{"type":"text","text":"\\"}]}]`,
	`[{"id":"m","role":"assistant","agent":"","parts":[{"type":"reasoning","text":"hm"},{"type":"reasoning","text":"hm","signature":"c2ln"}]}]`,
	`[{"id":"m","role":"assistant","parts":[{"type":"text","text":""},{"type":"tool_call","id":"c","name":"n","arguments":{"a":[1,"}\""]}}]}]`,
	`[{"id":"m","role":"tool","parts":[{"type":"tool_result","id":"c","name":"n","content":null},{"type":"tool_result","id":"c","name":"n","content":-1.5e3,"is_error":true}]}]`,
	`[{"id":"m","role":"user","parts":[],"metadata":{"a":1,"\u0061":2}},{"id":"m","role":"user","parts":[],"metadata":null}]`,
	`[{"id":"m","role":"user","parts":[{"type":"media","media_type":"a/b","data":"AAEC"},{"type":"x"},{"type":"data","value":1}],"x":1}]`,
	`[]`,
	`[{"id":"m","role":"user","parts":[]},]`,
	`[{"id":"m","role":"user","parts":[]}]]`,
	`[{"id":"m","role":"user","parts":[]}] `,
	`[{"id":"m","role":"user","parts":[]}`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a"},]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a"}{"type":"text","text":"a"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a","text":"b"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a` + "\n" + `b"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a\x"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a\n` + "\n" + `b"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a\u12"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"a\n\"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"` + "\xff" + `"}]}]`,
	`[{"id":"m","role":"user","parts":[{"type":"text","text":"\`,
	`[{"id":"m","role":"boss","parts":[]}]`,
	`[{"id":"m","role":"user","parts":[],"id":"n"}]`,
	`[{"id":"m","role":"user","parts":[],"created_at":"yesterday"}]`,
	`[{"id":"m","role":"user","parts":[],"created_at":"9999-12-31T23:59:59-01:00"}]`,
	`[{"id":"m","role":"user","parts":[],"metadata":[]}]`,
	`[{"id":"m","role":"user","parts":[],"metadata":{"a":}}]`,
	`[{"id":"m","role":"assistant","parts":[{"type":"tool_call","id":"","name":"n","arguments":{}}]}]`,
	`[{"id":"m","role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":}]}]`,
	`[{"id":"m","role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":{"a":1]}]}]`,
	`[{"id":"m","role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments": 1 }]}]`,
	`[{"id":"m","role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":` + strings.Repeat("[", 9990) + strings.Repeat("]", 9990) + `}]}]`,
	`[{"id":"m","role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":` + strings.Repeat("[", 9998) + strings.Repeat("]", 9998) + `}]}]`,
	`[{"id":"m","role":"tool","parts":[{"type":"tool_result","id":"c","name":"n","content":1,"is_error":tru}]}]`,
}

// sameDecoded compares what DecodeMessages makes of bytes with what it makes of them
// behind a space, which its short way through the written form does not accept.
func sameDecoded(t *testing.T, raw []byte) {
	t.Helper()
	got, err := chat.DecodeMessages(raw)
	want, wantErr := chat.DecodeMessages(append([]byte{' '}, raw...))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%.200q: error %v, behind a space %v", raw, err, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%.200q is read as\n%s\nbehind a space as\n%s", raw, chat.AppendMessagesJSON(nil, got), chat.AppendMessagesJSON(nil, want))
	}
}

func TestTheWrittenFormIsReadLikeAnyOther(t *testing.T) {
	for _, raw := range writtenMessages {
		sameDecoded(t, []byte(raw))
	}
}

// Each byte of a stored array that is changed or cut off is noticed as it is in any form.
func TestDamageInTheWrittenFormIsNoticedLikeInAnyOther(t *testing.T) {
	for _, raw := range writtenMessages {
		if len(raw) > 500 {
			continue
		}
		for i := range len(raw) {
			sameDecoded(t, []byte(raw[:i]))
			for _, c := range []byte{0, ' ', '"', '\\', ',', '}', ']', '1', 0xff, raw[i] ^ 1, raw[i] ^ 0x20} {
				b := []byte(raw)
				b[i] = c
				sameDecoded(t, b)
			}
		}
	}
}

func TestReadMessagesKeepNoneOfTheBytesRead(t *testing.T) {
	for _, raw := range writtenMessages {
		b := []byte(raw)
		messages, err := chat.DecodeMessages(b)
		if err != nil {
			continue
		}
		before := string(chat.AppendMessagesJSON(nil, messages))
		for i := range b {
			b[i] = 'x'
		}
		if after := string(chat.AppendMessagesJSON(nil, messages)); after != before {
			t.Errorf("%.200s becomes %.200s when the bytes read change", before, after)
		}
	}
}

// A part that is added to a message does not take the memory of another message.
func TestPartsOfReadMessagesCanBeAppendedTo(t *testing.T) {
	messages, err := chat.DecodeMessages([]byte(`[{"id":"m","role":"user","parts":[{"type":"text","text":"a"}]},{"id":"n","role":"user","parts":[{"type":"text","text":"b"}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	messages[0].Parts = append(messages[0].Parts, &chat.Text{Text: "c"})
	const want = `[{"id":"m","role":"user","parts":[{"type":"text","text":"a"},{"type":"text","text":"c"}]},{"id":"n","role":"user","parts":[{"type":"text","text":"b"}]}]`
	if got := string(chat.AppendMessagesJSON(nil, messages)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The first turn after a restart decodes a whole window: see BenchmarkFirstTurn of package
// threads.
func TestAWrittenMessageIsReadInThreeAllocations(t *testing.T) {
	raw := []byte(writtenMessages[0])
	n := testing.AllocsPerRun(100, func() {
		if _, err := chat.DecodeMessages(raw); err != nil {
			t.Error(err)
		}
	})
	if n > 3 {
		t.Errorf("%v allocations, want the bytes, the message and the list", n)
	}
}

// BenchmarkDecodeMessages decodes a message of 600 bytes in the written form, and behind a
// space, where the general decoder reads it.
func BenchmarkDecodeMessages(b *testing.B) {
	message := func(part string) string {
		return `[{"id":"0198f0c2-6a1b-7c3d-8e4f-000000000001","role":"assistant","agent":"helper","parts":[` + part +
			`],"created_at":"2025-03-04T05:06:07.123456789Z"}]`
	}
	line := "The order was shipped on Monday from the second warehouse."
	for _, c := range []struct{ name, json string }{
		{"text", message(`{"type":"text","text":"` + strings.Repeat(line+"  ", 10) + `"}`)},
		{"lines", message(`{"type":"text","text":"` + strings.Repeat(line+`\n`, 10) + `"}`)},
		{"call", message(`{"type":"tool_call","id":"c","name":"order_status","arguments":{"orders":["` + strings.Repeat(line+`","`, 9) + `"]}}`)},
	} {
		for form, raw := range map[string]string{"written": c.json, "general": " " + c.json} {
			b.Run(c.name+"/"+form, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := chat.DecodeMessages([]byte(raw)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func FuzzDecodeMessages(f *testing.F) {
	for _, raw := range writtenMessages {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sameDecoded(t, raw) })
}
