package guestmodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

func TestManyForeignImportsAreOneShortProblem(t *testing.T) {
	name := strings.Repeat("n", 200)
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "import m%d%s %s i32\n", i, name, name)
	}
	s, err := wasmmeter.Read(wasmtest.Assemble(t, b.String()))
	if err != nil {
		t.Fatal(err)
	}
	list := Module{Wasm: s}.importProblems()
	if len(list) != 1 || len(list[0].Error()) > 1000 || !strings.Contains(list[0].Error(), "and 297 more: 300 functions") {
		t.Errorf("%d problems: %.2000v", len(list), list)
	}
}
