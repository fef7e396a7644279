package configfile

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// updatePage rewrites docs/configuration.md.
var updatePage = flag.Bool("update", false, "rewrite docs/configuration.md")

// Scenario: docs/configuration.md is generated from the configuration's JSON Schema;
// -update writes it.
func TestConfigurationPageIsOfTheSchema(t *testing.T) {
	const file = "../../../../docs/configuration.md"
	var root jsonSchema
	decode(t, Schema(), &root)
	var page strings.Builder
	page.WriteString("# Configuration\n\n" +
		"The keys of `agenthost.yaml`, generated from its JSON Schema (`agenthost schema`). Unknown keys are\n" +
		"errors with their line and a suggestion. `NAME` stands for a name that you choose, `[]` for each item\n" +
		"of a list. [examples/orderdesk](../examples/orderdesk/agenthost.yaml) is a commented configuration.\n")
	for _, key := range slices.Sorted(maps.Keys(root.Properties)) {
		fmt.Fprintf(&page, "\n## `%s`\n\n", key)
		writeKey(t, &page, key, root.Properties[key])
	}
	if *updatePage {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page.String() {
		t.Errorf("docs/configuration.md is not of the present schema: run go test ./host/project/internal/configfile -run %s -update", t.Name())
	}
}

// writeKey writes a key's description and a table of the keys below it.
func writeKey(t *testing.T, page *strings.Builder, path string, s *jsonSchema) {
	fmt.Fprintf(page, "%s\n", strings.TrimSpace(keyKind(s)+". "+s.Description))
	rows := keysBelow(t, path, s)
	if len(rows) == 0 {
		return
	}
	page.WriteString("\n| key | type | meaning |\n|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", row.path, keyKind(row.schema), strings.ReplaceAll(row.schema.Description, "|", `\|`))
	}
}

type keyRow struct {
	path   string
	schema *jsonSchema
}

func keysBelow(t *testing.T, path string, s *jsonSchema) (rows []keyRow) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		below := path + "." + key
		rows = append(append(rows, keyRow{below, s.Properties[key]}), keysBelow(t, below, s.Properties[key])...)
	}
	if s.Items != nil {
		rows = append(rows, keysBelow(t, path+"[]", s.Items)...)
	}
	if additional, ok := s.Additional.(map[string]any); ok {
		var below jsonSchema
		b, err := json.Marshal(additional)
		if err != nil {
			t.Fatal(err)
		}
		decode(t, b, &below)
		name := path + ".NAME"
		if below.Description != "" || len(below.Properties) == 0 {
			rows = append(rows, keyRow{name, &below})
		}
		rows = append(rows, keysBelow(t, name, &below)...)
	}
	return rows
}

// keyKind is a schema's type in words.
func keyKind(s *jsonSchema) string {
	var kinds []string
	switch kind := s.Type.(type) {
	case string:
		kinds = []string{kind}
	case []any:
		for _, k := range kind {
			if k != "null" {
				kinds = append(kinds, fmt.Sprint(k))
			}
		}
	}
	text := strings.Join(kinds, " or ")
	if len(s.Enum) > 0 {
		text = strings.TrimSpace(text + ": " + strings.Join(s.Enum, ", "))
	}
	if text == "" {
		text = "any"
	}
	return text
}

func decode(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}
