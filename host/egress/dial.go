package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Resolver looks up the addresses of a host. [net.Resolver] is one. Calls may
// come from many goroutines.
type Resolver interface {
	// LookupNetIP returns the addresses of a name; network is "ip".
	LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error)
}

// maxAddresses bounds the addresses of one host that are tried.
const maxAddresses = 8

// AddressError is the cause of a denial by address. It is for the operator: the
// message that a guest gets omits the address, because a guest must not learn
// the addresses inside a network. Find it with [errors.As].
type AddressError struct {
	Host string
	Addr netip.Addr
	Kind Kind
}

// Error names the address, and how the grant is spelled that has it.
func (e *AddressError) Error() string {
	return fmt.Sprintf("%s is at %s, a %s address; to allow it, let the grant of its host end in: at %s", e.Host, e.Addr, e.Kind, e.Addr)
}

// dialer resolves and dials for one pool: all its connections may go to public
// addresses and to those in granted, and nowhere else.
type dialer struct {
	resolver Resolver
	timeout  time.Duration // for one address
	granted  []netip.Prefix
	own      func(netip.Addr) bool
}

// dial is the DialContext of a transport. The addresses are checked twice: after
// resolving, for a good error, and by the socket's control function, on the
// address that connect is about to be called with.
func (d *dialer) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	addrs, err := d.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	var last error
	for _, a := range addrs {
		conn, err := d.dialOne(ctx, net.JoinHostPort(a.String(), port), name)
		if err == nil {
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// lookup returns the addresses of name that may be dialed; a name without one
// is an error.
func (d *dialer) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	addrs, err := d.resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	var allowed []netip.Addr
	var denied error
	for _, a := range addrs {
		if kind, ok := permitted(a, d.granted, d.own); !ok {
			denied = addressDenied(name, a, kind)
		} else if len(allowed) < maxAddresses {
			allowed = append(allowed, a.Unmap().WithZone(""))
		}
	}
	if len(allowed) == 0 {
		return nil, denied
	}
	return allowed, nil
}

func (d *dialer) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a}, nil
	}
	if strings.Contains(name, ".") {
		name += "." // as it stands: no search domain of this machine is appended
	}
	lookup, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	addrs, err := d.resolver.LookupNetIP(lookup, "ip", name)
	name = strings.TrimSuffix(name, ".")
	var dns *net.DNSError
	switch {
	case ctx.Err() != nil:
		return nil, fault.ContextError(ctx)
	case lookup.Err() != nil:
		return nil, fault.Errorf(fault.Unavailable, "the host %s is not looked up in time", name)
	case errors.As(err, &dns) && dns.IsNotFound, err == nil && len(addrs) == 0:
		return nil, fault.Errorf(fault.Unavailable, "the host %s is not known", name)
	case err != nil:
		return nil, fault.Errorf(fault.Unavailable, "the host %s can't be looked up", name)
	}
	return addrs, nil
}

// addressDenied is the error for every address that is not dialed. Its text is the
// same for all: a plugin that asks for one name after the other learns nothing of the
// network that the host is in. The detail names the address.
func addressDenied(name string, a netip.Addr, kind Kind) error {
	e := fault.Errorf(fault.PermissionDenied, "the host %s has an address that is not granted", name).
		WithHint("grant its http rule the addresses that it may have")
	e.Err = &AddressError{Host: name, Addr: a.Unmap().WithZone(""), Kind: kind}
	return e
}

func (d *dialer) dialOne(ctx context.Context, addrPort, name string) (net.Conn, error) {
	nd := net.Dialer{Timeout: d.timeout, ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		return d.control(network, address, name)
	}}
	return nd.DialContext(ctx, "tcp", addrPort)
}

func (d *dialer) control(network, address, name string) error {
	if network != "tcp4" && network != "tcp6" {
		return addressDenied(name, netip.Addr{}, "")
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return addressDenied(name, netip.Addr{}, "")
	}
	if kind, ok := permitted(ap.Addr(), d.granted, d.own); !ok {
		return addressDenied(name, ap.Addr(), kind)
	}
	return nil
}

// ownAddress reports whether a is an address of one of this machine's
// interfaces. A public one is refused as well: its listeners may expect only
// local clients. When the interfaces can't be listed, every address counts as
// own.
func ownAddress(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, i := range addrs {
		if n, ok := i.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a {
				return true
			}
		}
	}
	return false
}
