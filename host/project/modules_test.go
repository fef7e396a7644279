package project

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
)

// What plugins may have sent for them is read from the environment, the tenant's
// own before that of all.
func TestSecretsAreVariables(t *testing.T) {
	vars := map[string]string{egress.DefaultEnvPrefix + "API_KEY": "for all", egress.DefaultEnvPrefix + "ACME__API_KEY": "for acme", "API_KEY": "not meant", "AGENTHOST_CACHE": t.TempDir()}
	m := NewModules(&ModulesOptions{Getenv: func(name string) string { return vars[name] }})
	opts, err := m.RuntimeOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]string{"acme": "for acme", "other": "for all"} {
		if got, err := opts.Secrets.Secret(t.Context(), tenant, "api-key"); err != nil || got.Reveal() != want {
			t.Errorf("the secret of %s is %q, %v; want %q", tenant, got.Reveal(), err, want)
		}
	}
	if _, err := opts.Secrets.Secret(t.Context(), "acme", "other"); host.CodeOf(err) != host.NotFound {
		t.Errorf("a secret that is not there: %v, want code %s", err, host.NotFound)
	}
}
