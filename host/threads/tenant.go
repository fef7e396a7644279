package threads

// Tenant is one tenant's view of a [Store]: its methods read and write that tenant's
// threads and no others. [Store.For] makes one. Safe for concurrent use.
type Tenant struct {
	store *Store
	name  string
}

// For returns a tenant's view of the store; the empty name is [DefaultTenant]. It
// reads nothing and may be called for each request. A name that no tenant can have
// is an error of code invalid_argument from every method of the view.
func (s *Store) For(tenant string) *Tenant { return &Tenant{s, tenant} }
