package plugin

// Scenario: every limit is looked up in RATIONALE.md.

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// Every limit has a default, and RATIONALE.md a reason for it.
func TestEveryLimitHasAReason(t *testing.T) {
	page, err := os.ReadFile("../../RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "## Why does each limit have its default?")
	if !found {
		t.Fatal("RATIONALE.md has no section on limits")
	}
	defaults := reflect.ValueOf(Limits{}.withDefaults())
	for i := range defaults.NumField() {
		name := defaults.Type().Field(i).Name
		if defaults.Field(i).IsZero() {
			t.Errorf("the limit %s has no default", name)
		}
		if !strings.Contains(table, "| `"+name+"` |") {
			t.Errorf("RATIONALE.md gives no reason for the default of %s", name)
		}
	}
}
