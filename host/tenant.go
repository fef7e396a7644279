package host

import "strings"

// MaxTenantBytes is the longest name of a tenant, in every store.
const MaxTenantBytes = 255

// DefaultTenant is whose everything is where a caller of a store names no tenant.
const DefaultTenant = "default"

// reservedTenants begins the names of what stores keep beside the tenants' data: a
// tenant of such a name would share it.
const reservedTenants = "agenthost/"

// ValidateTenant returns an error of code invalid_argument if no tenant can have
// that name: it is UTF-8 of 1 to [MaxTenantBytes] bytes without control characters, and does not
// begin with "agenthost/". Every store that keeps something by tenant asks it, so
// that two tenants in one store are two in all of them.
func ValidateTenant(name string) error {
	if err := ValidateID("tenant", name, MaxTenantBytes); err != nil {
		return err
	}
	if strings.HasPrefix(name, reservedTenants) {
		return Errorf(InvalidArgument, "tenant %q has a name that begins with %q, which is the host's", name, reservedTenants).
			WithHint("give the tenant another name")
	}
	return nil
}

// TenantPartition returns the name under which stores keep what is a tenant's. No
// two tenants have the same; "" is another spelling of [DefaultTenant], for programs
// that have one tenant only. Errors are those of [ValidateTenant].
func TenantPartition(name string) (string, error) {
	if name == "" {
		return DefaultTenant, nil
	}
	if err := ValidateTenant(name); err != nil {
		return "", err
	}
	return name, nil
}
