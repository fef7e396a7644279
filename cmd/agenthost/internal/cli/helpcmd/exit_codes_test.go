package helpcmd

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestOperatorsPageHasTheTableOfExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| code | |\n|---|---|\n")
	for _, m := range exitMeanings() {
		fmt.Fprintf(&table, "| %d | %s |\n", m.code, m.means)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/operate.md lacks the table\n%s", table.String())
	}
}
