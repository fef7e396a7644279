package pdk_test

import (
	"errors"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// logged is a host that keeps its log and its operations.
type logged struct {
	lines []string
	calls []string
}

func (l *logged) HostCall(op string, request pdk.Raw) (pdk.Raw, *pdk.Error) {
	l.calls = append(l.calls, op+" "+string(request))
	return `{}`, nil
}

func (l *logged) Log(_ pdk.Level, message string) { l.lines = append(l.lines, message) }

func TestLogWritesAttributesBehindTheMessage(t *testing.T) {
	var host logged
	for _, row := range []struct {
		attributes []any
		want       string
	}{
		{nil, "late"},
		{[]any{"order", 1042, "days", 2.5, "paid", true}, "late order=1042 days=2.5 paid=true"},
		{[]any{"n", int64(-1), "m", int32(2), "u", uint64(3)}, "late n=-1 m=2 u=3"},
		{[]any{"who", "Ann", "note", `say "hi"`, "empty", "", "line", "a\nb", "eq", "a=b"}, `late who=Ann note="say \"hi\"" empty="" line="a\nb" eq="a=b"`},
		{[]any{"error", errors.New("no route"), "raw", pdk.Raw(`{"a":1}`), "none", nil}, `late error="no route" raw={"a":1} none=null`},
		{[]any{"odd"}, "late odd=!MISSING"},
		{[]any{7, "x", "y", struct{}{}}, "late !NAME=x y=!UNKNOWN"},
	} {
		host.lines = nil
		pdk.WithHost(&host, func() { pdk.Log(pdk.LevelInfo, "late", row.attributes...) })
		if len(host.lines) != 1 || host.lines[0] != row.want {
			t.Errorf("the log is %q, want %q", host.lines, row.want)
		}
	}
}

func TestPartialOutputIsSentAsEvents(t *testing.T) {
	var host logged
	pdk.WithHost(&host, func() {
		for _, err := range []error{pdk.Output("one \"two\""), pdk.Progress("reading", 1, 3), pdk.Progress("", 2, 0)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	want := []string{
		`emit {"kind":"output","data":{"text":"one \"two\""}}`,
		`emit {"kind":"progress","data":{"message":"reading","done":1,"total":3}}`,
		`emit {"kind":"progress","data":{"done":2}}`,
	}
	if len(host.calls) != len(want) {
		t.Fatalf("the calls are %q", host.calls)
	}
	for i := range want {
		if host.calls[i] != want[i] {
			t.Errorf("call %d is %s, want %s", i, host.calls[i], want[i])
		}
	}
}
