package lookup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

func TestIDsMayBeShortened(t *testing.T) {
	ids := []string{"01a2-1111", "01a2-2222", "01b2-3333", "01a2"}
	for given, want := range map[string]string{
		"01a2": "01a2", "01a2-1": "01a2-1111", "01b2": "01b2-3333", "01b": "01b", "zzzz": "zzzz",
	} {
		if got, err := ID("thread", given, ids); err != nil || got != want {
			t.Errorf("wholeID(%q) = %q, %v; want %q", given, got, err, want)
		}
	}
	if _, err := ID("thread", "01a2-", ids); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "01a2-1111, 01a2-2222") {
		t.Errorf("wholeID of what two begin with = %v", err)
	}
}

// The beginning of an id names nothing where there are more threads than are looked at:
// another one may begin so.
func TestShortIDsAmongManyThreads(t *testing.T) {
	ctx, s := t.Context(), threads.New(kv.NewMemory(), nil)
	var last string
	for i := range maxScannedIDs + 1 {
		made, _, err := s.For("").Create(ctx, &threads.CreateOptions{ID: fmt.Sprintf("t%06d", i)})
		if err != nil {
			t.Fatal(err)
		}
		last = made.ID
	}
	if got, err := Thread(ctx, s, "", last[:len(last)-1]); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("wholeThread = %q, %v; want code invalid_argument", got, err)
	}
	for _, given := range []string{last, "none"} { // reading it says that there is none
		if got, err := Thread(ctx, s, "", given); got != given || err != nil {
			t.Errorf("wholeThread(%q) = %q, %v", given, got, err)
		}
	}
}
