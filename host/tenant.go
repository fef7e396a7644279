package host

import (
	"strings"

	"github.com/agenthost/agenthost/host/chat"
)

// MaxTenantBytes is the longest name of a tenant, in every store.
const MaxTenantBytes = 255

// DefaultTenant is the tenant of a host with [Options].SingleTenant for requests that
// name none, and of calls of a store that name none. A host without SingleTenant
// takes no request of that name: see [Host.Tenant].
const DefaultTenant = "default"

// reservedTenants is the prefix of the names under which stores keep other data
// than the tenants': a tenant of such a name would share it.
const reservedTenants = "agenthost/"

// ValidateTenant returns an error of code invalid_argument if no tenant can have
// that name: it is UTF-8 of 1 to [MaxTenantBytes] bytes without control characters, and does not
// begin with "agenthost/". Every store that keeps something by tenant asks it, so
// that two tenants in one store are two in all of them.
func ValidateTenant(name string) error {
	if err := chat.ValidateID("tenant", name, MaxTenantBytes); err != nil {
		return err
	}
	if strings.HasPrefix(name, reservedTenants) {
		return Errorf(InvalidArgument, "tenant %q has a name that begins with %q, which is the host's", name, reservedTenants).
			WithHint("give the tenant another name")
	}
	return nil
}

// TenantPartition returns the name under which stores keep a tenant's data. No two
// tenants have the same; "" is another spelling of [DefaultTenant], for programs
// that have one tenant only. A server asks [Host.Tenant] first. Errors are those of
// [ValidateTenant].
func TenantPartition(name string) (string, error) {
	if name == "" {
		return DefaultTenant, nil
	}
	if err := ValidateTenant(name); err != nil {
		return "", err
	}
	return name, nil
}

// Tenant returns the tenant that a request with that name acts for: the name itself,
// or on a host with [Options].SingleTenant [DefaultTenant] in the place of "". Run,
// Stream, Admit and Questions ask it. A handler that reads a store itself asks it as
// well, since a store has no way to know whether the host has one tenant. Codes:
//
//	unauthenticated   the name is empty, and the host has more than one tenant
//	invalid_argument  no tenant can have the name ([ValidateTenant]); or it is
//	                  DefaultTenant, and the host has more than one tenant: the data of
//	                  requests without a tenant, from before, is no customer's
func (h *Host) Tenant(name string) (string, error) {
	switch {
	case name == "" && h.opts.SingleTenant:
		return DefaultTenant, nil
	case name == "":
		return "", Errorf(Unauthenticated, "the request names no tenant").
			WithHint("set Tenant from the caller's credential; a program with one tenant sets SingleTenant in the options of its host")
	case name == DefaultTenant && !h.opts.SingleTenant:
		return "", Errorf(InvalidArgument, "tenant %q is the one of hosts with a single tenant", name).
			WithHint("give the tenant another name; a program with one tenant sets SingleTenant in the options of its host")
	}
	return name, ValidateTenant(name)
}
