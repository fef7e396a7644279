package main

// Scenario: an operator administers a server over HTTP and by commands, while it runs and
// after it has ended; both see the same tenants, keys, usage and audit log.

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/internal/testguest"
)

func TestAnOperatorAdministersAServer(t *testing.T) {
	dir, _ := dataProject(t, "")
	data := filepath.Join(dir, "data")
	m := newMachine(t, data)
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	defer http.DefaultClient.CloseIdleConnections()
	out, err := m.command("key", "create", "--admin", "--name", "ops").Output()
	admin := string(out)
	if err != nil || !strings.HasPrefix(admin, "ah_admin_") {
		t.Fatalf("key create --admin prints %q, %v", out, err)
	}

	// The administrator makes a tenant and its key, which cannot administer.
	s.wants(201, "Acme Ltd.", admin, "POST", "/v1/admin/tenants", `{"id":"acme","name":"Acme Ltd.","plan":{"usage":{"limits":[{"resource":"tool_calls","amount":40,"window":"month"}]}}}`)
	var made struct {
		Credential string
		Key        struct{ ID string }
	}
	if err := json.Unmarshal([]byte(s.wants(201, "ah_live_", admin, "POST", "/v1/admin/tenants/acme/keys", `{"name":"shop","scopes":["runs:write","threads:read","plugins:write"]}`)), &made); err != nil {
		t.Fatal(err)
	}
	acme := made.Credential
	s.wants(200, "zebrafinch", acme, "POST", "/v1/runs", `{"text":"the secret","thread":"t1"}`)
	s.wants(403, "administrators", acme, "GET", "/v1/admin/tenants", "")
	s.wants(403, "administrator", admin, "GET", "/v1/threads", "")
	if raw := s.wants(200, "", admin, "GET", "/v1/admin/backup", ""); len(raw) < 500 {
		t.Errorf("the backup has %d bytes", len(raw))
	}

	// A plugin of the tenant is in its export, of the server and of the command.
	echo := testguest.Modules()["echo"]
	uploaded := s.wants(201, "sha256:", acme, "POST", "/v1/plugins/mine/versions", string(echo), "Content-Type", "application/wasm")
	module := `"module":"` + base64.StdEncoding.EncodeToString(echo)
	if raw := s.wants(200, `{"part":"plugin"`, admin, "GET", "/v1/admin/tenants/acme/export", ""); !strings.Contains(raw, module) {
		t.Errorf("the export lacks the module of %s", uploaded)
	}

	// Commands see the use of the run while the server has it.
	commands := func(when string) {
		t.Helper()
		if out := m.run(t, cli.ExitOK, "usage", "bill", "--tenant", "acme", "--by-key"); !strings.Contains(out, made.Key.ID) || !strings.Contains(out, "total") {
			t.Errorf("%s usage bill says\n%s", when, out)
		}
		if out := m.run(t, cli.ExitOK, "usage", "records", "--tenant", "acme", "--key", made.Key.ID); !strings.Contains(out, "t1") {
			t.Errorf("%s usage records says\n%s", when, out)
		}
		if out := m.run(t, cli.ExitOK, "usage", "limits", "--tenant", "acme", "--json"); !strings.Contains(out, `"resource":"tool_calls","window":"month","amount":40`) || !strings.Contains(out, `"plan":true`) {
			t.Errorf("%s usage limits says\n%s", when, out)
		}
		if out := m.run(t, cli.ExitOK, "audit", "list", "--tenant", "acme"); !strings.Contains(out, "tenant.create") || !strings.Contains(out, "admin/") {
			t.Errorf("%s audit list says\n%s", when, out)
		}
		if out := m.run(t, cli.ExitOK, "key", "show", made.Key.ID, "--tenant", "acme"); !strings.Contains(out, "shop") {
			t.Errorf("%s key show says\n%s", when, out)
		}
	}
	commands("with a server")
	head := strings.TrimSpace(m.run(t, cli.ExitOK, "audit", "verify"))
	head = head[strings.LastIndexByte(head, '\n')+1:]
	s.end()

	commands("without a server")
	m.run(t, cli.ExitOK, "tenant", "suspend", "acme", "--reason", "unpaid")
	if out := m.run(t, cli.ExitOK, "audit", "list", "--action", "tenant.suspend"); !strings.Contains(out, "cli/") {
		t.Errorf("a change by a command is\n%s", out)
	}
	m.run(t, cli.ExitOK, "audit", "verify", "--head", head)
	m.run(t, 1, "audit", "verify", "--head", head[:len(head)-64]+strings.Repeat("0", 64))
	log := filepath.Join(dir, "audit.ndjson")
	m.run(t, cli.ExitOK, "audit", "export", log)
	m.run(t, cli.ExitOK, "audit", "verify", "--export", log)
	m.run(t, cli.ExitUsage, "audit", "trim")
	m.run(t, 3, "audit", "trim", "--to", head[:len(head)-64]+strings.Repeat("0", 64))
	if out := m.run(t, cli.ExitOK, "audit", "trim", "--to", head); !strings.Contains(out, "Removed") {
		t.Errorf("audit trim says\n%s", out)
	}
	m.run(t, cli.ExitOK, "audit", "verify", "--head", head)
	m.run(t, cli.ExitOK, "audit", "export", log, "--after", head)
	if out := m.run(t, cli.ExitOK, "audit", "list", "--action", "audit.trim"); strings.Count(out, "entry/") != 2 {
		t.Errorf("the trimming is\n%s", out)
	}

	exported := filepath.Join(dir, "acme.ndjson")
	m.run(t, cli.ExitOK, "tenant", "export", "acme", exported)
	raw, err := os.ReadFile(exported)
	for _, part := range []string{`{"part":"tenant"`, `{"part":"thread"`, "zebrafinch", `{"part":"key"`, `{"part":"usage"`, `{"part":"audit"`, `{"part":"plugin"`, module} {
		if err != nil || !strings.Contains(string(raw), part) {
			t.Errorf("the export lacks %s: %v\n%s", part, err, raw)
		}
	}
	if strings.Contains(string(raw), strings.TrimSpace(acme)) {
		t.Error("the export has a secret")
	}
	m.run(t, cli.ExitUsage, "tenant", "delete", "acme")
	if out := m.run(t, cli.ExitOK, "tenant", "delete", "acme", "--yes"); !strings.Contains(out, "Nothing of it is left") {
		t.Errorf("tenant delete says\n%s", out)
	}
	m.run(t, cli.ExitOK, "tenant", "prove", "acme")
	m.run(t, 4, "tenant", "export", "acme", "-")
	m.run(t, 4, "key", "show", made.Key.ID, "--tenant", "acme")
	m.run(t, cli.ExitUsage, "key", "list", "--admin", "--tenant", "acme")
	m.run(t, cli.ExitUsage, "key", "create", "--tenant", "globex", "--scope", "run:write")
	m.run(t, cli.ExitUsage, "key", "create", "--tenant", "globex", "--scope", "tenants:write")
	m.run(t, cli.ExitUsage, "key", "create", "--admin", "--scope", "threads:read")
	m.run(t, cli.ExitUsage, "key", "create", "--tenant", "agenthost/keys")
	if out := m.run(t, cli.ExitOK, "audit", "list", "--tenant", "agenthost/keys"); strings.Contains(out, "key.create") {
		t.Errorf("a tenant that cannot be is in the log:\n%s", out)
	}
	m.run(t, cli.ExitUsage, "usage", "bill", "--period", "May")
	if out := m.run(t, cli.ExitOK, "audit", "list", "--action", "tenant.delete"); !strings.Contains(out, "tenant/acme") {
		t.Errorf("after the deletion the log has\n%s", out)
	}
}
