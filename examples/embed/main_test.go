package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := "acme: sunny in Lisbon, says acme's own station\nglobex: sunny in Lisbon, says globex's own station\n" +
		"globex: not_found: there is no such plugin\n"
	if out.String() != want {
		t.Errorf("run printed %q, want %q", out.String(), want)
	}
}
