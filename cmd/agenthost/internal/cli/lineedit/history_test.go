package lineedit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAHistoryIsThisUsersAndBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "history")
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * MaxHistoryLines {
		h.add(fmt.Sprintf("line\n%d", i))
	}
	h.add("  ")
	h.add("line\n2999")
	h.add(strings.Repeat("x", MaxHistoryLine+1))
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the file is shortened, and read again
		if h, err = OpenHistory(path); err != nil {
			t.Fatal(err)
		}
		last, err := h.line(h.Len() - 1)
		if h.Len() != MaxHistoryLines || err != nil || last != "line\n2999" {
			t.Errorf("the history has %d lines, the last %q, %v; want the last %d", h.Len(), last, err, MaxHistoryLines)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %v, %v; want 0600", info.Mode(), err)
		}
	}
}

func TestADamagedHistoryKeepsItsGoodLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, []byte("\"good\"\nno json\n{}\n\"better\"\n\"cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(path)
	if err != nil || h.Len() != 2 {
		t.Fatalf("the history has %d lines, %v; want 2", h.Len(), err)
	}
	if _, err := OpenHistory(filepath.Dir(path)); err == nil {
		t.Error("a directory opens as a history")
	}
}

func TestHistoryFileFollowsTheEnvironment(t *testing.T) {
	for name, row := range map[string]struct {
		env  map[string]string
		want string
	}{
		"the variable":         {map[string]string{FileVariable: "/x", "XDG_STATE_HOME": "/s"}, "/x"},
		"off":                  {map[string]string{FileVariable: "off", "HOME": "/h"}, ""},
		"the state directory":  {map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/agenthost/history"},
		"a relative directory": {map[string]string{"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/agenthost/history"},
		"no home":              {nil, ""},
	} {
		if got := HistoryFile(func(name string) string { return row.env[name] }); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
