package keys

import (
	"net/netip"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/cache"
)

const (
	maxAddresses  = 10_000 // whose failures are counted
	failureWindow = time.Minute
	addressBits   = 64 // of an IPv6 address: a household or a machine has all of the rest
)

// failures counts the credentials of an address that were not valid.
type failures struct {
	limit int
	by    *cache.Cache[netip.Addr, failed]
}

// failed is the count of one address in a window that its first failure begins.
type failed struct {
	begun time.Time
	count int
}

func newFailures(limit int) *failures {
	return &failures{limit: limit, by: cache.New(cache.Options[netip.Addr, failed]{MaxEntries: maxAddresses})}
}

// counted returns the address that the failures of another are counted under.
func counted(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(addressBits); err == nil {
			return p.Addr()
		}
	}
	return a
}

func (f *failures) add(a netip.Addr, now time.Time) {
	if !a.IsValid() {
		return
	}
	f.by.Update(counted(a), func(old failed, _ bool) (failed, bool) {
		if now.Sub(old.begun) >= failureWindow {
			old = failed{begun: now}
		}
		old.count = min(old.count+1, f.limit)
		return old, true
	})
}

// check returns an error of code resource_exhausted while an address has too many
// failures.
func (f *failures) check(a netip.Addr, now time.Time) error {
	if !a.IsValid() {
		return nil
	}
	old, found := f.by.Get(counted(a))
	wait := failureWindow - now.Sub(old.begun)
	if !found || old.count < f.limit || wait <= 0 {
		return nil
	}
	return &fault.Error{Code: fault.ResourceExhausted, Message: "too many credentials from this address were not valid",
		Hint: "wait, and check the key that the program sends", Limit: "MaxFailures", Retryable: true, RetryAfter: wait}
}
