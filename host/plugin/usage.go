package plugin

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
)

// Usage holds a plugin's permissions for one tenant: asked for, granted and used.
type Usage struct {
	Asked   Permissions      `json:"asked,omitzero"`
	Granted Permissions      `json:"granted,omitzero"`
	Used    Permissions      `json:"used,omitzero"`
	Denied  map[string]int64 `json:"denied,omitempty"` // how often, by what would have to be granted
}

// usedRights records the permissions that a tenant's calls of one plugin have used. It
// outlives versions of the plugin.
type usedRights struct {
	mu     sync.Mutex
	used   Permissions
	denied map[string]*denial
}

type denial struct {
	count  int64
	logged time.Time
}

// The bounds of the usage records of one plugin and tenant, since a guest chooses the
// hosts that it asks for, and the name that sums denials beyond them.
const (
	maxUsedHosts   = 64
	maxDenied      = 64
	othersDenied   = "others"
	denialLogEvery = time.Minute
	maxGrantText   = 512
)

// usage returns the usage record of the tenant's calls of a plugin. The caller does
// not hold the account's mutex.
func (a *account) usage(plugin string) *usedRights {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.used[plugin]
	if u == nil {
		if a.used == nil {
			a.used = map[string]*usedRights{}
		}
		u = &usedRights{}
		a.used[plugin] = u
	}
	return u
}

// Usage returns what the plugin asks for, is granted and has used for a tenant
// since the program began, over all versions that had the plugin's id.
func (p *Plugin) Usage(tenant string) Usage {
	s := p.bindings.of(tenant)
	out := Usage{Asked: p.manifest.Permissions.Clone(), Granted: s.rights().granted.Clone()}
	u := s.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	out.Used = u.used.Clone()
	if len(u.denied) > 0 {
		out.Denied = map[string]int64{}
		for grant, d := range u.denied {
			out.Denied[grant] = d.count
		}
	}
	return out
}

// note records that a permission was used.
func (u *usedRights) note(use func(*Permissions)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	use(&u.used)
}

// noteHTTP records a request that was allowed.
func (u *usedRights) noteHTTP(h HTTPAccess) {
	u.note(func(p *Permissions) {
		i := slices.IndexFunc(p.HTTP, h.SameServer)
		switch {
		case i < 0 && len(p.HTTP) < maxUsedHosts:
			p.HTTP = append(p.HTTP, h)
		case i >= 0 && len(h.Methods) == 1 && !slices.Contains(p.HTTP[i].Methods, h.Methods[0]) && len(p.HTTP[i].Methods) < maxUsedHosts:
			p.HTTP[i].Methods = append(slices.Clone(p.HTTP[i].Methods), h.Methods[0])
		}
	})
}

// noteSecret records that a secret was sent to a host.
func (u *usedRights) noteSecret(name, to string) {
	u.note(func(p *Permissions) {
		i := slices.IndexFunc(p.Secrets, func(s SecretAccess) bool { return s.Name == name })
		if i < 0 && len(p.Secrets) < maxUsedHosts {
			p.Secrets = append(p.Secrets, SecretAccess{Name: name})
			i = len(p.Secrets) - 1
		}
		if i >= 0 && !slices.Contains(p.Secrets[i].Hosts, to) && len(p.Secrets[i].Hosts) < maxUsedHosts {
			p.Secrets[i].Hosts = append(slices.Clone(p.Secrets[i].Hosts), to)
		}
	})
}

// noteDenial counts a denial and reports whether it is to be logged: once a
// minute for each grant.
func (u *usedRights) noteDenial(grant string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	d := u.denied[grant]
	if d == nil && len(u.denied) >= maxDenied {
		grant = othersDenied
		d = u.denied[grant]
	}
	if d == nil {
		if u.denied == nil {
			u.denied = map[string]*denial{}
		}
		d = &denial{}
		u.denied[grant] = d
	}
	d.count++
	if !d.logged.IsZero() && now.Sub(d.logged) < denialLogEvery {
		return false
	}
	d.logged = now
	return true
}

// denied returns the error for a use without permission; it names the grant needed.
// The denial is counted, and logged.
func (b *binding) denied(grant, what string) error {
	grant = clean(grant)
	b.noteDenied(grant, nil)
	return host.Errorf(host.PermissionDenied, "plugin %q may not %s: it is not granted %q", b.plugin.id, what, grant).WithHint("grant %s", grant)
}

// noteDenied counts a denial, and logs it with its cause, if that says more.
func (b *binding) noteDenied(grant string, cause error) {
	if grant = clean(grant); len(grant) > maxGrantText {
		grant = strings.ToValidUTF8(grant[:maxGrantText], "") + "…"
	}
	if !b.usage.noteDenial(grant, time.Now()) {
		return
	}
	args := []any{slog.String("plugin", b.plugin.id), slog.String("tenant", b.account.id), slog.String("grant", grant)}
	var address *egress.AddressError
	if errors.As(cause, &address) {
		args = append(args, slog.String("address", address.Error()))
	}
	b.plugin.runtime.opts.Logger.Warn("plugin was denied", args...)
}

// Denials returns how often each grant was missed, over all tenants.
func (p *Plugin) Denials() map[string]int64 {
	out := map[string]int64{}
	for _, s := range p.bindings.all() {
		s.usage.mu.Lock()
		for grant, d := range s.usage.denied {
			out[grant] += d.count
		}
		s.usage.mu.Unlock()
	}
	return out
}
