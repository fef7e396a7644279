package kv_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

type record struct {
	Text  string `json:"text"`
	Big   uint64 `json:"big"`
	Extra any    `json:"extra,omitempty"`
}

func TestRecordRoundTrip(t *testing.T) {
	want := record{Text: "a < b & \u2028 \x00", Big: math.MaxUint64, Extra: json.Number("9007199254740993")}
	b, err := kv.EncodeRecord(want)
	if err != nil {
		t.Fatalf("EncodeRecord: %v", err)
	}
	if b[0] != 1 || !json.Valid(b[1:]) || strings.Contains(string(b), `\u003c`) || b[len(b)-1] == '\n' {
		t.Errorf("EncodeRecord = %q, want byte 1 and compact JSON", b)
	}
	var got record
	if err := kv.DecodeRecord(b, &got); err != nil {
		t.Fatalf("DecodeRecord: %v", err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("DecodeRecord = %+v, want %+v", got, want)
	}
}

func TestEncodeRecordRefuses(t *testing.T) {
	if b, err := kv.EncodeRecord(math.NaN()); err == nil {
		t.Errorf("EncodeRecord(NaN) = %q, want an error", b)
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        error
	}{
		{"nothing", "", kv.ErrCorrupt},
		{"a format to come", "\x02{}", kv.ErrFormat},
		{"JSON without a format", "{}", kv.ErrFormat},
		{"a format and nothing", "\x01", kv.ErrCorrupt},
		{"half a record", "\x01{\"text\":", kv.ErrCorrupt},
		{"another shape", "\x01[]", kv.ErrCorrupt},
		{"two records", "\x01{}{}", kv.ErrCorrupt},
		{"a record and a brace", "\x01{}}", kv.ErrCorrupt},
	} {
		var r record
		if err := kv.DecodeRecord([]byte(c.value), &r); !errors.Is(err, c.want) {
			t.Errorf("%s: DecodeRecord: %v, want %v", c.name, err, c.want)
		}
	}
}

// FuzzDecodeRecord checks that what can be read means the same when it is
// written and read again.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte("\x01{\"text\":\"t\",\"big\":1,\"extra\":[1.50,null]}"))
	f.Add([]byte("\x02"))
	f.Fuzz(func(t *testing.T, value []byte) {
		var first, second record
		if kv.DecodeRecord(value, &first) != nil {
			return
		}
		b, err := kv.EncodeRecord(first)
		if err != nil {
			t.Fatalf("EncodeRecord(%+v): %v", first, err)
		}
		if err := kv.DecodeRecord(b, &second); err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("DecodeRecord(%q) = %+v, %v, want %+v", b, second, err, first)
		}
	})
}
