package project

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/signature"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// trustPolicy is the trust of the project or of one tenant.
type trustPolicy struct {
	share.Policy
	files, uploads bool // must be signed
}

// readTrust reads a trust, which is at a place of the configuration. nil trusts all.
func readTrust(c *configfile.Config, t *configfile.Trust, at configfile.KeyPath) (*trustPolicy, error) {
	if t == nil {
		return nil, nil
	}
	p := &trustPolicy{Policy: share.Policy{From: t.From, Keys: map[string]signature.PublicKey{}, Repositories: t.Repositories}}
	for name, text := range t.Keys {
		key, err := signature.ParsePublicKey(text)
		if err != nil {
			return nil, c.Wrap(err, at.To("keys", name))
		}
		p.Keys[name] = key
	}
	for _, name := range slices.Sorted(maps.Keys(t.Repositories)) {
		if _, known := t.Keys[name]; !known {
			return nil, c.ErrorAt(at.To("repositories", name), "there is no key %q", name).WithHint("the keys are: %s", strings.Join(slices.Sorted(maps.Keys(t.Keys)), ", "))
		}
	}
	for _, choice := range []struct {
		key, text string
		signed    *bool
	}{{"files", t.Files, &p.files}, {"uploads", t.Uploads, &p.uploads}} {
		switch choice.text {
		case "", configfile.TrustAllows:
		case configfile.TrustSigned:
			if *choice.signed = true; len(t.Keys) == 0 {
				return nil, c.ErrorAt(at.To(choice.key), "signatures are asked for, and no key is trusted").WithHint("list public keys under keys")
			}
		default:
			return nil, c.ErrorAt(at.To(choice.key), "there is no choice %q", choice.text).WithHint("use %s or %s", configfile.TrustAllows, configfile.TrustSigned)
		}
	}
	return p, nil
}

// trustsOf returns the policies that a plugin of the configuration is held to: that of the
// project, and that of each tenant that has the plugin.
func trustsOf(c *configfile.Config, id string) (map[string]*trustPolicy, error) {
	all := map[string]*trustPolicy{}
	add := func(whose string, t *configfile.Trust, at configfile.KeyPath) error {
		p, err := readTrust(c, t, at)
		if p != nil {
			all[whose] = p
		}
		return err
	}
	if err := add("the project", c.Share.Trust, configfile.Keys("share", "trust")); err != nil {
		return nil, err
	}
	only := c.Plugins[id].Tenants
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		t := c.Tenants[name]
		if len(only) > 0 && !slices.Contains(only, name) || t.Plugins != nil && !slices.Contains(t.Plugins, id) {
			continue
		}
		if err := add("tenant "+name, t.Trust, configfile.Keys("tenants", name, "trust")); err != nil {
			return nil, err
		}
	}
	if len(only) > 0 || c.AnyTenant.Plugins != nil && !slices.Contains(c.AnyTenant.Plugins, id) {
		return all, nil
	}
	return all, add("any tenant", c.AnyTenant.Trust, configfile.Keys("any_tenant", "trust"))
}

func trustError(whose string, err error) error {
	e := *fault.AsError(err)
	e.Message, e.Err = "by the trust of "+whose+": "+e.Message, err
	return &e
}

// checkFile holds the module of a plugin, which has come from a file or a directory, to the trusts
// that ask files for signatures.
func checkFile(c *configfile.Config, id, where string, module []byte) error {
	policies, err := trustsOf(c, id)
	if err != nil {
		return err
	}
	for _, whose := range slices.Sorted(maps.Keys(policies)) {
		p := policies[whose]
		if !p.files {
			continue
		}
		signatures, err := besideFile(where)
		if err == nil {
			_, err = p.CheckModule(module, signatures)
		}
		if err != nil {
			return trustError(whose, err)
		}
	}
	return nil
}

// besideFile returns the signature beside a plugin's file: beside the module, for a directory.
func besideFile(where string) ([][]byte, error) {
	if info, err := os.Stat(filepath.FromSlash(where)); err == nil && info.IsDir() {
		where = ModulePath(where)
	}
	text, err := datadir.ReadFile(where+".minisig", signature.MaxSignatureBytes)
	if host.CodeOf(err) == host.NotFound {
		return nil, nil
	}
	return [][]byte{text}, err
}

// uploadTrust are the policies that uploads of plugins are held to.
type uploadTrust struct {
	project, any *trustPolicy
	tenants      map[string]*trustPolicy // that the configuration lists; nil for one without a trust
}

func readUploadTrust(c *configfile.Config) (*uploadTrust, error) {
	t := &uploadTrust{tenants: map[string]*trustPolicy{}}
	var err error
	if t.project, err = readTrust(c, c.Share.Trust, configfile.Keys("share", "trust")); err != nil {
		return nil, err
	}
	if t.any, err = readTrust(c, c.AnyTenant.Trust, configfile.Keys("any_tenant", "trust")); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		if t.tenants[name], err = readTrust(c, c.Tenants[name].Trust, configfile.Keys("tenants", name, "trust")); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// check holds the upload of a tenant to the trust of the project and of the tenant; one that is
// shared with all tenants, which tenant "" makes, to that of the project.
func (t *uploadTrust) check(tenant string, module []byte, signatures [][]byte) error {
	own, listed := t.tenants[tenant]
	if !listed && tenant != "" {
		own = t.any
	}
	for _, held := range []struct {
		whose string
		*trustPolicy
	}{{"the project", t.project}, {"the tenant", own}} {
		if held.trustPolicy == nil || !held.uploads {
			continue
		}
		if _, err := held.CheckModule(module, signatures); err != nil {
			return trustError(held.whose, err)
		}
	}
	return nil
}
