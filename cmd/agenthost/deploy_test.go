package main

// Scenario: an operator installs the service and the container of deploy/, whose command
// lines have flags that the commands know.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestDeployedCommandLinesExist(t *testing.T) {
	text := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var lines [][]string
	unit := text("agenthost.service")
	for _, m := range regexp.MustCompile(`(?m)^ExecStart=\S+/agenthost (.*)$`).FindAllStringSubmatch(unit, -1) {
		lines = append(lines, strings.Fields(m[1]))
	}
	container := text("Containerfile")
	for _, m := range regexp.MustCompile(`(?m)^(?:HEALTHCHECK .*)?CMD (\[.*\])$`).FindAllStringSubmatch(container, -1) {
		var args []string
		if err := json.Unmarshal([]byte(m[1]), &args); err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		if args[0] == "agenthost" {
			args = args[1:]
		}
		lines = append(lines, args)
	}
	for _, m := range regexp.MustCompile(`agenthost (key create .*?)\)?(?:  .*)?\n`).FindAllStringSubmatch(unit+container, -1) {
		lines = append(lines, strings.Fields(m[1]))
	}
	if len(lines) < 5 {
		t.Fatalf("deploy has the command lines %q; 5 are wanted", lines)
	}
	for _, args := range lines {
		c, rest, err := newRoot(&environment{getenv: func(string) string { return "" }}).Find(args)
		if err != nil || c.Name() != args[0] && c.Parent().Name() != args[0] {
			t.Errorf("%q: there is no such command: %v", args, err)
			continue
		}
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
