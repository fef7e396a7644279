package pdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// readOutline returns what a processor sees of an outline, or the error that it is
// refused with, without the place.
func readOutline(outline []byte) string {
	var p pdk.Plugin
	seen := ""
	p.OutlineProcessor("o", func(c *pdk.Process) error {
		seen = fmt.Sprintf("%+v", *c.Outline())
		return nil
	})
	out, status := p.Call("process", append(append([]byte(`{"processor":"o","outline":`), outline...), '}'))
	if status != 0 {
		what, _, _ := strings.Cut(string(out), " at byte ")
		return what
	}
	return seen
}

// comparePlain reads an outline as hosts write it, and with white space in every
// place, where nothing is read the quick way: both give the same.
func comparePlain(t *testing.T, outline []byte) string {
	t.Helper()
	var tight, wide bytes.Buffer
	if json.Compact(&tight, outline) != nil || json.Indent(&wide, outline, " ", " ") != nil {
		readOutline(outline) // it may do anything but panic
		return ""
	}
	got, want := readOutline(tight.Bytes()), readOutline(wide.Bytes())
	if got != want {
		t.Fatalf("%s\nreads as %s\nand with white space as %s", &tight, got, want)
	}
	return got
}

func outlineDocument(parts, tools string) []byte {
	n := strings.Count(parts, ",") + 1
	return fmt.Appendf(nil, `{"count":%d,"roles":%q,"bytes":[%s],"chars":[%[3]s],"parts":[%[3]s],"tools":[%s]}`, n, strings.Repeat("a", n), parts, tools)
}

func TestPlainOutlines(t *testing.T) {
	for _, row := range []struct{ parts, tools, want string }{
		{"1", `[0,0,"call","c","f"]`, "[{Message:0 Part:0 Result:false ID:c Name:f}]"},
		{"1", `[0,0,"result","c","f"]`, "[{Message:0 Part:0 Result:true ID:c Name:f}]"},
		{"1,2", `[0,0,"call","call_1234567890","get_weather"],[1,1,"result","","x"]`, "[{Message:0 Part:0 Result:false ID:call_1234567890 Name:get_weather} {Message:1 Part:1 Result:true ID: Name:x}]"},
		{"1", `[0,0,"call","12345678","123456789abcdefg"]`, "ID:12345678 Name:123456789abcdefg}]"},
		{"1", `[0,0,"call","c","é"]`, "ID:c Name:é}]"},
		{"1", `[0,0,"call","a\"b\\","\u0041"]`, `ID:a"b\ Name:A}]`},
		{"1", `[0,0,"call","c","f",1,{"later":[]}],[0,0,"result","c","f"]`, "{Message:0 Part:0 Result:true ID:c Name:f}]"},
		{"1,22,333,4444,55555,666666,7777777,88888888,999999999", "", "Parts:[1 22 333 4444 55555 666666 7777777 88888888 999999999]"},
		{"1", `[0,0,"call","c"]`, "more elements expected"},
		{"1", `[0,0,"calls","c","f"]`, "call or result expected"},
		{"1", `[0,0,"cal","c","f"]`, "call or result expected"},
		{"1", `[0,0,"results","c","f"]`, "call or result expected"},
		{"1", `[0,0,7,"c","f"]`, "string expected"},
		{"1", `[0.5,0,"call","c","f"]`, "read JSON"},
		{"1", `[1,0,"call","c","f"]`, "outside the conversation"},
		{"-1", "", "negative"},
	} {
		if got := comparePlain(t, outlineDocument(row.parts, row.tools)); !strings.Contains(got, row.want) {
			t.Errorf("parts %s, tools %s: %s, want %q", row.parts, row.tools, got, row.want)
		}
	}
	for _, bad := range []string{`[00,0,"call","c","f"]`, `[0,01,"call","c","f"]`, "[0,0,\"call\",\"c\x01\",\"f\"]", "[0,0,\"call\",\"c\xff\",\"f\"]", `[,0,"call","c","f"]`} {
		if got := readOutline(outlineDocument("1", bad)); !strings.Contains(got, "read JSON") {
			t.Errorf("%q reads as %s", bad, got)
		}
	}
	for _, bad := range []string{"01", "1,,1", "1:1", "00000001", "1,02"} {
		if got := readOutline(outlineDocument(bad, "")); !strings.Contains(got, "read JSON") {
			t.Errorf("parts %q read as %s", bad, got)
		}
	}
}

// TestCutOutlines cuts an outline after every byte.
func TestCutOutlines(t *testing.T) {
	whole := outlineDocument("1,22,333", `[0,0,"call","c","f"],[1,1,"result","call_123456","g"],[2,300,"call","","h"]`)
	for i := range whole {
		if got := readOutline(whole[:i]); !strings.Contains(got, "read JSON") {
			t.Fatalf("%s reads as %s", whole[:i], got)
		}
	}
}

func TestRandomOutlines(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		var parts, tools []string
		n := 1 + random.IntN(40)
		for m := range n {
			parts = append(parts, fmt.Sprint(1+random.IntN(1<<random.IntN(40))))
			for range random.IntN(3) {
				id := strings.Repeat("i", random.IntN(20))
				tools = append(tools, fmt.Sprintf(`[%d,0,%q,%q,%q]`, m, []string{"call", "result"}[random.IntN(2)], id, fmt.Sprint("f", random.IntN(1<<30))))
			}
		}
		if got := comparePlain(t, outlineDocument(strings.Join(parts, ","), strings.Join(tools, ","))); !strings.HasPrefix(got, "{Roles:") {
			t.Fatalf("an outline is refused: %s", got)
		}
	}
}

func FuzzOutline(f *testing.F) {
	f.Add("1,2", `[0,0,"call","c","f"],[1,1,"result","c","f"]`)
	f.Add("12345678", `[0,0,"call","c\"","é"]`)
	f.Fuzz(func(t *testing.T, parts, tools string) { comparePlain(t, outlineDocument(parts, tools)) })
}
