package egress

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/cache"
)

// pools keeps connections apart: one transport for each tenant, plugin and set
// of granted addresses. A connection is checked when it is dialed, so one that
// was dialed under a grant must not serve a request without it; and a
// connection changed by one tenant's server must not reach another tenant.
type pools struct {
	opts Options

	transports *cache.Cache[string, *http.Transport]

	mu       sync.Mutex
	closed   bool
	inFlight map[string]int // by tenant
	running  int
}

// newPools returns pools that keep at most Options.Pools transports. Requests in flight
// continue on an evicted one; their connections are closed when they end.
func newPools(o Options) *pools {
	return &pools{opts: o, inFlight: map[string]int{}, transports: cache.New(cache.Options[string, *http.Transport]{
		MaxEntries: o.Pools,
		Evicted:    func(_ string, t *http.Transport) { t.CloseIdleConnections() },
	})}
}

// acquire counts a request of the tenant, and refuses one too many.
func (p *pools) acquire(tenant string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return fault.Errorf(fault.FailedPrecondition, "the egress client is closed")
	case p.inFlight[tenant] >= p.opts.InFlightPerTenant:
		return tooMany("InFlightPerTenant", p.opts.InFlightPerTenant)
	case p.running >= p.opts.InFlight:
		return tooMany("InFlight", p.opts.InFlight)
	}
	p.inFlight[tenant]++
	p.running++
	return nil
}

func tooMany(limit string, n int) error {
	e := fault.Errorf(fault.ResourceExhausted, "%d requests are on their way, which is the limit %s", n, limit).
		WithHint("try again when one has ended")
	e.Retryable = true
	return e
}

func (p *pools) release(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if p.inFlight[tenant]--; p.inFlight[tenant] == 0 {
		delete(p.inFlight, tenant)
	}
}

// get returns the transport for requests of one plugin of one tenant to servers
// that may lie in the granted ranges.
func (p *pools) get(tenant, plugin string, granted []netip.Prefix) *http.Transport {
	granted = normalPrefixes(granted)
	return p.transports.Update(poolKey(tenant, plugin, granted), func(t *http.Transport, found bool) (*http.Transport, bool) {
		if !found {
			t = p.opts.transport(granted)
		}
		return t, true
	})
}

func (p *pools) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.transports.Clear()
}

func normalPrefixes(in []netip.Prefix) []netip.Prefix {
	if len(in) == 0 {
		return nil
	}
	out := make([]netip.Prefix, len(in))
	for i, p := range in {
		out[i] = p.Masked()
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

func poolKey(tenant, plugin string, granted []netip.Prefix) string {
	var b strings.Builder
	for _, s := range []string{tenant, plugin} {
		b.WriteString(s)
		b.WriteByte(0)
	}
	for _, p := range granted {
		b.WriteString(p.String())
		b.WriteByte(' ')
	}
	return b.String()
}

// transport returns a transport without a proxy, without its own decompression
// and without trust in anything but certificates.
func (o *Options) transport(granted []netip.Prefix) *http.Transport {
	d := &dialer{resolver: o.Resolver, timeout: o.ConnectTimeout, granted: granted, own: o.own}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            d.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    o.ConnectTimeout,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           o.IdlePerPool,
		MaxIdleConnsPerHost:    o.IdlePerPool,
		MaxConnsPerHost:        o.InFlightPerTenant,
		IdleConnTimeout:        o.IdleTimeout,
		MaxResponseHeaderBytes: int64(o.HeaderBytes),
	}
}
