package httpapi_test

// Scenario: programs that others wrote read the OpenAPI document: a linter, and a
// generator whose client calls each operation of a real server.

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/internal/testnode"
)

// documentClient returns a directory with the sources and packages of
// testdata/openapi-client, and the document of a server.
func documentClient(t *testing.T, s *server) string {
	t.Helper()
	dir := testnode.Install(t, "testdata/openapi-client", "client.ts", "tsconfig.json", "redocly.yaml")
	_, document := s.request("", "GET", "/v1/openapi.json", "")
	must(t, os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o600))
	for _, name := range []string{"one", "two"} { // plugins to upload
		must(t, os.WriteFile(filepath.Join(dir, name+".wasm"), []byte(marked("kv-put", name)), 0o600))
	}
	return dir
}

// nodeIn runs a program of the packages in a directory, and returns its output.
func nodeIn(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{program}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node %s %q: %v\n%s%s", program, args, err, out, &stderr)
	}
	return string(out)
}

// newDocumentedServer has every route, and callers with real keys.
func newDocumentedServer(t *testing.T) *server {
	t.Helper()
	s := newServer(t, func(o *httpapi.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "agenthost_up 1\n") })
	})
	return reachedBy(t, s, s.keys.Authenticate)
}

func TestTheDocumentPassesALinter(t *testing.T) {
	dir := documentClient(t, newDocumentedServer(t))
	out := nodeIn(t, dir, "node_modules/@redocly/cli/bin/cli.js", "lint", "openapi.json", "--format=json")
	var report struct {
		Totals struct{ Errors, Warnings int }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Totals.Errors+report.Totals.Warnings > 0 {
		t.Errorf("the linter says %s, %v", out, err)
	}
}

// TestAGeneratedClientCallsEachOperation generates a client of the document in TypeScript,
// compiles it, and wants each operation to be called with a useful answer. A new route
// wants an entry in testdata/openapi-client/client.ts.
func TestAGeneratedClientCallsEachOperation(t *testing.T) {
	s := newDocumentedServer(t)
	dir := documentClient(t, s)
	testnode.Build(t, dir, "out",
		[]string{"node_modules/@hey-api/openapi-ts/bin/run.js", "-i", "openapi.json", "-o", "generated", "-c", "@hey-api/client-fetch", "--no-log-file", "--silent"},
		[]string{"node_modules/typescript/bin/tsc"})
	_, key, err := create(t, s.keys.Admins(), httpapi.AdminScopes())
	must(t, err)
	called := map[string]bool{}
	for line := range strings.Lines(nodeIn(t, dir, "out/client.js", s.URL, key)) {
		var call struct{ Operation, Failed string }
		must(t, json.Unmarshal([]byte(line), &call))
		if called[call.Operation] = true; call.Failed != "" {
			t.Errorf("%s: %s", call.Operation, call.Failed)
		}
	}
	known := []string{}
	for _, op := range operations(t, s) {
		if known = append(known, op.id); !called[op.id] {
			t.Errorf("the client does not call %s: add it to testdata/openapi-client/client.ts", op.id)
		}
	}
	for id := range called {
		if !slices.Contains(known, id) {
			t.Errorf("the client calls %s, which the document does not have", id)
		}
	}
}
