package main

// Scenario: an operator installs the service and the container of deploy/, whose command
// lines have flags that the commands know.

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// deployed returns a file of the module, such as deploy/agenthost.service.
func deployed(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestDeployedCommandLinesExist(t *testing.T) {
	var lines [][]string
	unit := deployed(t, "deploy/agenthost.service")
	for _, m := range regexp.MustCompile(`(?m)^ExecStart=\S+/agenthost (.*)$`).FindAllStringSubmatch(unit, -1) {
		lines = append(lines, strings.Fields(m[1]))
	}
	container := deployed(t, "deploy/Containerfile")
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

// maxExposure is the score of systemd-analyze security beyond which a service has more rights
// than this one needs: 0 is none, and 10 all.
const maxExposure = 2

func TestTheUnitIsVerifiedBySystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("wants systemd-analyze, of the package systemd")
	}
	program := filepath.Join(t.TempDir(), "agenthost")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil { // which systemd looks for
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "agenthost.service")
	text := strings.Replace(deployed(t, "deploy/agenthost.service"), "/usr/local/bin/agenthost serve", program+" serve", 1)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=yes", "--no-pager", unit).CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for agenthost.service: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Skipf("this version of systemd-analyze knows no offline check: %v: %s", err, out)
	}
	if score, err := strconv.ParseFloat(string(m[1]), 64); err != nil || score > maxExposure {
		t.Errorf("the exposure is %s (%v), more than %d:\n%s", m[1], err, maxExposure, out)
	}
}

// The statements of the Containerfile agree with each other and with the module.
func TestTheContainerfileFitsTheModule(t *testing.T) {
	text := strings.ReplaceAll(deployed(t, "deploy/Containerfile"), "\\\n", " ")
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(deployed(t, "go.mod"))[1]
	made := "" // the commands of the stage that builds
	stages := map[string]bool{}
	var ports, volumes []string
	for line := range strings.Lines(text) {
		statement, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch statement {
		case "FROM":
			if len(words) == 3 {
				stages[words[2]] = true
			}
			if image, version, ok := strings.Cut(words[0], "golang:"); ok && version != goVersion {
				t.Errorf("%sgolang is %s, and the module wants %s", image, version, goVersion)
			}
		case "RUN":
			made += rest
		case "EXPOSE":
			ports = words
		case "VOLUME":
			if err := json.Unmarshal([]byte(rest), &volumes); err != nil {
				t.Errorf("VOLUME %s: %v", rest, err)
			}
		case "USER":
			if regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).FindString(rest) == "" {
				t.Errorf("the user is %s, and is to be the number of one without rights", rest)
			}
		case "COPY":
			copied(t, words, stages, made)
		case "CMD":
			if len(ports) != 1 || !strings.Contains(rest, ":"+ports[0]+`"`) {
				t.Errorf("the ports are %q, and the command is %s", ports, rest)
			}
			if !slices.Contains(volumes, "/data") || !strings.Contains(rest, `"/data"`) {
				t.Errorf("the volumes are %q, and the command is %s", volumes, rest)
			}
		}
	}
	for _, p := range regexp.MustCompile(`\./cmd/\S+`).FindAllString(made, -1) {
		if _, err := os.Stat(filepath.Join("..", "..", p)); err != nil {
			t.Error(err)
		}
	}
}

// copied checks the words of a COPY: what it copies is a file of the module, or was made by an
// earlier stage.
func copied(t *testing.T, words []string, stages map[string]bool, made string) {
	t.Helper()
	stage := ""
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		if from, ok := strings.CutPrefix(words[0], "--from="); ok {
			if stage = from; !stages[from] {
				t.Errorf("there is no stage %s before COPY %s", from, words)
			}
		}
		words = words[1:]
	}
	for _, source := range words[:len(words)-1] {
		if stage == "" {
			if _, err := os.Stat(filepath.Join("..", "..", source)); err != nil {
				t.Error(err)
			}
		} else if strings.HasPrefix(source, "/out/") && !regexp.MustCompile(`\Q`+path.Clean(source)+`\E(\s|$)`).MatchString(made) {
			t.Errorf("no command makes %s", source)
		}
	}
}
