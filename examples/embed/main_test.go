package main

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/testcode"
)

func TestEachTenantHasAThreadOfItsOwn(t *testing.T) {
	t.Setenv("AGENTHOST_CACHE", testcode.Project(t))
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := "acme: This is the first question that I hear from you.\nacme: This is your second question.\n" +
		"globex: This is the first question that I hear from you.\n"
	if out.String() != want {
		t.Errorf("run printed %q, want %q", out.String(), want)
	}
}
