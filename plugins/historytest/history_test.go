package historytest_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/plugins/historytest"
)

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		conversation string
		want         int
	}{
		{"u:hi | a:a#1 b#2 | t:=b#2 | t:=a#1 | a:done", 0},
		{"a:a#1 | a:b#2 | t:=b#2 | t:=a#1", 0},
		{"u:hi | a:a#1", 0}, // still open at the very end
		{"a:a#1 | u:well", 1},
		{"a:a#1 b#2 | t:=a#1 | a:done", 1},
		{"t:=a#1", 1},
		{"a:a#1 | u:well | t:=a#1", 2},
		{"a:a#1 | t:=a#1 | t:=a#1", 1},
	} {
		if got := historytest.Faults(historytest.Parse(test.conversation)); got != test.want {
			t.Errorf("Faults(%q) = %d, want %d", test.conversation, got, test.want)
		}
	}
}

func TestDrawnConversationsAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := historytest.Draw(t)
		if n := historytest.Faults(messages); n != 0 {
			t.Fatalf("%d faults in %s", n, historytest.Format(messages))
		}
	})
}

func TestFormatIsTheInverseOfParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := historytest.Format(historytest.Draw(t))
		if got := historytest.Format(historytest.Parse(line)); got != line {
			t.Fatalf("%q became %q", line, got)
		}
	})
}
