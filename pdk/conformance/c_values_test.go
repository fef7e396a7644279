package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
)

// Scenario: what the C kit's formats write of numbers and percent signs.

const cValues = `
#include "%s/agenthost.h"
static void values(ah_call *c) {
  ah_json list = ah_make(c, AH_JSON([%%f, %%f, %%f, %%f, %%f, %%f, %%f, %%f, %%f]), 0.0, 1.5, -2.25, 1e19, 1e-10, -1e-10, 123456.000001, 1e308, 1.0 / 0.0);
  ah_text percent = ah_format(c, "100%%");
  ah_return(c, AH_JSON({"list": %%j, "percent": %%t}), list, percent);
}
AH_PLUGIN(.name = "values", .version = "1.0.0",
  .tools = (const ah_tool[]){{.name = "values", .description = "Writes values.", .run = values, .parameters = AH_JSON({"type": "object"})}, {0}});
`

func TestTheCKitWritesNumbersAndPercentSigns(t *testing.T) {
	longtest.Need(t, "compilers of other languages take seconds")
	dir := t.TempDir()
	kit, err := filepath.Abs("../c")
	if err != nil {
		t.Fatal(err)
	}
	source, out := filepath.Join(dir, "values.c"), filepath.Join(dir, "values.wasm")
	if err := os.WriteFile(source, fmt.Appendf(nil, cValues, kit), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "c", "./build.sh "+source+" "+out)
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := load(t, wasm).Call(t.Context(), "acme", "tool", []byte(`{"tool":"values","arguments":{},"scope":{"tenant":"acme","run":"r1"}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"list": [0, 1.5, -2.25, 1e19, 1e-10, -1e-10, 123456.000001, 1e308, null], "percent": "100%"}`
	if !strings.Contains(string(got.Output), want) {
		t.Errorf("the tool answers %s\nwant %s", got.Output, want)
	}
}
